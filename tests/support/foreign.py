"""Every parser that reads what strangers wrote, as a function of bytes: each may refuse with a PackError, and no more."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import PackError
from packager.oci.config import parse_config
from packager.oci.layer import unpack_layer
from packager.oci.layout import open_layout
from packager.oci.manifest import parse_index, parse_manifest
from packager.oci.record import parse_record
from packager.oci.reference import parse_reference
from packager.oci.tar_reader import read_tar
from packager.registry.bundle import parse_docker
from packager.registry.bundle_import import Import
from packager.registry.challenges import parse_challenges
from packager.registry.client import next_page
from packager.registry.credentials import find_credentials
from packager.registry.origins import Origin, join_url, next_url, origin_of, token_url
from packager.store.store import Store
from packager.trust.dsse import parse_bundle, parse_statement
from packager.trust.payload import parse_payload

if TYPE_CHECKING:
    from collections.abc import Callable

HOME = Origin("https", "registry.example", 443)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _header(data: bytes) -> str:
    """What an HTTP library hands on of a header."""
    return data.decode("latin-1").replace("\r", "").replace("\n", "")


def _read_reference(data: bytes) -> None:
    found = parse_reference(_text(data))
    assert parse_reference(str(found)) == found


def _read_challenges(data: bytes) -> None:
    for challenge in parse_challenges(_header(data), where="x"):
        if challenge.scheme == "bearer":
            token_url(challenge.parameters.get("realm", ""), home=HOME, where="x")


def _read_link(data: bytes) -> None:
    following = next_page(_header(data))
    if following is not None:
        origin_of(join_url("https://registry.example/v2/a/tags/list", following, where="x"), where="x")


def _read_location(data: bytes) -> None:
    next_url(_header(data), current="https://registry.example/v2/a/blobs/uploads/", home=HOME, where="x")


def _read_tar(data: bytes) -> None:
    for entry, reader in read_tar(io.BytesIO(data)):
        assert not entry.path.startswith(b"/")
        assert b".." not in entry.path.split(b"/")
        reader.read(100)


def _read_credentials(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name, "config.json").write_bytes(data)
        find_credentials("registry.example", {"DOCKER_CONFIG": name, "PATH": name})


def _read_bundle(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, root = Path(name, "bundle.tar"), Path(name, "store")
        path.write_bytes(data)
        try:
            with open_layout(path) as layout:
                Import(layout, Store(root), "bundle.tar").run()
        finally:
            assert not Store(root).check()


def _unpack(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        target = Path(name, "target")
        target.mkdir()
        try:
            unpack_layer(io.BytesIO(data), target, overlay_whiteouts=False, limit=1 << 20)
        finally:
            assert [path.name for path in Path(name).iterdir()] == ["target"]


PARSERS: dict[str, Callable[[bytes], object]] = {
    "reference": _read_reference,
    "manifest": parse_manifest,
    "index": parse_index,
    "config": parse_config,
    "record": parse_record,
    "docker manifest.json": lambda data: parse_docker(data, where="x"),
    "docker config.json": _read_credentials,
    "WWW-Authenticate": _read_challenges,
    "Link": _read_link,
    "Location": _read_location,
    "tar": _read_tar,
    "layer": _unpack,
    "bundle": _read_bundle,
    "sigstore bundle": parse_bundle,
    "statement": parse_statement,
    "payload": parse_payload,
}


def feed(name: str, data: bytes) -> bool:
    """Give bytes to a parser; return whether it took them. Anything but a PackError is a fault of ours."""
    with contextlib.suppress(PackError):
        PARSERS[name](data)
        return True
    return False
