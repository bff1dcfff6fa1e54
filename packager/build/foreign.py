"""Reads what stock engines save (`docker save`, OCI archives) and says which image of ours it is: the content id."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from packager.base.canonical import LIMIT_BYTES, parse_json
from packager.base.digests import BLOCK_BYTES, DiffId, Digest, parse_digest
from packager.base.errors import InputError, IntegrityError
from packager.lock.archives import keep_content
from packager.lock.bootstrap import MOUNT_POINTS
from packager.oci.config import content_id, format_config, parse_config
from packager.oci.decompression import decompress
from packager.oci.descriptor import expect_list, expect_object, expect_text
from packager.oci.entries import Kind
from packager.oci.manifest import (
    INDEX_TYPES,
    MEDIA_LAYER_GZIP,
    MEDIA_LAYER_TAR,
    MEDIA_LAYER_ZSTD,
    parse_index,
    parse_manifest,
)
from packager.oci.places import TASK_LABEL
from packager.oci.stack import Made, Stack
from packager.oci.tar_reader import read_tar
from packager.oci.tar_writer import write_tar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from _typeshed import WriteableBuffer

    from packager.oci.entries import Entry

_MAGIC = ((b"\x1f\x8b", MEDIA_LAYER_GZIP), (b"\x28\xb5\x2f\xfd", MEDIA_LAYER_ZSTD))
_MADE = re.compile(r"(?:.*#\(nop\) +)?(ADD|COPY) ", re.DOTALL)
_SOURCE = re.compile(r"ADD inputs/(mountpoints|target-(.+))\.tar / # buildkit")
_CHECKED_OUT = re.compile(rb"workspace/([^/]+)/([^/]+)")
_FOREIGN_LABELS = ("io.buildah.version",)
_TASK_FILE = b"opt/wideswe/task.json"
_MOST_LINKS = 8


@dataclass(frozen=True)
class Recognised:
    """What an archive holds by our rules: the task that its own task file names, its content id, its layers."""

    task: str
    content_id: Digest
    diff_ids: tuple[DiffId, ...]


@dataclass(frozen=True)
class _Part:
    """Where the bytes of one file of the archive are."""

    start: int
    size: int


def recognise_archive(path: Path, progress: Callable[[int, int], None]) -> Recognised:
    """Return what the one image of an archive is, every layer rewritten by our rules; `progress` gets (layer, of)."""
    with path.open("rb") as stream, tempfile.TemporaryDirectory(prefix="wideswe-inspect-") as scratch:
        archive = _Archive(stream, path.name)
        config_bytes, layers = archive.image()
        config = parse_config(config_bytes, where=f"{path.name}: config")
        made = _made_by(config_bytes, path.name)
        if not len(made) == len(layers) == len(config.diff_ids):
            raise InputError(
                f"expected a layer for each of {len(made)} entries of the history, found {len(layers)}",
                where=path.name,
                hint="build without --squash; buildah bud needs --layers",
            )
        stack = Stack(lambda reader, size: keep_content(cast("IO[bytes]", reader), size, Path(scratch)))
        diff_ids = []
        for number, (part, created_by) in enumerate(zip(layers, made, strict=True)):
            progress(number, len(layers))
            with archive.layer(part, config.diff_ids[number]) as tar:
                entries = stack.apply(tar, _how(created_by), again=partial(_left_out, stack, created_by))
            if entries:
                diff_ids.append(_diff_id(entries))
        task = _task_of(stack, path.name)
    labels = {name: value for name, value in config.labels.items() if name not in _FOREIGN_LABELS}
    written = replace(
        config, diff_ids=tuple(diff_ids), env=tuple(sorted(config.env)), labels={**labels, TASK_LABEL: task}
    )
    return Recognised(task, content_id(written.diff_ids, format_config(written)), written.diff_ids)


def _made_by(config: bytes, where: str) -> list[str]:
    """Return what made each layer, from the configuration's history."""
    rows = expect_list(
        expect_object(parse_json(config, where=where), where=where).get("history") or [], where=f"{where}: history"
    )
    found = [expect_object(row, where=f"{where}: history") for row in rows]
    return [str(row.get("created_by", "")) for row in found if not row.get("empty_layer")]


def _how(created_by: str) -> Made:
    """Return how a layer was made, as classic docker, BuildKit and buildah write it into the history."""
    match = _MADE.match(created_by)
    return Made.RAN if match is None else Made(match[1])


def _left_out(stack: Stack, created_by: str, written: Iterable[bytes]) -> Iterable[bytes]:
    """Return what an ADD holds though engines over containerd leave it out, since it is the same below.

    That are mount points, and of a checkout the manifests that were placed before it. BuildKit names what is added.
    """
    source = _SOURCE.match(created_by)
    if source is not None and source[1] == "mountpoints":
        return MOUNT_POINTS
    names = {match[1] for match in map(_CHECKED_OUT.match, written) if match is not None and match[2] != b".git"}
    if source is not None:
        names.add(source[2].encode())
    return [path for name in sorted(names) for path in stack.placed_below(b"workspace/" + name + b"/")]


def _task_of(stack: Stack, where: str) -> str:
    data = stack.read(_TASK_FILE)
    if data is None:
        raise InputError(f"expected the image of a task, found no /{_TASK_FILE.decode()}", where=where)
    return expect_text(expect_object(parse_json(data, where=where), where=where).get("task"), where=f"{where}: task")


