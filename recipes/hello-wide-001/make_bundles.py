#!/usr/bin/env python3
"""Writes the git bundles of hello-wide-001 from the folders in history/: python3 make_bundles.py [OUTPUT]

Every commit is a folder of whole files that are laid over the tree of its first parent. Names, times and messages are
fixed, so the commits are the same on every machine; the bytes of a bundle are too, as long as git packs alike.
What comes after the base is there on purpose: a task must not show it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PERSON = {"NAME": "Harbour Office", "EMAIL": "office@harbour.example"}


@dataclass(frozen=True)
class Step:
    """One commit: where its files are, on which branch, when, and what it merges or starts from."""

    folder: str
    branch: str
    day: str
    message: str
    start: str = ""
    merge: str = ""


HISTORIES = {
    "gauge": [
        Step("01-records", "main", "2024-01-08", "Turn the raw file of a gauge into records"),
        Step("02-tests", "main", "2024-01-15", "Test the records"),
        Step("03-refuse", "main", "2024-01-22", "Refuse a line that is no reading"),
        Step("04-blank-lines", "maint-1", "2024-01-29", "Pass over blank lines", start="02-tests"),
        Step("05-merge", "main", "2024-02-05", "Merge branch 'maint-1'", merge="maint-1"),
        Step("06-where", "main", "2024-03-04", "Say which module was loaded"),
        # Older than the base, yet not among its ancestors: a cut by date would let it through.
        Step("07-comments", "maint-1", "2024-02-19", "Pass over comments"),
        Step("08-units", "main", "2024-04-08", "Carry the unit of a height into the record"),
        Step("09-merge", "main", "2024-04-15", "Merge branch 'maint-1' forward", merge="maint-1"),
        Step("10-release", "main", "2024-04-22", "Release 2.0.0"),
    ],
    "tidewatch": [
        Step("01-read", "main", "2024-01-10", "Read the records of gauge"),
        Step("02-tests", "main", "2024-01-17", "Test the reading"),
        Step("03-highest", "main", "2024-01-31", "Find the highest reading"),
        Step("04-report", "main", "2024-03-06", "Report readings to people"),
        Step("05-archive", "maint-1", "2024-02-21", "Read an archive of records", start="02-tests"),
        Step("06-units", "main", "2024-04-10", "Understand heights in feet"),
        Step("07-merge", "main", "2024-04-17", "Merge branch 'maint-1' forward", merge="maint-1"),
        Step("08-release", "main", "2024-04-24", "Release 2.0.0"),
    ],
    "stations": [
        Step("01-list", "main", "2024-01-05", "List the gauges"),
        Step("02-datum", "main", "2024-02-02", "Say where the zero of each gauge is"),
        Step("03-feet", "main", "2024-04-05", "Say which gauges count in feet"),
    ],
}
NOTES = {
    "gauge": ("06-where", "The next change adds a fourth field, the unit, to every record."),
    "tidewatch": ("04-report", "The next change reads the fourth field and converts to metres."),
    "stations": ("02-datum", "The next change adds a column with the unit."),
}
TAGGED = {"gauge": "10-release", "tidewatch": "08-release", "stations": "03-feet"}


class Repository:
    """A repository in a scratch folder that answers to git alone and to no configuration of the machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, day: str = "2024-01-01") -> str:
        """Run git and return what it says."""
        when = f"{day}T12:00:00+00:00"
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in PERSON.items()}
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_DATE": when,
            **who,
        }
        options = ("-c", "pack.threads=1", "-c", "pack.compression=9", "-c", "core.fileMode=true", "-c", "gc.auto=0")
        command = ["git", *options, *arguments]
        return subprocess.run(command, cwd=self.folder, env=env, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, source: Path, step: Step, known: dict[str, str]) -> str:
        """Make one commit and return its name."""
        if step.start:
            self.git("switch", "--quiet", "--create", step.branch, known[step.start])
        elif self.git("symbolic-ref", "--short", "HEAD") != step.branch:
            self.git("switch", "--quiet", step.branch)
        shutil.copytree(source / step.folder, self.folder, dirs_exist_ok=True)
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and ".git" not in path.relative_to(self.folder).parts:
                path.chmod(0o755 if path.parent.name == "bin" else 0o644)
        self.git("add", "--all")
        tree = self.git("write-tree")
        parents = [self.git("rev-parse", "HEAD")] if known else []
        if step.merge:
            parents.append(self.git("rev-parse", step.merge))
        options = [word for parent in parents for word in ("-p", parent)]
        made = self.git("commit-tree", tree, *options, "-m", step.message, day=step.day)
        self.git("update-ref", f"refs/heads/{step.branch}", made)
        return made


def make_bundle(name: str, output: Path) -> dict[str, str]:
    """Write one bundle and return the commit of each step."""
    with tempfile.TemporaryDirectory() as scratch:
        repository = Repository(Path(scratch) / name)
        known: dict[str, str] = {}
        for step in HISTORIES[name]:
            known[step.folder] = repository.commit(HERE / "history" / name, step, known)
        noted, text = NOTES[name]
        repository.git("notes", "add", "-m", text, known[noted], day="2024-04-30")
        repository.git("tag", "-a", "v2.0.0", "-m", "Release 2.0.0", known[TAGGED[name]], day="2024-04-24")
        repository.git("switch", "--quiet", "main")
        target = output / f"{name}.bundle"
        repository.git("repack", "--quiet", "-a", "-d", "-f", "--depth=10", "--window=10")
        repository.git("bundle", "create", "--quiet", "--version=2", str(target.absolute()), "--all")
    return known


def main() -> None:
    """Write all bundles and say which commit is which."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "bundles"
    output.mkdir(parents=True, exist_ok=True)
    for name in HISTORIES:
        for folder, commit in make_bundle(name, output).items():
            sys.stdout.write(f"{name} {folder} {commit}\n")


if __name__ == "__main__":
    main()
