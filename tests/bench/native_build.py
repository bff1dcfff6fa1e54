"""Builds a rendered context with the native engine, as a program of its own: what the benchmarks hold stock builders against.

    python -m tests.bench.native_build CONTEXT STORE

Ends with an image in STORE, compressed and ready to be pushed. Digests of inputs are kept in STORE by size, time and
inode, as BuildKit keeps them in its daemon; an empty STORE knows none.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from packager.base.digests import digest_of_file
from packager.build.assemble import assemble_image
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder, Input
from packager.lock.archives import keep_content
from packager.oci.entries import Kind, sort_key
from packager.oci.tar_reader import read_tar
from packager.sandbox.native import NativeEngine, prepare_process
from packager.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.build.assemble import Image
    from packager.oci.entries import Entry
    from packager.oci.tar_reader import EntryReader

_PLATFORM = "linux/amd64"


class KnownDigests:
    """Digests of files that have not changed since they were hashed, as far as their status tells."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._rows: dict[str, list[object]] = json.loads(place.read_bytes()) if place.exists() else {}

    def digest_of(self, path: Path) -> str:
        status = path.stat()
        mark = [status.st_size, status.st_mtime_ns, status.st_ino]
        row = self._rows.get(str(path))
        if row is None or row[1:] != mark:
            row = self._rows[str(path)] = [digest_of_file(path), *mark]
        return str(row[0])

    def keep(self) -> None:
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._place.write_text(json.dumps(self._rows))


def inputs_of(context: Path, known: KnownDigests) -> Iterator[tuple[str, Input]]:
    for path in sorted((context / "inputs").iterdir()):

        def entries(scratch: Path, path: Path = path) -> Iterable[Entry]:
            with path.open("rb") as stream:
                return sorted((_kept(entry, reader, scratch) for entry, reader in read_tar(stream)), key=sort_key)

        yield f"inputs/{path.name}", Input({"kind": "tar", "digest": known.digest_of(path)}, entries)


def _kept(entry: Entry, reader: EntryReader, scratch: Path) -> Entry:
    """Return an entry with its content as the packager keeps it while it makes a layer: small ones are never files."""
    if entry.kind is not Kind.FILE:
        return entry
    return replace(entry, content=keep_content(cast("IO[bytes]", reader), entry.size, scratch))


def native_build(context: Path, store: Store) -> Image:
    """Build a context; the process must be prepared."""
    known = KnownDigests(store.root / "known-inputs.json")
    builder = Builder(store, NativeEngine(), inputs=dict(inputs_of(context, known)))
    stage = builder.build(parse_dockerfile((context / "Dockerfile").read_text()))
    known.keep()
    return assemble_image(stage, store, task="bench", platform=_PLATFORM)


def main() -> None:
    context, root = map(Path, sys.argv[1:])
    prepare_process()
    sys.stdout.write(f"{native_build(context, Store(root)).content_id}\n")


if __name__ == "__main__":
    main()
