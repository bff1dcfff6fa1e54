"""Git objects as values, read through one `git cat-file --batch` and hashed before anybody believes them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, NewType, Self

from packager.base.errors import InputError, IntegrityError, WorldError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from packager.lock.git_runner import GitDirectory

ObjectId = NewType("ObjectId", str)
"""The SHA-1 name of a git object: 40 lower-case hexadecimal digits."""

TREE_MODE = 0o040000
SUBMODULE_MODE = 0o160000

EMPTY_TREE = ObjectId("4b825dc642cb6eb9a060e54bf8d69288fbee4904")

BLOCK_BYTES = 1 << 20
SMALL_BYTES = 64 << 20
"""Commits and trees above this size are refused; blobs above it are only ever streamed."""

_BATCH = 1000  # 41 bytes a line: one batch of questions always fits into a pipe of 64 KiB
_ID = re.compile(r"[0-9a-f]{40}", re.ASCII)
_RAW_ID_BYTES = 20


@dataclass(frozen=True)
class TreeItem:
    """One line of a tree object."""

    mode: int
    name: bytes
    id: ObjectId

    @property
    def is_tree(self) -> bool:
        """Whether it is a directory."""
        return self.mode == TREE_MODE

    @property
    def is_submodule(self) -> bool:
        """Whether it names a commit of another repository."""
        return self.mode == SUBMODULE_MODE


@dataclass(frozen=True)
class Commit:
    """What the packager needs of a commit: its tree, its parents, its committer's time in seconds since 1970."""

    id: ObjectId
    tree: ObjectId
    parents: tuple[ObjectId, ...]
    time: int


class MissingObjectError(WorldError):
    """The source lacks an object; callers that know the path say it better."""

    def __init__(self, name: ObjectId) -> None:
        super().__init__(f"the source lacks object {name}")
        self.name = name


def parse_object_id(text: str, *, where: str) -> ObjectId:
    """Return a full object id, or raise InputError."""
    if _ID.fullmatch(text) is None:
        hint = "write all 40 hexadecimal digits; branches, tags and short ids can move"
        raise InputError(
            f"expected a full commit id of 40 hexadecimal digits, found {text[:80]!r}", where=where, hint=hint
        )
    return ObjectId(text)


def object_id(kind: str, data: bytes) -> ObjectId:
    """Return the id of an object."""
    return ObjectId(hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).hexdigest())


def parse_commit(name: ObjectId, data: bytes) -> Commit:
    """Parse a commit object; a date that is no number counts as 0, as in git."""
    tree, parents, time = "", [], 0
    for line in data.partition(b"\n\n")[0].split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree" and not tree:
            tree = value.decode("ascii", "replace")
        elif key == b"parent":
            parents.append(parse_object_id(value.decode("ascii", "replace"), where=f"commit {name}"))
        elif key == b"committer":
            found = re.search(rb"> (\d{1,12}) [+-]\d+$", value)
            time = int(found[1]) if found else 0
    return Commit(name, parse_object_id(tree, where=f"commit {name}"), tuple(parents), time)


def parse_tree(name: ObjectId, data: bytes) -> list[TreeItem]:
    """Parse a tree object, in its own order; names are not judged here."""
    items, place, end = [], 0, len(data)
    while place < end:
        blank, nul = data.find(b" ", place), data.find(b"\0", place)
        if not place < blank < nul or nul + 1 + _RAW_ID_BYTES > end:
            raise IntegrityError("a tree object is cut short or malformed", where=f"tree {name}")
        try:
            mode = int(data[place:blank], 8)
        except ValueError as error:
            raise IntegrityError(
                f"a tree object has the mode {data[place:blank][:12]!r}", where=f"tree {name}"
            ) from error
        item_id = ObjectId(data[nul + 1 : nul + 1 + _RAW_ID_BYTES].hex())
        items.append(TreeItem(mode, data[blank + 1 : nul], item_id))
        place = nul + 1 + _RAW_ID_BYTES
    return items


