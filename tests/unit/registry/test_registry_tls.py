"""TLS: the bundle that SSL_CERT_FILE names is believed, nothing else is, and plain http is never the way out."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from packager.base.errors import WorldError
from packager.oci.reference import Reference
from packager.registry.client import RegistryClient
from packager.registry.pull import Pull
from packager.registry.push import Push
from packager.store.store import Store
from tests.support.images import make_image
from tests.support.registry import MemoryRegistry
from tests.support.registry_contract import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A key and a certificate of its own for 127.0.0.1, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "bundle.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def registry(bundle: Path) -> Iterator[MemoryRegistry]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle)
    with MemoryRegistry(tls=context) as registry:
        yield registry


def test_an_image_travels_over_tls(registry: MemoryRegistry, bundle: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    record = make_image(store)
    environ = {"SSL_CERT_FILE": str(bundle)}
    client = RegistryClient(registry.host, insecure=False, environ=environ, pacing=QUICK)
    reference = Reference(registry.host, "suite/task", "v1")
    Push(client, store, reference).run(record)
    assert Pull(client, Store(tmp_path / "other"), reference).run() == record
    client.close()


def test_an_unknown_certificate_is_refused_and_nothing_else_is_tried(registry: MemoryRegistry) -> None:
    client = RegistryClient(registry.host, insecure=False, environ={}, pacing=QUICK)
    with pytest.raises(WorldError) as caught:
        client.list_tags("suite/task")
    text = str(caught.value)
    assert text.startswith(f"{registry.host}/suite/task: tags: TLS failed: ")
    assert "certificate verify failed" in text
    assert text.endswith(
        "\nhint: the certificate must be signed by a CA of the system's bundle (SSL_CERT_FILE names another)"
    )
    assert not caught.value.retryable
    assert registry.seen == []


def test_a_plain_registry_is_not_spoken_to_when_tls_is_wanted() -> None:
    with MemoryRegistry() as plain:
        client = RegistryClient(plain.host, insecure=False, environ={}, pacing=QUICK)
        with pytest.raises(WorldError) as caught:
            client.list_tags("suite/task")
        text = str(caught.value)
        assert text.startswith(f"{plain.host}/suite/task: tags: TLS failed: [SSL: WRONG_VERSION_NUMBER]")
        assert text.endswith("\nhint: the registry seems to speak plain http; that must be allowed for it explicitly")
        assert plain.seen == []


def test_a_bundle_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.pem"
    with pytest.raises(WorldError) as caught:
        RegistryClient("registry.example", environ={"SSL_CERT_FILE": str(path)})
    assert str(caught.value) == f"{path}: SSL_CERT_FILE does not name a file\nhint: unset it, or correct it"
