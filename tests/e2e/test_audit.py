"""An audit of the built hello-wide-001: the image as it is, and copies of it with leaks made of its own gold."""

from __future__ import annotations

import io
import json
import marshal
import re
import struct
import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from packager import api
from packager.base.canonical import format_canonical
from packager.build.audit import NO_LAYER, LeakKind
from packager.lock.answers import read_answer
from packager.oci.descriptor import Descriptor, describe
from packager.oci.entries import Entry, Kind, file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_MANIFEST, format_manifest, parse_manifest
from packager.oci.places import SEALED_PATH
from packager.oci.record import ImageRecord, format_record
from packager.oci.tar_reader import read_tar
from packager.sandbox.namespaces import may_mount
from packager.seal.bundle import SealContents, format_plain
from packager.trust.layers import open_bounded
from tests.support.shipped_task import HELLO, build_shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.lock.answers import Answer
    from packager.lock.git import GitRepository
    from packager.store.store import Store

pytestmark = [
    pytest.mark.engine,
    pytest.mark.network,
    pytest.mark.skipif(not may_mount(), reason="builds an image, which needs a mount namespace"),
]

GIT = "workspace/gauge/.git"
PIP = "root/.cache/pip/http-v2/a/b/tidewatch.body"
GO = "root/go/pkg/mod/cache/download/example.invalid/gauge/@v/v1.1.0.zip"
PYC = "workspace/tidewatch/tidewatch/__pycache__/reading.cpython-311.pyc"
PACK = re.compile(r"pack-[0-9a-f]{40}\.pack")
GOLD_NAME = "parse_height"
"""A function that the gold patch of gauge defines and nothing public names."""


@dataclass
class Copies:
    """The built image and its secrets; `config` and `layers` are those of the copy to be audited next."""

    place: api.Place
    answer: Answer
    base: str
    future: str
    gauge: GitRepository
    tidewatch: GitRepository
    tidewatch_future: str
    config: dict[str, Any]
    layers: list[Descriptor]

    @property
    def store(self) -> Store:
        return self.place.store()

    def put(self, *entries: Entry, at: int | None = None) -> None:
        """Lay a layer on top, or exchange one."""
        layer = write_layer(entries, self.store)
        diff_ids, history = self.config["rootfs"]["diff_ids"], self.config["history"]
        if at is None:
            self.layers.append(layer.descriptor())
            diff_ids.append(layer.diff_id)
            history.append({"created_by": "planted"})
        else:
            self.layers[at], diff_ids[at] = layer.descriptor(), layer.diff_id

    def layer_with(self, path: bytes) -> int:
        """Return the number of the topmost layer that has a path."""
        for number in reversed(range(len(self.layers))):
            with open_bounded(self.store, self.layers[number], limit_bytes=1 << 30) as stream:
                if any(entry.path == path for entry, _ in read_tar(io.BufferedReader(stream))):
                    return number
        raise AssertionError(path)

    def file(self, path: str, content: bytes) -> None:
        self.put(file_entry(path.encode(), content))

    def audit(self) -> api.Audited:
        store, record = self.store, self.place.record(HELLO)
        manifest = parse_manifest(store.read(record.manifest.digest, 1 << 20))
        config = format_canonical(self.config)
        store.put(config)
        copy = format_manifest(
            replace(manifest, config=describe(manifest.config.media_type, config), layers=tuple(self.layers))
        )
        store.put(copy)
        store.set_name("images", HELLO, format_record(ImageRecord(describe(MEDIA_MANIFEST, copy))))
        try:
            return api.audit(self.place, HELLO)
        finally:
            store.set_name("images", HELLO, format_record(record))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> api.Place:
    return build_shipped(HELLO, tmp_path_factory.mktemp("audit"))


@pytest.fixture
def image(place: api.Place) -> Copies:
    recipe = place.recipe(HELLO)
    repositories = place.repositories(recipe)
    gauge, tidewatch = recipe.targets
    assert gauge.gold.commit is not None
    assert tidewatch.gold.commit is not None
    store = place.store()
    manifest = parse_manifest(store.read(place.record(HELLO).manifest.digest, 1 << 20))
    return Copies(
        place,
        read_answer(recipe, repositories),
        gauge.commit,
        gauge.gold.commit,
        repositories.repository("gauge", gauge.gold.commit),
        repositories.repository("tidewatch", tidewatch.gold.commit),
        tidewatch.gold.commit,
        json.loads(store.read(manifest.config.digest, 1 << 20)),
        list(manifest.layers),
    )


def gold_file(repository: GitRepository, commit: str, path: str) -> bytes:
    (entry,) = repository.tree_entries(commit, include=(path,))
    assert entry.content is not None
    return entry.content if isinstance(entry.content, bytes) else entry.content.read_bytes()


def future_pack(image: Copies) -> Iterator[Entry]:
    for entry in image.gauge.canonical_git(image.future, "ancestors", b"workspace/gauge"):
        if entry.path.endswith((b".pack", b".idx")):
            yield entry


