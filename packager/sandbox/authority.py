"""A certificate authority that lives as long as one command: its key is never written anywhere."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
import threading
from typing import TYPE_CHECKING

from packager.sandbox.identity import JAVA_PASSWORD

if TYPE_CHECKING:
    from cryptography import x509

_BEFORE = dt.timedelta(
    days=800
)  # clients must believe it also when our own clock is ahead of theirs, as in `reproduce`
_AFTER = dt.timedelta(days=30)


class Authority:
    """Signs one server certificate for each host that is asked for, all with one key pair."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - heavy, and few commands need it

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign_authority()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def certificate_pem(self) -> bytes:
        """Return what clients must trust."""
        from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

        return self._certificate.public_bytes(Encoding.PEM)

    def java_trust_store(self) -> bytes:
        """Return the same as Java reads it: a PKCS #12 file, whose password guards nothing."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization.pkcs12 import (  # noqa: PLC0415
            PKCS12Certificate,
            serialize_java_truststore,
        )

        trusted = PKCS12Certificate(self._certificate, b"wideswe-pack")
        return serialize_java_truststore([trusted], BestAvailableEncryption(JAVA_PASSWORD.encode()))

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the server side of TLS for a host, made once."""
        with self._lock:
            if host not in self._contexts:
                self._contexts[host] = self._make_context(host)
            return self._contexts[host]

    def _make_context(self, host: str) -> ssl.SSLContext:
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        key = self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = self._sign_leaf(host).public_bytes(Encoding.PEM)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        handle = os.memfd_create("leaf")  # the ssl module reads files only
        try:
            os.write(handle, key + chain)
            context.load_cert_chain(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
        return context

    def _builder(self, name: str) -> x509.CertificateBuilder:
        from cryptography import x509  # noqa: PLC0415

        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder().serial_number(x509.random_serial_number())
        builder = builder.issuer_name(_named("wideswe-pack loopback authority")).subject_name(_named(name))
        return builder.not_valid_before(now - _BEFORE).not_valid_after(now + _AFTER)

    def _sign_authority(self) -> x509.Certificate:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

        public = self._key.public_key()
        builder = self._builder("wideswe-pack loopback authority").public_key(public)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _sign_leaf(self, host: str) -> x509.Certificate:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

        public = self._leaf_key.public_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        purposes = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
        builder = self._builder("wideswe-pack loopback proxy").public_key(public)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(purposes, critical=False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        builder = builder.add_extension(issuer, critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _named(text: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
