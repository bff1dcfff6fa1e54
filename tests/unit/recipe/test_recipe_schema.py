"""The published JSON Schema is the one that the code makes."""

from __future__ import annotations

from pathlib import Path

from packager.recipe.schema import format_schema

PUBLISHED = Path(__file__).parents[3] / "recipes" / "recipe.schema.json"


def test_the_published_schema_is_the_one_that_the_code_makes() -> None:
    assert format_schema() == PUBLISHED.read_bytes()


def test_the_schema_never_offers_null() -> None:
    assert b"null" not in format_schema()
