"""Reads a recipe file and says everything that is wrong with it in one run."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel, ValidationError

from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError
from packager.base.files import read_file
from packager.base.problems import Problem, refuse
from packager.recipe.checks import CROSS, Fault, Key, format_key, relation_faults
from packager.recipe.fields import FAULT
from packager.recipe.files import file_faults
from packager.recipe.model import Recipe, recipe_digest
from packager.recipe.nodes import Document, read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic_core import ErrorDetails

__all__ = ["cutoff_problems", "read_recipe", "recipe_digest", "recipe_problems"]

_WITHOUT_TESTS = {"test": "a target without tests", "hidden": "a target without hidden tests"}


def read_recipe(path: Path, *, images: Path | None = None) -> Recipe:
    """Read a recipe; every fault in it is in the one InputError, with line and hint.

    `images` holds the templates; without it, the folder `images` beside the recipe's folder.
    """
    document, recipe = _read(path)
    refuse(_problems(document, path, images or path.absolute().parent.parent / "images"))
    if recipe is None:
        raise InputError("not a recipe", where=str(path))
    return recipe.placed(path.absolute().parent)


def recipe_problems(path: Path, *, images: Path | None = None) -> list[Problem]:
    """Return everything that is wrong with a recipe file, sorted; empty if `read_recipe` would read it."""
    document, _ = _read(path)
    return sorted(set(_problems(document, path, images or path.absolute().parent.parent / "images")))


def cutoff_problems(recipe: Recipe, commit_times_s: Mapping[str, int], *, file: str) -> list[Problem]:
    """Return a problem for each context whose commit (by name, seconds since 1970) is younger than the cutoff."""
    cutoff = recipe.cutoff_s
    if cutoff is None:
        return []
    return [
        Problem(
            file,
            0,
            f"contexts.{one.name}.commit",
            f"the commit is {commit_times_s[one.name] - cutoff} s younger than the cutoff {recipe.cutoff}",
            "take the last commit before the cutoff",
        )
        for one in recipe.contexts
        if commit_times_s.get(one.name, cutoff) > cutoff
    ]


def _read(path: Path) -> tuple[Document, Recipe | None]:
    document = read_document(read_file(path, limit=LIMIT_BYTES))
    if not isinstance(document.value, dict):
        if not document.faults:
            document.faults.append((1, Fault((), "expected keys and values, found something else")))
        return document, None
    return document, _validate(document)


def _validate(document: Document) -> Recipe | None:
    recipe = None
    faults: list[Fault] = []
    try:
        recipe = Recipe.model_validate(document.value)
    except ValidationError as error:
        faults.extend(_translate(one) for one in error.errors(include_url=False) if one["type"] != CROSS)
    faults.extend(relation_faults(document.value))
    fresh = [one for one in faults if not document.is_faulty(one.key)]
    document.faults.extend((document.line_of(one.key), one) for one in fresh)
    return recipe


def _problems(document: Document, path: Path, images: Path) -> Iterator[Problem]:
    faults = list(document.faults)
    if isinstance(document.value, dict):
        found = file_faults(document.value, path.absolute().parent, images)
        faults.extend((document.line_of(one.key), one) for one in found if not document.is_faulty(one.key))
    for line, one in faults:
        yield Problem(str(path), line, format_key(one.key), one.message, one.hint)


def _translate(error: ErrorDetails) -> Fault:
    key: Key = tuple(part for part in error["loc"] if part != "[key]")
    kind, context = error["type"], error.get("ctx", {})
    if kind == FAULT:
        return Fault(key, str(context["message"]), str(context["hint"]))
    if kind == "missing":
        name = str(key[-1])
        said = _WITHOUT_TESTS.get(name) if len(key) == _TARGET_KEY_LENGTH and key[0] == "targets" else None
        return Fault(key[:-1], f"missing key {name}" if said is None else f"missing key {name}: {said}")
    if kind == "extra_forbidden":
        return Fault(key, "unknown key", _did_you_mean(str(key[-1]), _known_keys(key[:-1])))
    if kind == "literal_error":
        return Fault(key, f"expected {context['expected']}, found {_shown(error['input'])}")
    return _translate_type(key, error)


_TARGET_KEY_LENGTH = 3
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "tuple_type": "a list",
    "bool_type": "true or false",
}


def _translate_type(key: Key, error: ErrorDetails) -> Fault:
    expected = _EXPECTED.get(error["type"])
    found = error["input"]
    if expected is None:
        return Fault(key, f"{error['msg']}, found {_shown(found)}")
    hint = ""
    if expected == "text" and isinstance(found, (int, bool)):
        hint = f'quote it: "{str(found).lower()}"'
    if expected == "a list" and isinstance(found, str):
        hint = f"write [{found[:40]}]"
    return Fault(key, f"expected {expected}, found {_shown(found)}", hint)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"the number {value}"
    if isinstance(value, str):
        return repr(value[:80])
    return "a list" if isinstance(value, list) else "keys and values"


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known keys: {', '.join(sorted(known))}"


def _known_keys(key: Key) -> list[str]:
    model: type[BaseModel] = Recipe
    for part in key:
        if isinstance(part, int):
            continue
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        found = next(_models_in(fields[part].annotation), None) if part in fields else None
        if found is None:
            return []
        model = found
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
