"""From a difference of two builds to its likely cause: the path, the bytes, and which variations bring it about."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from packager.build.checklist import CHECKLIST, Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from packager.oci.compare import EntryDifference

REPEATED = "nothing"
"""Stands among the variations where a step differs although nothing was varied: it reads a clock or random bytes."""

_PATHS = (
    ("E1", r"(?:etc|var/lib/dbus)/machine-id"),
    ("E2", r"var/cache/ldconfig/aux-cache"),
    ("E3", r"etc/ld\.so\.cache"),
    ("E4", r"var/log/.*"),
    ("E5", r"etc/g?shadow-?"),
    ("E6", r"etc/(?:passwd|group|subuid|subgid)-?"),
    ("E7", r"var/lib/dpkg/.*"),
    ("E8", r"var/(?:lib|cache)/apt/.*"),
    ("E10", r"etc/(?:hostname|hosts|resolv\.conf)"),
    ("E11", r"(?:run|tmp|var/tmp)/.*"),
    ("E12", r"var/lib/systemd/(?:catalog/database|random-seed|credential\.secret)"),
    ("E13", r"(?:var/cache/fontconfig/.*|.*/\.uuid)"),
    ("E14", r"usr/lib/locale/locale-archive"),
    ("E15", r"var/cache/man/.*"),
    ("E16", r"(?:etc/ssl/private/.*|etc/ssh/ssh_host_.*|.*dhparams?\.pem)"),
    ("E17", r"etc/ssl/certs/(?:java/cacerts|ca-certificates\.crt)"),
    ("E18", r".*/\.gnupg/.*|.*/trustdb\.gpg"),
    ("F6", r".*/node_modules/(?:\.package-lock\.json|\.cache/.*)|.*/\.npm/.*|.*/config\.gypi"),
    ("F7", r".*/node_modules/(?:\.modules\.yaml|\.pnpm-workspace-state.*)|.*/\.pnpm-store/.*"),
    ("F8", r".*/(?:\.yarn-state\.yml|\.yarn-integrity|install-state\.gz)"),
    (
        "E21",
        r"(?:root|home/[^/]+)/(?:\.cache/.*|\.wget-hsts|\.\w+_history|\.lesshst|\.config/(?:configstore|go/telemetry)/.*)",
    ),
    ("F1", r".*\.py[co]"),
    ("F2", r".*\.dist-info/(?:direct_url\.json|RECORD|INSTALLER|REQUESTED)"),
    ("F3", r".*/uv_cache\.json"),
    ("F4", r".*\.whl"),
    ("F5", r".*/pyvenv\.cfg"),
    ("F11", r".*/pkg/mod/cache/(?:lock|vcs/.*)"),
    ("F12", r".*/(?:\.rustc_info\.json|\.cargo-lock|\.crates2\.json|\.fingerprint/.*|incremental/.*)"),
    ("F15", r".*/(?:config\.log|CMakeCache\.txt|\.ninja_log|\.ninja_deps)"),
    ("F16", r".*\.(?:jar|war|class)|.*/pom\.properties|.*/META-INF/.*"),
    ("F17", r".*/(?:_remote\.repositories|.*\.lastUpdated|resolver-status\.properties|maven-metadata-.*\.xml)"),
    ("F18", r".*/\.gradle/.*"),
    ("F19", r".*/(?:mkmf\.log|gem_make\.out)"),
    ("F20", r".*/vendor/composer/.*"),
    ("F22", r".*/(?:perllocal\.pod|\.packlist)"),
    ("F23", r".*/(?:\.pytest_cache|\.mypy_cache|\.hypothesis)/.*|.*/\.coverage"),
    ("G1", r".*\.git/index"),
    ("G2", r".*\.git/objects/pack/.*"),
    ("G3", r".*\.git/logs/.*"),
    ("G4", r".*\.git/config"),
    ("G6", r".*\.git/(?:objects/.*|refs/.*|packed-refs|HEAD)"),
    ("G5", r".*\.git/.*"),
)
_PATH_RULES = tuple((identifier, re.compile(pattern, re.DOTALL)) for identifier, pattern in _PATHS)

_BY_VARIATION = {
    "cpus": "H cpus",
    "directory order": "A1",
    "file system": "A1",
    "user namespace": "H user",
    "engine": "B1",
    "clock": "H time",
    "hash seed": "H hash seed",
    "umask": "A10",
    "time zone": "H time zone",
    "locale": "H locale",
    "host name": "H host name",
}

_MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ZONED = re.compile(rb"\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: ?[AP]M)? ?([A-Z]{3,5}|[+-]\d\d:?\d\d)\b")
_SPANS = (
    ("H mounts", re.compile(rb"(?:lowerdir|upperdir|workdir)\+?=[^\s,]*|^\d+ \d+ \d+:\d+ /", re.MULTILINE)),
    ("H random", re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")),
    ("H port", re.compile(rb"(?:127\.0\.0\.1|localhost|\[::1\]|0\.0\.0\.0):\d{2,5}\b")),
    ("H name", re.compile(rb"/(?:var/)?tmp/[\w.+-]+|\btmp[._]?[A-Za-z0-9_]{6,10}\b")),
    ("H time", re.compile(rb"\d{4}-\d\d-\d\d[T ]?\d?|\b\d\d:\d\d:\d\d\b|" + _MONTH + rb" +\d\d?\b|\b\d\d? " + _MONTH)),
    ("H time", re.compile(rb"\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b")),
)
_GO_NOTES = (b"Go build ID:", b"\xff Go buildinf:", b"go object ")
_HOST_NAME = re.compile(rb"\b(?:build)\b")


def likely_cause(found: EntryDifference, reacts: Collection[str] = ()) -> Cause:
    """Return the row of the checklist that a difference most likely belongs to.

    `reacts` names the variations that alone make the step differ; empty where nobody looked.
    """
    name = _by_path(found.path) or _by_mounts(found) or _by_variation(reacts) or _by_field(found, reacts)
    return CHECKLIST["H random" if name == "H cpus" and REPEATED in reacts else name]


def _by_path(path: bytes) -> str | None:
    text = "/" + path.decode("utf-8", "surrogateescape")
    for identifier, pattern in _PATH_RULES:
        if pattern.fullmatch(text[1:]) or pattern.fullmatch(text):
            return identifier
    return None


def _by_mounts(found: EntryDifference) -> str | None:
    """Recognise a table of mounts: it reacts to another file system as an unsorted directory does."""
    name, pattern = _SPANS[0]
    values = [pattern.findall(data) for data in found.contents or ()]
    return name if values and values[0] != values[1] and all(values) else None


def _by_variation(reacts: Collection[str]) -> str | None:
    """Return the cause that a single variation stands for; what differs anyway reacts to all of them."""
    if REPEATED in reacts:
        return None
    named = {_BY_VARIATION[name] for name in reacts if name in _BY_VARIATION}
    return named.pop() if len(named) == 1 else None


_BY_FIELD = {"mode": "A10", "owner": "A7", "capability": "A20"}


def _by_field(found: EntryDifference, reacts: Collection[str]) -> str:
    if found.field in _BY_FIELD:
        return _BY_FIELD[found.field]
    if found.field == "content" and found.contents is not None:
        return _by_content(*found.contents)
    if found.field == "link":
        return _by_content(found.a.encode(), found.b.encode())
    if found.field == "kind":
        return "A15" if "hardlink" in found.a + found.b else "B1"
    return "H name" if REPEATED in reacts or not reacts else "B5"


def _by_content(one: bytes, other: bytes) -> str:
    for recognise in (_by_format, _by_order, _by_span):
        found = recognise(one, other)
        if found is not None:
            return found
    return "H random"


def _by_format(one: bytes, other: bytes) -> str | None:
    if one[:2] == other[:2] == b"\x1f\x8b":
        return "C1" if one[3:10] != other[3:10] or _gzip_name(one) != _gzip_name(other) else "C2"
    if one[:4] == other[:4] == b"PK\x03\x04":
        return "F16" if b"META-INF/MANIFEST.MF" in one else "F4"
    if any(mark in one and mark in other for mark in _GO_NOTES):
        return "F10"
    if (one[:4] == other[:4] == b"\x7fELF") or (one[:8] == other[:8] == b"!<arch>\n"):
        return "F14"
    return None


def _gzip_name(data: bytes) -> bytes:
    return data[10:].partition(b"\0")[0] if data[3] & 8 else b""


def _by_order(one: bytes, other: bytes) -> str | None:
    """Recognise the same things in another order: lines, words, or the keys and items of JSON."""
    ours, theirs = one.split(b"\n"), other.split(b"\n")
    if sorted(ours) == sorted(theirs):
        return "H locale" if _sorted_otherwise(ours, theirs) else "H hash seed"
    if sorted(one.split()) == sorted(other.split()):
        return "H hash seed"
    values = [_sorted_json(data) for data in (one, other)]
    return "H hash seed" if values[0] is not None and values[0] == values[1] else None


def _sorted_otherwise(ours: list[bytes], theirs: list[bytes]) -> bool:
    """Tell whether both lists are sorted, each by another rule: by bytes, or without regard to case."""
    pair = [[line for line in lines if line] for lines in (ours, theirs)]
    rules: tuple[Callable[[bytes], bytes], ...] = (bytes, bytes.lower)
    by_rule = [{number for number, lines in enumerate(pair) if lines == sorted(lines, key=rule)} for rule in rules]
    return bool(by_rule[0]) and bool(by_rule[1]) and by_rule[0] != by_rule[1]


def _sorted_json(data: bytes) -> str | None:
    try:
        return _plain(json.loads(data))
    except (ValueError, RecursionError):
        return None


def _plain(value: object) -> str:
    """Return a JSON value as text in which neither keys nor items have an order."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{json.dumps(key)}:{_plain(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(sorted(map(_plain, value))) + "]"
    return json.dumps(value)


def _by_span(one: bytes, other: bytes) -> str | None:
    """Recognise what stands where two texts differ: the first kind of value of which they have others."""
    zones = [_ZONED.findall(data) for data in (one, other)]
    if zones[0] != zones[1] and zones[0] and zones[1]:
        return "H time zone"
    for identifier, pattern in _SPANS:
        values = [pattern.findall(data) for data in (one, other)]
        if values[0] != values[1] and values[0] and values[1]:
            return identifier
    if bool(_HOST_NAME.search(one)) != bool(_HOST_NAME.search(other)):
        return "H host name"
    numbers = [re.fullmatch(rb"\s*\d{1,3}\s*", data) for data in (one, other)]
    return "H cpus" if all(numbers) else None
