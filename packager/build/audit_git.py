"""The git side of an audit: refs that should not exist, and objects that the locked base does not reach."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import PackError
from packager.build.audit_unpack import BLOCK_BYTES
from packager.lock.git_objects import SMALL_BYTES, ObjectId, ObjectReader
from packager.lock.git_runner import GitDirectory, make_git_directory
from packager.lock.git_walk import walk_ancestry, walk_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from packager.build.audit_unpack import Source

MAIN = "refs/heads/main"

_REF_KINDS = (
    ("refs/tags/", "tag"),
    ("refs/notes/", "note"),
    ("refs/remotes/", "remote"),
    ("refs/stash", "stash"),
    ("refs/replace/", "replace ref"),
)
_STATE_FILES = re.compile(
    r"(?:FETCH|ORIG|MERGE|CHERRY_PICK|REVERT|REBASE|AUTO_MERGE|BISECT)_?\w*"
    r"|shallow|objects/info/alternates|info/grafts"
)
_LOOSE = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{38})")
_INSIDE = re.compile(rb"(?:(.*)/)?\.git/(.+)", re.DOTALL)
_SUBJECT_BYTES = 72


def split_git_path(path: bytes) -> tuple[bytes, str] | None:
    """Return the repository's path and the path below its `.git`, or None."""
    match = _INSIDE.fullmatch(path)
    return (match[1] or b"", match[2].decode("utf-8", "surrogateescape")) if match else None


def judge_git_file(relative: str, content: bytes, base: str) -> list[tuple[str, str]]:
    """Return what is wrong with one small file of a `.git` whose only branch must be `main` at `base`."""
    text = content.decode(errors="replace").strip()
    if not text:
        return []
    if relative.startswith("logs/"):
        return [("reflog", f"{relative}: {len(text.splitlines())} lines")]
    if relative == "packed-refs":
        pairs = [line.split(maxsplit=1) for line in text.splitlines() if " " in line and not line.startswith("#")]
        return [problem for value, name in pairs for problem in _judge_ref(name, value, base)]
    if relative.startswith("refs/"):
        return _judge_ref(relative, text, base)
    return _judge_state(relative, text, base)


def _judge_state(relative: str, text: str, base: str) -> list[tuple[str, str]]:
    if relative == "HEAD" and text not in (f"ref: {MAIN}", base):
        return [("ref", f"HEAD is {text[:80]}, expected ref: {MAIN}")]
    if _STATE_FILES.fullmatch(relative):
        return [("ref", f"{relative} holds {text[:60]}")]
    if relative == "config" and "[remote" in text:
        return [("remote", "config names a remote")]
    return []


def _judge_ref(name: str, value: str, base: str) -> list[tuple[str, str]]:
    if name == MAIN and value == base:
        return []
    kind = next((kind for prefix, kind in _REF_KINDS if name.startswith(prefix)), "ref")
    return [(kind, f"{name} is {value[:60]}" + (f", expected {base}" if name == MAIN else ""))]


def is_small_git_file(relative: str) -> bool:
    """Return whether a file of a `.git` is judged by its text."""
    return not relative.startswith("objects/") or relative == "objects/info/alternates"


@dataclass
class ObjectPool:
    """All packs and loose objects that an image has for one repository, gathered for one look."""

    directory: GitDirectory
    places: dict[str, tuple[int, str]] = field(default_factory=dict)
    problems: list[tuple[int, str, str]] = field(default_factory=list)

    @classmethod
    def make(cls, path: Path) -> ObjectPool:
        """Return an empty pool whose files lie at `path`."""
        return cls(make_git_directory(path))

    def add_pack(self, source: Source, place: tuple[int, str]) -> None:
        """Take in a pack; its objects are hashed by `git index-pack`."""
        pack = self.directory.path / "objects" / "pack" / f"pack-{len(self.places):040x}.pack"
        with pack.open("wb") as stream:
            while block := source.read(BLOCK_BYTES):
                stream.write(block)
        done = self.directory.run("index-pack", "--threads=1", str(pack))
        if done.exit_code != 0:
            pack.unlink()
            said = done.stderr.decode(errors="replace").strip().splitlines()
            self.problems.append((*place, said[-1] if said else "git index-pack refused it"))
            return
        self.places[pack.stem] = place

    def add_loose(self, relative: str, source: Source, place: tuple[int, str]) -> None:
        """Take in a loose object, as it lies in the image."""
        match = _LOOSE.fullmatch(relative)
        if match is None:
            return
        path = self.directory.path / relative
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as stream:
            while block := source.read(BLOCK_BYTES):
                stream.write(block)
        self.places[match[1] + match[2]] = place

    def objects(self) -> dict[ObjectId, str]:
        """Return all objects and their kinds."""
        lines = self.directory.run_ok("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
        return {ObjectId(name): kind for name, kind in (line.split() for line in lines.decode().splitlines())}

    def contents(self, names: Iterable[ObjectId]) -> Iterator[tuple[ObjectId, str, bytes]]:
        """Yield objects with kind and content; those over 64 MiB are cut to nothing."""
        with ObjectReader(self.directory) as reader:
            for raw in reader.read_many(names):
                yield raw.id, raw.kind, raw.data() if raw.size <= SMALL_BYTES else b""

    def extras(self, base: str) -> list[ObjectId]:
        """Return the objects that `base` does not reach; what it reaches and the image lacks is a problem."""
        names = self.objects()
        try:
            with ObjectReader(self.directory) as reader:
                commits = walk_ancestry(reader, ObjectId(base))
                reached = walk_objects(reader, commits)
        except PackError as error:
            place = next(iter(self.places.values()), (0, ""))
            self.problems.append((*place, f"the history of the locked base cannot be read: {error.reason}"))
            return sorted(names)
        known = {*reached.commits, *(tree.id for tree in reached.trees), *(blob.id for blob in reached.blobs)}
        return sorted(name for name in names if name not in known)

    def place_of(self, name: ObjectId) -> tuple[int, str]:
        """Return layer and path of the file that holds an object."""
        if name in self.places:
            return self.places[name]
        for stem, place in self.places.items():
            index = self.directory.path / "objects" / "pack" / f"{stem}.idx"
            if index.exists() and bytes.fromhex(name) in index.read_bytes():
                return place
        return (0, "")


def describe_commit(name: str, content: bytes) -> str:
    """Return a commit's id and subject for a report."""
    subject = content.partition(b"\n\n")[2].partition(b"\n")[0][:_SUBJECT_BYTES].decode(errors="replace")
    return f"commit {name[:12]} ({subject}) is not an ancestor of the locked base"


def skip_bundle_header(source: Source) -> None:
    """Read a bundle's lines up to the empty one, after which its pack begins."""
    line = b""
    while line != b"\n":
        line = b""
        while not line.endswith(b"\n"):
            byte = source.read(1)
            if not byte:
                return
            line += byte
