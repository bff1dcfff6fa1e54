"""Descriptors, manifests, indexes, configs, references and records: what they accept, what they refuse, what they say."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from packager.base.digests import DiffId, digest_of
from packager.base.errors import InputError
from packager.oci.config import ImageConfig, content_id, format_config, parse_config
from packager.oci.descriptor import Descriptor, describe, format_descriptor, parse_descriptor
from packager.oci.manifest import (
    EMPTY_BYTES,
    EMPTY_DESCRIPTOR,
    MEDIA_CONFIG,
    MEDIA_INDEX,
    MEDIA_LAYER_ZSTD,
    MEDIA_MANIFEST,
    Index,
    Manifest,
    format_index,
    format_manifest,
    parse_index,
    parse_manifest,
)
from packager.oci.record import ImageRecord, SignatureTag, format_record, parse_record
from packager.oci.reference import Reference, parse_reference

CONFIG = describe(MEDIA_CONFIG, b"{}")
LAYER = describe(MEDIA_LAYER_ZSTD, b"layer")
MANIFEST = Manifest(CONFIG, (LAYER,), {"a": "1"})
HEX = "ab" * 32


def test_a_descriptor_keeps_its_fields() -> None:
    full = Descriptor(MEDIA_MANIFEST, LAYER.digest, 7, {"k": "v"}, "application/x", "linux/arm64/v8")
    for descriptor in (full, LAYER):
        assert parse_descriptor(format_descriptor(descriptor), where="d") == descriptor


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"digest": f"sha256:{HEX[:-2]}AB"},
            f"d.digest: expected sha256: and 64 hexadecimal digits, found 'sha256:{HEX[:-2]}AB'",
        ),
        ({"digest": "sha256:../../x"}, "d.digest: expected sha256: and 64 hexadecimal digits, found 'sha256:../../x'"),
        ({"digest": None}, "d.digest: expected a text, found nothing"),
        ({"size": -1}, "d.size: expected a size in bytes, found -1"),
        ({"size": True}, "d.size: expected a size in bytes, found True"),
        ({"size": "5"}, "d.size: expected a size in bytes, found 5"),
        ({"mediaType": ""}, "d.mediaType: expected a text, found an empty text"),
        ({"urls": ["http://x"]}, "d.urls: expected no urls, found a layer that lies elsewhere"),
        ({"annotations": {"a": 1}}, "d.annotations['a']: expected a text, found int"),
        ({"annotations": []}, "d.annotations: expected an object, found list"),
        ({"data": "e30="}, "d.data: inline data is not what the digest and size say"),
        ({"data": "%"}, "d.data: expected base64"),
        ({"platform": {"os": "linux"}}, "d.platform.architecture: expected a text, found nothing"),
    ],
)
def test_a_wrong_descriptor_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_descriptor({**format_descriptor(LAYER), **change}, where="d")
    assert str(caught.value) == said


def test_right_inline_data_is_fine() -> None:
    value = {**format_descriptor(LAYER), "data": base64.b64encode(b"layer").decode()}
    assert parse_descriptor(value, where="d") == LAYER


def test_manifests_have_canonical_bytes() -> None:
    data = format_manifest(MANIFEST)
    assert data == (
        b'{"annotations":{"a":"1"},"config":{"digest":"%b","mediaType":"%b","size":2},"layers":[{"digest":"%b",'
        b'"mediaType":"%b","size":5}],"mediaType":"%b","schemaVersion":2}'
        % tuple(text.encode() for text in (CONFIG.digest, MEDIA_CONFIG, LAYER.digest, MEDIA_LAYER_ZSTD, MEDIA_MANIFEST))
    )
    assert parse_manifest(data) == MANIFEST


def test_artifacts_and_indexes_keep_their_fields() -> None:
    artifact = Manifest(EMPTY_DESCRIPTOR, (LAYER,), {}, "application/x", describe(MEDIA_MANIFEST, b"m"))
    assert parse_manifest(format_manifest(artifact)) == artifact
    index = Index((describe(MEDIA_MANIFEST, b"m"),), {"a": "b"}, "application/y", CONFIG)
    assert parse_index(format_index(index)) == index
    assert describe(EMPTY_DESCRIPTOR.media_type, EMPTY_BYTES) == EMPTY_DESCRIPTOR


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"manifests": []}, "manifest: expected a document of one kind, found the field manifests too"),
        ({"mediaType": MEDIA_INDEX}, f"manifest.mediaType: expected {MEDIA_MANIFEST}, found {MEDIA_INDEX}"),
        ({"schemaVersion": 1}, "manifest: expected schemaVersion 2, found 1"),
        ({"layers": {}}, "manifest.layers: expected a list, found dict"),
        ({"layers": [1]}, "manifest.layers[0]: expected an object, found int"),
        ({"config": None}, "manifest.config: expected an object, found nothing"),
        (
            {"config": format_descriptor(EMPTY_DESCRIPTOR)},
            "manifest.artifactType: expected an artifactType beside an empty config",
        ),
        ({"layers": [format_descriptor(LAYER)] * 1001}, "manifest.layers: expected at most 1000 layers, found 1001"),
    ],
)
def test_a_wrong_manifest_is_refused(change: dict[str, Any], said: str) -> None:
    value = json.loads(format_manifest(MANIFEST))
    with pytest.raises(InputError) as caught:
        parse_manifest(json.dumps({**value, **change}).encode())
    assert str(caught.value) == said


@pytest.mark.parametrize("field", ["layers", "config"])
def test_an_index_that_could_be_a_manifest_is_refused(field: str) -> None:
    value = json.loads(format_index(Index(())))
    with pytest.raises(InputError) as caught:
        parse_index(json.dumps({**value, field: []}).encode())
    assert str(caught.value) == f"index: expected a document of one kind, found the field {field} too"


def test_a_manifest_over_four_mebibytes_is_neither_written_nor_read() -> None:
    with pytest.raises(InputError, match=r"expected at most 4194304 bytes of JSON, found 4\d+"):
        format_manifest(Manifest(CONFIG, (), {"a": "x" * (4 << 20)}))
    with pytest.raises(InputError, match=r"^manifest: expected at most 4194304 bytes of JSON, found 4194305"):
        parse_manifest(b" " * ((4 << 20) + 1))


def test_the_config_says_nothing_of_where_and_when_it_was_made() -> None:
    diff_id = DiffId(digest_of(b"tar"))
    config = ImageConfig("amd64", (diff_id,), env=("A=1",), labels={"l": "m"}, workdir="/workspace", cmd=("sh",))
    data = format_config(config)
    assert data == (
        b'{"architecture":"amd64","config":{"Cmd":["sh"],"Env":["A=1"],"Labels":{"l":"m"},"WorkingDir":"/workspace"},'
        b'"created":"1980-01-01T00:00:00Z","history":[{"created":"1980-01-01T00:00:00Z","created_by":"wideswe-pack"}],'
        b'"os":"linux","rootfs":{"diff_ids":["%b"],"type":"layers"}}' % diff_id.encode()
    )
    assert parse_config(data) == config
    assert content_id(config.diff_ids, data) != content_id((), data)


def test_a_config_of_another_tool_is_read() -> None:
    value = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "container": "x",
        "config": {"Env": None, "Cmd": None, "Entrypoint": ["/init"], "User": "", "Labels": None, "Hostname": "h"},
        "rootfs": {"type": "layers", "diff_ids": []},
    }
    assert parse_config(json.dumps(value).encode()) == ImageConfig("amd64", (), entrypoint=("/init",))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rootfs": {"type": "other"}}, "config.rootfs.type: expected layers, found other"),
        ({"os": None}, "config.os: expected a text, found nothing"),
        ({"config": {"Env": ["A", 1]}}, "config.config.Env: expected a list of texts"),
    ],
)
def test_a_wrong_config_is_refused(change: dict[str, Any], said: str) -> None:
    value = json.loads(format_config(ImageConfig("amd64", ())))
    with pytest.raises(InputError) as caught:
        parse_config(json.dumps({**value, **change}).encode())
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost/a", Reference("localhost", "a")),
        ("127.0.0.1:5000/a/b_c/d-e:v1.0", Reference("127.0.0.1:5000", "a/b_c/d-e", "v1.0")),
        (f"r.example/a@sha256:{HEX}", Reference("r.example", "a", None, digest_of(b""))),
        (f"[::1]:5000/a:t@sha256:{HEX}", Reference("[::1]:5000", "a", "t", digest_of(b""))),
    ],
)
def test_references_are_read_and_said_again(text: str, expected: Reference) -> None:
    found = parse_reference(text)
    assert str(found) == text
    assert (found.registry, found.repository, found.tag) == (expected.registry, expected.repository, expected.tag)
    assert (found.digest is None) == (expected.digest is None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ubuntu", "expected registry/repository[:tag][@digest], found 'ubuntu'"),
        ("library/ubuntu", "expected registry/repository[:tag][@digest], found 'library/ubuntu'"),
        ("", "expected registry/repository[:tag][@digest], found ''"),
        ("r.example/A", "expected a repository (lower case, digits, separators), found 'A'"),
        ("r.example/../a", "expected a repository (lower case, digits, separators), found '../a'"),
        ("r.example/a//b", "expected a repository (lower case, digits, separators), found 'a//b'"),
        ("r.example/a:", "expected a tag, found ''"),
        ("r.example/a:b/c", "expected a tag, found 'b/c'"),
        ("r.example/a\n", "expected a repository (lower case, digits, separators), found 'a\\n'"),
        ("r.example:99x/a", "expected a registry host, found 'r.example:99x'"),
        ("user:pw@r.example/a", "expected registry/repository[:tag][@digest], found 'user:pw@r.example/a'"),
        ("r.example/a@sha256:12", "expected sha256: and 64 hexadecimal digits, found 'sha256:12'"),
        ("r.example/" + "a" * 260, "expected a name of at most 255 characters, found 270"),
    ],
)
def test_a_wrong_reference_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_reference(text)
    assert caught.value.reason == reason


def test_records_keep_their_fields() -> None:
    manifests = [describe(MEDIA_MANIFEST, b"%d" % number) for number in range(4)]
    record = ImageRecord(manifests[0], (SignatureTag("sha256-x.sig", manifests[1]),), (manifests[2],), (manifests[3],))
    assert parse_record(format_record(record)) == record
    assert list(record.manifests()) == manifests
    with pytest.raises(InputError) as caught:
        parse_record(b'{"manifest":null}')
    assert str(caught.value) == "image record.manifest: expected an object, found nothing"
