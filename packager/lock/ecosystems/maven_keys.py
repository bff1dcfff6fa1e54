"""Paths in repositories of the Maven 2 layout: group/artifact/version/artifact-version[-classifier].extension."""

from __future__ import annotations

import re
from urllib.parse import quote

from packager.base.errors import InputError

METADATA = "maven-metadata.xml"
CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
_WORD = r"[A-Za-z0-9_.+~-]+"
_LAYOUT = re.compile(
    rf"(?P<group>{_WORD}(?:/{_WORD})*)/(?P<artifact>{_WORD})/(?P<version>{_WORD})/(?P<file>[^/]+)", re.ASCII
)
_SNAPSHOT = "-SNAPSHOT"


def find_artifact(key: str) -> re.Match[str] | None:
    """Return group (with slashes), artifact, version and file; None for whatever is no file of a version."""
    found = _LAYOUT.fullmatch(key)
    if found is None or found["file"] == METADATA or key.endswith((".asc", ".lastUpdated")):
        return None
    start = f"{found['artifact']}-{found['version'].removesuffix(_SNAPSHOT)}"
    if not found["file"].startswith(start) or found["file"] == start:
        return None
    return None if split_checksum(key)[1] else found


def split_checksum(key: str) -> tuple[str, str]:
    """Return what a checksum file is about and its algorithm, or the key and nothing."""
    plain, _, last = key.rpartition(".")
    return (plain, last) if last in CHECKSUMS and plain else (key, "")


def purl_of(key: str) -> str:
    """Return pkg:maven/<group>/<artifact>@<version>, with classifier, and type where it is no jar."""
    found = find_artifact(key)
    if found is None:
        raise InputError(f"expected group/artifact/version/file, found {key[:160]!r}", where="maven")
    version, rest = found["version"], found["file"].removeprefix(f"{found['artifact']}-")
    base = version.removesuffix(_SNAPSHOT)
    rest = rest.removeprefix(version if rest.startswith(version) else base)
    if version != base:
        rest = re.sub(r"\A-\d{8}\.\d{6}-\d+", "", rest)
    classifier, _, kind = rest.partition(".")
    qualifiers = {"classifier": classifier.removeprefix("-"), "type": "" if kind == "jar" else kind}
    query = "&".join(f"{name}={quote(value)}" for name, value in qualifiers.items() if value)
    group = quote(found["group"].replace("/", "."))
    return f"pkg:maven/{group}/{quote(found['artifact'])}@{quote(version)}{f'?{query}' if query else ''}"
