"""Reads the two archives inside a Debian package (deb(5)): what it says of itself, and its files."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import tarfile
from typing import IO, TYPE_CHECKING, cast

from packager.base.errors import InputError
from packager.lock.apt_sources import parse_stanzas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_CONTROL_BYTES = 1 << 20


class Section:
    """A part of a file as a readable stream: the bytes of one member of an ar archive."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, none at the member's end."""
        wanted = self._left if size < 0 else min(size, self._left)
        block = self._stream.read(wanted)
        self._left -= len(block)
        return block

    def readable(self) -> bool:
        """Say that this can be read."""
        return True

    def seekable(self) -> bool:
        """Say that this cannot go back."""
        return False


@contextlib.contextmanager
def open_member(path: Path, name: str) -> Iterator[tarfile.TarFile]:
    """Open `control.tar` or `data.tar` of a package, whatever its compression, to be read once from front to end."""
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise InputError("expected a Debian package, found no ar archive", where=path.name)
        found, section = _find_member(stream, name, path.name)
        with _decompressed(section, found.removeprefix(name), path.name) as plain:
            yield from _open_tar(plain, path.name)


def read_control(path: Path) -> dict[str, str]:
    """Return the fields of a package's control file, their names in lower case."""
    with open_member(path, "control.tar") as archive:
        for member in archive:
            if member.isfile() and member.name.lstrip("./") == "control" and member.size <= _CONTROL_BYTES:
                content = cast("IO[bytes]", archive.extractfile(member)).read()
                return next(parse_stanzas(content.decode(errors="replace")), {})
    raise InputError("expected a control file in the package, found none", where=path.name)


def _find_member(stream: IO[bytes], wanted: str, where: str) -> tuple[str, Section]:
    while True:
        header = stream.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or header[58:] != b"`\n" or not header[48:58].strip().isdigit():
            raise InputError(f"expected {wanted} in the package, found none", where=where)
        name, size = header[:16].decode(errors="replace").strip().rstrip("/"), int(header[48:58])
        if name == wanted or name.startswith(f"{wanted}."):
            return name, Section(stream, size)
        stream.seek(size + size % 2, 1)


def _decompressed(section: Section, suffix: str, where: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    stream = cast("IO[bytes]", section)
    if suffix == "":
        return contextlib.nullcontext(stream)
    if suffix == ".xz":
        return cast("contextlib.AbstractContextManager[IO[bytes]]", lzma.open(stream))
    if suffix == ".gz":
        return cast("contextlib.AbstractContextManager[IO[bytes]]", gzip.open(stream))
    if suffix == ".bz2":
        return cast("contextlib.AbstractContextManager[IO[bytes]]", bz2.open(stream))
    if suffix == ".zst":
        import zstandard  # noqa: PLC0415 - only some packages need it

        reader = zstandard.ZstdDecompressor().stream_reader(stream)
        return cast("contextlib.AbstractContextManager[IO[bytes]]", reader)
    raise InputError(f"expected xz, gz, bz2, zst or no compression, found {suffix[:20]!r}", where=where)


def _open_tar(stream: IO[bytes], where: str) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as archive:
            yield archive
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, _zstd_error()) as error:
        raise InputError(f"the package cannot be read: {error}", where=where) from error


def _zstd_error() -> type[Exception]:
    import zstandard  # noqa: PLC0415 - slow to import, and only asked for when something is wrong

    return zstandard.ZstdError
