"""Harbor tasks (task.toml, schema 1.4, as of harbor 0.26): the image by digest, a verifier of its own, no network.

`instruction.md` is the prompt. After the agent, a hook packs its checkouts into one file; the verifier, a fresh
container of the same image, compares them with its own. Neither `tests/` nor `solution/` holds anything that is sealed:
both open the seal in the image with the task's key, which Harbor hands to those two alone.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from packager.export.archive import format_scorer
from packager.export.scorer import KEY_VARIABLE, Settings
from packager.export.view import collect_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.export.view import ExportedTask

SCHEMA_VERSION = "1.4"
Files = dict[str, tuple[int, bytes]]
"""Path in the export → (mode, bytes)."""

_RUN = "exec python3 -I"
_COLLECT_S = 600


def key_variable(task: str) -> str:
    """Return the variable of the host that holds the task's key."""
    return f"WIDESWE_KEY_{re.sub('[^A-Z0-9]', '_', task.upper())}"


def format_keys(keys: Mapping[str, str]) -> bytes:
    """Return the variables of many tasks, for `harbor run --env-file`; a comma between several keys of one task."""
    lines = [f"{key_variable(task)}={key.strip().replace(chr(10), ',')}\n" for task, key in sorted(keys.items())]
    return "".join(lines).encode()


def format_harbor(view: ExportedTask) -> Files:
    """Return the files of one Harbor task."""
    scorer, solver = (format_scorer(_settings(view, mode), {}) for mode in ("harbor", "solve"))
    return {
        "task.toml": (0o644, _task_toml(view).encode()),
        "instruction.md": (0o644, view.prompt.encode()),
        "environment/Dockerfile": (0o644, f"FROM {view.image}\n".encode()),
        "tests/test.sh": (0o755, f"#!/bin/sh\n{_RUN} /tests/score.pyz\n".encode()),
        "tests/score.pyz": (0o644, scorer),
        "solution/solve.sh": (0o755, f"#!/bin/sh\n{_RUN} /solution/solve.pyz\n".encode()),
        "solution/solve.pyz": (0o644, solver),
    }


def _settings(view: ExportedTask, mode: str) -> dict[str, object]:
    made = Settings(mode=mode, task=view.task, env=dict(view.env))
    return {"mode": made.mode, "task": made.task, "env": made.env}


def _task_toml(view: ExportedTask) -> str:
    keys = {KEY_VARIABLE: f"${{{key_variable(view.task)}}}"}
    tables: dict[str, dict[str, object]] = {
        "task": {
            "name": f"wideswe/{view.task}",
            "description": f"{view.kind} in {len(view.targets)} repositories ({view.relation})",
            "keywords": ["cross-repository", view.kind, view.relation],
        },
        "metadata": {
            "image": view.image,
            "platform": view.platform,
            "targets": [one.name for one in view.targets],
            "commits": [one.commit for one in view.targets],
        },
        "environment": {"docker_image": view.image, "network_mode": "no-network", "workdir": "/workspace"},
        "verifier": {
            "environment_mode": "separate",
            "network_mode": "no-network",
            "timeout_sec": float(view.timeout_s),
        },
        "verifier.env": dict(keys),
        "solution.env": dict(keys),
    }
    if view.profile is not None:
        limits = view.profile.limits
        tables["environment"] |= {"cpus": limits.cpus, "memory_mb": max(1, limits.memory_bytes >> 20)}
    collect = {
        "command": collect_command(view.targets, Settings(mode="", task="").collected),
        "service": "main",
        "timeout_sec": float(_COLLECT_S),
        "user": "root",
    }
    parts = [f'schema_version = "{SCHEMA_VERSION}"\n']
    parts += [f"[{name}]\n{_lines(values)}" for name, values in tables.items()]
    return "\n".join((*parts, f"[[verifier.collect]]\n{_lines(collect)}"))


def _lines(values: Mapping[str, object]) -> str:
    """Return keys and values as TOML; texts, numbers and lists of texts are written as in JSON."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
