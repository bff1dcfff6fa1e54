"""Imports released cases: writes a recipe, or a draft of one, and the files beside it; one bad case stops no other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from packager.base.canonical import LIMIT_BYTES, format_readable
from packager.base.errors import InputError
from packager.base.files import is_there, read_file, write_atomic
from packager.recipe.reader import recipe_problems
from packager.recipe.released.case_files import CaseFiles, find_cases
from packager.recipe.released.convert import convert_case, task_id
from packager.recipe.released.values import Imported, ImportedCase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from packager.base.problems import Problem
    from packager.recipe.released.values import Draft

DRAFT = "draft.yaml"


class _Dumper(yaml.SafeDumper):
    """Writes equal lists twice instead of naming one of them."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - its signature
        return True


_HEAD = "# Imported from the case {case}. It stays in your own folder: the release carries no licence.\n"


def import_cases(checkout: Path, into: Path, *, cases: Sequence[str] = (), images: Path) -> Imported:
    """Import the named cases, or all without names; a name may be an id, a folder or the id of the task."""
    known = find_cases(checkout)
    if not known:
        hint = "name the folder that git cloned: it holds cases/<organisation>/<case>/task.yaml"
        raise InputError("there is no case below this folder", where=str(checkout), hint=hint)
    done: list[ImportedCase] = []
    taken: dict[str, str] = {}
    for files in _chosen(known, cases, checkout):
        task = task_id(files.name)
        other = taken.setdefault(task, files.place)
        done.append(
            _import(files, into, images)
            if other == files.place
            else _refused(files, f"its task {task} is already that of {other}")
        )
    return Imported(tuple(done))


def _chosen(known: list[CaseFiles], cases: Sequence[str], checkout: Path) -> Iterable[CaseFiles]:
    if not cases:
        return known
    chosen = [one for one in known if {one.name, one.place, task_id(one.name)} & set(cases)]
    names = {name for one in chosen for name in (one.name, one.place, task_id(one.name))}
    unknown = sorted(set(cases) - names)
    if unknown:
        raise InputError(f"no such case: {', '.join(unknown)}", where=str(checkout), hint=f"{len(known)} cases there")
    return chosen


def _import(files: CaseFiles, into: Path, images: Path) -> ImportedCase:
    try:
        draft = convert_case(files)
    except InputError as error:
        return _refused(files, str(error).partition("\n")[0])
    return _write(draft, into, images)


def _refused(files: CaseFiles, reason: str) -> ImportedCase:
    return ImportedCase(files.name, task_id(files.name), "refused", "", todo=(reason,))


def _write(draft: Draft, into: Path, images: Path) -> ImportedCase:
    report = draft.report
    folder = into / report.task
    for name, data in sorted(draft.files.items()):
        write_atomic(folder / name, data)
    write_atomic(folder / "origin.json", format_readable(draft.origin))
    write_atomic(folder / ".gitignore", b"*\n")
    text = _HEAD.format(case=_line(report.case)) + yaml.dump(
        draft.plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120
    )
    recipe, unfinished = into / f"{report.task}.yaml", folder / DRAFT
    if is_there(recipe) and read_file(recipe, limit=LIMIT_BYTES) != text.encode():
        write_atomic(unfinished, text.encode())
        return replace(report, state=_state(report, []), recipe=str(recipe), notes=(*report.notes, _KEPT))
    write_atomic(recipe, text.encode())
    problems = recipe_problems(recipe, images=images)
    if problems or report.todo:
        recipe.unlink()
        write_atomic(unfinished, (text + _listed(report.todo)).encode())
        return replace(report, state="incomplete", recipe=str(unfinished), todo=_todo(report.todo, problems))
    return replace(report, state="complete", recipe=str(recipe))


_KEPT = f"there is a recipe already; it was left alone, and the new one is beside its files as {DRAFT}"


def _line(words: str) -> str:
    """Return words that stay in the one comment that they are put in."""
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def _state(report: ImportedCase, problems: list[Problem]) -> str:
    return "incomplete" if problems or report.todo else "complete"


def _listed(todo: tuple[str, ...]) -> str:
    return "".join(f"# todo: {_line(words)}\n" for words in todo)


def _todo(todo: tuple[str, ...], problems: list[Problem]) -> tuple[str, ...]:
    """Return what is to do, with what the reader of recipes complains about that nothing said yet."""
    said = (f"{one.path}: {one.message}" for one in problems if not one.message.startswith("missing key"))
    return (*todo, *(words for words in said if not (todo and "neither" in words)))
