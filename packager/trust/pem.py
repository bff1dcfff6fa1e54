"""PEM files that hold exactly one thing (RFC 7468, strict form)."""

from __future__ import annotations

import base64
import binascii
import re

from packager.base.errors import InputError

LIMIT_BYTES = 1 << 16

_BLOCK = re.compile(
    rb"\s*-----BEGIN ([A-Z0-9 ]{1,64})-----\r?\n([A-Za-z0-9+/=\r\n]*)\r?\n-----END \1-----\s*",
    re.ASCII,
)


def format_pem(label: str, data: bytes) -> bytes:
    """Return one PEM block with lines of 64 columns."""
    text = base64.b64encode(data)
    lines = [text[place : place + 64] for place in range(0, len(text), 64)]
    return b"\n".join([f"-----BEGIN {label}-----".encode(), *lines, f"-----END {label}-----".encode(), b""])


def parse_pem(data: bytes, *, where: str) -> tuple[str, bytes]:
    """Return label and content of a file with one PEM block and nothing else; errors never show the content."""
    if len(data) > LIMIT_BYTES:
        raise InputError(f"expected at most {LIMIT_BYTES} bytes of PEM, found {len(data)}", where=where)
    found = _BLOCK.fullmatch(data)
    if found is None:
        raise InputError("expected one PEM block (-----BEGIN …-----) and nothing else", where=where)
    text = re.sub(rb"[\r\n]", b"", found[2])
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error:
        content = None
    if not content or base64.b64encode(content) != text:
        raise InputError("the PEM block is not canonical Base64", where=where)
    return found[1].decode(), content
