from __future__ import annotations

import gzip
import io
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import zstandard

from packager.base.digests import DiffId, digest_of
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.oci.entries import Entry, InOrder, Kind, dir_entry, file_entry
from packager.oci.layer import COMPRESSOR_ID, Layer, open_layer, unpack_layer, write_layer
from packager.oci.tree import scan_tree
from packager.store.store import Store

ENTRIES = [file_entry(b"a/big", os.urandom(1000) * 4000), file_entry(b"b", b"x")]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def refusal(store: Store, layer: Layer) -> str:
    with pytest.raises(IntegrityError) as caught:
        read_all(store, layer)
    return str(caught.value)


def read_all(store: Store, layer: Layer) -> None:
    with open_layer(store, layer) as stream:
        while stream.read(1 << 16):
            pass


def diff_id_of(tar: bytes) -> DiffId:
    return DiffId(digest_of(tar))


@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
def test_a_layer_reads_back_with_the_same_diff_id(store: Store, compression: Literal["zstd", "gzip", "none"]) -> None:
    layer = write_layer(ENTRIES, store, compression=compression)
    with open_layer(store, layer) as stream:
        tar = stream.read()
    assert (layer.diff_id, layer.diff_size) == (diff_id_of(tar), len(tar))
    blob = store.path(layer.digest).read_bytes()
    assert (layer.digest, layer.size) == (digest_of(blob), len(blob))
    suffix = {"zstd": "+zstd", "gzip": "+gzip", "none": ""}[compression]
    assert layer.descriptor().media_type == f"application/vnd.oci.image.layer.v1.tar{suffix}"


def test_two_writes_are_one_blob(store: Store) -> None:
    assert write_layer(ENTRIES, store) == write_layer(reversed(ENTRIES), store)


def test_the_compressor_s_id_names_the_library_in_use() -> None:
    version = ".".join(str(number) for number in zstandard.ZSTD_VERSION)
    assert f"zstd;zstandard={zstandard.__version__};libzstd={version};level=3;threads>=1" == COMPRESSOR_ID


def test_other_tools_read_the_blobs(store: Store) -> None:
    layer = write_layer(ENTRIES, store, compression="gzip")
    assert diff_id_of(gzip.decompress(store.path(layer.digest).read_bytes())) == layer.diff_id
    layer = write_layer(ENTRIES, store)
    packed = store.path(layer.digest).read_bytes()
    assert diff_id_of(zstandard.ZstdDecompressor().decompressobj().decompress(packed)) == layer.diff_id


def test_a_layer_that_is_not_its_diff_id_is_refused(store: Store) -> None:
    layer = write_layer(ENTRIES, store)
    other = diff_id_of(b"other")
    said = refusal(store, replace(layer, diff_id=other))
    assert said == f"{layer.digest}: expected diff id {other}, found {layer.diff_id}"


@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
def test_a_bomb_is_stopped_at_the_declared_size(store: Store, compression: Literal["zstd", "gzip", "none"]) -> None:
    layer = write_layer([file_entry(b"zeros", bytes(20 << 20))], store, compression=compression)
    small = replace(layer, diff_size=1 << 20)
    assert refusal(store, small) == f"{layer.digest}: expected 1048576 bytes of tar, found more"


def test_less_than_the_declared_size_is_refused(store: Store) -> None:
    layer = write_layer(ENTRIES, store)
    said = refusal(store, replace(layer, diff_size=layer.diff_size + 1))
    assert said == f"{layer.digest}: expected {layer.diff_size + 1} bytes of tar, found {layer.diff_size}"


@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
@pytest.mark.parametrize("where", ["start", "middle", "end"])
def test_one_changed_byte_in_a_blob_is_refused(
    store: Store, compression: Literal["zstd", "gzip", "none"], where: str
) -> None:
    layer = write_layer(ENTRIES, store, compression=compression)
    path = store.path(layer.digest)
    data = bytearray(path.read_bytes())
    data[{"start": 1, "middle": len(data) // 2, "end": -1}[where]] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    refusal(store, layer)


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_cut_blob_is_refused(store: Store, compression: Literal["zstd", "gzip"]) -> None:
    layer = write_layer(ENTRIES, store, compression=compression)
    cut = store.put(store.path(layer.digest).read_bytes()[:-9])
    refusal(store, replace(layer, digest=cut))


def test_bytes_after_the_compressed_stream_count_for_the_blob_s_digest(store: Store) -> None:
    layer = write_layer(ENTRIES, store)
    path = store.path(layer.digest)
    path.chmod(0o644)
    with path.open("ab") as out:
        out.write(zstandard.ZstdCompressor().compress(b""))
    assert refusal(store, layer).startswith(f"{path}: expected the digest {layer.digest}, found ")


def test_an_unknown_media_type_is_refused(store: Store) -> None:
    layer = replace(write_layer(ENTRIES, store), media_type="application/zip")
    with pytest.raises(InputError) as caught:
        open_layer(store, layer)
    assert str(caught.value) == "layer: expected a tar layer, found application/zip"


def test_a_file_that_changes_while_it_is_read_is_reported(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "f").write_bytes(b"12345")
    entries = list(scan_tree(tree))
    for content in (b"1234567", b"123"):
        (tree / "f").write_bytes(content)
        with pytest.raises(WorldError) as caught:
            write_layer(entries, store)
        assert str(caught.value) == (
            f"f: changed while it was read: expected 5 bytes, found {min(len(content), 6)}\n"
            "hint: make sure that nothing writes to the tree while its layer is written"
        )
    (tree / "f").unlink()
    (tree / "f").symlink_to("/etc/passwd")
    with pytest.raises(WorldError) as link:
        write_layer(entries, store)
    assert str(link.value) == f"{tree}/f: cannot be read: Too many levels of symbolic links"
    assert not (store.root / "blobs").exists()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, (1 << 20) - 512, (1 << 20) - 511, 1 << 20, (2 << 20) + 1])
