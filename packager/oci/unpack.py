"""Unpacks a layer into a directory and never touches anything outside it, whatever the layer says.

Every parent is opened without following links, from the target's own descriptor; files are made with O_EXCL. Hard
links become files of their own: a later layer that changes one name must not change another (engines differ there).
Every mtime becomes SOURCE_DATE_EPOCH, directories last.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, TypeVar

from packager.base.digests import BLOCK_BYTES
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.base.files import space_hint
from packager.oci.capability import ATTRIBUTE
from packager.oci.entries import SOURCE_DATE_EPOCH, Entry, Kind, show_path
from packager.oci.tar_reader import EntryReader, read_tar

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_LIMIT = 64 << 30
MAX_ENTRIES = 4_000_000

MAX_DEPTH = 200
MAX_REPLACED = 100
"""Folders that one layer makes and then replaces: each costs a look at all that was made, and no tool writes any."""

_CACHED_PARENTS = 64
_TIMES = (SOURCE_DATE_EPOCH * 10**9, SOURCE_DATE_EPOCH * 10**9)
_OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAKE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_A_DIRECTORY = (errno.ENOTDIR, errno.ELOOP)
_FIRST_USER_NAMESPACE = ["0", "0", "4294967295"]

Made = TypeVar("Made")


def unpack_layer(stream: IO[bytes], target: Path, *, overlay_whiteouts: bool, limit: int = DEFAULT_LIMIT) -> None:
    """Unpack a layer's tar into `target`, which exists.

    With `overlay_whiteouts`, deletions become what overlayfs reads (character devices 0:0, opaque attributes);
    without, they delete what earlier layers left in `target`. Owners are set by root only (of the user namespace).
    More than `limit` bytes of files raise IntegrityError.
    """
    with _Target(target, overlay_whiteouts=overlay_whiteouts, limit=limit) as place:
        for entry, reader in read_tar(stream):
            try:
                place.put(entry, reader)
            except OSError as error:
                raise _trouble(error, entry.path) from error
        place.finish()


class _Target:
    """The directory that is unpacked into, with descriptors of the parents last used.

    A descriptor that `_at` returned is good until the next call of `_at` or `_remove`.
    """

    def __init__(self, root: Path, *, overlay_whiteouts: bool, limit: int) -> None:
        self._root = os.open(root, _OPEN_DIR)
        self._overlay = overlay_whiteouts
        self._left = limit
        self._entries = 0
        self._owns = os.geteuid() == 0
        self._parents: dict[bytes, int] = {}
        self._directories: dict[bytes, Entry | None] = {}
        self._made: set[bytes] = set()
        self._cleared: set[bytes] = set()
        self._replaced = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget_parents()
        os.close(self._root)

    def put(self, entry: Entry, reader: EntryReader) -> None:
        """Write one entry."""
        self._entries += 1
        self._spend(reader.left, entry.path)
        kind = entry.kind
        if kind is Kind.FILE:
            self._file(entry, reader)
        elif kind is Kind.DIR:
            self._directory(entry)
        elif kind is Kind.SYMLINK:
            self._symlink(entry)
        elif kind is Kind.HARDLINK:
            self._copy(entry)
        elif kind is Kind.WHITEOUT:
            self._whiteout(entry)
            return
        else:
            self._clear(entry.path)
            return
        self._made.add(entry.path)

    def finish(self) -> None:
        """Give every directory its mode, owner and time, the innermost first."""
        for path in sorted(self._directories, key=lambda path: path.count(b"/"), reverse=True):
            entry = self._directories[path]
            parent, name = self._at(path)
            descriptor = _open_child(parent, name, path)
            try:
                if entry is not None:
                    self._settle(descriptor, entry)
                os.utime(descriptor, ns=_TIMES)
            except OSError as error:
                raise _trouble(error, path) from error
            finally:
                os.close(descriptor)
        os.fchmod(self._root, 0o755)
        os.utime(self._root, ns=_TIMES)

    def _spend(self, size: int, path: bytes) -> None:
        self._left -= size
        if self._left < 0 or self._entries > MAX_ENTRIES:
            raise IntegrityError("the layer unpacks to more than is allowed", where=show_path(path))

    def _file(self, entry: Entry, reader: EntryReader) -> None:
        descriptor = self._make(entry.path, _create)
        try:
            while reader.left:
                _write_all(descriptor, reader.read(BLOCK_BYTES))
            self._settle(descriptor, entry)
            os.utime(descriptor, ns=_TIMES)
        finally:
            os.close(descriptor)

    def _copy(self, entry: Entry) -> None:
        """Write a hard link as a file of its own."""
        if entry.link not in self._made or entry.link == entry.path:
            raise _bad_link(entry)
        parent, name = self._at(entry.link)
        try:
            source = os.open(name, _OPEN_FILE, dir_fd=parent)
        except OSError as error:
            raise _bad_link(entry) from error
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                raise _bad_link(entry)
            self._spend(status.st_size, entry.path)
            self._copy_from(source, status, entry.path)
        finally:
            os.close(source)

    def _copy_from(self, source: int, status: os.stat_result, path: bytes) -> None:
        capability = os.getxattr(source, ATTRIBUTE) if ATTRIBUTE in os.listxattr(source) else None
        mode = stat.S_IMODE(status.st_mode)
        same = Entry(path, Kind.FILE, mode, status.st_uid, status.st_gid, capability=capability)
        target = self._make(path, _create)
        try:
            while block := os.read(source, BLOCK_BYTES):
                _write_all(target, block)
            self._settle(target, same)
            os.utime(target, ns=_TIMES)
        finally:
            os.close(target)

    def _symlink(self, entry: Entry) -> None:
        self._make(entry.path, lambda parent, name: os.symlink(entry.link, name, dir_fd=parent))
        parent, name = self._at(entry.path)
        if self._owns:
            os.chown(name, entry.uid, entry.gid, dir_fd=parent, follow_symlinks=False)
        os.utime(name, ns=_TIMES, dir_fd=parent, follow_symlinks=False)

    def _directory(self, entry: Entry) -> None:
        parent, name = self._at(entry.path)
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            self._replace(entry.path)
        self._directories[entry.path] = entry

    def _replace(self, path: bytes) -> None:
        """Make a directory where something is; where that is a deletion of this layer, nothing may shine through."""
        parent, name = self._at(path)
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return
        self._remove(path)
        parent, name = self._at(path)
        os.mkdir(name, 0o700, dir_fd=parent)
        if self._overlay and stat.S_ISCHR(status.st_mode):
            self._clear(path)

    def _whiteout(self, entry: Entry) -> None:
        path = entry.path
        if path in self._made:
            if path in self._directories:
                self._clear(path)
        elif self._overlay:
            self._make(path, _make_whiteout)
            parent, name = self._at(path)
            os.utime(name, ns=_TIMES, dir_fd=parent, follow_symlinks=False)
        else:
            with contextlib.suppress(FileNotFoundError):
                self._remove(path)

    def _clear(self, path: bytes) -> None:
        """Hide what lower layers have in a directory."""
        if path in self._cleared:
            return
        self._cleared.add(path)
        descriptor = self._parent(path)
        if self._overlay:
            space = "trusted" if _in_first_user_namespace() else "user"
            os.setxattr(descriptor, f"{space}.overlay.opaque", b"y")
            return
        for name in [os.fsencode(name) for name in os.listdir(descriptor)]:  # noqa: PTH208 - a descriptor
            inner = path + b"/" + name if path else name
            if inner not in self._made:
                self._remove(inner)
            elif inner in self._directories:
                self._clear(inner)

    def _make(self, path: bytes, make: Callable[[int, bytes], Made]) -> Made:
        """Make something at a path; what is there already goes away."""
        parent, name = self._at(path)
        try:
            return make(parent, name)
        except FileExistsError:
            self._remove(path)
            return make(*self._at(path))

    def _settle(self, descriptor: int, entry: Entry) -> None:
        """Set owner, mode and capability, in this order: a change of owner takes the others away."""
        if self._owns:
            os.fchown(descriptor, entry.uid, entry.gid)
        os.fchmod(descriptor, entry.mode)
        if entry.capability is not None and self._owns:
            os.setxattr(descriptor, ATTRIBUTE, entry.capability)

    def _remove(self, path: bytes) -> None:
        """Delete whatever is at a path, without following links."""
        parent, name = self._at(path)
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return
        if path in self._directories:  # of others nothing was made here
            self._forget(path)
        import shutil  # noqa: PLC0415 - rarely needed

        shutil.rmtree(os.fsdecode(name), dir_fd=parent)
        self._forget_parents()

    def _forget(self, path: bytes) -> None:
        """Forget a folder of this layer and all that was made in it."""
        self._replaced += 1
        if self._replaced > MAX_REPLACED:
            raise InputError(f"expected at most {MAX_REPLACED} folders made twice, found more", where=show_path(path))
        below = path + b"/"
        for known in [known for known in self._directories if known == path or known.startswith(below)]:
            del self._directories[known]
        self._made = {known for known in self._made if not known.startswith(below)}

    def _at(self, path: bytes) -> tuple[int, bytes]:
        parent, _, name = path.rpartition(b"/")
        return self._parent(parent), name

    def _parent(self, path: bytes) -> int:
        """Return a descriptor of a directory inside the target; missing ones are made."""
        if not path:
            return self._root
        found = self._parents.get(path)
        if found is not None:
            return found
        if path.count(b"/") >= MAX_DEPTH:
            raise InputError(f"expected at most {MAX_DEPTH} directories inside each other", where=show_path(path))
        if len(self._parents) >= _CACHED_PARENTS:
            self._forget_parents()
        parent, name = self._at(path)
        try:
            descriptor = _open_child(parent, name, path)
        except FileNotFoundError:
            os.mkdir(name, 0o700, dir_fd=parent)
            self._directories[path] = Entry(path, Kind.DIR, 0o755)
            self._made.add(path)
            descriptor = _open_child(parent, name, path)
        self._parents[path] = descriptor
        self._directories.setdefault(path, None)
        return descriptor

    def _forget_parents(self) -> None:
        for descriptor in self._parents.values():
            os.close(descriptor)
        self._parents.clear()


def _open_child(parent: int, name: bytes, path: bytes) -> int:
    try:
        return os.open(name, _OPEN_DIR, dir_fd=parent)
    except OSError as error:
        if error.errno in _NOT_A_DIRECTORY:
            raise InputError("lies below something that is not a directory", where=show_path(path)) from error
        raise


def _create(parent: int, name: bytes) -> int:
    return os.open(name, _MAKE_FILE, 0o600, dir_fd=parent)


def _make_whiteout(parent: int, name: bytes) -> None:
    os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=parent)


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])


def _in_first_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split() == _FIRST_USER_NAMESPACE


def _bad_link(entry: Entry) -> InputError:
    return InputError(
        f"expected a hard link to an earlier file of the same layer, found {show_path(entry.link)}",
        where=show_path(entry.path),
    )


def _trouble(error: OSError, path: bytes) -> WorldError:
    return WorldError(f"cannot be unpacked: {error.strerror}", where=show_path(path), hint=space_hint(error))
