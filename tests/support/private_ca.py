"""A private certificate authority, a server's certificate of it, and a credential helper: for registries of a company."""

from __future__ import annotations

import datetime as dt
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class PrivateCa:
    """The authority's certificate (for clients), and certificate and key of the server."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return what a server in this process needs."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.certificate, self.key)
        return made


def make_private_ca(folder: Path, host: str) -> PrivateCa:
    """Make an authority and a certificate of it for `host`."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("a company", host)]
    now = dt.datetime.now(dt.UTC)
    made = []
    for number in range(2):
        builder = (
            x509.CertificateBuilder(names[0], names[number], keys[number].public_key(), x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
        )
        if number:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        made.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    secret = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    found = PrivateCa(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    for path, data in ((found.authority, made[0]), (found.certificate, made[1]), (found.key, secret)):
        path.write_bytes(data)
    return found


def install_helper(folder: Path, hosts: list[str], answer: str) -> None:
    """Write a credential helper that notes whom it was asked about, and docker's configuration that names it.

    `answer` is a line of shell: what the helper does when it is asked.
    """
    helper = folder / "docker-credential-company"
    helper.write_text(f'#!/bin/sh\nread host\necho "$1 $host" >>"{folder}/asked"\n{answer}\n')
    helper.chmod(0o755)
    (folder / "config.json").write_text(json.dumps({"credHelpers": dict.fromkeys(hosts, "company")}))
