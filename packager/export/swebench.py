"""SWE-bench task repositories and rows (read from swebench 5.0): one instance for the whole task, one for each target.

The format has gold patch, hidden tests and expected lists in the clear, so all of this needs the evaluator's key and is
for evaluators only. `eval.sh` carries the scorer and what was sealed, takes back the patch that the harness applied,
applies and judges it by our rules, and prints a line per expected test. The harness wants the repository in `/testbed`:
each instance's image is the task's, and one layer with that link.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.canonical import format_readable
from packager.base.errors import InputError
from packager.evaluate.binary_patch import format_binary_hunk
from packager.evaluate.capture import FileState, format_change
from packager.evaluate.expected import parse_expected
from packager.evaluate.patch_format import parse_patch
from packager.evaluate.trees import Kind
from packager.export.archive import format_scorer
from packager.export.lines import PARSER, line_id
from packager.export.scorer import SEAL_MEMBER
from packager.seal.bundle import format_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.evaluate.trees import Tree
    from packager.evaluate.workspace import HiddenFiles
    from packager.export.harbor import Files
    from packager.export.view import ExportedTask
    from packager.seal.bundle import SealContents

DATASET = "wideswe/wideswe"
SPLIT = "test"
TESTBED = "testbed"
_COLUMNS = 76
_SYMLINK = 0o120000
_AS_FILE = {
    "patch": "gold.patch",
    "test_patch": "test.patch",
    "eval_script": "eval.sh",
    "problem_statement": "problem_statement.md",
}
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")


@dataclass(frozen=True)
class Instance:
    """One instance: its id, the target that it is about (None: all), and its image by digest."""

    instance_id: str
    alone: str | None
    image: str


def instances_of(view: ExportedTask) -> tuple[tuple[str, str | None], ...]:
    """Return the ids of a task's instances and their targets: the whole task first."""
    return ((view.task, None), *((f"{view.task}__{one.name}", one.name) for one in view.targets))


def testbed_of(alone: str | None) -> str:
    """Return what `/testbed` leads to in an instance's image."""
    return "/workspace" if alone is None else f"/workspace/{alone}"


def format_row(
    view: ExportedTask, instance: Instance, contents: SealContents, *, base: Tree, solved: Tree
) -> dict[str, object]:
    """Return one row; `base` and `solved` are the workspace of the image, and what gold patches make of it."""
    names = [instance.alone] if instance.alone else [one.name for one in view.targets]
    lists: dict[str, list[str]] = {key: [] for key in _LISTS}
    for name in names:
        expected = parse_expected((contents.expected or {}).get(name), where=f"seal: {name}")
        for key, found in expected.plain().items():
            lists[key] += [line_id(name, one) for one in found]
    prefixes = {name: b"" if instance.alone else name.encode() + b"/" for name in names}
    patch = b"".join(_gold(contents.gold[name], name, prefixes[name], base, solved) for name in names)
    tests = b"".join(_tests(contents.hidden.get(name, {}), name, prefixes[name], base) for name in names)
    commits = {one.name: one.commit for one in view.targets}
    return {
        "instance_id": instance.instance_id,
        "repo": "+".join(names),
        "version": contents.version,
        "base_commit": "+".join(commits[name] for name in names),
        "environment_setup_commit": "+".join(commits[name] for name in names),
        "created_at": "",
        "hints_text": "",
        "problem_statement": view.prompt,
        "patch": _text(patch, "gold patch", instance),
        "test_patch": _text(tests, "hidden tests", instance),
        **lists,
        "split": SPLIT,
        "datasets": [DATASET],
        "image": instance.image,
        "log_parser": PARSER,
        "eval_type": "pass_and_fail",
        "eval_script": _eval_script(view, instance, contents),
    }


