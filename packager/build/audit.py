"""Looks for leaks in a finished image: every file of every layer, deleted or not, archives and packs unpacked.

What counts as a leak, and the thresholds: packager/build/audit_needles.py (text) and audit_git.py (git). The sealed
file is searched like any other: ciphertext holds nothing, and what stands there in the clear must not pass for it.
"""

from __future__ import annotations

import enum
import hashlib
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from packager.base.canonical import parse_json
from packager.build import audit_git
from packager.build.audit_needles import Finder, Found
from packager.build.audit_unpack import BLOCK_BYTES, UNREADABLE, Joined, is_broken_archive, sniff, unpack
from packager.lock.git_objects import object_id
from packager.oci.entries import Kind, show_path
from packager.oci.tar_reader import read_tar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.build.audit_secrets import AuditSecrets
    from packager.build.audit_unpack import Source
    from packager.oci.entries import Entry

NO_LAYER = -1
"""The layer of a finding in the config or the manifest."""

UNPACKED_LIMIT_BYTES = 4 << 30
"""One file of a layer is unpacked up to this much; more is a finding, since nobody has looked at the rest."""

DEPTH = 6

_WINDOW_BYTES = 4 << 20
_OVERLAP_BYTES = 64 << 10
_COMPILED_BYTES = 64 << 10
_DETAILS = 3
_PIECE_BYTES = 64 << 10  # a read that fails loses no more than this
_SHOWN_BYTES = 60
_WHOLE = frozenset({"gzip", "xz", "bzip2", "zstd", "tar"})
"""Kinds whose raw bytes need no search: all of their content comes out again."""

_FUTURE = "future commit"


class LeakKind(enum.StrEnum):
    """What leaked."""

    FUTURE_COMMIT = "future-commit"
    TAG = "tag"
    REFLOG = "reflog"
    NOTE = "note"
    REF = "ref"
    UNREACHED = "unreached-object"
    GOLD_TEXT = "gold-text"
    GOLD_NAME = "gold-identifier"
    GOLD_FILE = "gold-file"
    HIDDEN_TEXT = "hidden-text"
    HIDDEN_NAME = "hidden-identifier"
    HIDDEN_FILE = "hidden-file"
    UNREAD = "unread"


@dataclass(frozen=True, order=True)
class Finding:
    """One leak: what, in which layer (0 is the lowest, NO_LAYER: config or manifest), where, and the evidence."""

    layer: int
    path: str
    kind: LeakKind
    detail: str

    @property
    def where(self) -> str:
        """Layer and path, as people read them."""
        return f"layer {self.layer}: {self.path}" if self.layer != NO_LAYER else self.path

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.detail}"


class _Place(NamedTuple):
    layer: int
    path: str


class _TooMuchError(Exception):
    """A file unpacks to more than an audit reads."""


def audit_image(
    layers: Iterable[IO[bytes]],
    config: bytes,
    annotations: Mapping[str, str],
    secrets: AuditSecrets,
    *,
    trusted_layers: int = 0,
) -> list[Finding]:
    """Return every leak, sorted; an empty list means that nothing was found.

    `layers` are the decompressed tars, lowest first; `config` the image's config. The lowest `trusted_layers` (base and
    toolchains, which are pinned and public) are not searched for leaks: what they hold is public vocabulary, so
    needles that occur in them are dropped before the other layers are read.
    """
    with tempfile.TemporaryDirectory(prefix="wideswe-audit-") as scratch:
        audit = _Audit(secrets, Path(scratch))
        for number, stream in enumerate(layers):
            audit.take_layer(number, stream, trusted=number < trusted_layers)
        audit.take_pools()
        audit.take_strings("config", parse_json(config, where="config"))
        audit.take_strings("annotations", dict(annotations))
        return audit.findings()


