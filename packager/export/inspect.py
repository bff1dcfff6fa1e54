"""Inspect tasks (read from inspect-ai 0.3.285): samples, a compose file per task, and a scorer that asks `evaluate`.

The sandbox is the image by digest, without network. The scorer runs outside of it, on the evaluator's machine, so that
no image needs Python, and the verdict is that of `wideswe-pack evaluate`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined

from packager.base.canonical import format_readable
from packager.export.view import collect_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.export.harbor import Files
    from packager.export.view import ExportedTask

COLLECTED = "/tmp/wideswe/workspace.tar"  # noqa: S108 - in a container of its own
_TEMPLATE = Path(__file__).with_name("inspect_task.py.j2")
_FILE = "wideswe_task.py"


def format_inspect(views: Sequence[ExportedTask]) -> Files:
    """Return the files of one Inspect task over all exported tasks."""
    names = ", ".join(view.task for view in views)
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - Python
    text = environment.from_string(_TEMPLATE.read_text()).render(
        title=f"{names} for Inspect, by wideswe-pack.", file=_FILE, collected=COLLECTED
    )
    files: Files = {_FILE: (0o644, text.encode())}
    rows = [_sample(view) for view in views]
    files["samples.jsonl"] = 0o644, "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()
    for view in views:
        files[_compose_name(view)] = 0o644, format_readable(_compose(view))
    return files


def _sample(view: ExportedTask) -> dict[str, object]:
    return {
        "task": view.task,
        "prompt": view.prompt,
        "image": view.image,
        "targets": [one.name for one in view.targets],
        "collect": collect_command(view.targets, COLLECTED),
        "compose": _compose_name(view),
    }


def _compose_name(view: ExportedTask) -> str:
    return f"compose/{view.task}.yaml"


def _compose(view: ExportedTask) -> dict[str, object]:
    """Return the compose file of one task; YAML is written as the JSON that it contains."""
    service: dict[str, object] = {
        "image": view.image,
        "command": ["tail", "-f", "/dev/null"],
        "init": True,
        "network_mode": "none",
        "working_dir": "/workspace",
    }
    if view.profile is not None:
        limits = view.profile.limits
        service |= {"cpus": limits.cpus, "mem_limit": limits.memory_bytes, "pids_limit": limits.pids}
    return {"services": {"default": service}}
