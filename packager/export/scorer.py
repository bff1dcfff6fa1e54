"""Scores patches inside a harness's container, with the code of `evaluate`; a program of its own, in one file.

It needs Python 3.11 and what is in the image, nothing else. Its settings say in which harness it runs:

- `harbor`: the seal is opened with the task's key from WIDESWE_TASK_KEY; checkouts come as a tar; rewards go to files.
- `solve`: the seal is opened in the same way, and the gold patches are applied: Harbor's reference solution.
- `swebench`: what was sealed lies in the file itself; the harness has applied the patch; results are printed as lines.

Exit codes: 0 resolved, 1 not, 6 it could not be found out.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from importlib.machinery import BuiltinImporter, FrozenImporter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_readable
from packager.base.errors import InputError, PackError, TrustError
from packager.base.processes import Surroundings, run, run_ok
from packager.evaluate.capture import capture_target
from packager.evaluate.controls import plant_all
from packager.evaluate.expected import parse_expected
from packager.evaluate.grade import Outcome, grade_target, grade_task
from packager.evaluate.guards import derive_guards
from packager.evaluate.predictions import Patch, Prediction, Predictions
from packager.evaluate.profile import parse_profile
from packager.evaluate.results import End, TargetRun
from packager.evaluate.run import Control, Session
from packager.evaluate.workspace import Workspace
from packager.export.in_place import WORKSPACE, InPlaceEngine, InPlaceTree, stand_apart
from packager.export.lines import result_lines
from packager.oci.unpack import unpack_layer
from packager.seal.bundle import open_seal, parse_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.evaluate.grade import TaskGrade
    from packager.seal.bundle import SealContents

KEY_VARIABLE = "WIDESWE_TASK_KEY"
SEAL_MEMBER = "seal.tar"
STANDARD_MEMBER = "standard.txt"
"""Names, a line each, the modules of Python's own library that ours import."""
_UNKNOWN = 6
_COLLECTED_BYTES = 8 << 30
_LATER = tuple(f"encodings.{name}" for name in ("ascii", "cp1252", "idna", "latin_1", "utf_8", "utf_16", "utf_32"))
"""What functions of Python's own import when they run."""


@dataclass(frozen=True)
class Settings:
    """What the export wrote into the file: the harness, the image's variables, and what is graded.

    `alone` is the one target of an independent instance; the others then stand at gold. Paths are for tests.
    """

    mode: str
    task: str
    env: Mapping[str, str] = field(default_factory=dict)
    alone: str | None = None
    root: str = "/"
    sealed: str = "/opt/wideswe/sealed.age"
    collected: str = "/logs/artifacts/wideswe/workspace.tar"
    rewards: str = "/logs/verifier"
    patch: str = "/tmp/patch.diff"  # noqa: S108 - where SWE-bench's harness puts it


def main(plain: Mapping[str, Any]) -> int:
    """Run with the settings of this file; what goes wrong is told on standard error."""
    stand_apart()
    settle_imports(sys.argv[0])
    settings = Settings(**plain)
    modes = {"harbor": _harbor, "solve": _solve, "swebench": _swebench}
    try:
        with tempfile.TemporaryDirectory(prefix="wideswe-") as scratch:
            return modes[settings.mode](settings, Path(scratch))
    except (PackError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _UNKNOWN


def settle_imports(scorer: str) -> None:
    """Import all that may be needed, then nothing any more: tests may change the files that modules come from."""
    with zipfile.ZipFile(scorer) as own:
        inner = [name for name in own.namelist() if name.startswith("packager/") and name.endswith(".py")]
        standard = own.read(STANDARD_MEMBER).decode().split()
    names = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in inner]
    for name in (*names, *standard, *_LATER):
        importlib.import_module(name)
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]  # what is inside Python itself
    for place in (sys.path, sys.path_hooks, sys.path_importer_cache):
        place.clear()


def _harbor(settings: Settings, scratch: Path) -> int:
    """Grade collected checkouts; without rewards, which Harbor reports as its own trouble, if that is not possible."""
    contents = _opened(settings)
    rewards = Path(settings.rewards)
    rewards.mkdir(parents=True, exist_ok=True)
    for name in ("reward.json", "reward.txt"):
        _replace(rewards / name, None)
    grade = _judge(settings, contents, _captured(settings, contents, scratch), scratch)
    _replace(rewards / "wideswe.json", format_readable(describe(grade)))
    if grade.outcome is Outcome.INFRA:
        sys.stderr.write(f"{grade.reason}\n")
        return _UNKNOWN
    scores = {name: int(one.outcome is Outcome.RESOLVED) for name, one in grade.targets.items()}
    resolved = int(grade.outcome is Outcome.RESOLVED)
    _replace(rewards / "reward.txt", None)
    _replace(rewards / "reward.json", format_readable({**scores, "reward": resolved}))
    return 1 - resolved


def _replace(path: Path, data: bytes | None) -> None:
    """Write a file, or none, where tests may have left anything: a folder, a link, a pipe."""
    run_ok(["rm", "-rf", "--", str(path)])
    if data is not None:
        with path.open("xb") as stream:
            stream.write(data)


def _solve(settings: Settings, scratch: Path) -> int:
    contents = _opened(settings)
    tree = InPlaceTree(Path(settings.root), Path(settings.root), scratch, sorted(contents.gold))
    for name, patch in contents.gold.items():
        Workspace(tree).apply(name, Patch(patch))
    return 0


