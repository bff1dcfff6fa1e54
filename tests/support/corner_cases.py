"""Corner cases of the canonicaliser: trees as engines leave them, and the bytes (or the refusal) that each must give.

Run: python -m tests.support.corner_cases DIRECTORY   prints the digest of every case as JSON. Standard library only, so
that every Python can run it. Cases that make devices, owners or attributes are left out where one is not root.
"""
# Paths are bytes here, which pathlib has no place for:
# ruff: noqa: S103, PTH101, PTH102, PTH108, PTH109, PTH112, PTH120, PTH123, PTH211

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import socket
import stat
import struct
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.oci.capability import normalise_capability
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import Descriptor
from packager.oci.entries import Entry, InOrder, Kind, dir_entry, file_entry, symlink_entry
from packager.oci.layer import compressor
from packager.oci.manifest import (
    MEDIA_CONFIG,
    MEDIA_LAYER_ZSTD,
    MEDIA_MANIFEST,
    Index,
    Manifest,
    format_index,
    format_manifest,
)
from packager.oci.tar_reader import read_tar
from packager.oci.tar_writer import write_tar
from packager.oci.tree import diff_trees, scan_tree
from packager.oci.unpack import unpack_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NET_RAW = bytes.fromhex("0000000200200000000000000000000000000000")
SECOND_NS = 10**9


@dataclass(frozen=True)
class Case:
    """One corner: the rows of the checklist that it stands for, what makes its bytes, and whether that takes root."""

    rows: tuple[str, ...]
    make: Callable[[bytes], bytes]
    root: bool = False


def tar_of(entries: Iterable[Entry]) -> bytes:
    out = io.BytesIO()
    write_tar(entries, out.write)
    return out.getvalue()


def refusal_of(action: Callable[[], object]) -> bytes:
    """Return the whole text of a refusal; an action that is not refused gives nothing, which no golden file is."""
    try:
        action()
    except InputError as error:
        return f"{error}\n".encode()
    return b""


def put(place: bytes, data: bytes = b"", *, mode: int = 0o644) -> bytes:
    """Write a file, its directories too, with a mode that no umask changes."""
    folder(os.path.dirname(place))
    with open(place, "wb") as stream:
        stream.write(data)
    os.chmod(place, mode)
    return place


def folder(place: bytes, *, mode: int = 0o755) -> bytes:
    if not os.path.isdir(place):
        folder(os.path.dirname(place))
        os.mkdir(place)
        os.chmod(place, mode)
    return place


def roots(place: bytes) -> tuple[bytes, bytes, bytes]:
    """Make the lower, merged and upper folders of an overlay."""
    return folder(place + b"/lower"), folder(place + b"/merged"), folder(place + b"/upper")


def both(name: bytes, *places: bytes, data: bytes = b"") -> None:
    for place in places:
        put(place + b"/" + name, data)


def scanned(place: bytes) -> bytes:
    return tar_of(scan_tree(Path(os.fsdecode(place))))


def compared(place: bytes, *, upper: bool = False) -> bytes:
    lower, merged, above = (Path(os.fsdecode(place + name)) for name in (b"/lower", b"/merged", b"/upper"))
    return tar_of(diff_trees(lower, merged, upper=above if upper else None))


def whiteout(place: bytes) -> None:
    folder(os.path.dirname(place))
    os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))


def opaque(place: bytes) -> None:
    folder(place)
    os.setxattr(place, "trusted.overlay.opaque", b"y")


# A: the tar stream


def shuffled_order(place: bytes) -> bytes:
    names = [b"b", b"a.c", b"a/b", b"a-b", b"a b", b"Z", b"a/B", b"aa/x", b"a/b.c/d", b"%", b"~"]
    for seed in range(3):
        mixed = list(names)
        random.Random(seed).shuffle(mixed)
        for name in mixed:
            put(place + b"/%d/" % seed + name, name)
    found = {scanned(place + b"/%d" % seed) for seed in range(3)}
    assert len(found) == 1
    return found.pop()


def sub_second_and_far_times(place: bytes) -> bytes:
    times = (0, 1, int(1.5 * SECOND_NS), 315_532_799 * SECOND_NS, 2**31 * SECOND_NS, 4_102_444_800 * SECOND_NS + 1)
    for number, when in enumerate(times):
        os.utime(put(place + b"/f%d" % number), ns=(when, when))
        os.utime(folder(place + b"/d%d" % number), ns=(when, when))
        os.symlink(b"f0", place + b"/l%d" % number)
        os.utime(place + b"/l%d" % number, ns=(when, when), follow_symlinks=False)
    return scanned(place)


