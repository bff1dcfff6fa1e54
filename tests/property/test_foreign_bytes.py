"""Whatever bytes strangers send, a parser takes them or refuses them by name: it never falls over."""

from __future__ import annotations

import functools
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_LAYER_ZSTD, Index, Manifest, format_index, format_manifest
from packager.oci.record import format_record
from packager.oci.tar_writer import pax_record
from packager.registry.bundle_export import Export
from packager.store.store import Store
from tests.support.foreign import PARSERS, feed
from tests.support.images import make_full_image
from tests.support.raw_tar import END, pax, raw_file, raw_header
from tests.support.suite_images import make_suite

BOUNDED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("sha256:" + "0" * 64)


@functools.cache
def seeds() -> dict[str, bytes]:
    """One good document for each parser, to be spoilt."""
    with tempfile.TemporaryDirectory() as name:
        store = Store(Path(name))
        record = make_full_image(store, sizes=(10,))
        suite = make_suite(store, 1, size=200)
        (signed,) = suite.values()
        Export(store, Path(name, "bundle.tar")).run({"registry.example/a/b:v1": signed})
        bundle = Path(name, "bundle.tar").read_bytes()
        with tarfile.open(Path(name, "bundle.tar")) as archive:
            docker = archive.extractfile("manifest.json").read()  # type: ignore[union-attr]
        config = json.loads(store.read(record.manifest.digest, 1 << 20))["config"]
    layer = describe(MEDIA_LAYER_ZSTD, b"x")
    manifest = Manifest(describe(MEDIA_CONFIG, b"{}"), (layer,), {"a": "b"}, subject=layer)
    tar = (
        raw_header(b"d", b"5") + raw_file(b"d/f", b"x" * 600) + pax(pax_record(b"path", b"abcd")) + raw_file(b"x") + END
    )
    auths = {"auths": {"registry.example": {"auth": "YTpi"}}, "credHelpers": {}, "credsStore": ""}
    return {
        "reference": b"registry.example:5000/a/b_c/d:v1@sha256:" + b"0" * 64,
        "manifest": format_manifest(manifest),
        "index": format_index(Index((layer,))),
        "config": json.dumps(
            {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [config["digest"]]}}
        ).encode(),
        "record": format_record(record),
        "docker manifest.json": docker,
        "docker config.json": json.dumps(auths).encode(),
        "WWW-Authenticate": b'Bearer realm="https://a.example/t?x=1",service="s, t",scope="a b", Basic realm="x"',
        "Link": b'</v2/a/tags/list?last=x&n=1>; rel="next", <//[::1]:80/>; rel=next',
        "Location": b"https://storage.example:8443/x?y=z#f",
        "tar": tar,
        "layer": tar,
        "bundle": bundle,
        "sigstore bundle": b'{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":{}}',
        "statement": b'{"_type":"https://in-toto.io/Statement/v1","subject":[],"predicateType":"x","predicate":{}}',
        "payload": b'{"critical":{"identity":{"docker-reference":"a"},"image":{},"type":""},"optional":null}',
    }


def spoil(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Cut out and put in bytes at places that are parts of the whole."""
    for place, length, put in edits:
        start = int(place * len(data))
        data = data[:start] + put + data[start + length :]
    return data


EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=12)), max_size=4)


def replaced(value: Any, path: int, put: Any) -> Any:
    """Return a JSON value with one of its parts, counted from the top, replaced."""
    count = 0

    def walk(part: Any) -> Any:
        nonlocal count
        count += 1
        if count == path:
            return put
        if isinstance(part, dict):
            return {key: walk(inner) for key, inner in part.items()}
        return [walk(inner) for inner in part] if isinstance(part, list) else part

    return walk(value)


@pytest.mark.parametrize("name", PARSERS)
def test_the_seed_is_good_or_nearly_so(name: str) -> None:
    taken = feed(name, seeds()[name])
    assert taken is (name not in {"sigstore bundle", "statement", "payload"})


@pytest.mark.parametrize("name", PARSERS)
@BOUNDED
@given(data=st.binary(max_size=600))
def test_any_bytes(name: str, data: bytes) -> None:
    feed(name, data)


@pytest.mark.parametrize("name", PARSERS)
@BOUNDED
@given(edits=EDITS)
def test_good_documents_with_some_bytes_changed(name: str, edits: list[tuple[float, int, bytes]]) -> None:
    feed(name, spoil(seeds()[name], edits))


@pytest.mark.parametrize("name", [name for name in PARSERS if seeds()[name][:1] in b"{["])
@BOUNDED
@given(
    path=st.integers(1, 40),
    put=st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
)
def test_good_documents_with_a_part_of_another_type(name: str, path: int, put: Any) -> None:
    feed(name, json.dumps(replaced(json.loads(seeds()[name]), path, put)).encode())