def zip_of(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def pyc_of(source: bytes) -> bytes:
    code = compile(source, "reading.py", "exec", dont_inherit=True)
    return b"\xa7\x0d\r\n" + struct.pack("<III", 0, 0, len(source)) + marshal.dumps(code)


def in_history(image: Copies) -> None:
    image.config["history"][3]["created_by"] = f"RUN sed -i 's/split/{GOLD_NAME}/' lib/Gauge.pm"


def in_a_label(image: Copies) -> None:
    image.config["config"]["Labels"]["note"] = image.answer.gold["tidewatch"].decode()


def in_a_deleted_layer(image: Copies) -> None:
    image.file("tmp/gold.patch", image.answer.gold["gauge"])
    image.put(Entry(b"tmp/gold.patch", Kind.WHITEOUT))


def perl(image: Copies) -> bytes:
    return gold_file(image.gauge, image.future, "lib/Gauge.pm")


def python(image: Copies) -> bytes:
    return gold_file(image.tidewatch, image.tidewatch_future, "tidewatch/reading.py")


@dataclass(frozen=True)
class Leak:
    """How it is planted; what must be found, in which layer (from the image's own top) and where."""

    plant: Callable[[Copies], None]
    kinds: frozenset[str]
    path: str
    layer: int | None = 1


def leak(plant: Callable[[Copies], None], path: str, *kinds: LeakKind, layer: int | None = 1) -> Leak:
    return Leak(plant, frozenset(kinds), path, layer)


FUTURE, TEXT, NAME, FILE = LeakKind.FUTURE_COMMIT, LeakKind.GOLD_TEXT, LeakKind.GOLD_NAME, LeakKind.GOLD_FILE
LEAKS = {
    "a future commit in a pack": leak(
        lambda image: image.put(*future_pack(image)), f"{GIT}/objects/pack/*.pack", FUTURE, LeakKind.UNREACHED, TEXT, NAME
    ),
    "a tag": leak(
        lambda image: image.file(f"{GIT}/refs/tags/v1.0", f"{image.base}\n".encode()), f"{GIT}/refs/tags/v1.0", LeakKind.TAG
    ),
    "a reflog": leak(
        lambda image: image.file(f"{GIT}/logs/HEAD", f"{image.future} {image.base} A <a@b> 1 +0000\treset\n".encode()),
        f"{GIT}/logs/HEAD",
        LeakKind.REFLOG,
        FUTURE,
    ),
    "a note": leak(
        lambda image: image.file(f"{GIT}/refs/notes/commits", f"{image.base}\n".encode()),
        f"{GIT}/refs/notes/commits",
        LeakKind.NOTE,
    ),
    "gold text in a file": leak(
        lambda image: image.file("root/notes.txt", image.answer.gold["gauge"]), "root/notes.txt", TEXT, NAME
    ),
    "gold in a layer that a later layer deletes": leak(in_a_deleted_layer, "tmp/gold.patch", TEXT, NAME),
    "gold in a pip cache": leak(
        lambda image: image.file(PIP, zip_of("tidewatch/reading.py", python(image))), f"{PIP}!tidewatch/reading.py", TEXT, FILE
    ),
    "gold in a Go cache": leak(
        lambda image: image.file(GO, zip_of("gauge@v1.1.0/Gauge.pm", perl(image))), f"{GO}!gauge@v1.1.0/Gauge.pm", TEXT, FILE, NAME
    ),
    "gold in a .pyc": leak(lambda image: image.file(PYC, pyc_of(python(image))), PYC, TEXT),
    "gold in the history": leak(in_history, "config.history[3].created_by", NAME, layer=None),
    "gold in a label": leak(in_a_label, "config.config.Labels.note", TEXT, layer=None),
    "gold in a context repository": leak(
        lambda image: image.file("workspace/stations/Gauge.pm", perl(image)), "workspace/stations/Gauge.pm", TEXT, FILE, NAME
    ),
    "an identifier that only gold adds": leak(
        lambda image: image.file("etc/motd", f"consider {GOLD_NAME} for this\n".encode()), "etc/motd", NAME
    ),
}  # fmt: skip


def test_nothing_is_found_in_the_image_as_it_was_built(image: Copies) -> None:
    found = image.audit()
    assert (found.task, found.layers, found.findings, found.clean) == (HELLO, len(image.layers), (), True)


def test_each_planted_leak_is_found_where_it_is_and_nothing_else(image: Copies) -> None:
    expected: dict[tuple[int, str], frozenset[str]] = {}
    for planted in LEAKS.values():
        top = len(image.layers) - 1
        planted.plant(image)
        expected[NO_LAYER if planted.layer is None else top + planted.layer, planted.path] = planted.kinds
    found: dict[tuple[int, str], set[str]] = {}
    for one in image.audit().findings:
        found.setdefault((one.layer, PACK.sub("*.pack", one.path)), set()).add(str(one.kind))
    assert expected == found


def test_a_target_that_stands_at_its_gold_commit_is_found(image: Copies) -> None:
    entries = image.gauge.tree_entries(image.future, b"workspace/gauge")
    number = image.layer_with(b"workspace/gauge/lib/Gauge.pm")
    image.put(*entries, at=number)
    found = {(one.layer, one.path, str(one.kind)) for one in image.audit().findings}
    assert {
        (number, "workspace/gauge/lib/Gauge.pm", "gold-file"),
        (number, "workspace/gauge/lib/Gauge.pm", "gold-text"),
        (number, "workspace/gauge/README.md", "gold-file"),
    } <= found
    assert {layer for layer, _, _ in found} == {number}


@pytest.mark.parametrize("head", [b"", b"age-encryption.org/v1\n-> X25519 nothing\n"])
def test_a_seal_in_the_clear_is_found_even_behind_the_first_line_of_a_sealed_file(image: Copies, head: bytes) -> None:
    contents = SealContents("wideswe", HELLO, "v1", gold=image.answer.gold, hidden=image.answer.hidden)
    image.put(file_entry(SEALED_PATH, head + format_plain(contents)), at=len(image.layers) - 1)
    found = image.audit().findings
    assert {one.layer for one in found} == {len(image.layers) - 1}
    assert {one.path.partition("!")[0] for one in found} == {SEALED_PATH.decode()}
    assert {"gold-text", "gold-identifier", "hidden-text", "hidden-identifier"} <= {str(one.kind) for one in found}
