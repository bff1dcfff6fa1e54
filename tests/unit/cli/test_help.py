"""What --help says: every verb explains itself, and its example is a command that exists."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from packager.cli.main import cli
from tests.support.command_line import call, complaint_about, subverbs, verbs

if TYPE_CHECKING:
    from pathlib import Path

VERBS = verbs()
SUBVERBS = subverbs()
_COMMAND = re.compile(r"^(?:eval \"\$\()?(?:[A-Z_]+=\S* )?wideswe-pack (.*?)(?:\)\")?$")


def shown(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--help"], prog_name="wideswe-pack", terminal_width=100)
    assert done.exit_code == 0
    return done.output


def test_the_first_page_names_every_verb_with_a_whole_sentence() -> None:
    page = shown()
    listed = dict(re.findall(r"^  ([a-z]+) {2,}(.+)$", page.partition("Commands:\n")[2], re.MULTILINE))
    assert list(listed) == list(VERBS)
    assert page.count("...") == 1, "only the usage line is cut short"
    assert "Example: wideswe-pack build --task hello-wide-001" in page


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_explains_itself_and_each_of_its_options(name: str) -> None:
    command, page = VERBS[name], shown(name)
    assert page.startswith(f"Usage: wideswe-pack {name} ")
    assert re.fullmatch(r"[A-Z][^\n]*\.", str(command.help).partition("\n")[0])
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"
            assert parameter.opts[0] in page


@pytest.mark.parametrize("name", VERBS)
def test_the_example_of_a_verb_is_a_command_of_that_verb(name: str) -> None:
    kind, _, example = str(VERBS[name].epilog).partition(": ")
    assert kind == "Example"
    assert f"Example: {example}" in " ".join(shown(name).split())
    found = _COMMAND.match(example)
    assert found is not None, example
    words = shlex.split(found[1])
    assert complaint_about(words) == ""
    assert name in words


def test_an_example_that_is_none_would_be_found() -> None:
    assert complaint_about(["build", "--tusk", "x"]) == "No such option '--tusk'. Did you mean '--task'?"
    assert complaint_about(["biuld"]) == "No such command 'biuld'."
    assert complaint_about(["sign", "--task", "x"]) == "sign needs home"


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    done = call(tmp_path, "--version")
    assert (done.exit_code, done.stdout) == (0, b"wideswe-pack, version 0.1.0\n")


@pytest.mark.parametrize("name", SUBVERBS)
def test_a_verb_below_a_group_explains_itself_and_each_of_its_options(name: str) -> None:
    command, page = SUBVERBS[name], shown(*name.split())
    assert page.startswith(f"Usage: wideswe-pack {name} ")
    assert re.fullmatch(r"[A-Z][^\n]*\.", str(command.help).partition("\n")[0])
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"
            assert parameter.opts[0] in page
    for example in re.findall(r"Example: wideswe-pack (.+)", str(command.help)):
        assert complaint_about(shlex.split(example)) == ""
        assert example.startswith(name)
