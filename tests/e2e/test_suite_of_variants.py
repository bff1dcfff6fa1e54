"""Twenty variants of the small shipped task: pushed, mirrored twice, carried in one file, and judged where they arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.oci.config import format_config, parse_config
from packager.oci.descriptor import describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, format_manifest, parse_manifest
from packager.oci.places import TASK_LABEL
from packager.oci.record import ImageRecord, format_record
from packager.registry.client import RegistryClient
from packager.trust.keyfiles import Password, read_private_key
from packager.trust.signatures import sign_image
from tests.support.docker_registry import docker_registry
from tests.support.registry_contract import as_sets
from tests.support.walk import HOME, TASK, Party

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.network]
COUNT = 20


def make_variants(author: Party) -> list[str]:
    """Put twenty tasks into the author's store that differ from the shipped one in a file and in their name."""
    store, original = author.store, author.record
    key = read_private_key(author.keys / "release.key", Password(""))
    manifest = parse_manifest(store.read(original.manifest.digest, 1 << 20))
    config = parse_config(store.read(manifest.config.digest, 1 << 20))
    names = [f"hello-wide-{number:03}" for number in range(101, 101 + COUNT)]
    for name in names:
        own = write_layer([file_entry(b"workspace/variant", name.encode())], store)
        layers = (*manifest.layers[:-1], own.descriptor(), manifest.layers[-1])
        diff_ids = (*config.diff_ids[:-1], own.diff_id, config.diff_ids[-1])
        data = format_config(replace(config, diff_ids=diff_ids, labels={**config.labels, TASK_LABEL: name}))
        store.put(data)
        made = format_manifest(replace(manifest, config=describe(MEDIA_CONFIG, data), layers=layers))
        store.put(made)
        record = ImageRecord(describe(MEDIA_MANIFEST, made))
        record = sign_image(record.manifest, f"{HOME}/{name}:v1", key, store).added_to(record)
        store.set_name("images", name, format_record(record))
    return names


def test_a_suite_of_twenty_variants_goes_everywhere(author: Party, tmp_path: Path) -> None:
    names = make_variants(author)
    place = api.Place(author.root, author.store_root, author.keys, password=Password(""))
    lab = replace(place, store_root=tmp_path / "lab")
    try:
        with docker_registry(tmp_path / "first") as first, docker_registry(tmp_path / "second") as second:
            for name in names:
                api.push(place, name, namespace=f"{first}/wideswe")
            pairs = api.mirror_pairs(f"{first}/wideswe", f"{second}/wideswe", names)
            moved = [api.mirror(lab, pairs) for _ in range(2)]
            print(
                f"first mirror: {sum(one.moved_bytes for one in moved[0])} bytes in {sum(one.moved for one in moved[0])} blobs"
            )
            assert [(one.moved, one.moved_bytes) for one in moved[1]] == [(0, 0)] * COUNT
            assert all(one.moved < one.blobs for one in moved[0][1:])
            client = RegistryClient(second, environ={})
            digests = [client.get_manifest(f"wideswe/{name}", "v1").descriptor.digest for name in names]
            assert digests == [place.record(name).manifest.digest for name in names]
        whole = api.export_bundle(place, api.Cargo(tuple(names)), tmp_path / "suite.tar").size_bytes
        single = api.export_bundle(place, api.Cargo((names[0],)), tmp_path / "one.tar").size_bytes
        print(f"bundle of {COUNT}: {whole} bytes; {COUNT} bundles of one: {COUNT * single} bytes")
        assert whole < 1.1 * single
        taken = api.import_bundle(lab, tmp_path / "suite.tar")
        assert [shipped.task for shipped in taken] == names
        assert [as_sets(lab.record(name)) for name in names] == [as_sets(place.record(name)) for name in names]
        checks = api.verify(lab, names[-1], public_keys=[str(author.keys / "release.pub")])
        assert [check.reason for check in checks if not check.ok] == []
        assert TASK not in lab.store().names("images")
    finally:
        for name in names:
            author.store.remove_name("images", name)
