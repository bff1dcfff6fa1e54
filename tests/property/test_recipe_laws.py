"""Laws of the recipe reader: whatever a person writes, it is read or refused with places that exist."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packager.base.errors import InputError
from packager.recipe.model import Recipe, plain_recipe, recipe_digest
from packager.recipe.reader import read_recipe, recipe_problems
from packager.recipe.units import format_duration, format_size, parse_duration, parse_size
from tests.support.recipe_texts import GOOD, place_recipe

PIECES = st.one_of(
    st.sampled_from(
        ["\t", "  ", "\n", ": ", "- ", "[", "]", "{", "}", "&a ", "*a", "!!int ", "no", "1.10", "0o7", "<<: "]
    ),
    st.sampled_from(
        ["~", "? ", "|", ">", "'", '"', '"\\ud800"', "%YAML 1.1\n", "---\n", "...\n", "#", "\u2028", "\x00", "12:30"]
    ),
    st.text(max_size=3),
)
EDITS = st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 6), PIECES), min_size=1, max_size=4)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(EDITS)
def test_an_edited_recipe_is_read_or_refused_with_lines_that_exist(edits: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for at, cut, piece in edits:
        text = text[:at] + piece + text[at + cut :]
    with tempfile.TemporaryDirectory() as folder:
        place = place_recipe(Path(folder))
        place.write_bytes(text.encode(errors="surrogatepass"))
        problems = recipe_problems(place)
        assert problems == sorted(problems)
        assert all(0 <= problem.line <= len(text.splitlines()) + 1 for problem in problems)
        if problems:
            with pytest.raises(InputError) as caught:
                read_recipe(place)
            assert str(problems[-1]) in str(caught.value)
            return
        recipe = read_recipe(place)
        again = Recipe.model_validate(plain_recipe(recipe))
        assert recipe_digest(again) == recipe_digest(recipe)


@given(st.integers(0, 10**9 - 1), st.integers(0, 10**12 - 1))
def test_units_read_back(seconds: int, size_bytes: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds
    assert parse_size(format_size(size_bytes)) == size_bytes
