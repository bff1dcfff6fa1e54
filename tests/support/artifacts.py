"""Tiny packages of every ecosystem, made byte by byte: the same call gives the same bytes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import lzma
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make_zip(files: Mapping[str, bytes], *, modes: Mapping[str, int] | None = None) -> bytes:
    """Return a zip of 1980."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.external_attr = (modes or {}).get(name, 0o100644) << 16
            archive.writestr(member, data)
    return out.getvalue()


def make_tar(files: Mapping[str, bytes | tarfile.TarInfo], *, executable: tuple[str, ...] = ()) -> bytes:
    """Return a tar with mtime 0; a TarInfo as value is a member without content (a link, a device)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in files.items():
            member = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(data, bytes):
                member.size = len(data)
                member.mode = 0o755 if name in executable else 0o644
            archive.addfile(member, io.BytesIO(data) if isinstance(data, bytes) else None)
    return out.getvalue()


def link(name: str, target: str, *, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """Return a link (or another member without content) for make_tar."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o777
    return member


def folder(name: str, mode: int = 0o755) -> tarfile.TarInfo:
    """Return a directory for make_tar."""
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    return member


def make_wheel(project: str, version: str, *, requires: tuple[str, ...] = (), python: str = "") -> bytes:
    """Return a pure wheel with one module that knows its version."""
    info = f"{project}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
    metadata += f"Requires-Python: {python}\n" if python else ""
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files = {
        f"{project}.py": f"VERSION = {version!r}\n".encode(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": _WHEEL.encode(),
    }
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    files[f"{info}/RECORD"] = ("".join(rows) + f"{info}/RECORD,,\n").encode()
    return make_zip(files)


def make_sdist(project: str, version: str, *, python: str = "") -> bytes:
    """Return a source distribution with metadata only."""
    metadata = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\nRequires-Python: {python}\n"
    return gzip.compress(make_tar({f"{project}-{version}/PKG-INFO": metadata.encode()}), mtime=0)


def make_tgz(name: str, version: str, *, files: Mapping[str, bytes] | None = None, **fields: Any) -> bytes:
    """Return an npm package."""
    manifest = {"name": name, "version": version, "main": "index.js", **fields}
    content = {
        "package/package.json": json.dumps(manifest).encode(),
        "package/index.js": f"module.exports = {json.dumps(version)}\n".encode(),
        **{f"package/{inner}": data for inner, data in (files or {}).items()},
    }
    return gzip.compress(make_tar(content), mtime=0)


def integrity_of(data: bytes) -> str:
    """Return what package-lock.json says of a package."""
    return f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"


def make_module(module: str, version: str, *, requires: str = "") -> dict[str, bytes]:
    """Return the .info, .mod and .zip of a Go module."""
    mod = f"module {module}\n\ngo 1.21\n{requires}".encode()
    prefix = f"{module}@{version}/"
    package = module.rpartition("/")[2]
    source = f"package {package}\n\nconst Version = {json.dumps(version)}\n".encode()
    return {
        "info": json.dumps({"Version": version, "Time": "2020-01-02T03:04:05Z", "Origin": {"VCS": "git"}}).encode(),
        "mod": mod,
        "zip": make_zip({f"{prefix}go.mod": mod, f"{prefix}{package}.go": source}),
    }


def make_deb(name: str, version: str, files: bytes | None = None, /, **fields: str) -> bytes:
    """Return a Debian package; `files` is the tar of its files."""
    control = {"Package": name, "Version": version, "Architecture": "amd64", "Maintainer": "T <t@example.org>"}
    control |= {field.replace("_", "-"): value for field, value in fields.items()}
    text = "".join(f"{field}: {value}\n" for field, value in control.items()) + "Description: a test\n more\n .\n end\n"
    data = files if files is not None else make_tar({"./": folder("./")})
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": lzma.compress(make_tar({"./control": text.encode()})),
        "data.tar.xz": lzma.compress(data),
    }
    out = bytearray(b"!<arch>\n")
    for member, content in members.items():
        out += f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) % 2)
    return bytes(out)


def make_crate(name: str, version: str, *, manifest: str = "", source: str = "") -> bytes:
    """Return a crate file as cargo publishes it; `manifest` is what follows the package's table in Cargo.toml."""
    text = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2018"\n\n{manifest}'
    files = {f"{name}-{version}/Cargo.toml": text.encode(), f"{name}-{version}/src/lib.rs": source.encode()}
    return gzip.compress(make_tar(files), mtime=0)
