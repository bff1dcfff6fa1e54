"""Faults that others have published, each met again here: a hostile registry, image or layout, and what we say to it.

The number in a mark is that of the report in the list that this work began with; `tests/house/test_reports.py` keeps
the table. Where an image is hostile it is signed by the right key: even then nothing of it gets out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from packager.base.digests import DiffId, digest_of
from packager.base.errors import InputError, IntegrityError, PackError, WorldError
from packager.evaluate.judge import read_image
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import Descriptor, describe
from packager.oci.layer import Layer, write_layer
from packager.oci.manifest import (
    MEDIA_CONFIG,
    MEDIA_INDEX,
    MEDIA_LAYER_ZSTD,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
)
from packager.oci.reference import Reference
from packager.registry.client import RegistryClient, signature_tag
from packager.registry.pull import Pull
from packager.registry.push import push_image
from packager.store.store import Store
from packager.trust.layers import measure_layer
from packager.trust.verify import verify_image
from tests.support.images import bytes_of, make_full_image, make_image
from tests.support.raw_tar import END, raw_file, raw_header
from tests.support.registry import MemoryRegistry, Options
from tests.support.registry_contract import QUICK, as_sets
from tests.support.sealed_images import KEY, SealedImage, image_of, sealed_entries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.oci.record import ImageRecord

REPOSITORY = "suite/task"


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with MemoryRegistry() as registry:
        yield registry


@pytest.fixture
def author(tmp_path: Path) -> Store:
    return Store(tmp_path / "author")


@pytest.fixture
def lab(tmp_path: Path) -> Store:
    return Store(tmp_path / "lab")


def at(registry: MemoryRegistry, name: str = "v1") -> Reference:
    reference = Reference(registry.host, REPOSITORY)
    digest = name.startswith("sha256:")
    return dataclasses.replace(reference, **{"digest" if digest else "tag": name})  # type: ignore[arg-type]


def pull(registry: MemoryRegistry, lab: Store, name: str = "v1", environ: dict[str, str] | None = None) -> ImageRecord:
    client = RegistryClient(registry.host, environ=environ or {}, pacing=QUICK)
    try:
        return Pull(client, lab, at(registry, name)).run()
    finally:
        client.close()


def refusal(registry: MemoryRegistry, lab: Store, name: str = "v1") -> str:
    with pytest.raises(PackError) as caught:
        pull(registry, lab, name)
    assert not lab.check()
    return str(caught.value).replace(registry.host, "HOST")


def raw_layer(store: Store, tar: bytes) -> Layer:
    """A layer of any bytes."""
    blob = zstandard.compress(tar)
    diff_id = DiffId(f"sha256:{hashlib.sha256(tar).hexdigest()}")
    return Layer(diff_id, store.put(blob), len(blob), len(tar), MEDIA_LAYER_ZSTD)


def signed_image(store: Store, tar: bytes) -> SealedImage:
    return image_of(store, [raw_layer(store, tar), write_layer(sealed_entries(), store)])


def evaluated(registry: MemoryRegistry, author: Store, lab: Store, tar: bytes) -> str:
    """Push, pull, verify and unpack an image for an evaluation, which must refuse it; return what is said."""
    image = signed_image(author, tar)
    push_image(author, image.record, at(registry))
    record = pull(registry, lab)
    checks = verify_image(record, lab, public_keys=[KEY.public])
    assert [check for check in checks[:5] if not check.ok] == []
    before = sorted(path.name for path in lab.root.parent.iterdir())
    with pytest.raises((InputError, IntegrityError)) as caught:
        read_image(lab, record).trees(lab)
    assert not any((lab.root / "trees").glob("*"))
    assert sorted(path.name for path in lab.root.parent.iterdir()) == before
    return str(caught.value).removeprefix(f"{image.manifest.layers[0].digest}: ")


def edited(registry: MemoryRegistry, author: Store, change: dict[str, Any]) -> None:
    """Serve, under v1, an image whose manifest says something else in one place."""
    record = make_image(author)
    push_image(author, record, at(registry))
    manifest = json.loads(author.read(record.manifest.digest, 1 << 20))
    manifest["layers"][0] |= change
    registry.put_manifest(REPOSITORY, json.dumps(manifest).encode(), MEDIA_MANIFEST, "v1")


# -- a registry that never ends --


@pytest.mark.report(5)
def test_endless_attestations_end(registry: MemoryRegistry, author: Store, lab: Store) -> None:
    record = make_image(author)
    push_image(author, record, at(registry))
    registry.options.page = 1
    for number in range(70):
        layer = describe("application/x", b"%d" % number)
        registry.put_blob(REPOSITORY, b"%d" % number)
        manifest = Manifest(layer, (layer,), artifact_type="application/x", subject=record.manifest)
        registry.put_manifest(REPOSITORY, format_manifest(manifest), MEDIA_MANIFEST)
    assert refusal(registry, lab) == (
        f"HOST/{REPOSITORY}: referrers of {record.manifest.digest}: expected at most 64 referrers, found 65\n"
        "hint: remove referrers that are no longer needed, or keep them in another repository"
    )


@pytest.mark.report(6)
def test_thousands_of_layers_are_refused_before_any_is_fetched(
    registry: MemoryRegistry, author: Store, lab: Store
) -> None:
    record = make_image(author)
    push_image(author, record, at(registry))
    manifest = json.loads(author.read(record.manifest.digest, 1 << 20))
    manifest["layers"] = manifest["layers"][:1] * 1001
    registry.put_manifest(REPOSITORY, json.dumps(manifest).encode(), MEDIA_MANIFEST, "v1")
    registry.begin(None)
    assert refusal(registry, lab) == (f"HOST/{REPOSITORY}: tag v1.layers: expected at most 1000 layers, found 1001")
    assert registry.requests("GET", "/blobs/") == []


@pytest.mark.report(11)
def test_an_unbounded_list_of_signatures_is_refused(registry: MemoryRegistry, author: Store, lab: Store) -> None:
    record = make_image(author)
    push_image(author, record, at(registry))
    config = describe(MEDIA_CONFIG, b"{}")
    tag = signature_tag(record.manifest.digest, ".sig")
    value = json.loads(format_manifest(Manifest(config, (describe("application/x", b"s"),))))
    value["layers"] = value["layers"] * 1001
    registry.put_manifest(REPOSITORY, json.dumps(value).encode(), MEDIA_MANIFEST, tag)
    assert refusal(registry, lab) == f"HOST/{REPOSITORY}: tag {tag}.layers: expected at most 1000 layers, found 1001"


# -- digests --


@pytest.mark.report(13, 19)
@pytest.mark.parametrize("digest", ["sha256:../../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "0" * 32, "/etc"])
def test_a_digest_that_is_a_path_or_of_another_kind_is_refused(
    registry: MemoryRegistry, author: Store, lab: Store, digest: str
) -> None:
    edited(registry, author, {"digest": digest})
    registry.begin(None)
    said = refusal(registry, lab)
    assert said.startswith(f"HOST/{REPOSITORY}: tag v1.layers[0].digest: ")
    assert registry.requests("GET", "/blobs/") == []


@pytest.mark.report(10, 14)
def test_a_helpful_registry_cannot_answer_with_another_image(
    registry: MemoryRegistry, author: Store, lab: Store
) -> None:
    wanted, other = make_image(author), make_image(author, seed=2)
    for record in (wanted, other):
        push_image(author, record, at(registry))
    kept = registry.manifests[REPOSITORY]
    kept[wanted.manifest.digest] = kept[other.manifest.digest]
    said = refusal(registry, lab, wanted.manifest.digest)
    assert said == (
        f"HOST/{REPOSITORY}: manifest {wanted.manifest.digest}: expected {wanted.manifest.digest}, found"
        f" {other.manifest.digest} ({other.manifest.size} bytes)"
    )
    registry.options.extra_headers = {"Docker-Content-Digest": other.manifest.digest}
    assert "expected" in refusal(registry, lab, wanted.manifest.digest)


@pytest.mark.report(33)
def test_a_corrupted_blob_is_not_taken(registry: MemoryRegistry, author: Store, lab: Store) -> None:
    record = make_image(author)
    push_image(author, record, at(registry))
    digest = digest_of(bytes_of(70_000, 101))
    registry.blobs[REPOSITORY][digest] = bytes(70_000)
    found = digest_of(bytes(70_000))
    assert refusal(registry, lab) == (
        f"HOST/{REPOSITORY}: blob {digest}: expected {digest}, found {found} (70000 bytes)"
    )
    assert not lab.has(digest)
    assert not lab.has(record.manifest.digest)


# -- documents that mean two things --


@pytest.mark.report(15)
@pytest.mark.parametrize("media_type", [MEDIA_INDEX, MEDIA_MANIFEST])
def test_a_document_is_what_its_header_and_its_fields_both_say(
    registry: MemoryRegistry, author: Store, lab: Store, media_type: str
) -> None:
    record = make_image(author)
    push_image(author, record, at(registry))
    value = json.loads(author.read(record.manifest.digest, 1 << 20))
    del value["mediaType"]
    value["manifests"] = []
    registry.put_manifest(REPOSITORY, json.dumps(value).encode(), media_type, "v1")
    stranger = "config" if media_type == MEDIA_INDEX else "manifests"
    assert refusal(registry, lab) == (
        f"HOST/{REPOSITORY}: tag v1: expected a document of one kind, found the field {stranger} too"
    )


@pytest.mark.report(16)
def test_a_layer_that_lies_elsewhere_is_refused(registry: MemoryRegistry, author: Store, lab: Store) -> None:
    with MemoryRegistry() as stranger:
        edited(registry, author, {"urls": [f"{stranger.url}/steal"]})
        assert refusal(registry, lab) == (
            f"HOST/{REPOSITORY}: tag v1.layers[0].urls: expected no urls, found a layer that lies elsewhere"
        )
        assert stranger.seen == []


@pytest.mark.report(34)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"schemaVersion":2,"schemaVersion":2}', "duplicate key 'schemaVersion'"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":1} {"b":2}', "Extra data: line 1 column 9 (char 8)"),
        (b"\xef\xbb\xbf{}", "Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"),
        (b'{"a":' + b"9" * 400 + b"}", "number out of range: " + "9" * 40),
        (b'{"a":' + b"[" * 80 + b"]" * 80 + b"}", "nested deeper than 64"),
    ],
)
def test_json_that_two_readers_read_differently_is_refused(
    registry: MemoryRegistry, lab: Store, data: bytes, said: str
) -> None:
    registry.put_manifest(REPOSITORY, data, MEDIA_MANIFEST, "v1")
    assert refusal(registry, lab) == f"HOST/{REPOSITORY}: tag v1: not acceptable JSON: {said}"


# -- credentials --


@pytest.mark.report(17, 18, 19)
def test_a_token_service_elsewhere_gets_no_credentials(tmp_path: Path, author: Store, lab: Store) -> None:
    make_image(author)
    with MemoryRegistry() as thief, MemoryRegistry(Options(authentication="bearer")) as registry:
        registry.options.realm = f"http://169.254.169.254:{thief.host.partition(':')[2]}/token"
        registry.options.users = {"someone": "secret"}
        (tmp_path / "config.json").write_text(
            json.dumps({"auths": {registry.host: {"username": "someone", "password": "secret"}}})
        )
        with pytest.raises(WorldError) as caught:
            pull(registry, lab, environ={"DOCKER_CONFIG": str(tmp_path)})
        realm = registry.options.realm.partition("/token")[0]
        assert str(caught.value) == (
            f"{registry.host}: token service {realm}: refused to send credentials over plain http\n"
            "hint: let the registry name an https token service, or log out to go on without credentials"
        )
        assert thief.seen == []


@pytest.mark.report(26)
def test_a_redirect_takes_no_credentials_along_and_netrc_is_not_read(
    tmp_path: Path, author: Store, lab: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_image(author)
    with MemoryRegistry(Options(authentication="basic", users={"a": "b"})) as registry, MemoryRegistry() as storage:
        (tmp_path / "config.json").write_text(
            json.dumps({"auths": {registry.host: {"username": "a", "password": "b"}}})
        )
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login netrc password leaked\n")
        (tmp_path / ".netrc").chmod(0o600)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        push_image(author, record, at(registry))
        storage.blobs = registry.blobs
        registry.options.storage_host = storage.host
        assert as_sets(pull(registry, lab, environ={"DOCKER_CONFIG": str(tmp_path)})) == as_sets(record)
        assert len(storage.seen) == 3
        assert not any("Authorization" in seen.headers for seen in storage.seen)
        given = {seen.headers.get("Authorization") for seen in registry.seen}
        assert given == {None, "Basic YTpi"}


# -- layers --


@pytest.mark.report(20, 21, 22, 24, 33)
@pytest.mark.parametrize(
    ("tar", "said"),
    [
        (raw_file(b"../outside", b"!"), "../outside: expected a plain path inside the layer"),
        (raw_file(b"/outside", b"!"), "/outside: expected a plain path inside the layer"),
        (
            raw_header(b"l", b"2", link=b"..") + raw_file(b"l/outside", b"!"),
            "l: lies below something that is not a directory",
        ),
        (
            raw_header(b"l", b"2", link=b"../outside") + raw_header(b"h", b"1", link=b"l"),
            "h: expected a hard link to an earlier file of the same layer, found l",
        ),
        (raw_header(b"h", b"1", link=b"/etc/passwd"), "/etc/passwd: expected a plain path inside the layer"),
        (
            raw_header(b"d", b"5") + raw_header(b"d/l", b"2", link=b"..") + raw_header(b"d/h", b"1", link=b"d/l/x"),
            "d/h: expected a hard link to an earlier file of the same layer, found d/l/x",
        ),
        (raw_file(b"../.wh.outside"), "../.wh.outside: expected a plain path inside the layer"),
        (
            raw_header(b"l", b"2", link=b"/") + raw_file(b"l/.wh..wh..opq"),
            "l: lies below something that is not a directory",
        ),
        (raw_header(b"dev/sda", b"4"), "dev/sda: expected files, directories and links, found a block device"),
    ],
    ids=[
        "parent",
        "absolute",
        "symbolic link",
        "hard link to a link",
        "hard link outside",
        "hard link through a link",
        "whiteout outside",
        "opaque through a link",
        "device",
    ],
)
def test_a_signed_layer_that_reaches_outside_is_refused(
    registry: MemoryRegistry, author: Store, lab: Store, tar: bytes, said: str
) -> None:
    assert evaluated(registry, author, lab, tar + END) == said


@pytest.mark.report(22)
def test_a_link_named_like_the_root_does_not_replace_it(registry: MemoryRegistry, author: Store, lab: Store) -> None:
    image = signed_image(author, raw_header(b".", b"2", link=b"/") + raw_file(b"x", b"!") + END)
    push_image(author, image.record, at(registry))
    (tree,) = read_image(lab, pull(registry, lab)).trees(lab)
    assert not tree.is_symlink()
    assert [path.name for path in tree.iterdir()] == ["x"]


@pytest.mark.report(23)
def test_a_flood_of_opaque_whiteouts_takes_no_longer_than_its_bytes(
    registry: MemoryRegistry, author: Store, lab: Store
) -> None:
    count = 10_000
    files = b"".join(raw_file(b"d/%d" % number) for number in range(count))
    flood = raw_header(b"d", b"5") + files + raw_file(b"d/.wh..wh..opq") * count + END
    image = signed_image(author, flood)
    push_image(author, image.record, at(registry))
    record = pull(registry, lab)
    began = time.process_time()
    (tree,) = read_image(lab, record).trees(lab)
    assert len(list((tree / "d").iterdir())) == count
    assert time.process_time() - began < 20


@pytest.mark.report(24)
def test_a_chain_of_links_longer_than_any_path_is_not_followed(
    registry: MemoryRegistry, author: Store, lab: Store
) -> None:
    """Python's tarfile believed such a chain to end inside: resolving it failed, and the rest was taken as it was."""
    name = b"d" * 200
    chain = b""
    place = b""
    for letter in b"abcdefghijklmnop":
        chain += raw_header(place + name[:40], b"5") + raw_header(place + bytes([letter]), b"2", link=name[:40])
        place += bytes([letter]) + b"/"
    tar = chain + raw_header(place + b"up", b"2", link=b"../" * 16) + raw_file(place + b"up/outside", b"!") + END
    assert evaluated(registry, author, lab, tar).endswith("lies below something that is not a directory")