def _swebench(settings: Settings, scratch: Path) -> int:
    with zipfile.ZipFile(sys.argv[0]) as own:
        contents = parse_plain(own.read(SEAL_MEMBER))
    names = [settings.alone] if settings.alone else sorted(contents.gold)
    expected = {name: parse_expected((contents.expected or {}).get(name)) for name in names}
    try:
        given = _taken_back(settings, names)
    except InputError as error:
        sys.stdout.write(f"# {error.reason!r}\n")
        given = None
    if given is None:
        sys.stdout.write("".join(result_lines(expected, None)))
        return 1
    at_gold = {name: Patch(patch) for name, patch in contents.gold.items() if name not in names}
    grade = _judge(settings, contents, {**at_gold, **given}, scratch)
    if grade.outcome is Outcome.INFRA:
        sys.stderr.write(f"{grade.reason}\n")
        return _UNKNOWN
    sys.stdout.write("".join(result_lines(expected, grade)))
    return int(grade.outcome is not Outcome.RESOLVED)


def _opened(settings: Settings) -> SealContents:
    key = os.environ.get(KEY_VARIABLE, "")
    if not key:
        raise TrustError(f"there is no {KEY_VARIABLE} to open the seal with", where=settings.task)
    contents = open_seal(Path(settings.sealed).read_bytes(), key.replace(",", "\n"))
    if contents.task != settings.task:
        raise TrustError(f"expected the seal of {settings.task}, found that of {contents.task}", where=settings.sealed)
    return contents


def _captured(settings: Settings, contents: SealContents, scratch: Path) -> dict[str, Patch | None]:
    """Return what the collected checkouts are against those here; None for all of them if nothing was collected."""
    names = sorted(contents.gold)
    collected, unpacked = Path(settings.collected), scratch / "collected"
    if not collected.is_file():
        return dict.fromkeys(names)
    unpacked.mkdir()
    try:
        with collected.open("rb") as stream:
            unpack_layer(stream, unpacked, overlay_whiteouts=False, limit=_COLLECTED_BYTES)
    except PackError as error:
        return {name: _refused(error) for name in names}
    found: dict[str, Patch | None] = {}
    for name in names:
        try:
            found[name] = Patch(capture_target(Path(settings.root) / WORKSPACE, unpacked, name))
        except PackError as error:
            found[name] = _refused(error)
    return found


def _refused(error: PackError) -> Patch:
    """Return what is no patch, so that the target is judged as one whose patch does not apply."""
    return Patch(f"what was left cannot be read: {error.reason!r}".encode(errors="replace"))


def _taken_back(settings: Settings, names: Sequence[str]) -> dict[str, Patch]:
    """Take back what the harness has applied, so that it is applied by the same rules as everywhere; return it."""
    place = Path(settings.root) / WORKSPACE
    if settings.alone:
        place /= settings.alone
    path = Path(settings.patch)
    data = path.read_bytes() if path.is_file() else b""
    if data.strip():
        done = run(["git", "apply", "-R", "--whitespace=nowarn", str(path)], Surroundings(cwd=place))
        if done.exit_code != 0:
            said = done.stderr[-500:].decode(errors="replace")
            raise InputError(f"the patch was applied with changes, and cannot be taken back: {said}")
    given = Prediction({settings.alone: data}) if settings.alone else Prediction(joint=data)
    return Predictions({settings.task: given}).of(settings.task, names) or {}


def _judge(settings: Settings, contents: SealContents, patches: Mapping[str, Patch | None], scratch: Path) -> TaskGrade:
    """Run the hidden tests with the patches applied, and grade."""
    profile = parse_profile(contents.profile)
    every = [target.name for target in profile.targets]
    if contents.expected is None or set(contents.expected) != set(every):
        raise InputError("this image was never validated: it does not say which tests count", where=contents.task)
    expected = {name: parse_expected(lists, where=f"seal: {name}") for name, lists in contents.expected.items()}
    word = secrets.token_hex(4)
    hidden, controlled = plant_all(profile.targets, contents.hidden, expected, word)
    session = Session(
        engine=InPlaceEngine(Path(settings.root), scratch, every),
        layers=(),
        env=settings.env,
        profile=profile,
        hidden=hidden,
        store_root=scratch,
        guards=derive_guards(profile, contents.gold),
        control=Control(word, controlled),
    )
    try:
        runs = {name: one.run for name, one in session.run(patches, only=settings.alone).items()}
    except InputError as error:  # what the patch made of the checkouts cannot even be looked at
        runs = dict.fromkeys(
            [settings.alone] if settings.alone else every, TargetRun(End.PATCH_REFUSED, reason=error.reason)
        )
    return grade_task({name: grade_target(expected[name], one) for name, one in runs.items()})


def describe(grade: TaskGrade) -> dict[str, Any]:
    """Return a grade as JSON values, without the names of tests."""
    rows = {
        name: {
            "outcome": one.outcome.value,
            "reason": one.reason.partition(", first ")[0],
            "FAIL_TO_PASS": [one.fail_to_pass.passed, one.fail_to_pass.total],
            "PASS_TO_PASS": [one.pass_to_pass.passed, one.pass_to_pass.total],
        }
        for name, one in grade.targets.items()
    }
    return {"outcome": grade.outcome.value, "targets": rows}