def test_files_of_any_size_around_the_block_survive(store: Store, tmp_path: Path, size: int) -> None:
    tree, out = tmp_path / "tree", tmp_path / "out"
    tree.mkdir()
    out.mkdir()
    content = os.urandom(size)
    (tree / "f").write_bytes(content)
    layer = write_layer(scan_tree(tree), store)
    with open_layer(store, layer) as stream:
        unpack_layer(stream, out, overlay_whiteouts=False)
    assert (out / "f").read_bytes() == content
    assert layer == write_layer([file_entry(b"f", content)], store)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([file_entry(b"a", b"")] * 2, "a: two entries of one layer have the same path"),
        ([file_entry(b"a", b""), file_entry(b"a/b", b"")], "a/b: lies below something that is not a directory"),
        ([Entry(b"a", Kind.OPAQUE)], "a: an opaque directory has no canonical form; delete its entries by name"),
        ([Entry(b"h", Kind.HARDLINK, link=b"x")], "h: expected a hard link to a file of the same layer, found x"),
        ([Entry(b"f", Kind.FILE, size=2, content=b"x")], "f: expected 2 bytes, found 1"),
        ([Entry(b"f", Kind.FILE, size=2)], "f: expected a content, found none"),
        ([file_entry(b"/a", b"")], "/a: expected a plain path inside the layer"),
        ([file_entry(b"a/", b"")], "a/: expected a plain path inside the layer"),
        ([file_entry(b"a/../b", b"")], "a/../b: expected a plain path inside the layer"),
        ([file_entry(b"", b"")], "(empty): expected a path of a layer, found an empty one or a NUL byte"),
        ([file_entry(b"a\0", b"")], "a\\x00: expected a path of a layer, found an empty one or a NUL byte"),
    ],
)
def test_entries_that_cannot_be_a_layer_are_refused(store: Store, entries: list[Entry], said: str) -> None:
    with pytest.raises(InputError) as caught:
        write_layer(entries, store)
    assert str(caught.value) == said
    assert not (store.root / "blobs").exists()


def test_names_close_to_the_special_ones_are_fine(store: Store) -> None:
    names = [b"...", b"..a", b".a", b"a..", b"a/.b", b"a.wh.x", b".wha", b"a/..."]
    layer = write_layer([file_entry(name, b"") for name in names], store)
    with open_layer(store, layer) as stream:
        assert stream.read(3) == b"..."


def test_the_stream_can_be_read_in_any_pieces(store: Store) -> None:
    layer = write_layer(ENTRIES, store)
    with open_layer(store, layer) as stream:
        found = io.BytesIO()
        while piece := stream.read(4097):
            found.write(piece)
    assert diff_id_of(found.getvalue()) == layer.diff_id


def open_things() -> tuple[int, int]:
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


def test_a_stream_that_is_left_early_stops_its_thread_and_closes_the_blob(store: Store) -> None:
    layer = write_layer([file_entry(b"big", os.urandom(30 << 20))], store, compression="none")
    before = open_things()
    for _ in range(5):
        with open_layer(store, layer) as stream:
            stream.read(10)
    assert open_things() == before


def test_a_failed_stream_fails_again(store: Store) -> None:
    layer = replace(write_layer(ENTRIES, store), diff_size=100)
    with open_layer(store, layer) as stream:
        for _ in range(2):
            with pytest.raises(IntegrityError):
                stream.read(1 << 21)


def test_entries_in_order_are_written_as_they_come_and_a_broken_promise_is_refused(store: Store) -> None:
    def listed(*paths: bytes) -> InOrder:
        return InOrder(dir_entry(path) if path == b"d" else file_entry(path, b"") for path in paths)

    paths = (b"a", b"d", b"d/x", b"d-e")
    assert write_layer(listed(*paths), store) == write_layer(list(listed(*paths)), store)
    for wrong, said in (
        ((b"b", b"a"), "a: two entries of one layer have the same path, or come out of order"),
        ((b"a", b"a"), "a: two entries of one layer have the same path, or come out of order"),
        ((b"d/x",), "d/x: comes before its directory"),
        ((b"a", b"a/b"), "a/b: comes before its directory"),
        ((b"d", b"d-e", b"d/x"), "d/x: comes before its directory"),
        ((b".wh.x",), ".wh.x: a name that starts with .wh. means a deletion in a layer and cannot be stored"),
    ):
        with pytest.raises(InputError) as caught:
            write_layer(listed(*wrong), store)
        assert str(caught.value).partition("\n")[0] == said


def test_hard_links_of_a_tree_are_written_as_they_come(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "z").write_bytes(b"linked")
    os.link(tree / "z", tree / "d/a")
    os.link(tree / "z", tree / "d-a")
    listed = list(scan_tree(tree))
    assert [entry.kind for entry in listed] == [Kind.DIR, Kind.FILE, Kind.HARDLINK, Kind.HARDLINK]
    assert write_layer(scan_tree(tree), store) == write_layer(reversed(listed), store)
