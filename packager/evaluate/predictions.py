"""Reads what an agent hands in: a file for one target, a directory of them, or JSONL predictions."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.base.canonical import parse_json
from packager.base.digests import Digest, digest_of
from packager.base.errors import InputError
from packager.base.files import read_file
from packager.base.paths import parse_relative
from packager.evaluate.patch_names import MAX_PATCH_BYTES, strip_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_SUFFIXES = (".patch", ".diff")
_ANY = ""


@dataclass(frozen=True)
class Patch:
    """A patch for one target; `strip` components are dropped from its paths."""

    data: bytes
    strip: int = 1

    @property
    def digest(self) -> Digest:
        """Digest of the bytes as they were handed in."""
        return digest_of(self.data)


@dataclass(frozen=True)
class Prediction:
    """What one model hands in for one task: patches by target, or one patch for the whole of /workspace."""

    patches: Mapping[str, bytes] = field(default_factory=dict)
    joint: bytes | None = None
    model: str = ""
    requests: int | None = None
    trajectory: Path | None = None


@dataclass(frozen=True)
class Predictions:
    """Predictions by task id; the empty id stands for whichever task is asked for.

    `alone` are those of independent runs, by task and the one target that the agent had.
    """

    by_task: Mapping[str, Prediction]
    alone: Mapping[tuple[str, str], Prediction] = field(default_factory=dict)

    def find(self, task: str, *, only: str | None = None) -> Prediction | None:
        """Return what was handed in for a task, or for one target of it in an independent run; None: nothing."""
        joint = self.by_task.get(task, self.by_task.get(_ANY))
        return joint if only is None else self.alone.get((task, only), joint)

    def known_as(self, task: str, aliases: Iterable[str]) -> Predictions:
        """Return these, with what stands under other ids of a task as that of the task; two are an InputError."""
        names = set(aliases)
        joint = {task if name in names else name: one for name, one in self.by_task.items()}
        alone = {(task if name in names else name, only): one for (name, only), one in self.alone.items()}
        if len(joint) < len(self.by_task) or len(alone) < len(self.alone):
            raise InputError("two predictions for one task, under different ids of it", where=task)
        return Predictions(joint, alone)

    def of(self, task: str, targets: Iterable[str], *, only: str | None = None) -> dict[str, Patch] | None:
        """Return a patch for each target of a task, or None if nothing was handed in for the task.

        A target that the prediction leaves out gets an empty patch: its tests run unchanged. A patch for what is no
        target is refused, as nobody would grade it. With `only`, that target alone gets one, and a change of another
        is refused.
        """
        prediction = self.find(task, only=only)
        if prediction is None:
            return None
        names = sorted(targets)
        if prediction.joint is not None:
            found = _split(prediction.joint, names, where=f"prediction for {task}")
        else:
            strange = sorted(set(prediction.patches) - set(names))
            if strange:
                hint = f"targets: {', '.join(names)}"
                raise InputError(f"a patch for {strange[0]!r}, which is no target", where=f"task {task}", hint=hint)
            found = {name: Patch(prediction.patches.get(name, b"")) for name in names}
        return found if only is None else _alone(found, only, task)


def _alone(found: dict[str, Patch], only: str, task: str) -> dict[str, Patch]:
    if only not in found:
        hint = f"targets: {', '.join(sorted(found))}"
        raise InputError(f"{only!r} is no target", where=f"task {task}", hint=hint)
    changed = sorted(name for name, patch in found.items() if name != only and patch.data.strip())
    if changed:
        raise InputError(
            f"a patch for {changed[0]!r}, which stands at gold while {only} is judged",
            where=f"task {task}",
            hint="an independent run changes one target; leave --only out to judge a joint one",
        )
    return {only: found[only]}


def _split(data: bytes, targets: list[str], *, where: str) -> dict[str, Patch]:
    """Give each target its part of a joint patch; with several targets, paths are a/<target>/…."""
    if len(targets) == 1:
        return {targets[0]: Patch(data)}
    from packager.evaluate.patch_format import parse_patch  # noqa: PLC0415 - most predictions are split already

    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    files = parse_patch(data, strip=1)
    parts: dict[str, list[bytes]] = {name: [] for name in targets}
    ends = [*(patch.line - 1 for patch in files[1:]), len(lines)][: len(files)]
    for patch, end in zip(files, ends, strict=True):
        owners = {path.partition(b"/")[0].decode(errors="replace") for path in (patch.old_path, patch.new_path) if path}
        owner = owners.pop()
        if owners or owner not in parts:
            hint = f"with several targets, paths begin with the target: {', '.join(targets)}"
            raise InputError(f"{patch.where}: belongs to no single target", where=where, hint=hint)
        for path in (patch.old_path, patch.new_path):
            strip_parts(path or b"a/b", 1, where=where)
        parts[owner].extend(line + b"\n" for line in lines[patch.line - 1 : end])
    return {name: Patch(b"".join(part), strip=2) for name, part in parts.items()}


def read_predictions(path: Path) -> Predictions:
    """Read `<target>.patch` (or .diff), a directory of such or of `<task>/<target>.patch`, or a .jsonl file."""
    if path.is_dir():
        return _read_directory(path)
    if path.suffix in _SUFFIXES:
        return Predictions({_ANY: Prediction({path.name.removesuffix(path.suffix): read_patch(path)})})
    if path.suffix == ".jsonl":
        return _read_jsonl(path)
    hint = "name it <target>.patch, give a directory, or predictions.jsonl"
    raise InputError("expected a .patch, .diff or .jsonl file, or a directory", where=str(path), hint=hint)


def read_patch(path: Path) -> bytes:
    """Return the bytes of a file that was handed in; one that cannot be read or is too large is an InputError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_PATCH_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(data) > MAX_PATCH_BYTES:
        raise InputError(f"expected at most {MAX_PATCH_BYTES} bytes", where=str(path))
    return data


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(folder)) from error


