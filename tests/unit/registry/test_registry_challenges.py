"""WWW-Authenticate headers as registries send them, and as they should not."""

from __future__ import annotations

import pytest

from packager.base.errors import WorldError
from packager.registry.challenges import Challenge, parse_challenges


def test_commas_inside_quotes_belong_to_the_value() -> None:
    header = 'Bearer realm="https://auth.example/token",service="reg",scope="repository:a/b:pull,push"'
    expected = Challenge(
        "bearer", {"realm": "https://auth.example/token", "service": "reg", "scope": "repository:a/b:pull,push"}
    )
    assert parse_challenges(header, where="reg") == [expected]


def test_several_challenges_stand_in_one_header() -> None:
    header = 'Negotiate, Basic realm="a \\"b\\", c", Bearer realm=x,service=y , NTLM abc=='
    assert parse_challenges(header, where="reg") == [
        Challenge("negotiate"),
        Challenge("basic", {"realm": 'a "b", c'}),
        Challenge("bearer", {"realm": "x", "service": "y"}),
        Challenge("ntlm"),
    ]


def test_an_absent_header_is_no_challenge() -> None:
    assert parse_challenges("", where="reg") == []


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ('Bearer realm="open', "reg: not a WWW-Authenticate header: 'Bearer realm=\"open'"),
        ('Bearer realm="a",realm="b"', 'reg: WWW-Authenticate says realm twice: \'Bearer realm="a",realm="b"\''),
        ("=", "reg: not a WWW-Authenticate header: '='"),
        ("a" * 9000, "reg: expected at most 8192 bytes of WWW-Authenticate, found 9000"),
    ],
)
def test_nonsense_is_refused(header: str, text: str) -> None:
    with pytest.raises(WorldError) as caught:
        parse_challenges(header, where="reg")
    assert str(caught.value) == text