def directory_touched_from_inside(place: bytes) -> bytes:
    lower, merged, _ = roots(place)
    both(b"d/f", lower, merged)
    put(merged + b"/d/gone")
    os.unlink(merged + b"/d/gone")
    os.utime(merged + b"/d", ns=(1, 1))
    return compared(place)


def tar_with_times_of_its_own(_: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("./d/f")
        member.size, member.mtime, member.uname, member.gname = 1, 1.5, "someone", "somewhere"
        member.pax_headers = {"atime": "1.25", "ctime": "2.75", "comment": "who was here"}
        archive.addfile(member, io.BytesIO(b"x"))
    entries = []
    for entry, reader in read_tar(io.BytesIO(out.getvalue())):
        data = reader.read()
        entries.append(Entry(entry.path, entry.kind, entry.mode, entry.uid, entry.gid, len(data), content=data))
    return tar_of(entries)


def owners_on_disk(place: bytes) -> bytes:
    for uid, gid in ((0, 0), (65534, 65534), (2_097_151, 2_097_152), (3_000_000, 1), (4_294_967_294, 4_294_967_294)):
        os.chown(put(place + b"/%d" % uid), uid, gid)
    os.chown(folder(place + b"/d"), 1000, 3_000_000)
    os.symlink(b"x", place + b"/l")
    os.chown(place + b"/l", 3_000_000, 1000, follow_symlinks=False)
    return scanned(place)


def owner_out_of_range(_: bytes) -> bytes:
    return b"".join(
        refusal_of(lambda uid=uid: tar_of([Entry(b"f", Kind.FILE, 0o644, uid, 0, content=b"")]))  # type: ignore[misc]
        for uid in (-1, (1 << 32) - 1, 1 << 40)
    )


def mode_bits(place: bytes) -> bytes:
    for mode in (0, 0o777, 0o1777, 0o2755, 0o4755, 0o6711, 0o7777):
        put(place + b"/f%o" % mode, mode=mode)
        folder(place + b"/d%o" % mode, mode=mode | 0o700)
    return scanned(place)


def umask_of_whoever_unpacks(place: bytes) -> bytes:
    tar = tar_of([file_entry(b"d/f", b"x"), file_entry(b"d/run", b"x", mode=0o755), dir_entry(b"e", mode=0o711)])
    found = set()
    for mask in (0o022, 0o077, 0o777):
        before = os.umask(0)
        target = folder(place + b"/%o" % mask)
        os.umask(mask)
        unpack_layer(io.BytesIO(tar), Path(os.fsdecode(target)), overlay_whiteouts=False)
        os.umask(before)
        found.add(scanned(target))
    assert found == {tar}
    return tar


def long_names_on_disk(place: bytes) -> bytes:
    for length in (99, 100, 101, 155, 156, 255):
        put(place + b"/" + b"f" * length, b"x")
        os.symlink(b"t" * length, place + b"/l%d" % length)
    for total in (99, 100, 101, 155, 156, 255, 256, 257, 300):
        put(place + b"/" + (b"d" * 60 + b"/" + b"e" * 239)[:total], b"y")
    put(place + b"/" + b"p" * 155 + b"/" + b"n" * 100, b"fits exactly")
    put(place + b"/" + b"q" * 155 + b"/" + b"n" * 101, b"one too many")
    return scanned(place)


def records_in_order(_: bytes) -> bytes:
    entry = Entry(b"\xc3\xa9" * 60, Kind.FILE, 0o755, 3_000_000, 4_000_000, 2, capability=NET_RAW, content=b"hi")
    return tar_of([entry, symlink_entry(b"l" * 101, b"\xff" * 101)])


def names_of_other_bytes(place: bytes) -> bytes:
    names = (
        b"caf\xe9",
        "café".encode(),
        "cafe\u0301".encode(),
        b"\x01",
        b"a\nb",
        b"\xff\xfe",
        "日本".encode(),
        b"-",
        b"\\",
    )
    for name in names:
        put(place + b"/" + name, name)
    os.symlink(b"caf\xe9", place + b"/to")
    return scanned(place)


def linked_across_directories(place: bytes) -> bytes:
    first = put(place + b"/z/last", b"data", mode=0o640)
    for name in (b"/m/middle", b"/a/first", b"/z/twin"):
        folder(os.path.dirname(place + name))
        os.link(first, place + name)
    return scanned(place)


def one_of_two_links_changes(place: bytes) -> bytes:
    lower, merged, _ = roots(place)
    tar = tar_of([file_entry(b"links/one", b"a\n"), Entry(b"links/two", Kind.HARDLINK, link=b"links/one")])
    for target in (lower, merged):
        unpack_layer(io.BytesIO(tar), Path(os.fsdecode(target)), overlay_whiteouts=True)
    with open(merged + b"/links/one", "ab") as stream:
        stream.write(b"more\n")
    return compared(place)


def whiteouts_that_share_an_inode(place: bytes) -> bytes:
    lower, _, upper = roots(place)
    both(b"d/one", lower)
    both(b"d/two", lower)
    folder(place + b"/merged/d")
    whiteout(upper + b"/d/one")
    os.link(upper + b"/d/one", upper + b"/d/two")
    return compared(place, upper=True)


def sparse_file(place: bytes) -> bytes:
    with open(put(place + b"/sparse"), "wb") as stream:
        stream.truncate(100_000)
        stream.seek(50_000)
        stream.write(b"island")
    return scanned(place)


def huge_sparse_file(place: bytes) -> bytes:
    with open(put(place + b"/home/faillog"), "wb") as stream:
        stream.truncate(600 << 30)
    return refusal_of(lambda: scanned(place))


def attributes_dropped(place: bytes) -> bytes:
    for name in (b"/f", b"/g"):
        put(place + name, b"x")
        marks = [("user.b", b"2"), ("user.a", b"1"), ("trusted.overlay.origin", b"o"), ("user.overlay.impure", b"y")]
        for key, value in marks if name == b"/f" else reversed(marks):
            os.setxattr(place + name, key, value)
        os.setxattr(place + name, "security.capability", NET_RAW)
    return scanned(place)


def capabilities(place: bytes) -> bytes:
    os.setxattr(put(place + b"/two", b"x", mode=0o755), "security.capability", NET_RAW)
    os.setxattr(put(place + b"/chowned", b"x"), "security.capability", NET_RAW)
    os.chown(place + b"/chowned", 7, 7)  # takes the capability away, as the kernel does
    return scanned(place)


def capability_of_another_root(_: bytes) -> bytes:
    ours, theirs = (struct.pack("<6I", 0x03000000, 0x2000, 0, 0, 0, root) for root in (0, 1000))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("f")
        member.pax_headers = {"SCHILY.xattr.security.capability": ours.decode("latin-1")}
        archive.addfile(member)
    (found,) = [entry for entry, _ in read_tar(io.BytesIO(out.getvalue()))]
    assert found.capability == NET_RAW
    return refusal_of(lambda: normalise_capability(theirs, where="f"))


def socket_dropped(place: bytes) -> bytes:
    put(place + b"/f")
    here = os.getcwd()
    os.chdir(place)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    os.chdir(here)
    return scanned(place)


def pipe_refused(place: bytes) -> bytes:
    os.mkfifo(place + b"/pipe")
    return refusal_of(lambda: scanned(place))


def devices_refused(place: bytes) -> bytes:
    found = b""
    for kind in (stat.S_IFCHR, stat.S_IFBLK):
        os.mknod(place + b"/device", kind | 0o600, os.makedev(1, 3))
        found += refusal_of(lambda: scanned(place))
        os.unlink(place + b"/device")
    return found


def canonical_paths(_: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("./", "./d/", "./d/f"):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.mode = 0o755 if name.endswith("/") else 0o644
            archive.addfile(member)
    entries = [entry for entry, _ in read_tar(io.BytesIO(out.getvalue()))]
    return tar_of(Entry(one.path, one.kind, one.mode, content=b"") for one in entries)


def paths_refused(_: bytes) -> bytes:
    paths = (b"", b"/a", b"a/", b"a//b", b"./a", b"a/../b", b"a\0b", b".", b"..")
    refused = [refusal_of(lambda path=path: tar_of([file_entry(path, b"")])) for path in paths]  # type: ignore[misc]
    twice = refusal_of(lambda: tar_of([file_entry(b"a", b""), dir_entry(b"a")]))
    order = refusal_of(lambda: tar_of(InOrder(iter([file_entry(b"b", b""), file_entry(b"a", b"")]))))
    return b"".join([*refused, twice, order])


def empty_end(_: bytes) -> bytes:
    return tar_of([])


def whiteout_names_refused(place: bytes) -> bytes:
    found = b""
    for name in (b".wh.foo", b".wh.", b".wh..wh..opq", b"d/.wh..wh.aufs"):
        path = put(place + b"/" + name)
        found += refusal_of(lambda: scanned(place))
        os.unlink(path)
    return found + refusal_of(lambda: tar_of([dir_entry(b"d/.wh.x")]))


# B: the tree as an engine left it


def opaque_directory(place: bytes) -> bytes:
    lower, merged, upper = roots(place)
    for name in (b"d/old", b"d/kept", b"d/sub/deep", b"e/same"):
        both(name, lower)
    both(b"d/kept", merged, upper)
    both(b"d/new", merged, upper, data=b"n")
    both(b"e/same", merged)
    opaque(upper + b"/d")
    return compared(place, upper=True)


def deleted_and_added_again(place: bytes) -> bytes:
    lower, merged, upper = roots(place)
    both(b"d/f", lower, data=b"old")
    both(b"d/gone", lower)
    both(b"d/f", merged, upper, data=b"new")
    whiteout(upper + b"/d/gone")
    return compared(place, upper=True)


def kinds_change(place: bytes) -> bytes:
    lower, merged, upper = roots(place)
    both(b"file-to-folder", lower)
    both(b"folder-to-file/inner", lower)
    both(b"link-to-folder-target", lower)
    os.symlink(b"folder-to-file", lower + b"/link-to-folder")
    both(b"file-to-link", lower)
    for tree in (merged, upper):
        put(tree + b"/file-to-folder/inner", b"i")
        put(tree + b"/folder-to-file", b"f")
        put(tree + b"/link-to-folder/inner", b"l")
        os.symlink(b"nowhere", tree + b"/file-to-link")
    both(b"link-to-folder-target", merged)
    for name in (b"/file-to-folder", b"/link-to-folder"):
        opaque(upper + name)
    return compared(place, upper=True)


def kinds_change_without_an_upper_tree(place: bytes) -> bytes:
    made = kinds_change(place)
    assert compared(place) == made
    return made


def redirects_refused(place: bytes) -> bytes:
    found = b""
    for number, name in enumerate(("redirect", "metacopy")):
        here = place + b"/%d" % number
        roots(here)
        os.setxattr(folder(here + b"/upper/d"), f"trusted.overlay.{name}", b"/x")
        folder(here + b"/merged/d")
        folder(here + b"/lower/d")
        text = refusal_of(lambda here=here: compared(here, upper=True))  # type: ignore[misc]
        found += text.replace(here + b"/upper", b"(upper)")
    return found


def mount_stubs_dropped(place: bytes) -> bytes:
    lower, merged, _ = roots(place)
    both(b"etc/kept", lower, merged)
    for name in (b"etc/hostname", b"etc/hosts", b"etc/resolv.conf", b".dockerenv", b"etc/mtab"):
        put(merged + b"/" + name, mode=0o755)
    put(merged + b"/etc/new")
    return compared(place)


def devices_written_as_files_dropped(place: bytes) -> bytes:
    for name in (b"dev/null", b"proc/x", b"sys/x", b"run/x", b"tmp/x", b"var/tmp/x"):
        put(place + b"/" + name, b"some output")
    os.chmod(place + b"/tmp", 0o1777)
    return scanned(place)


def unchanged_copies_dropped(place: bytes) -> bytes:
    lower, merged, upper = roots(place)
    for name, data in ((b"d/same", b"1"), (b"d/other", b"22"), (b"d/mode", b"3")):
        both(name, lower, data=data)
        both(name, merged, upper, data=b"23" if name == b"d/other" else data)
    for tree in (merged, upper):
        os.utime(tree + b"/d/same", ns=(5, 5))
        os.chmod(tree + b"/d/mode", 0o600)
    return compared(place, upper=True)


def parents_come_along(place: bytes) -> bytes:
    lower, merged, _ = roots(place)
    for tree in (lower, merged):
        folder(folder(tree + b"/a", mode=0o1777) + b"/b", mode=0o2750)
    put(merged + b"/a/b/new", b"n")
    return compared(place)


def folder_renamed(place: bytes) -> bytes:
    lower, merged, upper = roots(place)
    both(b"old/f", lower, data=b"x")
    both(b"new/f", merged, upper, data=b"x")
    whiteout(upper + b"/old")
    made = compared(place, upper=True)
    assert compared(place) == made
    return made


# C and D: compression, and the documents of an image


def gzip_stream(_: bytes) -> bytes:
    packer = compressor("gzip")
    return (packer.compress(b"layer " * 1000) + packer.flush())[:10].hex().encode()


def image_documents(_: bytes) -> bytes:
    diff_id = "sha256:" + "1" * 64
    env, labels = ("B=<2>&", "A=é"), {"z": "1", "a": "2"}
    config = format_config(ImageConfig("amd64", (diff_id, diff_id), env=env, labels=labels, cmd=("sh",)))  # type: ignore[arg-type]
    rows = tuple(Descriptor(MEDIA_LAYER_ZSTD, diff_id, size) for size in (2, 1))  # type: ignore[arg-type]
    manifest = Manifest(Descriptor(MEDIA_CONFIG, diff_id, 3), rows, annotations={"y": "2", "x": "1"})  # type: ignore[arg-type]
    index = Index((Descriptor(MEDIA_MANIFEST, diff_id, 4, annotations={"b": "1", "a": "2"}),))  # type: ignore[arg-type]
    return b"\n".join((config, format_manifest(manifest), format_index(index)))


# E: what an operating system leaves behind

STATE = (
    b"var/cache/ldconfig/aux-cache",
    b"var/log/dpkg.log",
    b"var/log/apt/history.log",
    b"etc/shadow-",
    b"etc/passwd-",
    b"etc/group-",
    b"etc/gshadow-",
    b"etc/subuid-",
    b"etc/subgid-",
    b"etc/.pwd.lock",
    b"var/lib/dpkg/status-old",
    b"var/lib/dpkg/lock",
    b"var/lib/dpkg/lock-frontend",
    b"var/lib/dpkg/triggers/Lock",
    b"var/lib/apt/lists/x_InRelease",
    b"var/cache/apt/pkgcache.bin",
    b"etc/hostname",
    b"etc/hosts",
    b"etc/resolv.conf",
    b"run/mount/utab",
    b"var/cache/debconf/config.dat-old",
)


def state_dropped(place: bytes) -> bytes:
    for name in STATE:
        put(place + b"/" + name, b"of this machine")
    put(place + b"/var/lib/dpkg/status", b"kept")
    return scanned(place)


CASES: dict[str, Case] = {
    "shuffled-order": Case(("A1", "J7"), shuffled_order),
    "times": Case(("A3", "A4"), sub_second_and_far_times),
    "touched-directory": Case(("A5", "B10"), directory_touched_from_inside),
    "foreign-times": Case(("A6", "A8"), tar_with_times_of_its_own),
    "owners": Case(("A7",), owners_on_disk, root=True),
    "owner-refused": Case(("A7",), owner_out_of_range),
    "mode-bits": Case(("A9",), mode_bits),
    "umask": Case(("A10",), umask_of_whoever_unpacks),
    "long-names": Case(("A11", "A12"), long_names_on_disk),
    "records": Case(("A12", "A13"), records_in_order),
    "other-bytes": Case(("A14",), names_of_other_bytes),
    "links-across": Case(("A15",), linked_across_directories),
    "link-of-lower": Case(("A16",), one_of_two_links_changes),
    "linked-whiteouts": Case(("A17",), whiteouts_that_share_an_inode, root=True),
    "sparse": Case(("A18",), sparse_file),
    "sparse-huge": Case(("A18",), huge_sparse_file),
    "attributes": Case(("A13", "A19"), attributes_dropped, root=True),
    "capabilities": Case(("A20",), capabilities, root=True),
    "capability-refused": Case(("A20",), capability_of_another_root),
    "socket": Case(("A21",), socket_dropped),
    "pipe-refused": Case(("A21",), pipe_refused),
    "devices-refused": Case(("A21",), devices_refused, root=True),
    "paths": Case(("A22",), canonical_paths),
    "paths-refused": Case(("A22",), paths_refused),
    "end": Case(("A23",), empty_end),
    "whiteout-names": Case(("A25",), whiteout_names_refused),
    "opaque": Case(("A2", "B1"), opaque_directory, root=True),
    "again": Case(("A2", "B1"), deleted_and_added_again, root=True),
    "kinds": Case(("B1",), kinds_change, root=True),
    "kinds-compared": Case(("B1",), kinds_change_without_an_upper_tree, root=True),
    "redirects-refused": Case(("B2",), redirects_refused, root=True),
    "stubs": Case(("B3", "E10"), mount_stubs_dropped),
    "devices-as-files": Case(("B4", "E11"), devices_written_as_files_dropped),
    "unchanged": Case(("B5",), unchanged_copies_dropped),
    "parents": Case(("B6",), parents_come_along),
    "renamed": Case(("B7",), folder_renamed, root=True),
    "gzip-header": Case(("C1",), gzip_stream),
    "documents": Case(("D",), image_documents),
    "state": Case(("E2", "E4", "E5", "E7", "E8", "E10", "E11", "E24"), state_dropped),
}


def digests(place: Path) -> dict[str, str]:
    """Return the digest of every case that this user can make."""
    found = {}
    for name, case in CASES.items():
        if case.root and os.geteuid() != 0:
            continue
        (place / name).mkdir()
        found[name] = hashlib.sha256(case.make(os.fsencode(place / name))).hexdigest()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests(Path(sys.argv[1]))))