def _diff_id(entries: Sequence[Entry]) -> DiffId:
    found = hashlib.sha256()
    write_tar(entries, found.update)
    return DiffId(f"sha256:{found.hexdigest()}")


class _Archive:
    """A tar whose files can be read in any order."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._parts: dict[bytes, _Part] = {}
        self._links: dict[bytes, bytes] = {}
        if stream.read(2) == _MAGIC[0][0]:
            raise InputError("expected a plain tar, found gzip", where=name, hint="gunzip it first")
        stream.seek(0)
        for entry, _ in read_tar(stream):
            if entry.kind is Kind.FILE:
                self._parts[entry.path] = _Part(stream.tell(), entry.size)
            elif entry.kind in (Kind.SYMLINK, Kind.HARDLINK):
                self._links[entry.path] = _resolved(entry)

    def image(self) -> tuple[bytes, list[_Part]]:
        """Return the configuration and the layers of the image, lowest first."""
        if b"manifest.json" in self._parts:
            rows = expect_list(self._json(b"manifest.json"), where=f"{self._name}: manifest.json")
            if len(rows) == 1:
                row = expect_object(rows[0], where=f"{self._name}: manifest.json")
                layers = [str(name).encode() for name in expect_list(row.get("Layers"), where=self._name)]
                return self._read(str(row.get("Config")).encode()), [self._part(name) for name in layers]
            raise InputError(f"expected one image, found {len(rows)}", where=self._name, hint="save one image")
        return self._oci_image()

    def _oci_image(self) -> tuple[bytes, list[_Part]]:
        data, where = self._read(b"index.json"), f"{self._name}: index.json"
        for _ in range(_MOST_LINKS):
            children = [
                one for one in parse_index(data, where=where).manifests if "attestation" not in str(one.annotations)
            ]
            if len(children) != 1:
                raise InputError(f"expected one image, found {len(children)}", where=where, hint="save one image")
            data = self._blob(children[0].digest)
            if children[0].media_type not in INDEX_TYPES:
                break
        manifest = parse_manifest(data, where=self._name)
        layers = [self._part(_blob_name(layer.digest)) for layer in manifest.layers]
        return self._blob(manifest.config.digest), layers

    @contextlib.contextmanager
    def layer(self, part: _Part, diff_id: DiffId) -> Iterator[IO[bytes]]:
        """Open a layer's tar; its bytes must be those that the configuration names."""
        self._stream.seek(part.start)
        head = self._stream.read(4)
        media_type = next((kind for magic, kind in _MAGIC if head.startswith(magic)), MEDIA_LAYER_TAR)
        raw = io.BufferedReader(_Window(self._stream, part), BLOCK_BYTES)
        found = _Verified(decompress(raw, media_type))
        yield io.BufferedReader(found, BLOCK_BYTES)
        if found.digest() != diff_id:
            raise IntegrityError(f"expected the layer {diff_id}, found {found.digest()}", where=self._name)

    def _json(self, name: bytes) -> object:
        return parse_json(self._read(name), where=f"{self._name}: {name.decode()}")

    def _blob(self, digest: Digest) -> bytes:
        data = self._read(_blob_name(digest))
        found = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if found != digest:
            raise IntegrityError(f"expected {digest}, found {found}", where=self._name)
        return data

    def _read(self, name: bytes) -> bytes:
        part = self._part(name)
        if part.size > LIMIT_BYTES:
            raise InputError(f"expected at most {LIMIT_BYTES} bytes", where=f"{self._name}: {name.decode()}")
        self._stream.seek(part.start)
        return self._stream.read(part.size)

    def _part(self, name: bytes) -> _Part:
        seen = 0
        while name in self._links and seen < _MOST_LINKS:  # docker saves equal layers once
            name, seen = self._links[name], seen + 1
        part = self._parts.get(name)
        if part is None:
            hint = "`docker save`, or an OCI archive (podman save --format oci-archive, buildah push oci-archive:FILE)"
            raise InputError(
                f"expected a saved image, found no {name.decode(errors='replace')}", where=self._name, hint=hint
            )
        return part


def _blob_name(digest: Digest) -> bytes:
    return b"blobs/sha256/" + parse_digest(digest).partition(":")[2].encode()


def _resolved(entry: Entry) -> bytes:
    """Return where a link of the archive leads, as a path of the archive."""
    if entry.kind is Kind.HARDLINK:
        return entry.link
    parts = entry.path.split(b"/")[:-1]
    for part in entry.link.split(b"/"):
        parts = parts[:-1] if part == b".." else [*parts, part]
    return b"/".join(parts)


class _Window(io.RawIOBase):
    """The bytes of one file of the archive, from its start."""

    def __init__(self, stream: IO[bytes], part: _Part) -> None:
        self._stream = stream
        self._left = part.size
        self._stream.seek(part.start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        block = self._stream.read(min(len(view), self._left))
        view[: len(block)] = block
        self._left -= len(block)
        return len(block)


class _Verified(io.RawIOBase):
    """A layer's tar, hashed while it is read."""

    def __init__(self, tar: IO[bytes]) -> None:
        self._tar = tar
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        block = self._tar.read(len(view))
        view[: len(block)] = block
        self._hash.update(block)
        return len(block)

    def digest(self) -> str:
        """Return the digest of everything that was read; the reader reads to the end."""
        return f"sha256:{self._hash.hexdigest()}"
