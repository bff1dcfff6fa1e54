"""Stock cosign verifies what we sign, offline, and both read each other's keys; a changed image fails there too."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, run
from packager.oci.manifest import MEDIA_MANIFEST, format_manifest, parse_manifest
from packager.oci.reference import parse_reference
from packager.registry.pull import pull_image
from packager.registry.push import push_image
from packager.store.store import Store
from packager.trust.checks import is_verified
from packager.trust.keyfiles import Password, format_private_key, parse_private_key, write_key_pair
from packager.trust.keys import create_private_key, parse_public_key
from packager.trust.pem import format_pem
from packager.trust.signatures import SIGNATURE_ANNOTATION
from packager.trust.verify import verify_image
from tests.support.debian_tools import obtain_program
from tests.support.docker_registry import docker_registry
from tests.support.sealed_images import KEY, OTHER_KEY, SealedImage, build_image, signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.base.processes import Finished
    from packager.oci.record import ImageRecord

pytestmark = [pytest.mark.engine, pytest.mark.network]

SUITES = ("trixie", "sid")
PASSWORD = "correct horse"
OFFLINE = ("--insecure-ignore-tlog=true", "--allow-http-registry")


@cache
def cosign(suite: str) -> Path:
    return obtain_program("cosign", suite)


def call(suite: str, *arguments: str, folder: Path) -> Finished:
    """Run cosign where it can reach loopback only by name, with an empty home."""
    nowhere = "http://127.0.0.1:9"
    env = {
        "HOME": str(folder),
        "COSIGN_PASSWORD": PASSWORD,
        "COSIGN_YES": "true",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
    }
    return run([str(cosign(suite)), *arguments], Surroundings(env=env, cwd=folder, timeout_s=120))


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with docker_registry(tmp_path / "registry") as host:
        yield host


@pytest.fixture
def image(tmp_path: Path) -> SealedImage:
    (tmp_path / "key.pub").write_bytes(KEY.public.pem)
    (tmp_path / "other.pub").write_bytes(OTHER_KEY.public.pem)
    return build_image(tmp_path / "store")


def push(image: SealedImage, record: ImageRecord, name: str) -> str:
    push_image(image.store, record, parse_reference(name))
    return name


def verify(suite: str, name: str, folder: Path, *more: str, key: str = "key.pub") -> Finished:
    return call(suite, "verify", "--key", key, *OFFLINE, *more, name, folder=folder)


@pytest.mark.parametrize("suite", SUITES)
def test_cosign_verifies_offline_what_we_pushed(suite: str, registry: str, image: SealedImage, tmp_path: Path) -> None:
    name = push(image, image.record, f"{registry}/suite/hello:v1")
    done = verify(suite, name, tmp_path)
    assert done.exit_code == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said[0]["critical"]["image"]["docker-manifest-digest"] == image.record.manifest.digest
    by_digest = f"{registry}/suite/hello@{image.record.manifest.digest}"
    assert verify(suite, by_digest, tmp_path).exit_code == 0
    refused = verify(suite, name, tmp_path, key="other.pub")
    assert refused.exit_code != 0
    assert b"Verified OK" not in refused.stdout + refused.stderr


@pytest.mark.parametrize("suite", SUITES)
def test_cosign_verifies_the_legacy_form_alone(suite: str, registry: str, image: SealedImage, tmp_path: Path) -> None:
    name = push(image, replace(image.record, referrers=()), f"{registry}/suite/hello:v1")
    done = verify(suite, name, tmp_path)
    assert done.exit_code == 0, done.stderr.decode()
    assert json.loads(done.stdout)[0]["critical"]["type"] == "cosign container image signature"


def test_cosign_3_verifies_the_bundle_alone(registry: str, image: SealedImage, tmp_path: Path) -> None:
    name = push(image, replace(image.record, signatures=()), f"{registry}/suite/hello:v1")
    done = verify("sid", name, tmp_path)
    assert done.exit_code == 0, done.stderr.decode()
    assert verify("sid", name, tmp_path, key="other.pub").exit_code != 0


def test_cosign_3_refuses_a_legacy_signature_beside_a_bundle_by_another_key(
    registry: str, image: SealedImage, tmp_path: Path
) -> None:
    theirs = signed(image.store, image.record.manifest, OTHER_KEY)
    name = push(image, replace(image.record, referrers=theirs.referrers), f"{registry}/suite/hello:v1")
    assert verify("sid", name, tmp_path).exit_code != 0
    assert verify("trixie", name, tmp_path).exit_code == 0


@pytest.mark.parametrize("suite", SUITES)
def test_cosign_refuses_a_signature_that_we_refuse(
    suite: str, registry: str, image: SealedImage, tmp_path: Path
) -> None:
    (signature,) = image.record.signatures
    manifest = parse_manifest(image.store.read(signature.manifest.digest, 1 << 20))
    broken = bytearray(base64.b64decode(manifest.layers[0].annotations[SIGNATURE_ANNOTATION]))
    broken[-1] ^= 1
    text = base64.b64encode(bytes(broken)).decode()
    layer = replace(manifest.layers[0], annotations={SIGNATURE_ANNOTATION: text})
    stored = image.put(MEDIA_MANIFEST, format_manifest(replace(manifest, layers=(layer,))))
    record = replace(image.record, signatures=(replace(signature, manifest=stored),), referrers=())
    name = push(image, record, f"{registry}/suite/hello:v1")
    assert verify(suite, name, tmp_path).exit_code != 0
    assert not is_verified(verify_image(record, image.store, public_keys=(KEY.public,)))


@pytest.mark.parametrize("suite", SUITES)
def test_cosign_reads_our_key_file_and_we_read_its(suite: str, tmp_path: Path) -> None:
    key = create_private_key()
    write_key_pair(tmp_path / "ours.key", tmp_path / "ours.pub", key, Password(PASSWORD))
    shown = call(suite, "public-key", "--key", "ours.key", folder=tmp_path)
    assert shown.exit_code == 0, shown.stderr.decode()
    assert parse_public_key(shown.stdout) == key.public
    assert shown.stdout.strip() == key.public.pem.strip()
    made = call(suite, "generate-key-pair", folder=tmp_path)
    assert made.exit_code == 0, made.stderr.decode()
    theirs = parse_private_key((tmp_path / "cosign.key").read_bytes(), Password(PASSWORD))
    assert theirs.public == parse_public_key((tmp_path / "cosign.pub").read_bytes())
    assert theirs.public.pem == (tmp_path / "cosign.pub").read_bytes()


def test_cosign_imports_a_plain_key_for_us(tmp_path: Path) -> None:
    (tmp_path / "plain.pem").write_bytes(format_pem("PRIVATE KEY", create_private_key().der))
    done = call("sid", "import-key-pair", "--key", "plain.pem", "--output-key-prefix", "mine", folder=tmp_path)
    assert done.exit_code == 0, done.stderr.decode()
    assert parse_private_key((tmp_path / "mine.key").read_bytes(), Password(PASSWORD)).public == parse_public_key(
        (tmp_path / "mine.pub").read_bytes()
    )


@pytest.mark.parametrize(
    ("suite", "flags"),
    [
        ("trixie", ("--tlog-upload=false",)),
        ("sid", ("--tlog-upload=false", "--use-signing-config=false", "--new-bundle-format=false")),
        ("sid", ("--tlog-upload=false", "--use-signing-config=false")),
    ],
)
def test_we_read_what_cosign_signs(
    suite: str, flags: tuple[str, ...], registry: str, image: SealedImage, tmp_path: Path
) -> None:
    name = push(image, replace(image.record, signatures=(), referrers=()), f"{registry}/suite/hello:v1")
    (tmp_path / "sign.key").write_bytes(format_private_key(KEY, Password(PASSWORD)))
    target = f"{registry}/suite/hello@{image.record.manifest.digest}"
    done = call(suite, "sign", "--key", "sign.key", "--allow-http-registry", *flags, target, folder=tmp_path)
    assert done.exit_code == 0, done.stderr.decode()
    store = Store(tmp_path / "pulled")
    record = pull_image(parse_reference(name), store)
    form = "bundle signature" if len(flags) == 2 else "legacy signature"
    both = replace(
        record,
        signatures=record.signatures or image.record.signatures,
        referrers=record.referrers or image.record.referrers,
    )
    for digest in (image.record.signatures[0].manifest, *image.record.referrers):
        copy_tree(image.store, store, digest.digest)
    checks = verify_image(both, store, public_keys=(KEY.public,))
    assert is_verified(checks), checks[-1]
    assert [check.name for check in checks if check.name == form] == [form]
    assert len(record.signatures) + len(record.referrers) == 1


def copy_tree(source: Store, target: Store, digest: Digest) -> None:
    """Copy a manifest and its blobs from one store to another."""
    data = source.read(digest, 1 << 20)
    target.put(data)
    manifest = parse_manifest(data)
    for blob in (manifest.config, *manifest.layers):
        target.put(source.read(blob.digest, 1 << 20))
