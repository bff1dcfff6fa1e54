"""The JSON Schema of a recipe, for editors; recipes/recipe.schema.json is kept equal by a test."""

from __future__ import annotations

from typing import Any

from packager.base.canonical import format_readable
from packager.recipe.model import SCHEMA, Recipe


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a recipe."""
    schema = _without_null(Recipe.model_json_schema(by_alias=True, mode="validation"))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, **schema, "title": SCHEMA}


def _without_null(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a schema in which what is optional may be left out, but not written as null: the reader refuses that."""
    if isinstance(value, list):
        return [_without_null(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_null(one) for key, one in value.items() if one is not None}
    choices = [one for one in kept.pop("anyOf", []) if one != {"type": "null"}]
    if len(choices) > 1:
        kept["anyOf"] = choices
    return kept if len(choices) != 1 else {**choices[0], **kept}


def format_schema() -> bytes:
    """Return the bytes of recipes/recipe.schema.json."""
    return format_readable(recipe_schema())
