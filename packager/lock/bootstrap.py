"""Makes the base layer's first tree from pinned Debian packages: all files laid out, and a script to configure them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from packager.base.errors import InputError
from packager.lock.archives import keep_content
from packager.lock.deb import open_member
from packager.oci.entries import (
    Entry,
    Kind,
    check_path,
    dir_entry,
    file_entry,
    missing_ancestors,
    sort_key,
    symlink_entry,
)

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterable, Iterator, Sequence

DEBS = b".debs"
CONFIGURE_PATH = "/.debs/configure"
"""What is to be run in the laid-out tree: `/bin/sh /.debs/configure`, as root, with no network and no input."""

_MERGED = (b"bin", b"sbin", b"lib", b"lib64")

CONFIGURE_SCRIPT = """\
#!/bin/sh
# Configures the packages of /.debs in a tree where all their files lie already; leaves nothing that depends on the
# machine or the hour. The order is debootstrap's: base-passwd and base-files give the accounts that others need.
set -eu
umask 022
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TZ=UTC
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true
export SOURCE_DATE_EPOCH=315532800 PYTHONHASHSEED=0
[ -e /usr/bin/awk ] || ln -s mawk /usr/bin/awk
dpkg --force-depends,unsafe-io --no-triggers --install /.debs/base-passwd_*.deb
dpkg --force-depends,unsafe-io --no-triggers --install /.debs/base-files_*.deb
dpkg --force-depends,unsafe-io --no-triggers --unpack /.debs/*.deb
dpkg --force-unsafe-io --configure -a
audit=$(dpkg --audit)
[ -z "$audit" ] || { echo "$audit" >&2; exit 1; }

rm -rf /.debs /usr/sbin/policy-rc.d
rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid- /etc/.pwd.lock
rm -f /var/lib/dpkg/*-old /var/lib/dpkg/lock /var/lib/dpkg/lock-frontend /var/lib/dpkg/triggers/Lock
rm -f /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache /var/cache/apt/*.bin /var/lib/dbus/machine-id
rm -f /var/lib/systemd/random-seed /var/lib/systemd/credential.secret /var/lib/systemd/catalog/database
rm -rf /root/.cache /root/.gnupg /var/cache/man /var/cache/fontconfig
for folder in /var/log /var/cache/apt/archives /var/lib/apt/lists; do
    [ ! -d "$folder" ] || find "$folder" -type f -delete
done
for folder in /run /tmp /var/tmp; do
    find "$folder" -mindepth 1 -delete 2>/dev/null || true
done
: > /etc/machine-id
"""

MOUNT_POINTS = (b"etc/hostname", b"etc/hosts", b"etc/resolv.conf")
"""Files that every engine mounts something on; no step's change of them ever enters a layer."""

_SOURCES = "deb [trusted=yes] http://debian.invalid/debian {suite} main\n"
_APT_CONF = b"""\
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
"""
_POLICY = b"#!/bin/sh\n# no service is started while packages are configured\nexit 101\n"


@dataclass(frozen=True, order=True)
class Deb:
    """One package file: its name (`dpkg_1.21.22_amd64.deb`) and where its verified bytes are."""

    name: str
    path: Path


def bootstrap_entries(debs: Iterable[Deb], *, suite: str, scratch: Path) -> Iterator[Entry]:
    """Yield the tree in which CONFIGURE_PATH can run, sorted: all packages' files merged, and the packages themselves.

    Larger contents are kept below `scratch` until the caller has read them. Hard links are broken: dpkg makes them
    again. Of two packages that ship one path, the first in the order base-files, then by name, gives its mode.
    """
    ordered = sorted(debs, key=lambda deb: (not deb.name.startswith("base-files_"), deb.name))
    layout = _Layout(Path(tempfile.mkdtemp(dir=scratch, prefix="debs-")))
    for deb in ordered:
        layout.add_package(deb)
    layout.add_fixed(fixed_entries(suite))
    layout.add_fixed([dir_entry(DEBS, mode=0o700), *(_deb_entry(deb) for deb in ordered)])
    yield from layout.entries()


def fixed_entries(suite: str) -> Sequence[Entry]:
    """Return what every base has beside its packages: mount points, dpkg's empty state, apt's sources and settings."""
    folders = [b"dev", b"proc", b"sys", b"run", b"etc/apt/apt.conf.d", b"usr/sbin", b"var/lib/dpkg/info"]
    return [
        *(dir_entry(path) for path in folders),
        dir_entry(b"tmp", mode=0o1777),
        *(file_entry(path, b"") for path in (*MOUNT_POINTS, b"etc/machine-id")),
        *(file_entry(b"var/lib/dpkg/" + name, b"") for name in (b"available", b"diversions", b"status")),
        file_entry(b"etc/apt/sources.list", _SOURCES.format(suite=suite).encode()),
        file_entry(b"etc/apt/apt.conf.d/90wideswe", _APT_CONF),
        file_entry(b"usr/sbin/policy-rc.d", _POLICY, mode=0o755),
        file_entry(DEBS + b"/configure", CONFIGURE_SCRIPT.encode(), mode=0o755),
    ]


def _deb_entry(deb: Deb) -> Entry:
    size = deb.path.stat().st_size
    return Entry(DEBS + b"/" + deb.name.encode(), Kind.FILE, 0o644, size=size, content=deb.path)


class _Layout:
    """The files of many packages in one merged-/usr tree."""

    def __init__(self, spool: Path) -> None:
        self._spool = spool
        self._found: dict[bytes, Entry] = {name: symlink_entry(name, b"usr/" + name) for name in _MERGED}
        for name in (b"usr", *(b"usr/" + name for name in _MERGED)):
            self._found[name] = dir_entry(name)

    def add_package(self, deb: Deb) -> None:
        """Lay out the files of one package."""
        with open_member(deb.path, "data.tar") as archive:
            for member in archive:
                path = _merged_path(member.name, deb.name)
                if path:
                    self._add_member(archive, member, path, deb.name)

    def add_fixed(self, entries: Iterable[Entry]) -> None:
        """Add entries that replace files but leave directories as packages have them."""
        for entry in entries:
            if entry.kind is not Kind.DIR or entry.path not in self._found:
                self._found[entry.path] = entry

    def entries(self) -> list[Entry]:
        """Return everything in canonical order, with directories for all ancestors."""
        folders = [dir_entry(path) for path in missing_ancestors(self._found)]
        return sorted((*self._found.values(), *folders), key=sort_key)

    def _add_member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: bytes, where: str) -> None:
        plain = Entry(path, Kind.DIR, member.mode & 0o7777, member.uid, member.gid)
        if member.isdir():
            self._found.setdefault(path, plain)
        elif member.issym():
            link = member.linkname.encode(errors="surrogateescape")
            self._found[path] = replace(plain, kind=Kind.SYMLINK, mode=0o777, link=link)
        elif member.islnk():
            target = self._found.get(_merged_path(member.linkname, where))
            if target is None or target.kind is not Kind.FILE:
                raise InputError(f"a hard link to nothing: {member.name[:120]!r}", where=where)
            self._found[path] = replace(target, path=path)
        elif member.isfile():
            content = keep_content(cast("IO[bytes]", archive.extractfile(member)), member.size, self._spool)
            self._found[path] = replace(plain, kind=Kind.FILE, size=member.size, content=content)
        else:
            raise InputError(f"expected files, directories and links, found {member.name[:120]!r}", where=where)


def _merged_path(name: str, where: str) -> bytes:
    """Return a member's path in the merged tree; b"" for the root and for the directories that are links there."""
    path = name.encode(errors="surrogateescape").removeprefix(b"./").strip(b"/")
    if path in {b"", b".", *_MERGED}:
        return b""
    try:
        check_path(path)
    except InputError as error:
        raise InputError(error.reason, where=f"{where}: {error.where}") from error
    top, slash, _rest = path.partition(b"/")
    return b"usr/" + path if slash and top in _MERGED else path
