"""Laws of layers: order does not matter, unpacking undoes writing, and a difference applied to the old gives the new."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from packager.base.errors import InputError, IntegrityError
from packager.oci.entries import Entry, Kind, sort_key
from packager.oci.layer import unpack_layer
from packager.oci.tar_reader import read_tar
from packager.oci.tar_writer import canonical_entries, write_tar
from packager.oci.tree import diff_trees, scan_tree

if TYPE_CHECKING:
    import random

NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..") and not name.startswith(b".wh.")
)
LONG = st.integers(90, 255).map(lambda size: b"n" * size)
PATHS = st.lists(NAMES | LONG, min_size=1, max_size=4).map(b"/".join)
MODES = st.integers(0, 0o7777)
IDS = st.integers(0, (1 << 32) - 2)

# A few names, so that trees collide often.
SMALL_NAMES = st.sampled_from(["a", "b", "a-b", "z", "caf\udce9"])
TREES = st.recursive(
    st.one_of(st.binary(max_size=6), st.sampled_from(["a", "../x"])),
    lambda inner: st.dictionaries(SMALL_NAMES, inner, max_size=4),
    max_leaves=12,
)
TREE = st.dictionaries(SMALL_NAMES, TREES, max_size=4)


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    """Entries that can be one layer: unique paths, nothing below what is no directory."""
    found: dict[bytes, Entry] = {}
    for path in draw(st.lists(PATHS, max_size=8, unique=True)):
        mode, uid, gid = draw(MODES), draw(IDS), draw(IDS)
        kind = draw(st.sampled_from([Kind.FILE, Kind.DIR, Kind.SYMLINK, Kind.WHITEOUT]))
        if kind is Kind.FILE:
            content = draw(st.binary(max_size=1200))
            found[path] = Entry(path, kind, mode, uid, gid, len(content), content=content)
        elif kind is Kind.SYMLINK:
            found[path] = Entry(path, kind, 0o777, uid, gid, link=draw(PATHS))
        else:
            found[path] = Entry(path, kind, *((mode, uid, gid) if kind is Kind.DIR else (0, 0, 0)))
    return [entry for entry in found.values() if fits(entry, found)]


def fits(entry: Entry, found: dict[bytes, Entry]) -> bool:
    parents = [entry.path[:at] for at in range(len(entry.path)) if entry.path[at : at + 1] == b"/"]
    return all(found[parent].kind is Kind.DIR for parent in parents if parent in found)


def tar_of(values: list[Entry]) -> bytes:
    blocks: list[bytes] = []
    write_tar(values, blocks.append)
    return b"".join(blocks)


@given(entries(), st.randoms(use_true_random=False))
def test_reading_undoes_writing_and_order_does_not_matter(values: list[Entry], chance: random.Random) -> None:
    data = tar_of(values)
    assert len(data) % 512 == 0
    shuffled = values[:]
    chance.shuffle(shuffled)
    assert tar_of(shuffled) == data
    found = []
    for entry, reader in read_tar(io.BytesIO(data)):
        content = reader.read() if entry.kind is Kind.FILE else None
        found.append(
            Entry(entry.path, entry.kind, entry.mode, entry.uid, entry.gid, entry.size, entry.link, content=content)
        )
    mended = [entry if entry.kind is not Kind.WHITEOUT else Entry(entry.path, Kind.WHITEOUT, 0o0) for entry in found]
    assert mended == canonical_entries(values)
    assert [sort_key(entry) for entry in found] == sorted(sort_key(entry) for entry in found)


def read_or_refuse(data: bytes) -> None:
    """Read a tar to its end; anything but our own refusals comes through."""
    with contextlib.suppress(InputError, IntegrityError):
        for _, reader in read_tar(io.BytesIO(data)):
            reader.read()


@given(st.binary(max_size=2048))
def test_no_bytes_make_the_reader_fail_in_another_way_than_it_should(data: bytes) -> None:
    read_or_refuse(data)


@given(entries(), st.integers(0, 4000), st.binary(min_size=1, max_size=3))
def test_a_damaged_tar_is_read_or_refused(values: list[Entry], at: int, junk: bytes) -> None:
    data = bytearray(tar_of(values))
    data[at : at + len(junk)] = junk
    read_or_refuse(bytes(data))


def grow(root: Path, tree: dict[str, object]) -> None:
    root.mkdir()
    for name, value in tree.items():
        path = root / name
        if isinstance(value, dict):
            grow(path, value)
        elif isinstance(value, bytes):
            path.write_bytes(value)
        else:
            path.symlink_to(str(value))


@settings(max_examples=60, deadline=None)
@given(TREE, TREE)
def test_a_difference_applied_to_the_old_tree_gives_the_new_one(old: dict[str, object], new: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before, after, result = (Path(folder, name) for name in ("before", "after", "result"))
        grow(before, old)
        grow(after, new)
        shutil.copytree(before, result, symlinks=True)
        difference = diff_trees(before, after)
        unpack_layer(io.BytesIO(tar_of(difference)), result, overlay_whiteouts=False)
        assert diff_trees(after, result) == []
        assert diff_trees(result, after) == []
        assert diff_trees(None, result) == [
            Entry(e.path, e.kind, e.mode, e.uid, e.gid, e.size, e.link, e.capability, relocated(e, after, result))
            for e in diff_trees(None, after)
        ]
        assert {entry.path for entry in difference} <= {
            entry.path for tree in (before, after) for entry in scan_tree(tree)
        }


def relocated(entry: Entry, old: Path, new: Path) -> Path | None:
    return new / os.fsdecode(entry.path) if isinstance(entry.content, Path) and old else None
