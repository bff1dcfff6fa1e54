"""How a patch came about, as far as somebody said: the field `run` of a verdict's file. No digest covers it.

    "run": {
      "mode": "joint",                 the agent had all targets; "independent": it had one, the others stood at gold
      "targets": ["gauge"],            those that it had to change
      "requests": 12,                  how often it asked its model; null where nobody counted
      "agent": "codex",                a name, "" for a patch whose maker is not known

and, each optional: "model" (text), "kind" ("bugfix" or "feature"), "agent_ms" (how long the agent took), "ended" (how
it ended, text), "trajectory" (the name of a file beside the verdict), "changes" ({TARGET: "edited", "untouched" or
"refused"}), "strays" (other repositories that it changed), "failure" ({"class", "target", "evidence"}, see
failures.py), "details" ({NAME: text, whole number, boolean or null}, whatever else is worth a line).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Mode = Literal["joint", "independent"]
Change = Literal["edited", "untouched", "refused"]
FailureClass = Literal["scope", "delivery", "post-edit"]

MODES: tuple[Mode, ...] = get_args(Mode)
CHANGES: tuple[Change, ...] = get_args(Change)
FAILURE_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)
KINDS = ("", "bugfix", "feature")
_TEXTS = ("agent", "model", "kind", "ended", "trajectory")
_NUMBERS = ("requests", "agent_ms")
_NEEDED = ("mode", "targets", "requests", "agent")
_KEYS = {*_NEEDED, *_TEXTS, *_NUMBERS, "changes", "strays", "failure", "details"}
_MOST = 1 << 53
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Failure:
    """Why a task is not resolved: the class, the target that shows it, and what was found there."""

    failure_class: FailureClass
    target: str
    evidence: str = ""

    def __post_init__(self) -> None:
        for key in ("target", "evidence"):
            object.__setattr__(self, key, _writable(getattr(self, key)))


@dataclass(frozen=True)
class RunRecord:
    """What is known of a run beside its verdict."""

    mode: Mode = "joint"
    targets: tuple[str, ...] = ()
    agent: str = ""
    requests: int | None = None
    model: str = ""
    kind: str = ""
    agent_ms: int | None = None
    ended: str = ""
    trajectory: str = ""
    changes: Mapping[str, Change] = field(default_factory=dict)
    strays: tuple[str, ...] = ()
    failure: Failure | None = None
    details: Mapping[str, str | int | bool | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in _TEXTS:
            object.__setattr__(self, key, _writable(getattr(self, key)))
        for key in ("targets", "strays"):
            object.__setattr__(self, key, tuple(sorted({_writable(name) for name in getattr(self, key)})))
        for key in ("changes", "details"):
            pairs = {_writable(name): _writable(value) for name, value in getattr(self, key).items()}
            object.__setattr__(self, key, MappingProxyType(dict(sorted(pairs.items()))))
        problems = list(_problems(self.plain()))
        if problems:
            raise InputError("; ".join(problems), where="run")

    def __reduce__(self) -> tuple[Callable[[Any], RunRecord], tuple[dict[str, Any]]]:
        return parse_run, (self.plain(),)  # a view of a mapping cannot be carried to another process

    def plain(self) -> dict[str, Any]:
        """Return the record as JSON values; what says nothing is left out, but for the four that are always there."""
        plain: dict[str, Any] = {
            **{key: getattr(self, key) for key in (*_TEXTS, *_NUMBERS, "mode")},
            **{key: list(getattr(self, key)) for key in ("targets", "strays")},
            **{key: dict(getattr(self, key)) for key in ("changes", "details")},
        }
        if self.failure is not None:
            found = self.failure
            plain["failure"] = {"class": found.failure_class, "target": found.target, "evidence": found.evidence}
        return {key: value for key, value in plain.items() if key in _NEEDED or value not in ("", None, [], {})}


def parse_run(plain: Any, *, where: str = "run") -> RunRecord:  # noqa: ANN401 - anything that JSON can say
    """Return the record that JSON values describe, or raise an InputError that names everything that is wrong."""
    problems = list(_problems(plain))
    if problems:
        raise InputError("; ".join(problems), where=where)
    given = {key: value for key, value in plain.items() if key != "failure"}
    for key in ("targets", "strays"):
        given[key] = tuple(given.get(key, ()))
    if (found := plain.get("failure")) is not None:
        given["failure"] = Failure(found["class"], found["target"], found["evidence"])
    return RunRecord(**given)


def _problems(plain: Any) -> Iterator[str]:  # noqa: ANN401 - anything that JSON can say
    if not isinstance(plain, dict):
        yield "expected an object"
        return
    if unknown := sorted(map(str, set(plain) - _KEYS)):
        yield f"unknown keys: {', '.join(unknown)[:200]}"
    if missing := [key for key in _NEEDED if key not in plain]:
        yield f"missing keys: {', '.join(missing)}"
    if plain.get("mode", "joint") not in MODES:
        yield f"mode: expected {' or '.join(MODES)}"
    yield from _problems_of_leaves(plain)
    if plain.get("mode") == "independent" and isinstance(plain.get("targets"), list) and len(plain["targets"]) != 1:
        yield f"targets: expected one target in an independent run, found {len(plain['targets'])}"
    yield from _problems_of_failure(plain.get("failure"))


def _problems_of_leaves(plain: dict[str, Any]) -> Iterator[str]:
    for key in (*_TEXTS, *_NUMBERS, "targets", "strays", "changes", "details"):
        if key not in plain:
            continue
        value = plain[key]
        if key in _TEXTS and not isinstance(value, str):
            yield f"{key}: expected text"
        elif key in _NUMBERS and value is not None and not _is_count(value):
            yield f"{key}: expected a whole number, or null"
        elif key in ("targets", "strays") and not _are_names(value):
            yield f"{key}: expected a list of names"
        elif key == "changes" and not (_is_object(value) and all(one in CHANGES for one in value.values())):
            yield f"changes: expected {', '.join(CHANGES)} by target"
        elif key == "details" and not (_is_object(value) and all(_is_detail(one) for one in value.values())):
            yield "details: expected text, whole numbers, booleans or null by name"
    if plain.get("kind", "") not in KINDS and isinstance(plain["kind"], str):
        yield "kind: expected bugfix or feature"
    if isinstance(name := plain.get("trajectory"), str) and ("/" in name or name.startswith(".")):
        yield "trajectory: expected the name of a file beside the verdict"


def _problems_of_failure(found: Any) -> Iterator[str]:  # noqa: ANN401 - anything that JSON can say
    if found is None:
        return
    if not isinstance(found, dict) or set(found) != {"class", "target", "evidence"}:
        yield "failure: expected class, target and evidence"
        return
    if found["class"] not in FAILURE_CLASSES:
        yield f"failure.class: expected {', '.join(FAILURE_CLASSES)}"
    if not all(isinstance(found[key], str) for key in ("target", "evidence")):
        yield "failure: expected text as target and evidence"


def _writable(value: Any) -> Any:  # noqa: ANN401 - text, or what a record has in its place
    """Return text that can be written as UTF-8; agents and their files may say anything."""
    return _SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value


def _is_object(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def _is_detail(value: object) -> bool:
    return value is None or isinstance(value, (str, bool)) or (isinstance(value, int) and abs(value) <= _MOST)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one for one in value)
