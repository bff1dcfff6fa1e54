"""Metadata of Maven repositories, written from locked files: the versions of an artifact, the plugins of a group."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from packager.base.errors import InputError
from packager.lock.ecosystems.maven_keys import find_artifact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.lock.ecosystems.asked import Held

_LONG_AGO = "19800101000000"
_PLUGIN = "META-INF/maven/plugin.xml"
_DESCRIPTOR_BYTES = 16 << 20
_PREFIX = re.compile(rb"<goalPrefix>\s*([^<\s]+)\s*</goalPrefix>")
_NAME = re.compile(rb"<name>\s*([^<]*?)\s*</name>")
_TOKEN = re.compile(r"[0-9]+|[a-z]+")
_EARLY = {"alpha": -5, "a": -5, "beta": -4, "b": -4, "milestone": -3, "m": -3, "rc": -2, "cr": -2, "snapshot": -1}
_FINAL = {"ga": 0, "final": 0, "release": 0}


def format_metadata(place: str, held: Sequence[Held]) -> bytes | None:
    """Return the metadata of a group or an artifact (its path), or None when nothing that it could list is locked."""
    files = [(one, found) for one in held if (found := find_artifact(one.key))]
    versions = {found["version"] for _, found in files if f"{found['group']}/{found['artifact']}" == place}
    if versions:
        return _format_versions(place, sorted(versions, key=order_of_version))
    jars = [one for one, found in files if found["group"] == place and one.key.endswith(".jar")]
    plugins = sorted({plugin for one in jars if (plugin := _read_plugin(one))})
    return _format_plugins(plugins) if plugins else None


def order_of_version(version: str) -> tuple[tuple[int, int, str], ...]:
    """Return what sorts versions as Maven does, as far as it is told by numbers and the usual words."""
    found: list[tuple[int, int, str]] = []
    for token in _TOKEN.findall(version.lower()):
        if token.isdigit():
            found.append((1, int(token), ""))
        else:
            rank = _EARLY.get(token, _FINAL.get(token, 1))
            found += [(0, rank, "" if rank <= 0 else token)] if rank else []
    while found and found[-1] == (1, 0, ""):
        found.pop()
    return (*found, (0, 0, ""))


def _format_versions(place: str, versions: Sequence[str]) -> bytes:
    group, _, artifact = place.rpartition("/")
    released = [version for version in versions if not version.endswith("-SNAPSHOT")]
    release = f"<release>{escape(released[-1])}</release>" if released else ""
    listed = "".join(f"<version>{escape(version)}</version>" for version in versions)
    return _document(
        f"<groupId>{escape(group.replace('/', '.'))}</groupId><artifactId>{escape(artifact)}</artifactId>"
        f"<versioning><latest>{escape(versions[-1])}</latest>{release}<versions>{listed}</versions>"
        f"<lastUpdated>{_LONG_AGO}</lastUpdated></versioning>"
    )


def _format_plugins(plugins: Sequence[tuple[str, str, str]]) -> bytes:
    rows = (
        f"<plugin><name>{escape(name)}</name><prefix>{escape(prefix)}</prefix>"
        f"<artifactId>{escape(artifact)}</artifactId></plugin>"
        for artifact, prefix, name in plugins
    )
    return _document(f"<plugins>{''.join(rows)}</plugins>")


def _document(inner: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<metadata>{inner}</metadata>\n'.encode()


def _read_plugin(one: Held) -> tuple[str, str, str] | None:
    """Return artifact, prefix and name of a Maven plugin; None for any other jar."""
    found = find_artifact(one.key)
    try:
        with zipfile.ZipFile(one.path) as archive:
            if found is None or _PLUGIN not in archive.namelist():
                return None
            with archive.open(_PLUGIN) as stream:
                text = stream.read(_DESCRIPTOR_BYTES)
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
        raise InputError(f"the jar cannot be read: {error}", where=one.key) from error
    prefix, name = _PREFIX.search(text), _NAME.search(text)
    if prefix is None:
        return None
    return found["artifact"], prefix[1].decode(errors="replace"), name[1].decode(errors="replace") if name else ""