def format_rows(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return rows as JSONL, the lists as JSON texts, as the published datasets have them."""
    plain = [{**row, **{key: json.dumps(row[key]) for key in _LISTS}} for row in rows]
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in plain).encode()


def format_repository(rows: Sequence[Mapping[str, object]], dockerfiles: Mapping[str, str]) -> Files:
    """Return the files of a task repository; YAML is written as the JSON that it contains.

    `swebench dataset check` admits no image but one of a name that it derives and that the Dockerfile makes: so tasks
    have that name, a Dockerfile that begins with ours by digest, and our own name beside it. Rows have ours.
    """
    files: Files = {"sweb.yaml": (0o644, format_readable({"datasets": [DATASET], "splits": [SPLIT]}))}
    for row in rows:
        folder = f"tasks/{row['instance_id']}"
        own = {*_AS_FILE, *_LISTS, "hints_text"}
        facts = {key: row[key] for key in row if key not in own}
        facts |= {"image": derived_name(str(row["instance_id"])), "pinned_image": row["image"]}
        files[f"{folder}/task.yaml"] = 0o644, format_readable(facts)
        files[f"{folder}/tests.json"] = 0o644, format_readable({key: row[key] for key in _LISTS})
        files[f"{folder}/Dockerfile"] = 0o644, dockerfiles[str(row["instance_id"])].encode()
        for column, name in _AS_FILE.items():
            files[f"{folder}/{name}"] = 0o755 if name.endswith(".sh") else 0o644, str(row[column]).encode()
    return files


def derived_name(instance_id: str) -> str:
    """Return the name that swebench derives for the image of an instance."""
    return f"swebench/sweb.eval.x86_64.{instance_id}:latest".lower().replace("__", "_1776_")


def format_dockerfile(view: ExportedTask, alone: str | None) -> str:
    """Return a Dockerfile whose image does what the instance's image does."""
    return f"FROM {view.image}\nRUN ln -s {testbed_of(alone)} /{TESTBED}\n"


def _eval_script(view: ExportedTask, instance: Instance, contents: SealContents) -> str:
    settings = {"mode": "swebench", "task": view.task, "env": dict(view.env), "alone": instance.alone}
    scorer = base64.b64encode(format_scorer(settings, {SEAL_MEMBER: format_plain(contents)})).decode()
    body = "\n".join(re.findall(f".{{1,{_COLUMNS}}}", scorer))
    return (
        "#!/bin/bash\nset -uxo pipefail\nexec 2>&1\n"
        f"base64 -d > /tmp/wideswe.pyz <<'WIDESWE'\n{body}\nWIDESWE\n"
        ": '>>>>> Start Test Output'\n"
        "python3 -I /tmp/wideswe.pyz\n"
        ": '>>>>> End Test Output'\n"
    )


def _gold(patch: bytes, name: str, prefix: bytes, base: Tree, solved: Tree) -> bytes:
    """Return a gold patch as we write patches, with `prefix` before its paths."""
    touched = {path for one in parse_patch(patch) for path in (one.old_path, one.new_path) if path is not None}
    parts = []
    for path in sorted(touched):
        place = name.encode() + b"/" + path
        parts.append(_reversible(prefix + path, _look(base, place), _look(solved, place)))
    return b"".join(parts)


def _tests(hidden: HiddenFiles, name: str, prefix: bytes, base: Tree) -> bytes:
    """Return the hidden tests as a patch against the base."""
    parts = []
    for text, (mode, data) in sorted(hidden.items()):
        path = text.encode("utf-8", "surrogateescape")
        kind = Kind.SYMLINK if mode == _SYMLINK else Kind.PROGRAM if mode & 0o100 else Kind.FILE
        parts.append(_reversible(prefix + path, _look(base, name.encode() + b"/" + path), FileState(kind, data)))
    return b"".join(parts)


def _reversible(path: bytes, old: FileState | None, new: FileState | None) -> bytes:
    """Return a file patch that git can take back, too: a binary one says what was there before."""
    written = format_change(path, old, new)
    is_binary = b"\nGIT binary patch\nliteral " in written
    return written + format_binary_hunk(old.content if old else b"") if is_binary else written


def _look(files: Tree, path: bytes) -> FileState | None:
    kind = files.look(path)
    return None if kind is None or kind in {Kind.DIRECTORY, Kind.OTHER} else FileState(kind, files.read(path))


def _text(data: bytes, what: str, instance: Instance) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"the {what} are not UTF-8, and rows hold text", where=instance.instance_id) from error
