"""README's commands, options, exit codes, files and Python are those that exist."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest

from packager import api
from packager.base import errors
from packager.cli import main
from tests.support.command_line import complaint_about, subverbs, verbs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPOKEN = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [found[2] for found in _FENCE.finditer(TEXT) if found[1] == kind]


def commands() -> list[str]:
    """Return every command line of wideswe-pack, from blocks and from sentences, each once."""
    lines = [line.partition(" #")[0] for block in blocks("sh") for line in block.splitlines()]
    whole = [*lines, *re.findall(r"`([^`]+)`", SPOKEN.replace("\n", " "))]
    found = [re.search(r"(?:^|/|\()wideswe-pack (.+?)(?:\)\")?$", line.strip()) for line in whole]
    return list(dict.fromkeys(match[1] for match in found if match))


COMMANDS = commands()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_exists(command: str) -> None:
    words = shlex.split(command)
    if words == ["--help"]:
        return
    assert complaint_about(words) == ""


def test_the_readme_names_every_verb() -> None:
    assert len(COMMANDS) > 10
    named = {word for command in COMMANDS for word in shlex.split(command)} | set(re.findall(r"`(\w+)`", SPOKEN))
    assert sorted(set(verbs()) - named) == []


def test_options_named_in_sentences_exist() -> None:
    known = [main.cli, *verbs().values(), *subverbs().values()]
    options = {name for verb in known for option in verb.params for name in option.opts}
    named = {name for code in re.findall(r"`([^`]+)`", SPOKEN) for name in re.findall(r"(?<!\S)--[a-z-]+", code)}
    foreign = {
        name
        for code in re.findall(r"`((?:docker|pip|usermod|cosign|age)[^`]+)`", SPOKEN)
        for name in re.findall(r"--[a-z-]+", code)
    }
    assert sorted(named - foreign - options - {"--help"}) == []


def test_the_table_of_exit_codes_is_whole() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.PackError)]
    ours = {0, 1, main.EXIT_BUG, main.EXIT_INTERRUPTED} | {kind.exit_code for kind in kinds}
    assert [int(row) for row in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)] == sorted(ours)


def test_the_files_it_names_are_there() -> None:
    named = re.findall(r"`((?:\.ci|recipes|lockfiles|images|packager|tests)/[\w./-]*|[A-Z_]+\.md)`", SPOKEN)
    run = re.findall(r"^sh (\S+)", "\n".join(blocks("sh")), re.MULTILINE)
    assert run
    assert [name for name in (*named, *run) if not (ROOT / name).exists()] == []


def test_setup_knows_the_words_it_is_given() -> None:
    script = (ROOT / ".ci" / "setup").read_text()
    words = re.findall(r"sh \.ci/setup (\w+)", TEXT)
    assert sorted(set(words)) == ["demo", "test"]
    assert [word for word in words if f"    {word}) " not in script] == []


def test_the_python_example_calls_what_exists() -> None:
    (code,) = blocks("python")
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    ours = [call for call in calls if ast.unparse(call.func).startswith("api.")]
    assert len(ours) > 2
    for call in ours:
        function = getattr(api, ast.unparse(call.func).removeprefix("api."))
        inspect.signature(function).bind(*call.args, **{str(word.arg): word.value for word in call.keywords})