class RawObject:
    """One object as it comes out of the pipe: `blocks()` may be read once and is hashed on the way."""

    def __init__(self, name: ObjectId, kind: str, size: int, stream: IO[bytes]) -> None:
        self.id = name
        self.kind = kind
        self.size = size
        self._stream = stream
        self._left = size
        self._hash = hashlib.sha1(b"%s %d\0" % (kind.encode(), size), usedforsecurity=False)

    def blocks(self) -> Iterator[bytes]:
        """Yield the content in blocks; after the last one its hash is compared with the id."""
        while self._left:
            block = self._stream.read(min(self._left, BLOCK_BYTES))
            if not block:
                raise WorldError("git cat-file ended in the middle of an object", where=f"object {self.id}")
            self._left -= len(block)
            self._hash.update(block)
            yield block
        if self._hash.hexdigest() != self.id:
            raise IntegrityError(
                f"expected object {self.id}, found bytes that hash to {self._hash.hexdigest()}",
                where="git source",
                hint="the source repository is damaged or forged; use another one",
            )

    def data(self, limit: int = SMALL_BYTES) -> bytes:
        """Return the whole content, or raise InputError if it is larger than `limit`."""
        if self.size > limit:
            raise InputError(
                f"expected an object of at most {limit} bytes, found {self.size}", where=f"object {self.id}"
            )
        return b"".join(self.blocks())

    def drain(self) -> None:
        """Read (and check) whatever was left unread."""
        for _ in self.blocks():
            pass
        self._stream.read(1)


class ObjectReader:
    """An open `git cat-file --batch`: questions and answers in the order of the questions."""

    def __init__(self, directory: GitDirectory) -> None:
        self._running = directory.running("cat-file", "--batch")

    def __enter__(self) -> Self:
        self._pipes = self._running.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.__exit__(kind, error, trace)

    def read_many(self, names: Iterable[ObjectId]) -> Iterator[RawObject]:
        """Yield the objects one by one, one in memory at a time; a missing one raises MissingObjectError."""
        source = iter(names)
        while batch := list(islice(source, _BATCH)):
            self._ask(batch)
            for name in batch:
                found = self._answer(name)
                yield found
                found.drain()

    def read(self, name: ObjectId, kind: str) -> bytes:
        """Return one small object that must be of a kind."""
        self._ask([name])
        found = self._answer(name)
        data = found.data()
        found.drain()
        if found.kind != kind:
            raise InputError(f"expected a {kind}, found a {found.kind}", where=f"object {name}")
        return data

    def commit(self, name: ObjectId) -> Commit:
        """Return one commit."""
        return parse_commit(name, self.read(name, "commit"))

    def tree(self, name: ObjectId) -> list[TreeItem]:
        """Return the items of one tree."""
        return [] if name == EMPTY_TREE else parse_tree(name, self.read(name, "tree"))

    def _ask(self, names: list[ObjectId]) -> None:
        try:
            self._pipes.stdin.write("".join(f"{name}\n" for name in names).encode())
            self._pipes.stdin.flush()
        except BrokenPipeError as error:
            raise WorldError("git cat-file ended too early", where="git source") from error

    def _answer(self, name: ObjectId) -> RawObject:
        stream = self._pipes.stdout
        words = stream.readline().split()
        if len(words) == 2 and words[1] == b"missing":  # noqa: PLR2004 - "<id> missing"
            raise MissingObjectError(name)
        if len(words) != 3 or words[0] != name.encode():  # noqa: PLR2004 - "<id> <type> <size>"
            raise WorldError(f"git cat-file ended or answered {b' '.join(words)[:80]!r}", where=f"object {name}")
        return RawObject(name, words[1].decode(), int(words[2]), stream)


def measure_objects(directory: GitDirectory, names: list[ObjectId]) -> dict[ObjectId, int]:
    """Return the sizes of those objects that are there."""
    lines = directory.run_ok(
        "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="".join(f"{n}\n" for n in names).encode()
    )
    pairs = (line.split() for line in lines.decode().splitlines())
    return {ObjectId(name): int(size) for name, size in pairs if size != "missing"}
