"""Writes a task's Dockerfile and inputs to a folder, so that people can read them and other engines build them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packager.base.files import write_atomic
from packager.oci.layer import open_layer

if TYPE_CHECKING:
    from pathlib import Path

    from packager.build.task import TaskBuild


def write_context(task_build: TaskBuild, folder: Path) -> tuple[str, ...]:
    """Write `Dockerfile` and `inputs/*.tar` (canonical, uncompressed) and return the names of the inputs.

    The context of the image without the seal: what is sealed never lies in the clear, and needs the root secret.
    """
    builder = task_build.builder()
    instructions = task_build.instructions(sealed=False)
    names = [instruction.words[0] for instruction in instructions if instruction.kind == "ADD"]
    for name in names:
        layer = builder.placed(name)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        with open_layer(task_build.store, layer) as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        partial.replace(path)
    write_atomic(folder / "Dockerfile", task_build.dockerfile(sealed=False).encode())
    return tuple(names)
