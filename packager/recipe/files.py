"""The files that a recipe names: they must be there, be plain, and lie beside the recipe."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from packager.base.errors import InputError
from packager.base.paths import parse_relative
from packager.recipe.checks import Fault, Key, mapping, mappings, repositories, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MAX_FILES = 10_000


def file_faults(plain: Mapping[str, Any], folder: Path, images: Path) -> Iterator[Fault]:
    """Yield a fault for each file that a recipe (as plain values) names and that is missing or not plain."""
    for key, relative, is_folder in _named(plain):
        yield from _path_faults(key, relative, folder, is_folder=is_folder)
    template = plain.get("template", "task.Dockerfile.j2")
    if isinstance(template, str) and "/" not in template and template not in _templates(images):
        known = ", ".join(_templates(images))
        hint = f"templates there: {known}" if known else "put one there"
        yield Fault(("template",), f"no template {template!r} in {images.name}/", hint)


def _templates(images: Path) -> list[str]:
    return sorted(one.name for one in images.glob("*.j2") if one.is_file())


def _named(plain: Mapping[str, Any]) -> Iterator[tuple[Key, str, bool]]:
    if (prompt := text(plain, "prompt")) is not None:
        yield ("prompt",), prompt, False
    if (frozen := text(plain, "frozen")) is not None:
        yield ("frozen",), frozen, False
    for key, one in repositories(plain):
        if (bundle := text(one, "bundle")) is not None:
            yield (*key, "bundle"), bundle, False
    for index, target in mappings(plain, "targets"):
        if (patch := text(mapping(target, "gold"), "patch")) is not None:
            yield ("targets", index, "gold", "patch"), patch, False
        if (patch := text(mapping(target, "hidden"), "patch")) is not None:
            yield ("targets", index, "hidden", "patch"), patch, False
        if (files := text(mapping(target, "hidden"), "files")) is not None:
            yield ("targets", index, "hidden", "files"), files.rstrip("/"), True


def _path_faults(key: Key, relative: str, folder: Path, *, is_folder: bool) -> Iterator[Fault]:
    try:
        path = folder / parse_relative(relative)
    except InputError:
        return  # already said by the field itself
    try:
        real = path.resolve(strict=True)
        kind = real.stat().st_mode
    except (OSError, RuntimeError, ValueError):
        yield Fault(key, f"no such {'folder' if is_folder else 'file'} beside the recipe: {relative}")
        return
    if not real.is_relative_to(folder.resolve()):
        yield Fault(key, f"{relative} leads out of the recipe's folder", "put the file there instead of a link")
    elif is_folder and not stat.S_ISDIR(kind):
        yield Fault(key, f"expected a folder, found a file: {relative}")
    elif is_folder:
        yield from _folder_faults(key, relative, real)
    elif not stat.S_ISREG(kind):
        yield Fault(key, f"expected a file, found something else: {relative}")
    elif real.stat().st_size == 0:
        yield Fault(key, f"the file is empty: {relative}")


def _folder_faults(key: Key, relative: str, real: Path) -> Iterator[Fault]:
    count = 0
    for place, folders, names in os.walk(real):
        folders.sort()
        for name in sorted([*folders, *names]):
            path = os.path.join(place, name)  # noqa: PTH118 - bytes of a name survive
            mode = os.lstat(path).st_mode
            inside = os.path.relpath(path, real)
            if stat.S_ISREG(mode):
                count += 1
            elif not stat.S_ISDIR(mode):
                yield Fault(key, f"expected files and folders only, found {relative}/{inside}", "no links in there")
        if count > _MAX_FILES:
            yield Fault(key, f"more than {_MAX_FILES} files in {relative}")
            return
    if count == 0:
        yield Fault(key, f"the folder is empty: {relative}")
