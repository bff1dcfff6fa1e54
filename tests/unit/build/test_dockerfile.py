from __future__ import annotations

import pytest

from packager.base.errors import InputError
from packager.build.dockerfile import parse_dockerfile


def test_continuation_lines_comments_and_steps_are_understood() -> None:
    text = (
        '# a title\nFROM scratch AS one\n\n# step: a/dependencies\nRUN cd /x \\\n  && make \\\n  && true\nCMD ["sh"]\n'
    )
    found = parse_dockerfile(text)
    assert [(one.kind, one.arguments, one.line, one.step) for one in found] == [
        ("FROM", "scratch AS one", 2, ""),
        ("RUN", "cd /x && make && true", 5, "a/dependencies"),
        ("CMD", '["sh"]', 8, ""),
    ]
    assert found[2].argv == ("sh",)


def test_a_step_names_only_the_instruction_after_it() -> None:
    found = parse_dockerfile("FROM scratch\n# step: one\nRUN a\nRUN b\n")
    assert [one.step for one in found] == ["", "one", ""]


def test_environment_pairs_keep_quoted_blanks() -> None:
    (_, env) = parse_dockerfile("FROM scratch\nENV A=1 B='x y'\n")
    assert env.pairs == (("A", "1"), ("B", "x y"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "FROM scratch\nVOLUME /x\n",
            (
                "Dockerfile:2: instruction 'VOLUME' is not supported\n"
                "hint: templates may use FROM, ADD, COPY, RUN, ENV, WORKDIR, CMD, ENTRYPOINT, LABEL"
            ),
        ),
        ("RUN true\n", "Dockerfile:1: the first instruction must be FROM"),
        ("", "Dockerfile:1: the first instruction must be FROM"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dockerfile(text)
    assert str(caught.value) == message


def test_environment_without_equals_is_refused() -> None:
    (_, env) = parse_dockerfile("FROM scratch\nENV A 1\n")
    with pytest.raises(InputError) as caught:
        _ = env.pairs
    assert str(caught.value) == "Dockerfile:2: expected NAME=VALUE, found 'A 1'"
