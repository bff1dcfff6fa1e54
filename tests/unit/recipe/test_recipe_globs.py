"""Globs of a recipe."""

from __future__ import annotations

import pytest

from packager.base.errors import InputError
from packager.recipe.globs import matches, parse_glob


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*_test.go", "a_test.go", True),
        ("*_test.go", "sub/a_test.go", False),
        ("**/*_test.go", "a_test.go", True),
        ("**/*_test.go", "x/y/a_test.go", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "ab", False),
        ("[a-c]?.py", "bx.py", True),
        ("[!a-c]?.py", "bx.py", False),
        ("x[!a]y", "x/y", False),
        ("go.mod", "goxmod", False),
        ("a[[]b]", "a[b]", True),
        ("*", "with\nnewline", True),
    ],
)
def test_a_star_stays_in_its_component_and_two_cross(glob: str, path: str, *, expected: bool) -> None:
    assert expected == matches(parse_glob(glob), path)


@pytest.mark.parametrize(
    "glob", ["", "/a", "a/../b", "./a", "a//b", "a\\b", "!a", "a**/b", "[z-a]", "[a", "a\nb", "a\0"]
)
def test_a_glob_that_could_leave_or_confuse_is_refused(glob: str) -> None:
    with pytest.raises(InputError):
        parse_glob(glob)
