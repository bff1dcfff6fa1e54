"""Images that the right key signed and that attack whoever opens them, through a whole pull, verify and evaluate.

A stolen or careless release key must cost a wrong verdict at most: each attack is refused by a text of its own, or does
no harm, and outside the lab's store no file is made, changed or removed.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import zstandard

from packager import api
from packager.base.digests import digest_of
from packager.base.errors import PackError
from packager.evaluate.judge import refuse_too_large
from packager.oci.entries import dir_entry, symlink_entry
from packager.oci.manifest import MEDIA_LAYER_GZIP, MEDIA_LAYER_TAR
from packager.oci.reference import parse_reference
from packager.oci.tar_writer import pax_record, write_tar
from packager.oci.unpack import MAX_REPLACED
from packager.registry.push import push_image
from packager.store.store import Store
from tests.support.docker_registry import docker_registry
from tests.support.hostile_images import TARGET, TASK, HostileLayer, everything_below, make_lab, signed_image
from tests.support.raw_tar import END, pax, raw_file, raw_header
from tests.support.registry import MemoryRegistry
from tests.support.tiny_base import tiny_entries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.trust.checks import Check

pytestmark = pytest.mark.engine
OUTSIDE = "/var/tmp/wideswe-outside"
HINT = "\nhint: wideswe-pack verify shows every check; pull (or build and sign) the image again"
PLAIN = "expected a plain path inside the layer"
ZEROS = 1 << 24


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with MemoryRegistry() as found:
        yield found.host


class Attacked:
    """One attack: the image is published, and a lab pulls it; `checks` is what verify says."""

    def __init__(self, host: str, folder: Path, *layers: HostileLayer) -> None:
        self.folder = folder
        self.lab, recipient = make_lab(folder / "lab")
        store = Store(folder / "author")
        push_image(store, signed_image(store, [recipient], *layers), parse_reference(f"{host}/any/hello:v1"))
        (folder / "outside").mkdir()
        (folder / "outside" / "canary").write_text("untouched")
        self._before = list(everything_below(folder, but=self.lab.store_root))
        api.pull(self.lab, f"{host}/any/hello:v1")

    def verify(self) -> Check:
        """Return the last check, after seeing that signatures were all right: only the contents attack."""
        checks = api.verify(self.lab, TASK)
        assert [check.ok for check in checks[:5]] == [True] * 5
        return checks[-1]

    def evaluate(self) -> str:
        """Return what evaluate says: the outcome and its reason, or the error."""
        try:
            grade = api.evaluate(self.lab, TASK, api.EvaluationRequest(gold=True)).grade
        except PackError as error:
            return f"{type(error).__name__} {error}"
        return f"{grade.outcome.value} {grade.reason}".rstrip()

    def check_outside(self) -> None:
        """Nothing outside the store is other than it was, and nothing half done is visible in it."""
        assert list(everything_below(self.folder, but=self.lab.store_root)) == self._before
        assert not list((self.lab.store_root / "tmp").iterdir())


def long_path(depth: int) -> bytes:
    """Return an extended header that gives the next entry a path of so many folders."""
    return pax(pax_record(b"path", b"/".join([b"d"] * (depth + 1))))


def bomb() -> HostileLayer:
    """A layer of some 40 kB that unpacks to more than a gigabyte."""
    pack = zstandard.ZstdCompressor(level=1).compress
    frames = (1 << 30) // ZEROS + 1
    return HostileLayer(packed=pack(raw_header(b"zeros", size=frames * ZEROS)) + pack(bytes(ZEROS)) * frames)


SEEN_BY_VERIFY = {
    "a block device": (
        raw_header(b"dev/sda", b"4"),
        "dev/sda: expected files, directories and links, found a block device",
    ),
    "a character device": (
        raw_header(b"dev/mem", b"3"),
        "dev/mem: expected files, directories and links, found a character device",
    ),
    "a named pipe": (raw_header(b"p", b"6"), "p: expected files, directories and links, found a named pipe"),
    "an absolute path": (raw_file(f"{OUTSIDE}/evil".encode()), f"{OUTSIDE}/evil: {PLAIN}"),
    "a path that climbs": (raw_file(b"a/../../../evil"), f"a/../../../evil: {PLAIN}"),
    "a hard link to the host": (raw_header(b"a", b"1", link=b"/etc/passwd"), f"/etc/passwd: {PLAIN}"),
    "a hard link that climbs": (raw_header(b"a", b"1", link=b"../../etc/passwd"), f"../../etc/passwd: {PLAIN}"),
    "a hard link to the root": (
        raw_header(b"a", b"1", link=b"./"),
        "a: expected a hard link to a file, found one to the root",
    ),
    "a whiteout of the parent": (raw_file(b"a/.wh..."), "a/.wh...: expected the name that a whiteout deletes"),
    "a whiteout of nothing": (raw_file(b".wh."), ".wh.: expected the name that a whiteout deletes"),
    "a path in an extended header": (
        pax(pax_record(b"path", b"../../../evil")) + raw_file(b"a"),
        f"../../../evil: {PLAIN}",
    ),
    "a path for all that follow": (
        pax(pax_record(b"path", b"/etc/evil"), b"g") + raw_file(b"a"),
        "layer: a global extended header may not name files",
    ),
    "too many folders": (
        long_path(201) + raw_file(b"x"),
        f"{'d/' * 40}…: expected at most 200 directories inside each other",
    ),
    "a file longer than the layer": (raw_header(b"big", size=(8 << 30) - 1), "layer: the tar ends inside a file"),
    "a sparse file": (
        pax(pax_record(b"GNU.sparse.major", b"1")) + raw_file(b"s"),
        "s: expected files, directories and links, found a sparse file",
    ),
    "no tar": (b"hello" * 1000, "layer: expected an octal number, found b'lohelloh'"),
}


@pytest.mark.parametrize("attack", SEEN_BY_VERIFY)
def test_what_no_layer_may_hold_is_refused_by_verify_and_evaluate(attack: str, registry: str, tmp_path: Path) -> None:
    tar, said = SEEN_BY_VERIFY[attack]
    layer = HostileLayer(tar if attack == "no tar" else tar + END)
    attacked = Attacked(registry, tmp_path, layer)
    check = attacked.verify()
    digest = layer_digest(layer)
    assert (check.number, check.name, check.ok) == (6, "layer 1 of 2", False)
    assert check.reason == f"{digest}: {said}"
    assert attacked.evaluate() == f"IntegrityError {TASK}: check 6, layer 1 of 2: {digest}: {said}{HINT}"
    attacked.check_outside()


def layer_digest(layer: HostileLayer) -> str:
    return digest_of(layer.blob())


WRONG_BLOBS = {
    "gzip called zstd": (
        HostileLayer(packed=HostileLayer(raw_file(b"a") + END, MEDIA_LAYER_GZIP).blob()),
        "{digest}: does not decompress: zstd decompress error: Unknown frame descriptor",
    ),
    "zstd called gzip": (
        HostileLayer(media_type=MEDIA_LAYER_GZIP, packed=HostileLayer(raw_file(b"a") + END).blob()),
        "{digest}: does not decompress: Not a gzipped file (b'(\\xb5')",
    ),
    "zstd called a tar": (
        HostileLayer(media_type=MEDIA_LAYER_TAR, packed=HostileLayer(raw_file(b"a") + END).blob()),
        "{digest}: layer: the tar ends inside a header",
    ),
    "another kind of layer": (
        HostileLayer(raw_file(b"a") + END, "application/vnd.oci.image.layer.v1.tar+xz"),
        "layer: expected a tar layer, found application/vnd.oci.image.layer.v1.tar+xz",
    ),
    "an encrypted layer": (
        HostileLayer(raw_file(b"a") + END, "application/vnd.oci.image.layer.v1.tar+zstd+encrypted"),
        "layer: expected a tar layer, found application/vnd.oci.image.layer.v1.tar+zstd+encrypted",
    ),
    "bytes behind the last frame": (
        HostileLayer(packed=HostileLayer(raw_file(b"a") + END).blob() + b"more"),
        "{digest}: does not decompress: zstd decompress error: Unknown frame descriptor",
    ),
    "a bomb": (bomb(), "{digest}: unpacks to more than 1073741824 bytes"),
}


@pytest.mark.parametrize("attack", WRONG_BLOBS)
def test_a_blob_that_is_not_what_its_type_says_is_refused(attack: str, registry: str, tmp_path: Path) -> None:
    layer, said = WRONG_BLOBS[attack]
    attacked = Attacked(registry, tmp_path, layer)
    expected = said.format(digest=layer_digest(layer))
    assert attacked.verify().reason == expected
    assert attacked.evaluate() == f"IntegrityError {TASK}: check 6, layer 1 of 2: {expected}{HINT}"
    attacked.check_outside()


FOLDER = raw_header(b"d/", b"5", mode=0o755)
SEEN_WHEN_UNPACKED = {
    "a file below a link": (
        raw_header(b"a", b"2", link=OUTSIDE.encode()) + raw_file(b"a/evil"),
        "a: lies below something that is not a directory",
    ),
    "a hard link to a link": (
        raw_header(b"a", b"2", link=b"/etc/passwd") + raw_header(b"b", b"1", link=b"a"),
        "b: expected a hard link to an earlier file of the same layer, found a",
    ),
    "a hard link to a lower layer": (
        raw_header(b"b", b"1", link=b"etc/passwd"),
        "b: expected a hard link to an earlier file of the same layer, found etc/passwd",
    ),
    "a hard link through a link": (
        raw_header(b"a", b"2", link=b"/etc") + raw_header(b"b", b"1", link=b"a/passwd"),
        "b: expected a hard link to an earlier file of the same layer, found a/passwd",
    ),
    "folders made and replaced for ever": (
        (FOLDER + raw_file(b"d/x") + raw_file(b"d")) * (MAX_REPLACED + 1),
        f"d: expected at most {MAX_REPLACED} folders made twice, found more",
    ),
}


@pytest.mark.parametrize("attack", SEEN_WHEN_UNPACKED)
def test_what_only_unpacking_shows_is_refused_by_evaluate(attack: str, registry: str, tmp_path: Path) -> None:
    tar, said = SEEN_WHEN_UNPACKED[attack]
    layer = HostileLayer(tar + END)
    attacked = Attacked(registry, tmp_path, layer)
    assert attacked.verify().ok
    assert attacked.evaluate() == f"IntegrityError {layer_digest(layer)}: {said}"
    attacked.check_outside()


NO_CHECKOUT = f"InputError /workspace/{TARGET}: the image has no checkout of this target"
NOT_A_TASK = {
    "nothing at all": [HostileLayer()],
    "opaque folders without end": [HostileLayer(raw_file(b"d/.wh..wh..opq") * 5_000 + END)],
    "whiteouts without end": [HostileLayer(b"".join(raw_file(b"d/.wh.%d" % n) for n in range(5_000)) + END)],
    "a workspace elsewhere": [HostileLayer(raw_header(b"workspace", b"2", link=OUTSIDE.encode()) + END)],
    "a checkout elsewhere": [
        HostileLayer(raw_header(b"workspace/" + TARGET.encode(), b"2", link=OUTSIDE.encode()) + END)
    ],
    "a checkout that a later layer deletes": [
        HostileLayer(raw_header(b"workspace/" + TARGET.encode() + b"/", b"5", mode=0o755) + END),
        HostileLayer(raw_file(b"workspace/.wh..wh..opq") + END),
    ],
    "a checkout that a later layer makes a link": [
        HostileLayer(raw_header(b"workspace/" + TARGET.encode() + b"/", b"5", mode=0o755) + END),
        HostileLayer(raw_header(b"workspace/" + TARGET.encode(), b"2", link=OUTSIDE.encode()) + END),
    ],
}


@pytest.mark.parametrize("attack", NOT_A_TASK)
def test_an_image_that_is_no_task_is_refused_and_no_patch_is_blamed(attack: str, registry: str, tmp_path: Path) -> None:
    attacked = Attacked(registry, tmp_path, *NOT_A_TASK[attack])
    assert attacked.verify().ok
    assert attacked.evaluate() == NO_CHECKOUT
    attacked.check_outside()


# Images that work, and have links where the evaluator writes. ---------------------------------------------------------


@pytest.fixture(scope="module")
def working() -> HostileLayer:
    """The layer of an image that can be judged."""
    tar = io.BytesIO()
    write_tar([*tiny_entries(["sh"]), dir_entry(f"workspace/{TARGET}".encode())], tar.write)
    return HostileLayer(tar.getvalue())


@pytest.mark.parametrize(
    ("place", "outcome"),
    [
        ("nowhere", "resolved"),
        (f"workspace/{TARGET}/t.txt", "resolved"),
        ("tmp", "resolved"),
        ("run", "infra"),
        ("dev", "resolved"),
        ("proc", "resolved"),
        ("sys", "resolved"),
        ("etc", "resolved"),
        ("etc/hosts", "resolved"),
        ("etc/resolv.conf", "resolved"),
        ("root", "resolved"),
    ],
)
def test_links_out_of_a_working_image_lead_nowhere(
    place: str, outcome: str, working: HostileLayer, registry: str, tmp_path: Path
) -> None:
    """The folder behind the link is there, on this machine: `/dev` as a link is CVE-2026-41579 of runc."""
    tar = io.BytesIO()
    target = tmp_path / "outside" / ("canary" if "." in place or place == "etc/hosts" else "")
    write_tar([symlink_entry(place.encode(), str(target).encode())], tar.write)
    attacked = Attacked(registry, tmp_path, working, HostileLayer(tar.getvalue()))
    assert attacked.verify().ok
    assert attacked.evaluate().partition(" ")[0] == outcome
    attacked.check_outside()


@pytest.mark.parametrize("attack", ["an absolute path", "a block device"])
def test_a_real_registry_carries_hostile_images_as_well(attack: str, tmp_path: Path) -> None:
    with docker_registry(tmp_path / "registry") as host:
        (tmp_path / "all").mkdir()
        attacked = Attacked(host, tmp_path / "all", HostileLayer(SEEN_BY_VERIFY[attack][0] + END))
        assert attacked.verify().reason.endswith(SEEN_BY_VERIFY[attack][1])
        attacked.check_outside()


def test_a_layer_that_cannot_fit_on_the_disk_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with pytest.raises(PackError) as caught:
        refuse_too_large(tmp_path, 1 << 62, "sha256:…")
    said = str(caught.value)
    assert said.startswith(f"sha256:…: unpacks to {1 << 62} bytes, the store's disk has ")
    assert said.endswith(" left\nhint: wideswe-pack gc, or --store on a larger disk")


def test_the_lab_of_these_tests_does_judge(working: HostileLayer, registry: str, tmp_path: Path) -> None:
    """Else every attack above could be refused for a reason of the tests' own."""
    attacked = Attacked(registry, tmp_path, working)
    assert attacked.verify().ok
    assert attacked.evaluate() == "resolved every target is resolved"
