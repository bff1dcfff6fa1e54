"""Reads zip and tar archives as entries of a layer; nothing in an archive can leave the place that it is put in."""

from __future__ import annotations

import shutil
import stat
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from packager.base.errors import InputError
from packager.base.files import disk_trouble
from packager.oci.entries import Entry, Kind, check_path, dir_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

INLINE_BYTES = 4096
LIMIT_BYTES = 8 << 30
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Place:
    """Where an archive's files go: a path of the layer, a scratch directory for contents, and what is taken off names.

    `strip` leading directories are taken off; only names that start with `below` count. `where` is for complaints.
    """

    root: bytes
    scratch: Path
    strip: int = 0
    below: bytes = b""
    where: str = "archive"

    def path_of(self, name: bytes) -> bytes | None:
        """Return where a member goes, or None when it is not wanted."""
        plain = name.removeprefix(b"./").rstrip(b"/")
        if not plain or plain == b".":
            return None
        try:
            check_path(plain)
        except InputError as error:
            raise InputError(error.reason, where=f"{self.where}: {error.where}") from error
        if not plain.startswith(self.below):
            return None
        parts = plain.removeprefix(self.below).split(b"/")[self.strip :]
        return self.root + b"/" + b"/".join(parts) if parts else None


def keep_content(stream: IO[bytes], size: int, scratch: Path) -> Path | bytes:
    """Return a member's content: small ones as bytes, others as a file below `scratch` for the caller to delete."""
    if size <= INLINE_BYTES:
        return stream.read(size)
    with disk_trouble(scratch), tempfile.NamedTemporaryFile(dir=scratch, prefix="content-", delete=False) as kept:
        shutil.copyfileobj(stream, kept, _BLOCK_BYTES)
        if kept.tell() != size:
            raise InputError(f"expected {size} bytes in a member of an archive, found {kept.tell()}")
    return Path(kept.name)


def entries_of_zip(path: Path, place: Place) -> Iterator[Entry]:
    """Yield a zip's files with directories for all ancestors, in no particular order."""
    keeper = ContentKeeper(place)
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                yield from _zip_entries(archive, member, keeper)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise InputError(f"the zip file cannot be read: {error}", where=place.where) from error


def entries_of_tar(path: Path, place: Place) -> Iterator[Entry]:
    """Yield the files of a tar of any usual compression, owned by root, with directories for all ancestors."""
    keeper = ContentKeeper(place)
    try:
        with tarfile.open(path, "r:*", errors="surrogateescape") as archive:
            for member in archive:
                yield from _tar_entries(archive, member, keeper)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"the archive cannot be read: {error}", where=place.where) from error


class ContentKeeper:
    """Keeps contents on disk (small ones in memory) and remembers which directories and files were given."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.files: dict[bytes, Entry] = {}
        self._folders: set[bytes] = set()
        self._left = LIMIT_BYTES

    def ancestors(self, path: bytes) -> Iterator[Entry]:
        """Yield the directories above a path, from the place's root on, that were not given yet."""
        parts = path.split(b"/")
        for count in range(self.place.root.count(b"/") + 1, len(parts)):
            parent = b"/".join(parts[:count])
            if parent not in self._folders:
                self._folders.add(parent)
                yield dir_entry(parent)

    def file(self, path: bytes, stream: IO[bytes], *, size: int, mode: int) -> Entry:
        """Return a file's entry after keeping its content; twins and endless archives are refused."""
        if path in self.files:
            raise InputError(f"expected each path once, found twice: {_shown(path)}", where=self.place.where)
        self._left -= size
        if self._left < 0:
            raise InputError(f"expected at most {LIMIT_BYTES} bytes of files, found more", where=self.place.where)
        entry = Entry(
            path,
            Kind.FILE,
            0o755 if mode & 0o100 else 0o644,
            size=size,
            content=keep_content(stream, size, self.place.scratch),
        )
        self.files[path] = entry
        return entry

    def link(self, path: bytes, text: bytes) -> Entry:
        """Return a symbolic link's entry; one that leads out of the place is refused."""
        parts = path.split(b"/")[:-1]
        for part in text.split(b"/"):
            if part == b"..":
                parts = parts[:-1]
            elif part not in {b"", b"."}:
                parts.append(part)
        if text.startswith(b"/") or not (b"/".join(parts) + b"/").startswith(self.place.root + b"/"):
            raise InputError(f"a link leads out of the archive: {_shown(path)}", where=self.place.where)
        return Entry(path, Kind.SYMLINK, 0o777, link=text)


def _zip_entries(archive: zipfile.ZipFile, member: zipfile.ZipInfo, keeper: ContentKeeper) -> Iterator[Entry]:
    target = keeper.place.path_of(member.filename.encode())
    if target is None or member.is_dir():
        return
    yield from keeper.ancestors(target)
    mode = member.external_attr >> 16
    with archive.open(member) as stream:
        if stat.S_ISLNK(mode):
            yield keeper.link(target, stream.read(INLINE_BYTES))
        else:
            yield keeper.file(target, stream, size=member.file_size, mode=mode)


def _tar_entries(archive: tarfile.TarFile, member: tarfile.TarInfo, keeper: ContentKeeper) -> Iterator[Entry]:
    target = keeper.place.path_of(member.name.encode(errors="surrogateescape"))
    if target is None or member.isdir():
        return
    yield from keeper.ancestors(target)
    if member.issym():
        yield keeper.link(target, member.linkname.encode(errors="surrogateescape"))
    elif member.islnk():
        source = keeper.files.get(keeper.place.path_of(member.linkname.encode(errors="surrogateescape")) or b"")
        if source is None:
            raise InputError(f"a hard link to nothing: {_shown(target)}", where=keeper.place.where)
        yield replace(source, path=target)
    elif member.isfile():
        stream = cast("IO[bytes]", archive.extractfile(member))
        yield keeper.file(target, stream, size=member.size, mode=member.mode)
    else:
        raise InputError(f"expected files, directories and links, found {_shown(target)}", where=keeper.place.where)


def _shown(path: bytes) -> str:
    return ascii(path)[2:-1][:120]
