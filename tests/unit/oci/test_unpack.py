from __future__ import annotations

import io
import os
import stat
import struct
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, IntegrityError
from packager.oci.entries import SOURCE_DATE_EPOCH, Entry, Kind, dir_entry, file_entry, symlink_entry
from packager.oci.layer import unpack_layer
from packager.oci.tar_writer import pax_record, write_tar
from packager.oci.tree import diff_trees, scan_tree
from tests.support.raw_tar import END, pax, raw_file, raw_header, seal_header

if TYPE_CHECKING:
    from pathlib import Path

CAPABILITY = struct.pack("<5I", 0x02000001, 0x2000, 0, 0, 0)

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may set owners and make whiteouts here")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("untouched")
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def tar_of(*entries: Entry) -> bytes:
    blocks: list[bytes] = []
    write_tar(entries, blocks.append)
    return b"".join(blocks)


def unpack(data: bytes, target: Path, *, overlay: bool = False, limit: int = 1 << 20) -> None:
    unpack_layer(io.BytesIO(data), target, overlay_whiteouts=overlay, limit=limit)


def shape(root: Path) -> dict[str, object]:
    """Every path below a directory and what it is."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = "dir" if path.is_dir() else "device"
    return found


def test_what_is_written_comes_out_again(target: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "d/e").mkdir(parents=True)
    (source / "d/e/file").write_bytes(b"x" * 3_000_000)
    (source / os.fsdecode(b"caf\xe9")).write_bytes(b"")
    (source / "link").symlink_to("../../etc/passwd")
    (source / "d").chmod(0o1777)
    (source / "d/e").chmod(0o555)
    (source / "d/e/file").chmod(0o4755)
    unpack(tar_of(*scan_tree(source)), target, limit=4_000_000)
    assert diff_trees(source, target) == []
    assert shape(source) == shape(target)


@pytest.mark.parametrize("overlay", [False, True])
def test_everything_gets_the_one_time_directories_too(target: Path, overlay: bool) -> None:
    unpack(tar_of(file_entry(b"a/b/c", b"x"), symlink_entry(b"a/l", b"b"), dir_entry(b"e")), target, overlay=overlay)
    paths = [target, *target.rglob("*")]
    assert {path.lstat().st_mtime for path in paths} == {SOURCE_DATE_EPOCH}
    assert len(paths) == 6


@root_only
def test_owners_modes_and_capabilities_are_set(target: Path) -> None:
    unpack(
        tar_of(
            Entry(b"d", Kind.DIR, 0o2750, 1, 2),
            Entry(b"d/f", Kind.FILE, 0o6755, 3, 4, 1, capability=CAPABILITY, content=b"x"),
            Entry(b"l", Kind.SYMLINK, 0o777, 5, 6, link=b"d"),
        ),
        target,
    )
    said = [
        (path.lstat().st_uid, path.lstat().st_gid, stat.S_IMODE(path.lstat().st_mode)) for path in target.rglob("*")
    ]
    assert sorted(said) == [(1, 2, 0o2750), (3, 4, 0o6755), (5, 6, 0o777)]
    assert os.getxattr(target / "d/f", "security.capability") == CAPABILITY


def test_hard_links_become_files_of_their_own(target: Path) -> None:
    unpack(tar_of(Entry(b"b", Kind.HARDLINK, link=b"a"), Entry(b"a", Kind.FILE, 0o755, size=3, content=b"abc")), target)
    assert shape(target) == {"a": b"abc", "b": b"abc"}
    assert (target / "a").stat().st_ino != (target / "b").stat().st_ino
    assert stat.S_IMODE((target / "b").stat().st_mode) == 0o755


@root_only
def test_whiteouts_become_overlay_devices(target: Path) -> None:
    unpack(tar_of(Entry(b"d/gone", Kind.WHITEOUT)), target, overlay=True)
    status = (target / "d/gone").lstat()
    assert (stat.S_ISCHR(status.st_mode), status.st_rdev) == (True, 0)


@root_only
def test_opaque_directories_of_other_tools_become_overlay_attributes(target: Path) -> None:
    unpack(raw_header(b"d/", b"5") + raw_file(b"d/.wh..wh..opq") + END, target, overlay=True)
    assert os.getxattr(target / "d", "trusted.overlay.opaque") == b"y"


@root_only
@pytest.mark.parametrize("whiteout_first", [True, False])
def test_a_directory_deleted_and_made_again_in_one_layer_hides_the_lower_one(
    target: Path, whiteout_first: bool
) -> None:
    parts = [raw_file(b".wh.d"), raw_header(b"d/", b"5") + raw_file(b"d/new", b"n")]
    unpack(b"".join(parts if whiteout_first else reversed(parts)) + END, target, overlay=True)
    assert shape(target) == {"d": "dir", "d/new": b"n"}
    assert os.getxattr(target / "d", "trusted.overlay.opaque") == b"y"


def test_without_overlay_deletions_delete_what_lower_layers_left(target: Path) -> None:
    unpack(tar_of(file_entry(b"d/a", b"1"), file_entry(b"d/b", b"2"), file_entry(b"e/c", b"3")), target)
    unpack(tar_of(Entry(b"d/a", Kind.WHITEOUT), Entry(b"e", Kind.WHITEOUT), Entry(b"never", Kind.WHITEOUT)), target)
    assert shape(target) == {"d": "dir", "d/b": b"2"}


@pytest.mark.parametrize("opaque_first", [True, False])
def test_an_opaque_directory_deletes_only_what_lower_layers_left(target: Path, opaque_first: bool) -> None:
    unpack(tar_of(file_entry(b"d/old/x", b"1"), file_entry(b"d/sub/y", b"2")), target)
    parts = [raw_file(b"d/.wh..wh..opq"), raw_header(b"d/sub/", b"5") + raw_file(b"d/sub/new", b"n")]
    unpack(b"".join(parts if opaque_first else reversed(parts)) + END, target)
    assert shape(target) == {"d": "dir", "d/sub": "dir", "d/sub/new": b"n"}


def test_an_upper_layer_replaces_files_links_and_directories(target: Path) -> None:
    unpack(tar_of(file_entry(b"a", b"1"), symlink_entry(b"l", b"../outside"), file_entry(b"d/x", b"2")), target)
    unpack(tar_of(dir_entry(b"a"), file_entry(b"l", b"now a file"), symlink_entry(b"d", b"a")), target)
    assert shape(target) == {"a": "dir", "l": b"now a file", "d": "-> a"}
    assert (target.parent / "outside").read_text() == "untouched"


def test_a_layer_of_another_tool_with_dots_and_slashes_is_read(target: Path) -> None:
    data = raw_header(b"./", b"5") + raw_header(b"./d/", b"5", mode=0o700) + raw_file(b"./d/f", b"x")
    long = b"n" * 180
    gnu = raw_header(b"././@LongLink", b"L", size=181) + (long + b"\0").ljust(512, b"\0") + raw_file(b"cut", b"y")
    unpack(data + gnu + bytes(10240), target)
    assert shape(target) == {"d": "dir", "d/f": b"x", os.fsdecode(long): b"y"}


PLAIN = "expected a plain path inside the layer"
BELOW = "lies below something that is not a directory"
LINK = "expected a hard link to an earlier file of the same layer"
KINDS = "expected files, directories and links, found"
DELETES = "expected the name that a whiteout deletes"
UP = raw_header(b"l", b"2", link=b"..")

ESCAPES: dict[str, tuple[bytes, str]] = {
    "absolute": (raw_file(b"/outside", b"!"), PLAIN),
    "parent": (raw_file(b"../outside", b"!"), PLAIN),
    "parent inside": (raw_file(b"d/../../outside", b"!"), PLAIN),
    "final parent": (raw_header(b"d/..", b"5"), PLAIN),
    "double slash": (raw_file(b"d//x", b"!"), PLAIN),
    "pax path": (pax(pax_record(b"path", b"../outside")) + raw_file(b"innocent", b"!"), PLAIN),
    "pax absolute": (pax(pax_record(b"path", b"/outside")) + raw_file(b"innocent", b"!"), PLAIN),
    "nul": (pax(pax_record(b"path", b"a\0b")) + raw_file(b"x"), PLAIN),
    "too long": (pax(pax_record(b"path", b"x" * 4097)) + raw_file(b"x"), PLAIN),
    "through a link": (UP + raw_file(b"l/outside", b"!"), BELOW),
    "through an absolute link": (raw_header(b"l", b"2", link=b"/") + raw_file(b"l/x", b"!"), BELOW),
    "through two links": (
        UP + raw_header(b"b", b"2", link=b"l/outside") + raw_file(b"l/outside", b"!"),
        BELOW,
    ),
    "directory through a link": (UP + raw_header(b"l/d", b"5"), BELOW),
    "hard link outside": (raw_header(b"h", b"1", link=b"../outside"), PLAIN),
    "hard link absolute": (raw_header(b"h", b"1", link=b"/etc/passwd"), PLAIN),
    "hard link to the root": (
        raw_header(b"h", b"1", link=b"."),
        "expected a hard link to a file, found one to the root",
    ),
    "hard link through a link": (UP + raw_header(b"h", b"1", link=b"l/outside"), LINK),
    "hard link to a link": (raw_header(b"l", b"2", link=b"../outside") + raw_header(b"h", b"1", link=b"l"), LINK),
    "hard link to itself": (raw_file(b"h") + raw_header(b"h", b"1", link=b"h"), LINK),
    "hard link to nothing": (raw_header(b"h", b"1", link=b"gone"), LINK),
    "whiteout outside": (raw_file(b"../.wh.outside"), PLAIN),
    "whiteout of the parent": (raw_file(b".wh..."), DELETES),
    "whiteout of itself": (raw_file(b"d/.wh.."), DELETES),
    "whiteout of nothing": (raw_file(b".wh."), DELETES),
    "whiteout through a link": (UP + raw_file(b"l/.wh.outside"), BELOW),
    "opaque through a link": (UP + raw_file(b"l/.wh..wh..opq"), BELOW),
    "character device": (raw_header(b"null", b"3"), KINDS + " a character device"),
    "block device": (raw_header(b"sda", b"4"), KINDS + " a block device"),
    "pipe": (raw_header(b"pipe", b"6"), KINDS + " a named pipe"),
    "sparse": (raw_header(b"s", b"S"), KINDS + " a sparse file"),
    "pax sparse": (pax(pax_record(b"GNU.sparse.major", b"1")) + raw_file(b"s"), KINDS + " a sparse file"),
    "unknown type": (raw_header(b"x", b"Z"), KINDS + " the type b'Z'"),
    "global path": (pax(pax_record(b"path", b"x"), b"g"), "a global extended header may not name files"),
    "no link text": (raw_header(b"l", b"2"), "expected a symbolic link's text"),
    "deep": (
        pax(pax_record(b"path", b"d/" * 702 + b"f")) + raw_file(b"x"),
        "expected at most 200 directories inside each other",
    ),
}


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("overlay", [False, True], ids=["plain", "overlay"])
def test_nothing_gets_out(target: Path, name: str, overlay: bool) -> None:
    data, reason = ESCAPES[name]
    with pytest.raises(InputError) as caught:
        unpack(raw_header(b"d", b"5") + data + END, target, overlay=overlay)
    assert caught.value.reason.startswith(reason)
    assert (target.parent / "outside").read_text() == "untouched"
    assert sorted(path.name for path in target.parent.iterdir()) == ["outside", "target"]


def test_an_entry_named_like_the_root_changes_nothing(target: Path) -> None:
    unpack(raw_header(b".", b"2", link=b"/etc") + raw_header(b"./", b"2", link=b"/etc") + END, target)
    assert shape(target) == {}
    assert not target.is_symlink()


def test_a_swapped_link_under_a_known_parent_is_not_followed(target: Path) -> None:
    (target.parent / "elsewhere").mkdir()
    data = raw_header(b"d", b"5") + raw_file(b"d/x", b"1") + raw_header(b"d", b"2", link=b"../elsewhere")
    with pytest.raises(InputError, match="lies below something that is not a directory"):
        unpack(data + raw_file(b"d/y", b"2") + END, target)
    assert list((target.parent / "elsewhere").iterdir()) == []


def test_the_messages_name_the_path_and_what_is_wrong(target: Path) -> None:
    with pytest.raises(InputError) as device:
        unpack(raw_header(b"dev/null", b"3") + END, target)
    assert str(device.value) == "dev/null: expected files, directories and links, found a character device"
    with pytest.raises(InputError) as outside:
        unpack(raw_file(b"../x\n\xff") + END, target)
    assert str(outside.value) == "../x\\n\\xff: expected a plain path inside the layer"
    with pytest.raises(InputError) as link:
        unpack(raw_header(b"h", b"1", link=b"gone") + END, target)
    assert str(link.value) == "h: expected a hard link to an earlier file of the same layer, found gone"


BROKEN: dict[str, tuple[bytes, str]] = {
    "ends in a header": (raw_file(b"a", b"x")[:100], "the tar ends inside a header"),
    "ends in a file": (raw_file(b"a", b"x" * 600)[:700], "the tar ends inside a file"),
    "ends in padding": (raw_file(b"a", b"x" * 600)[:1100], "the tar ends inside a file"),
    "ends in a pax header": (pax(b"12 path=abcd\n" * 60)[:600], "the tar ends inside an extended header"),
    "checksum": (b"b" + raw_file(b"a", b"x")[1:] + END, "a header's checksum is wrong"),
    "size is negative": (
        seal_header(raw_header(b"a").replace(b"00000000000\0", b"-0000000001\0", 1)),
        "expected an octal number",
    ),
    "size in base 256 is negative": (
        seal_header(raw_header(b"a").replace(b"00000000000\0", b"\xff" * 12, 1)),
        "expected an octal number",
    ),
    "pax record": (pax(b"99 path=x\n") + raw_file(b"a") + END, "a record of an extended header is malformed"),
    "pax without length": (pax(b"0 path=x\n") + raw_file(b"a") + END, "a record of an extended header is malformed"),
    "pax number": (pax(pax_record(b"size", b"-12")) + raw_file(b"a") + END, "expected a number, found b'-12'"),
    "huge pax": (raw_header(b"p", b"x", size=1 << 30), "expected at most 1048576 bytes of extended header"),
    "more after the end": (END + raw_file(b"a", b"x"), "expected the end of the tar, found more after it"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_tar_is_refused(target: Path, name: str) -> None:
    data, reason = BROKEN[name]
    with pytest.raises((InputError, IntegrityError)) as caught:
        unpack(data, target)
    assert caught.value.reason.startswith(reason)


def test_more_than_the_limit_is_refused_before_it_is_written(target: Path) -> None:
    with pytest.raises(IntegrityError) as caught:
        unpack(tar_of(file_entry(b"a", b"x" * 100), file_entry(b"b", b"x" * 100)), target, limit=150)
    assert str(caught.value) == "b: the layer unpacks to more than is allowed"
    assert shape(target) == {"a": b"x" * 100}


def test_links_count_towards_the_limit(target: Path) -> None:
    links = [Entry(b"l%d" % n, Kind.HARDLINK, link=b"a") for n in range(10)]
    with pytest.raises(IntegrityError, match="more than is allowed"):
        unpack(tar_of(file_entry(b"a", b"x" * 100), *links), target, limit=500)


def test_many_directories_do_not_use_up_descriptors(target: Path) -> None:
    unpack(tar_of(*(file_entry(b"d%d/%d/f" % (n, n), b"") for n in range(400))), target)
    assert len(list(target.rglob("f"))) == 400


@pytest.mark.parametrize("owner", [-1, 2**32 - 1, 2**32])
def test_an_owner_that_the_kernel_does_not_know_is_refused(owner: int) -> None:
    with pytest.raises(InputError) as caught:
        tar_of(Entry(b"f", Kind.FILE, 0o644, owner, 0, 0, content=b""))
    assert str(caught.value) == f"f: owner or size out of range: {owner}:0, 0"