@pytest.mark.report(25)
def test_a_layer_that_unpacks_to_far_more_than_it_is_stops_at_the_bound(author: Store) -> None:
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(64 << 20))
    layer = Descriptor(MEDIA_LAYER_ZSTD, author.put(bomb), len(bomb))
    assert len(bomb) < 10_000
    with pytest.raises(IntegrityError) as caught:
        measure_layer(author, layer, limit_bytes=1 << 20)
    assert str(caught.value) == f"{layer.digest}: unpacks to more than 1048576 bytes"


@pytest.mark.report(25)
def test_an_answer_is_not_decompressed_on_the_way(registry: MemoryRegistry, author: Store, lab: Store) -> None:
    record = make_image(author)
    push_image(author, record, at(registry))
    registry.options.extra_headers = {"Content-Encoding": "gzip"}
    registry.begin(None)
    assert as_sets(pull(registry, lab)) == as_sets(record)
    assert {seen.headers["Accept-Encoding"] for seen in registry.seen} == {"identity"}


@pytest.mark.report(29)
@pytest.mark.parametrize(("api", "says"), [(False, True), (True, False), (False, False)])
def test_referrers_are_not_lost_whatever_a_registry_says_of_itself(
    author: Store, lab: Store, api: bool, says: bool
) -> None:
    record = make_full_image(author)
    with MemoryRegistry(Options(referrers_api=api, says_subject=says)) as registry:
        push_image(author, record, at(registry))
        assert as_sets(pull(registry, lab)) == as_sets(record)


@pytest.mark.report(30)
@pytest.mark.parametrize("key", ["Env", "Cmd", "Entrypoint"])
def test_a_config_with_a_byte_that_ends_strings_is_refused(
    registry: MemoryRegistry, author: Store, lab: Store, key: str
) -> None:
    layers = [raw_layer(author, raw_file(b"x", b"!") + END), write_layer(sealed_entries(), author)]
    value = json.loads(format_config(ImageConfig("amd64", tuple(layer.diff_id for layer in layers))))
    value["config"][key] = ["A=1\0B=2"]
    data = json.dumps(value).encode()
    author.put(data)
    manifest = Manifest(describe(MEDIA_CONFIG, data), tuple(layer.descriptor() for layer in layers))
    image = SealedImage(author, make_image(author), manifest).with_signed(manifest)
    push_image(author, image.record, at(registry))
    record = pull(registry, lab)
    last = verify_image(record, lab, public_keys=[KEY.public])[-1]
    assert (last.name, last.ok, last.reason) == ("config", False, f"config.config.{key}: expected texts without NUL")
    with pytest.raises(InputError):
        read_image(lab, record)