class _Audit:
    def __init__(self, secrets: AuditSecrets, scratch: Path) -> None:
        self._secrets = secrets
        self._scratch = scratch
        names = {**{name.encode(): _FUTURE for name in secrets.future}, **secrets.needles.identifiers}
        self._finder = Finder(replace(secrets.needles, identifiers=names))
        self._pools: dict[bytes, audit_git.ObjectPool] = {}
        self._found: dict[tuple[int, str, LeakKind], list[str]] = {}
        self._trusted = False
        self._left = 0

    def findings(self) -> list[Finding]:
        rows = []
        for (layer, path, kind), details in self._found.items():
            unique = list(dict.fromkeys(details))
            more = f" and {len(unique) - _DETAILS} more" if len(unique) > _DETAILS else ""
            rows.append(Finding(layer, path, kind, "; ".join(unique[:_DETAILS]) + more))
        return sorted(rows)

    def take_layer(self, number: int, stream: IO[bytes], *, trusted: bool) -> None:
        self._trusted = trusted
        for entry, reader in read_tar(stream):
            place = _Place(number, show_path(entry.path))
            self._report(place, self._finder.find(entry.path + b"\n" + entry.link))
            if entry.kind is Kind.FILE:
                self._left = UNPACKED_LIMIT_BYTES
                self._take_file(place, entry, reader)

    def _take_file(self, place: _Place, entry: Entry, reader: Source) -> None:
        inside = audit_git.split_git_path(entry.path)
        if inside is not None and inside[0] in self._secrets.bases:
            self._take_git_file(place, inside, reader)
            return
        try:
            self._scan(place, reader, size=entry.size)
        except _TooMuchError:
            self._add_unread(place, f"unpacks to more than {UNPACKED_LIMIT_BYTES >> 30} GiB")

    def _add_unread(self, place: _Place, detail: str) -> None:
        if not self._trusted:
            self._add(place, LeakKind.UNREAD, detail)

    def _take_git_file(self, place: _Place, inside: tuple[bytes, str], reader: Source) -> None:
        repository, relative = inside
        if audit_git.is_small_git_file(relative):
            content = reader.read(_WINDOW_BYTES)
            for kind, detail in audit_git.judge_git_file(relative, content, self._secrets.bases[repository]):
                self._add(place, _ref_kind(kind), detail)
            self._scan(place, Joined(content, reader))
        elif relative.endswith(".pack"):
            self._pool(repository).add_pack(reader, place)
        else:
            self._pool(repository).add_loose(relative, reader, place)

    def _pool(self, repository: bytes) -> audit_git.ObjectPool:
        if repository not in self._pools:
            self._pools[repository] = audit_git.ObjectPool.make(self._scratch / f"{len(self._pools)}.git")
        return self._pools[repository]

    def take_pools(self) -> None:
        """Judge the objects of each locked repository, all layers together."""
        self._trusted = False
        for repository, pool in self._pools.items():
            extras = pool.extras(self._secrets.bases[repository])
            for name, kind, content in pool.contents(extras):
                place = _Place(*pool.place_of(name))
                if kind == "commit":
                    self._add(place, LeakKind.FUTURE_COMMIT, audit_git.describe_commit(name, content))
                elif kind == "tag":
                    self._add(place, LeakKind.TAG, f"tag object {name}")
                else:
                    self._add(place, LeakKind.UNREACHED, f"{kind} {name}")
                self._report(place, self._finder.find(content))
            self._take_pool_problems(pool)

    def _take_pool_problems(self, pool: audit_git.ObjectPool) -> None:
        for layer, path, problem in pool.problems:
            self._add(_Place(layer, path), LeakKind.UNREAD, problem)

    def take_strings(self, path: str, value: object) -> None:
        """Search every key and string of a JSON value."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.take_strings(path, str(key))
                self.take_strings(f"{path}.{key}", item)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                self.take_strings(f"{path}[{number}]", item)
        elif isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            plain = text.replace(b"\\n", b"\n").replace(b"\\t", b"\t").replace(b'\\"', b'"')
            self._report(_Place(NO_LAYER, path), self._finder.find(text + b"\n" + plain))

    def _scan(self, place: _Place, source: Source, *, size: int | None = None, depth: int = 0) -> None:
        """Search one file and whatever it contains."""
        head = _read_head(source)
        kind = sniff(head)
        whole = head if len(head) < _WINDOW_BYTES else b""
        watched = _Watched(Joined(head, source), None if kind in _WHOLE else self._finder, size)
        try:
            if kind in ("pack", "bundle"):
                self._scan_pack(place, watched, bundle=kind == "bundle")
            elif kind and depth < DEPTH:
                self._scan_members(place, kind, watched, depth)
            elif kind:
                self._add_unread(place, f"nested deeper than {DEPTH} archives")
            watched.search_rest(self._finder)
        finally:
            if place.path.endswith(".pyc") or (not kind and len(whole) <= _COMPILED_BYTES and b"\0" in whole):
                watched.found.add(self._finder.find_compiled(whole))
            self._check_blob_id(place, watched.blob_id() or (object_id("blob", whole) if self._secrets.blobs else ""))
            self._report(place, watched.found)

    def _scan_members(self, place: _Place, kind: str, source: Source, depth: int) -> None:
        try:
            for name, member in unpack(kind, source):
                inner = _Place(place.layer, f"{place.path}!{show_path(name.encode('utf-8', 'surrogateescape'))}")
                self._report(inner, self._finder.find(name.encode("utf-8", "surrogateescape")))
                counted = _Counted(member, self)
                self._scan(inner, counted, depth=depth + 1)
                _drain(counted)
        except UNREADABLE as error:
            if not is_broken_archive(error):
                raise

    def count(self, size: int) -> None:
        """Take note of so many unpacked bytes."""
        self._left -= size
        if self._left < 0:
            raise _TooMuchError

    def _scan_pack(self, place: _Place, source: Source, *, bundle: bool) -> None:
        """Search all objects of a pack that belongs to no locked repository."""
        if bundle:
            audit_git.skip_bundle_header(source)
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            pool = audit_git.ObjectPool.make(Path(folder))
            pool.add_pack(source, place)
            names = pool.objects()
            for name in sorted(set(names) & self._secrets.future):
                self._add(place, LeakKind.FUTURE_COMMIT, f"{names[name]} {name}")
            for name in names:
                self._check_blob_id(place, name)
            for _, _, content in pool.contents(names):
                self._report(place, self._finder.find(content))

    def _check_blob_id(self, place: _Place, name: str) -> None:
        label = self._secrets.blobs.get(name)
        if label and not self._trusted:
            kind = LeakKind.GOLD_FILE if label.startswith("gold") else LeakKind.HIDDEN_FILE
            self._add(place, kind, f"{label}: the file is blob {name}")

    def _report(self, place: _Place, found: Found) -> None:
        if not found:
            return
        if self._trusted:
            self._finder.forget(found)
            return
        for label, needles in self._finder.judge(found).items():
            for needle in needles:
                shown = needle[:_SHOWN_BYTES].decode(errors="replace")
                self._add(place, _text_kind(label, is_name=needle in found.identifiers), f"{label}: {shown!r}")

    def _add(self, place: _Place, kind: LeakKind, detail: str) -> None:
        self._found.setdefault((place.layer, place.path, kind), []).append(detail)


class _Watched:
    """A source whose bytes are searched, and hashed as a git blob, while others read them."""

    def __init__(self, source: Source, finder: Finder | None, size: int | None) -> None:
        self._source = source
        self._finder = finder
        self._tail = b""
        self._left = size or 0
        self._hash = None if size is None else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        self.found = Found()

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        if self._hash is not None:
            self._hash.update(data)
        if self._finder is not None and data:
            self._search(self._finder, data)
        return data

    def search_rest(self, finder: Finder) -> None:
        """Read to the end and search what nobody has read."""
        self._finder = finder
        while self.read(_WINDOW_BYTES):
            pass

    def blob_id(self) -> str:
        """Return the id that git would give the file, or an empty text."""
        return self._hash.hexdigest() if self._hash is not None and not self._left else ""

    def _search(self, finder: Finder, data: bytes) -> None:
        self.found.add(finder.find(self._tail + data if self._tail else data))
        self._tail = data[-_OVERLAP_BYTES:]


class _Counted:
    """A member of a container: what it unpacks to is counted, and where it is broken, it ends."""

    def __init__(self, source: Source, audit: _Audit) -> None:
        self._source = source
        self._audit = audit

    def read(self, size: int = -1, /) -> bytes:
        try:
            data = self._source.read(min(size, _PIECE_BYTES) if size >= 0 else size)
        except UNREADABLE as error:
            if not is_broken_archive(error):
                raise
            return b""
        self._audit.count(len(data))
        return data


def _read_head(source: Source) -> bytes:
    parts, have = [], 0
    while have < _WINDOW_BYTES and (block := source.read(_WINDOW_BYTES - have)):
        parts.append(block)
        have += len(block)
    return b"".join(parts)


def _drain(source: Source) -> None:
    while source.read(BLOCK_BYTES):
        pass


def _ref_kind(kind: str) -> LeakKind:
    return {"tag": LeakKind.TAG, "note": LeakKind.NOTE, "reflog": LeakKind.REFLOG}.get(kind, LeakKind.REF)


def _text_kind(label: str, *, is_name: bool) -> LeakKind:
    if label == _FUTURE:
        return LeakKind.FUTURE_COMMIT
    if label.startswith("gold"):
        return LeakKind.GOLD_NAME if is_name else LeakKind.GOLD_TEXT
    return LeakKind.HIDDEN_NAME if is_name else LeakKind.HIDDEN_TEXT