def _read_directory(path: Path) -> Predictions:
    by_task: dict[str, dict[str, bytes]] = {}
    for place in [path, *(one for one in _list(path) if one.is_dir())]:
        task = _ANY if place == path else place.name
        for file in [one for one in _list(place) if one.suffix in _SUFFIXES]:
            target = file.name.removesuffix(file.suffix)
            found = by_task.setdefault(task, {})
            if target in found:
                raise InputError(f"two patches for {target}", where=os.fspath(place))
            found[target] = read_file(file, limit=MAX_PATCH_BYTES)
    if not by_task:
        raise InputError("no .patch or .diff file", where=str(path), hint="name them <target>.patch")
    return Predictions({task: Prediction(patches) for task, patches in by_task.items()})


def _read_jsonl(path: Path) -> Predictions:
    from packager.base.problems import Problem, refuse  # noqa: PLC0415 - one patch has no more than one problem

    found: dict[tuple[str, str], Prediction | None] = {}
    lines: dict[tuple[str, str], int] = {}
    problems: list[Problem] = []
    for number, line in enumerate(read_patch(path).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            key, prediction = _parse_line(line, path.parent)
        except InputError as error:
            problems.append(Problem(str(path), number, error.where or "", error.reason))
            continue
        if key in lines:
            problems.append(Problem(str(path), number, key[0], f"a second prediction, first at line {lines[key]}"))
        lines.setdefault(key, number)
        found[key] = prediction
    if not lines and not problems:
        problems.append(Problem(str(path), 0, "", "no predictions"))
    refuse(problems)
    given = {key: one for key, one in found.items() if one is not None}
    return Predictions(
        {task: one for (task, only), one in given.items() if not only},
        {key: one for key, one in given.items() if key[1]},
    )


def _parse_line(line: bytes, folder: Path) -> tuple[tuple[str, str], Prediction | None]:
    """Return the task, the only target of an independent run or "", and what was handed in."""
    plain = parse_json(line, where="line", limit=MAX_PATCH_BYTES)
    if not isinstance(plain, dict) or not isinstance(plain.get("instance_id"), str) or not plain["instance_id"]:
        raise InputError("expected an object with instance_id")
    task, model, only = plain["instance_id"], plain.get("model_name_or_path", ""), plain.get("only", "")
    for name, text in (("model_name_or_path", model), ("only", only)):
        if not isinstance(text, str):
            raise InputError(f"expected text in {name}", where=task)
    if any("\ud800" <= letter <= "\udfff" for letter in task + only):
        raise InputError("expected names that can be written as UTF-8", where=ascii(task))
    if ("patches" in plain) == ("model_patch" in plain):
        raise InputError("expected model_patch or patches", where=task)
    if plain.get("patches", plain.get("model_patch")) is None:
        return (task, only), None
    requests, trajectory = _requests(plain, task), _trajectory(plain, task, folder)
    if "model_patch" in plain:
        return (task, only), Prediction({}, _bytes(plain["model_patch"], task), model, requests, trajectory)
    if not isinstance(plain["patches"], dict):
        raise InputError("expected patches by target", where=task)
    return (task, only), Prediction(dict(_patches(plain["patches"], task)), None, model, requests, trajectory)


def _requests(plain: dict[str, Any], task: str) -> int | None:
    found = plain.get("requests")
    if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 0):
        raise InputError("expected a whole number, or null, as requests", where=task)
    return found


def _trajectory(plain: dict[str, Any], task: str, folder: Path) -> Path | None:
    """Return where the trajectory is that a prediction names, seen from its own file's folder."""
    found = plain.get("trajectory")
    if found is None:
        return None
    if not isinstance(found, str):
        raise InputError("expected the path of a file as trajectory", where=task)
    try:
        return folder / parse_relative(found, where="trajectory")
    except InputError as error:
        raise InputError(f"trajectory: {error.reason}", where=task) from error


def _patches(plain: dict[str, Any], task: str) -> Iterator[tuple[str, bytes]]:
    for target, text in sorted(plain.items()):
        if text is not None:
            yield target, _bytes(text, f"{task}, {target}")


def _bytes(text: object, where: str) -> bytes:
    if not isinstance(text, str):
        raise InputError("expected a patch as text", where=where)
    try:
        return text.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"expected text that can be written as UTF-8: {error.reason}", where=where) from error
