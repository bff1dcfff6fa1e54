"""Whatever an agent does with git, what is captured is what its files became; git itself applies the patch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from packager.base.processes import Surroundings, find_program, run_ok
from packager.evaluate.capture import capture_patch

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(find_program("git") is None, reason="git is not installed"),
]

COMMIT = "git -c user.name=a -c user.email=a@example.org commit -qm x"
DEEDS = {
    "nothing with git": "true",
    "staged": "git add -A",
    "committed": f"git add -A && {COMMIT}",
    "committed, then changed again": f"git add -A && {COMMIT} && echo more >> kept",
    "ignored": "echo '*.log' > .gitignore && echo x > build.log",
    "ignored by info/exclude": "echo '*' > .git/info/exclude && echo x > secret.txt",
    "vendored": "mkdir -p vendor/a node_modules/b && echo x > vendor/a/x.go && echo y > node_modules/b/y.js",
    "git deleted": "rm -rf .git",
    "git a file": "rm -rf .git && echo 'gitdir: /nowhere' > .git",
    "git made anew": f"rm -rf .git && git init -q && git add -A && {COMMIT}",
    "a nested repository": "git init -q inner && echo x > inner/x",
    "a branch without a parent": f"git checkout -q --orphan other && git add -A && {COMMIT}",
    "assumed unchanged": "git update-index --assume-unchanged kept && echo z >> kept",
    "sparse": "git update-index --skip-worktree kept && echo z >> kept",
    "line ends by attributes": "echo '* text eol=crlf' > .gitattributes && printf 'a\\r\\nb\\n' > kept",
    "line ends by configuration": "git config core.autocrlf true && printf 'a\\r\\n' > kept",
    "a filter": "git config filter.f.clean 'tr a-z A-Z' && echo '* filter=f' > .gitattributes && echo abc > kept",
    "an external diff": "git config diff.external true && git config diff.noprefix true && echo abc > kept",
    "modes not looked at": "git config core.fileMode false && chmod +x kept",
    "a work tree elsewhere": "git config core.worktree /nowhere",
    "a deleted file": "rm gone && git rm -q --cached gone",
    "a file becomes a folder": "rm kept && mkdir kept && echo x > kept/inner",
    "a folder becomes a file": "rm -r folder && echo x > folder",
    "a link out of the tree": "ln -s /etc/passwd out",
    "a file becomes a link": "rm kept && ln -s gone kept",
    "binary": "printf '\\000\\001' > blob && printf '\\000\\002' > kept",
    "no last line end": "printf 'no end' > kept",
    "empty": ": > kept && : > new-and-empty",
    "names that need quoting": "echo x > 'a \"b\\\tc' && printf x > \"$(printf 'caf\\351')\"",
    "a long name": "echo x > $(printf '%0250d' 7)",
}


def sh(place: Path, script: str, stdin: bytes = b"") -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(place.parent), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    env["GIT_CEILING_DIRECTORIES"] = str(place.parent)
    run_ok(["sh", "-ec", script], Surroundings(env=env, cwd=place, stdin=stdin))


def files(place: Path) -> dict[bytes, tuple[str, bytes]]:
    """Return kind and content of every file and link, without anything named .git."""
    found = {}
    for folder, folders, names in os.walk(os.fsencode(place)):
        folders[:] = [name for name in folders if name != b".git"]
        for name in [*names, *(one for one in folders if Path(os.fsdecode(folder + b"/" + one)).is_symlink())]:
            path = Path(os.fsdecode(folder + b"/" + name))
            if name == b".git":
                continue
            kind = "link" if path.is_symlink() else "program" if path.stat().st_mode & 0o100 else "file"
            content = os.fsencode(path.readlink()) if kind == "link" else path.read_bytes()
            found[os.fsencode(path.relative_to(place))] = (kind, content)
    return found


@pytest.mark.parametrize("deed", DEEDS)
def test_git_makes_of_base_what_the_agent_made_of_it(deed: str, tmp_path: Path) -> None:
    base, work, judge = (tmp_path / name for name in ("base", "work", "judge"))
    (base / "folder").mkdir(parents=True)
    for name in ("kept", "gone", "folder/inner"):
        (base / name).write_text(f"{name}\n")
    shutil.copytree(base, work)
    shutil.copytree(base, judge)
    sh(work, f"git init -q && git add -A && {COMMIT}")
    sh(work, f"echo changed >> folder/inner\n{DEEDS[deed]}")
    patch = capture_patch(base, work, "lib")
    sh(judge, "git apply --whitespace=nowarn -", patch)
    assert files(judge) == files(work)
    assert files(judge) != files(base)


def test_the_number_of_deeds(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{len(DEEDS)} ways of using git captured")
    assert len(DEEDS) >= 30
