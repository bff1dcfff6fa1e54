"""`store check`: what is damaged is found and set aside, what is whole is left alone."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of, hex_of
from packager.base.problems import Problem
from packager.oci.descriptor import Descriptor
from packager.oci.entries import Entry, Kind, file_entry
from packager.oci.layer import Layer, open_layer, unpack_layer, write_layer
from packager.oci.manifest import MEDIA_LAYER_TAR
from packager.sandbox.namespaces import may_mount
from packager.store.checking import CheckedTrees, check_blobs, check_trees
from packager.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.progress import Event


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def quiet(_: Event) -> None:
    pass


def unpacked(store: Store, layer: Layer) -> Path:
    def fill(place: Path) -> None:
        with open_layer(store, layer) as stream:
            unpack_layer(stream, place, overlay_whiteouts=True)

    return store.tree(hex_of(layer.diff_id), fill)


def own_layer(store: Store) -> Layer:
    return write_layer([file_entry(b"d/f", b"content"), file_entry(b"d/run", b"#!", mode=0o755)], store)


def test_blobs_are_counted_and_the_broken_ones_named(store: Store) -> None:
    good, bad = store.put(b"good"), store.put(b"bad")
    path = store.path(bad)
    path.chmod(0o644)
    path.write_bytes(b"bat")
    events: list[Event] = []
    count, problems = check_blobs(store, events.append)
    said = f"blobs/sha256/{hex_of(bad)}: expected the digest {bad}, found {digest_of(b'bat')}"
    hint = "the blob was set aside; run the command again to get it anew"
    assert (count, [str(problem) for problem in problems]) == (2, [f"{said} (hint: {hint})"])
    assert (store.has(good), store.has(bad)) == (True, False)
    assert [(event.done, event.total) for event in events] == [(1, 2), (2, 2)]


def test_an_empty_store_is_whole(store: Store) -> None:
    assert check_blobs(store, quiet) == (0, ())
    assert check_trees(store, {}, quiet) == CheckedTrees(0, (), 0)


def test_whole_trees_are_left_where_they_are(store: Store) -> None:
    tree = unpacked(store, own_layer(store))
    assert check_trees(store, {}, quiet) == CheckedTrees(1, (), 0)
    assert (tree / "d" / "f").read_bytes() == b"content"


@pytest.mark.skipif(not may_mount(), reason="makes a whiteout device")
def test_a_tree_with_deletions_is_whole(store: Store) -> None:
    unpacked(store, write_layer([Entry(b"gone", Kind.WHITEOUT), file_entry(b"here", b"x")], store))
    assert check_trees(store, {}, quiet) == CheckedTrees(1, (), 0)


@pytest.mark.parametrize("damage", ["byte", "mode", "extra file", "missing file", "no layer"])
def test_a_tree_that_is_not_what_its_layer_says_is_set_aside(store: Store, damage: str) -> None:
    layer = own_layer(store)
    tree = unpacked(store, layer)
    if damage == "byte":
        (tree / "d" / "f").write_bytes(b"contemt")
    elif damage == "mode":
        (tree / "d" / "f").chmod(0o600)
    elif damage == "extra file":
        (tree / "tmp").mkdir()
        (tree / "tmp" / "left").touch()
    elif damage == "missing file":
        (tree / "d" / "run").unlink()
    else:
        os.mkfifo(tree / "pipe")
    found = check_trees(store, {tree.name: layer.descriptor()}, quiet)
    [problem] = found.problems
    said = "expected files, directories and links, found a named pipe" if damage == "no layer" else ""
    assert problem.file == f"trees/{tree.name}"
    assert problem.message.startswith(f"expected the unpacked layer {layer.diff_id}, found sha256:")
    assert said in problem.message
    assert problem.hint == "it was set aside and is unpacked anew when needed"
    assert not tree.exists()
    assert (unpacked(store, layer) / "d" / "f").read_bytes() == b"content"
    assert check_trees(store, {}, quiet) == CheckedTrees(1, (), 0)


def foreign_layer(store: Store) -> Layer:
    """Return a layer whose tar others wrote: not in our order, not with our times."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("z", "a"):
            member = tarfile.TarInfo(name)
            member.mtime, member.size = 1_700_000_000, 1
            archive.addfile(member, io.BytesIO(b"x"))
    data = out.getvalue()
    digest = store.put(data)
    return Layer(digest, digest, len(data), len(data), MEDIA_LAYER_TAR)  # type: ignore[arg-type]


def test_a_layer_of_others_is_unpacked_once_more_and_compared(store: Store) -> None:
    layer = foreign_layer(store)
    tree = unpacked(store, layer)
    known = {tree.name: layer.descriptor()}
    assert check_trees(store, known, quiet) == CheckedTrees(1, (), 0)
    assert list((store.root / "tmp").iterdir()) == []
    (tree / "a").write_bytes(b"y")
    found = check_trees(store, known, quiet)
    assert [problem.file for problem in found.problems] == [f"trees/{tree.name}"]


def test_a_layer_of_others_without_its_blob_is_set_aside_without_complaint(store: Store) -> None:
    tree = unpacked(store, foreign_layer(store))
    assert check_trees(store, {}, quiet) == CheckedTrees(1, (), 1)
    assert not tree.exists()
    gone = Descriptor(MEDIA_LAYER_TAR, digest_of(b"gone"), 4)
    tree = unpacked(store, foreign_layer(store))
    found = check_trees(store, {tree.name: gone}, quiet)
    assert [isinstance(problem, Problem) for problem in found.problems] == [True]
