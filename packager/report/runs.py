"""The verdicts of many runs: one file per task in a folder per configuration, read whole and checked.

Layout: RESULTS/CONFIGURATION/TASK.json, or RESULTS/CONFIGURATION/MODE/TASK.json with the modes `joint` (the agent had
all targets, the default) and `independent` (it had one, the others stood at gold); in place of TASK.json also
TASK/KEY.json, as `evaluate --into` keeps verdicts, of which TASK/current.json then names those that count. A verdict
with others at gold is independent wherever it lies, may be called TASK.TARGET.json, and is part of one run with those
of the task's other targets. Beside a verdict may lie TASK.facts.json with what somebody knows better than its `run`:
{"schema": "wideswe-facts/1", "kind", "failure_class", "requests", "logs": {TARGET: text}}, each key but the first
optional.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base.canonical import parse_json
from packager.base.errors import InputError
from packager.base.files import is_there, read_file
from packager.evaluate.run_record import FAILURE_CLASSES, MODES, Mode
from packager.evaluate.verdict import parse_verdict
from packager.report.run import Facts, Part, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

FACTS_SCHEMA = "wideswe-facts/1"
FACTS_SUFFIX = ".facts.json"
CURRENT = "current.json"
_KEPT = re.compile(r"[0-9a-f]{32}\.json")
_VERDICT_LIMIT_BYTES = 64 << 20
_KEYS = {"schema", "kind", "failure_class", "requests", "logs"}

Key = tuple[str, Mode, str]
"""Configuration, mode and task: what there is one run of."""


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return all runs below some folders, sorted by configuration, mode and task.

    Two verdicts on one target in the same configuration and mode are an InputError, as are two images in one run.
    """
    found: dict[Key, list[tuple[Part, Path]]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError("expected a folder of results, found none", where=str(folder))
        for path in sorted(folder.rglob("*.json")):
            if not path.name.endswith(FACTS_SUFFIX) and _counts(path):
                key, part = _read_part(path, folder)
                others = found.setdefault(key, [])
                _refuse_second(key, part, path, others)
                others.append((part, path))
    if not found:
        where = ", ".join(map(str, folders))
        raise InputError("no verdict found", where=where, hint="write them with evaluate --output or --into")
    return [
        Run(name, mode, task, tuple(sorted((part for part, _ in parts), key=lambda one: min(one.verdict.patches))))
        for (name, mode, task), parts in sorted(found.items())
    ]


def _counts(path: Path) -> bool:
    """Say whether a file is a verdict that counts: of those of a campaign, the ones that it names last."""
    if path.name == CURRENT:
        return False
    current = path.with_name(CURRENT)
    if not _KEPT.fullmatch(path.name) or not is_there(current):
        return True
    return path.name in read_current(current).values()


def read_current(path: Path) -> dict[str, str]:
    """Return the names of the verdicts that count, by the only target that was judged, "" for the whole task."""
    plain = parse_json(read_file(path, limit=_VERDICT_LIMIT_BYTES), where=str(path))
    if not isinstance(plain, dict) or not all(isinstance(name, str) for name in plain.values()):
        raise InputError("expected names of verdicts by target", where=str(path), hint="evaluate --into writes it")
    return plain


def _refuse_second(key: Key, part: Part, path: Path, others: list[tuple[Part, Path]]) -> None:
    for other, first in others:
        if set(other.verdict.patches) & set(part.verdict.patches):
            raise InputError(
                f"a second verdict for {' '.join(key)}, first in {first}",
                where=str(path),
                hint="give each configuration a folder of its own",
            )
        if other.verdict.image != part.verdict.image:
            raise InputError(
                f"expected a verdict on image {other.verdict.image}, as {first} is, found one on {part.verdict.image}",
                where=str(path),
            )


def _read_part(path: Path, folder: Path) -> tuple[Key, Part]:
    where = str(path)
    parts = [folder.resolve().name, *path.relative_to(folder).parts[:-1]]
    name = parts.pop() if len(parts) > 1 and _KEPT.fullmatch(path.name) else path.stem
    said = next((mode for mode in MODES if len(parts) > 1 and parts[-1] == mode), None)
    if said is not None:
        parts.pop()
    verdict = parse_verdict(read_file(path, limit=_VERDICT_LIMIT_BYTES), where=where)
    if said == "joint" and verdict.at_gold is not None:
        raise InputError("expected the verdict of a joint run, found one with targets at gold", where=where)
    alone = {f"{verdict.task}.{target}" for target in verdict.patches} if verdict.at_gold is not None else set()
    if name not in {verdict.task, *alone}:
        raise InputError(f"expected the verdict of {name}, found that of {verdict.task}", where=where)
    facts = path.with_name(verdict.task + FACTS_SUFFIX)
    mode = verdict.mode if said is None else said
    key = ("/".join(parts[1:]) or parts[0], mode, verdict.task)
    return key, Part(verdict, _read_facts(facts) if is_there(facts) else Facts())


def _read_facts(path: Path) -> Facts:
    plain = parse_json(read_file(path, limit=_VERDICT_LIMIT_BYTES), where=str(path))
    problems = list(_facts_problems(plain))
    if problems:
        raise InputError("; ".join(problems), where=str(path))
    return Facts(
        kind=plain.get("kind", ""),
        failure_class=plain.get("failure_class"),
        requests=plain.get("requests"),
        logs=dict(sorted(plain.get("logs", {}).items())),
    )


def _facts_problems(plain: Any) -> Iterator[str]:  # noqa: ANN401 - anything that JSON can say
    if not isinstance(plain, dict) or plain.get("schema") != FACTS_SCHEMA:
        yield f"expected an object of schema {FACTS_SCHEMA}"
        return
    if unknown := sorted(set(plain) - _KEYS):
        yield f"unknown keys: {', '.join(unknown)[:200]}"
    if not isinstance(plain.get("kind", ""), str):
        yield "kind: expected text"
    if plain.get("failure_class") is not None and plain["failure_class"] not in FAILURE_CLASSES:
        yield f"failure_class: expected {', '.join(FAILURE_CLASSES)}, or null"
    requests = plain.get("requests")
    if requests is not None and (not isinstance(requests, int) or isinstance(requests, bool) or requests < 0):
        yield "requests: expected a number of requests, or null"
    logs = plain.get("logs", {})
    if not isinstance(logs, dict) or not all(isinstance(text, str) for text in logs.values()):
        yield "logs: expected text by target"


def with_kinds(runs: Iterable[Run], kinds: Mapping[str, str]) -> list[Run]:
    """Return runs that know the kinds of their tasks, where neither verdict nor facts say one."""
    return [run.of_kind(kinds.get(run.task, "")) for run in runs]
