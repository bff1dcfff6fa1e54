"""Shell completion, as bash itself runs it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run
from tests.support.command_line import call, environment

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """\
#!{python}
from packager.cli.main import main
main()
"""
_ASK = """
eval "$(wideswe-pack completion bash)"
COMP_WORDS=({words}) COMP_CWORD={last}
_wideswe_pack_completion wideswe-pack
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(home: Path, *words: str) -> list[str]:
    if find_program("bash") is None:
        pytest.skip("bash is not installed")
    program = home / "bin" / "wideswe-pack"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    env = environment(home)
    env["PATH"] = f"{program.parent}:{env['PATH']}"
    script = _ASK.format(words=" ".join(f"'{word}'" for word in ("wideswe-pack", *words)), last=len(words))
    done = run(["bash", "--norc", "-c", script], Surroundings(env=env, cwd=home, timeout_s=60))
    assert (done.exit_code, done.stderr) == (0, b"")
    return done.stdout.decode().split()


def test_bash_completes_verbs_and_options(tmp_path: Path) -> None:
    assert completed(tmp_path, "ev") == ["evaluate"]
    assert completed(tmp_path, "evaluate", "--ta") == ["--task", "--target-patch"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_name_the_program(shell: str, tmp_path: Path) -> None:
    done = call(tmp_path, "completion", shell)
    assert (done.exit_code, done.stderr) == (0, b"")
    assert b"_WIDESWE_PACK_COMPLETE" in done.stdout
