"""The content-addressed store: blobs by digest, results by key, unpacked trees and named records.

```
blobs/sha256/<hex>   0444, whole or absent     names/<kind>/<name>   records that change, roots of the collection
results/<hex>        what a derivation gave    trees/<name>          unpacked layers, whole or absent
tmp/  locks/  quarantine/  used/               used/<name>: its time is that of a blob's or tree's last use
```
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import IO, TYPE_CHECKING
from urllib.parse import quote, unquote

from packager.base.digests import BLOCK_BYTES, Digest, digest_of, hex_of, parse_digest
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.base.files import read_file
from packager.store.blobs import BlobReader, BlobWriter, Temporary
from packager.store.disk import DISK
from packager.store.locks import hold
from packager.store.trees import make_tree
from packager.store.uses import note_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.base.problems import Problem
    from packager.store.disk import Disk
    from packager.store.garbage import Garbage

PARTIAL_PREFIX = "pull-"
"""How the names of downloads in `tmp/` begin that the next run continues."""

_RECORD_MODE = 0o644
_VERIFY_BYTES = 1 << 16
"""Small enough to stay in the processor's cache between reading and hashing, and one buffer for all of a blob."""
_RECORD_LIMIT_BYTES = 64 << 20


class Store:
    """One store on disk; any number of processes may use it at once.

    `inputs` are read-only directories with `blobs/sha256/<hex>`: what the store lacks is taken from them, verified.
    """

    def __init__(self, root: Path, *, inputs: Sequence[Path] = (), disk: Disk = DISK) -> None:
        self.root = root
        self._inputs = tuple(inputs)
        self._disk = disk

    def has(self, digest: Digest, size: int | None = None) -> bool:
        """Say whether a blob is here or in one of the inputs (without reading it); of another size it is not there."""
        places = [place for place in self._places(digest) if place.is_file()]
        if size is None:
            return bool(places)
        return any(place.stat().st_size == size for place in places)

    def path(self, digest: Digest) -> Path:
        """Return the file of a blob; it is copied here, verified, when only an input has it."""
        place = self._file(digest)
        note_use(self.root, place.name)
        return place

    def checked_path(self, digest: Digest) -> Path:
        """Return the file of a blob, just verified: for readers that do not hash what they read."""
        self.verify(digest)
        return self.path(digest)

    def use(self, digest: Digest) -> None:
        """Remember that a blob is used although nobody reads it now."""
        note_use(self.root, hex_of(digest))

    def open(self, digest: Digest, /) -> IO[bytes]:
        """Open a blob; when its end is reached and the digest is wrong, it is set aside and IntegrityError raised."""
        return self._open(self.path(digest), digest)

    def read(self, digest: Digest, limit: int) -> bytes:
        """Return a blob of at most `limit` bytes, verified."""
        with self.open(digest) as stream:
            data = stream.read(limit + 1)
            if len(data) > limit:
                raise IntegrityError(f"expected at most {limit} bytes, found more", where=digest)
            stream.read(1)
        return data

    def put(self, data: bytes) -> Digest:
        """Store bytes and return their digest."""
        digest = digest_of(data)
        with contextlib.suppress(FileNotFoundError):
            if self._place(digest).stat().st_size == len(data):
                return digest
        with self.writer(digest, len(data)) as out:
            out.write(data)
            out.commit()
        return digest

    def put_file(self, path: Path) -> tuple[Digest, int]:
        """Store a copy of a file; return its digest and size."""
        with path.open("rb", buffering=0) as stream, self.writer() as out:
            while block := stream.read(BLOCK_BYTES):
                out.write(block)
            return out.commit()

    def writer(self, expected: Digest | None = None, size: int | None = None) -> BlobWriter:
        """Return a writer, a context manager; a blob that is not `expected` or has another `size` is refused."""
        return BlobWriter(Temporary(self._disk, self.root / "tmp"), self._place, expected=expected, size=size)

    def result(self, key: Digest) -> bytes | None:
        """Return what was stored for a derivation's key, or None."""
        return _read_file(self.root / "results" / hex_of(key))

    def put_result(self, key: Digest, data: bytes) -> None:
        """Store what a derivation's key gives."""
        self._write_record(self.root / "results" / hex_of(key), data)

    def results(self) -> Iterator[bytes]:
        """Yield all that derivations gave, in no particular order."""
        folder = self.root / "results"
        for path in folder.iterdir() if folder.is_dir() else ():
            data = _read_file(path)
            if data is not None:
                yield data

    def name(self, kind: str, name: str) -> bytes | None:
        """Return a named record, or None."""
        return _read_file(self._name_place(kind, name))

    def set_name(self, kind: str, name: str, data: bytes) -> None:
        """Store a named record in place of the one before."""
        self._write_record(self._name_place(kind, name), data)

    def remove_name(self, kind: str, name: str) -> None:
        """Forget a named record, if there is one."""
        self._name_place(kind, name).unlink(missing_ok=True)

    def names(self, kind: str) -> list[str]:
        """Return the names of a kind in order."""
        folder = self.root / "names" / _safe(kind)
        return sorted(unquote(path.name) for path in folder.iterdir()) if folder.is_dir() else []

    def tree(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Return the tree of that name; if there is none, `fill` makes it in an empty directory while others wait."""
        place = self.root / "trees" / _safe(name)
        if not place.is_dir():
            with self.lock(f"tree:{name}"):
                make_tree(self._disk, place, fill, scratch=self.root / "tmp")
        note_use(self.root, place.name)
        return place

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold a lock between processes and threads: one does the work, the others wait."""
        return hold(self.root / "locks" / _safe(name))

    def lease(self) -> AbstractContextManager[None]:
        """Keep the collection away while a command uses blobs that nothing names yet; any number at once."""
        return hold(self.root / "locks" / "lease", shared=True)

    def collect_garbage(self, keep: Callable[[], Iterable[str]]) -> Garbage:
        """Delete blobs and trees that `keep` does not name (digests, names of trees); waits for no lease.

        `keep` is called while nobody else holds a lease. A store in use raises WorldError.
        """
        from packager.store.garbage import collect  # noqa: PLC0415 - rarely needed

        with hold(self.root / "locks" / "lease", wait=False):
            return collect(self.root, {_safe(name) for name in keep()})

    def shrink(self, keep: Callable[[], Iterable[str]], *, max_bytes: int) -> Garbage:
        """Delete what `keep` does not name, least recently used first, until the store has `max_bytes` at the most.

        Waits for no lease, as the collection does.
        """
        from packager.store.shrinking import shrink  # noqa: PLC0415 - rarely needed

        with hold(self.root / "locks" / "lease", wait=False):
            kept = {_safe(name) for name in keep()}
            return shrink(self.root, kept, max_bytes=max_bytes, spare=PARTIAL_PREFIX)

    def sweep(self) -> None:
        """Delete what killed commands left half done, unless others are at work; downloads to be continued stay."""
        from packager.store.garbage import sweep_temporaries  # noqa: PLC0415 - a build with nothing to do needs none

        with contextlib.suppress(WorldError), hold(self.root / "locks" / "lease", wait=False):
            sweep_temporaries(self.root / "tmp", spare=PARTIAL_PREFIX)

    def verify(self, digest: Digest) -> int:
        """Read a whole blob, which is no use of it; return its size, or set it aside and raise IntegrityError."""
        size, buffer = 0, bytearray(_VERIFY_BYTES)
        with BlobReader(self._file(digest), digest, lambda: self.quarantine(digest)) as reader:
            while count := reader.readinto(buffer):
                size += count
        return size

    def check(self, told: Callable[[int], object] = int) -> list[Problem]:
        """Hash every blob; set the broken ones aside, with one problem for each; `told` hears how many are done."""
        folder = self.root / "blobs" / "sha256"
        found: list[Problem] = []
        for number, path in enumerate(sorted(folder.iterdir()) if folder.is_dir() else (), 1):
            found.extend(self._check_file(path))
            told(number)
        return found

    def _check_file(self, path: Path) -> Iterator[Problem]:
        from packager.base.problems import Problem  # noqa: PLC0415 - rarely needed

        place = f"blobs/sha256/{path.name}"
        try:
            self.verify(parse_digest(f"sha256:{path.name}"))
        except InputError:
            yield Problem(place, 0, "", "the name is not a digest", "move the file elsewhere")
        except WorldError:  # a collection took it while it was about to be read
            return
        except IntegrityError as error:
            yield Problem(place, 0, "", error.reason, error.hint or "")

    def quarantine(self, digest: Digest) -> None:
        """Set a blob aside so that nobody takes it for good."""
        folder = self.root / "quarantine"
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._place(digest), folder / hex_of(digest))  # noqa: PTH105 - a rename, no copy

    def quarantine_tree(self, name: str) -> None:
        """Set an unpacked layer aside; whoever works in it just now keeps it until he is done."""
        folder = self.root / "quarantine"
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (self.root / "trees" / _safe(name)).rename(folder / f"tree-{_safe(name)}.{os.urandom(4).hex()}")

    def set_aside(self) -> frozenset[tuple[str, int]]:
        """Return name and inode of every blob that was set aside: another call tells what came since."""
        try:
            with os.scandir(self.root / "quarantine") as entries:
                return frozenset((entry.name, entry.inode()) for entry in entries)
        except FileNotFoundError:
            return frozenset()

    def _open(self, path: Path, digest: Digest) -> IO[bytes]:
        return io.BufferedReader(BlobReader(path, digest, lambda: self.quarantine(digest)), BLOCK_BYTES)

    def _file(self, digest: Digest) -> Path:
        place = self._place(digest)
        if not place.is_file():
            self._import(digest)
        return place

    def _place(self, digest: Digest) -> Path:
        return self.root / "blobs" / "sha256" / hex_of(digest)

    def _places(self, digest: Digest) -> list[Path]:
        return [folder / "blobs" / "sha256" / hex_of(digest) for folder in (self.root, *self._inputs)]

    def _import(self, digest: Digest) -> None:
        """Take a blob from the first input whose bytes are right."""
        refused: IntegrityError | None = None
        for source in self._places(digest)[1:]:
            try:
                self._copy(source, digest)
            except FileNotFoundError:
                continue
            except IntegrityError as error:
                refused = IntegrityError(error.reason, where=str(source))
                continue
            return
        raise refused or WorldError(
            "the blob is not in the store", where=digest, hint="run the command that makes or fetches it"
        )

    def _copy(self, source: Path, digest: Digest) -> None:
        with source.open("rb", buffering=0) as stream, self.writer(digest) as out:
            while block := stream.read(BLOCK_BYTES):
                out.write(block)
            out.commit()

    def _name_place(self, kind: str, name: str) -> Path:
        return self.root / "names" / _safe(kind) / _safe(name)

    def _write_record(self, place: Path, data: bytes) -> None:
        temporary = Temporary(self._disk, self.root / "tmp")
        try:
            temporary.write(data)
            temporary.promote(place, _RECORD_MODE)
        finally:
            temporary.close()


def _safe(name: str) -> str:
    """Return a name as one part of a path."""
    if name in ("", ".", ".."):
        raise InputError(f"expected a name, found {name!r}", where="store")
    return quote(name, safe="@:+=")


def _read_file(path: Path) -> bytes | None:
    try:
        return read_file(path, limit=_RECORD_LIMIT_BYTES)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
