"""OCI image layouts that anybody may have written, as one tar or a folder: what lies in them, and how long it is.

Nothing is believed: links, other kinds of files, names that have no place in a layout and names that come twice are
refused (a folder's links are not followed), and whoever reads a blob has to hash it (image-spec, image-layout.md).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
from typing import IO, TYPE_CHECKING, Protocol

from packager.base.digests import Digest, hex_of
from packager.base.errors import InputError, IntegrityError
from packager.oci.entries import Kind, show_path
from packager.oci.tar_reader import read_tar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from _typeshed import WriteableBuffer

REF_NAME = "org.opencontainers.image.ref.name"
CONTAINERD_NAME = "io.containerd.image.name"
LAYOUT_FILE = "oci-layout"
INDEX_FILE = "index.json"
DOCKER_FILE = "manifest.json"
BLOBS = "blobs/sha256/"
LAYOUT_BYTES = b'{"imageLayoutVersion":"1.0.0"}'
LAYOUT_VERSION = "1.0.0"

MAX_FILES = 200_000
_NAME = re.compile(r"oci-layout|index\.json|manifest\.json|blobs/sha256/[0-9a-f]{64}", re.ASCII)
_FOLDERS = ("blobs", "blobs/sha256")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Layout(Protocol):
    """The files of a layout by name, with their sizes."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes by name."""

    def open(self, name: str) -> IO[bytes]:
        """Open one of them; it ends after its size, or raises IntegrityError if it is shorter."""


def blob_name(digest: Digest) -> str:
    """Return the name of a blob's file."""
    return BLOBS + hex_of(digest)


def read_small(layout: Layout, name: str, *, limit: int) -> bytes:
    """Return the bytes of a file; one that is missing or larger than `limit` is an InputError."""
    size = layout.sizes.get(name)
    if size is None:
        raise InputError(f"expected an OCI layout, found no {name}", where="layout")
    if size > limit:
        raise InputError(f"expected at most {limit} bytes, found {size}", where=name)
    with layout.open(name) as stream:
        return stream.read()


@contextlib.contextmanager
def open_layout(path: Path) -> Iterator[Layout]:
    """Open a layout: a folder, or else a tar; its files are looked through, but not read."""
    if path.is_dir():
        yield _Folder(path)
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError("expected a file or a folder, found something else", where=str(path))
        yield _Tar(stream)


class _Tar:
    """A layout in a tar."""

    def __init__(self, stream: io.FileIO) -> None:
        self._stream = stream
        self._length = os.fstat(stream.fileno()).st_size
        self._starts: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        for entry, _ in read_tar(stream, skip=self._pass_over):
            name = show_path(entry.path)
            if entry.kind is Kind.DIR and name in _FOLDERS:
                continue
            if entry.kind is not Kind.FILE:
                raise InputError("expected files and directories only", where=name)
            _add(self.sizes, name, entry.size)
            self._starts[name] = stream.tell()

    def open(self, name: str) -> IO[bytes]:
        piece = _Piece(os.dup(self._stream.fileno()), self._starts[name], self.sizes[name], name)
        return io.BufferedReader(piece, 1 << 20)

    def _pass_over(self, stream: IO[bytes], count: int) -> None:
        if stream.tell() + count > self._length:
            raise IntegrityError("the tar ends inside a file", where="layer")
        stream.seek(count, os.SEEK_CUR)


class _Folder:
    """A layout in a folder; what changes in it later is met as a file of another size or digest."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.sizes: dict[str, int] = {}
        for path in sorted(_walk(root)):
            _add(self.sizes, path.relative_to(root).as_posix(), path.lstat().st_size)

    def open(self, name: str) -> IO[bytes]:
        path = self._root / name
        try:
            descriptor = os.open(path, _READ)
        except OSError as error:
            raise InputError(f"cannot be read as a plain file: {error.strerror}", where=name) from error
        return io.BufferedReader(_Piece(descriptor, 0, self.sizes[name], name), 1 << 20)


def _walk(root: Path) -> Iterator[Path]:
    for folder in (root, *(root / name for name in _FOLDERS)):
        if folder != root and (folder.is_symlink() or not folder.is_dir()):
            raise InputError("expected a folder, found something else", where=folder.relative_to(root).as_posix())
        for path in folder.iterdir():
            name = path.relative_to(root).as_posix()
            if stat.S_ISREG(path.lstat().st_mode):
                yield path
            elif name not in _FOLDERS:
                raise InputError("expected files and directories only", where=name)


def _add(sizes: dict[str, int], name: str, size: int) -> None:
    if _NAME.fullmatch(name) is None:
        raise InputError("has no place in an OCI layout", where=name[:200])
    if name in sizes:
        raise InputError("is there twice: tools would disagree about which one counts", where=name)
    if len(sizes) == MAX_FILES:
        raise InputError(f"expected at most {MAX_FILES} files, found more", where="layout")
    sizes[name] = size


class _Piece(io.RawIOBase):
    """A range of a file, read by position, so that several can be open at once; owns its descriptor."""

    def __init__(self, descriptor: int, start: int, size: int, name: str) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._position = start
        self._left = size
        self._name = name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")[: self._left]
        count = os.preadv(self._descriptor, [view], self._position) if view else 0
        if view and not count:
            raise IntegrityError(f"ends {self._left} bytes early", where=self._name)
        self._position += count
        self._left -= count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
