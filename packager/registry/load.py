"""Puts an image into the daemon of a local engine, and proves by its ids that the daemon holds the same one.

Docker before 23 reads neither zstd nor layouts: it gets docker's own archive with the plain tars. Later ones and podman
get the bundle's form, manifests and blobs as they were signed. The image id is then the config's digest (docker's
graphdrivers, podman) or the manifest's (docker's containerd store); the diff ids are compared besides, since two images
can share a config's digest only if somebody broke sha256, but a daemon may also just be wrong.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from packager.base.canonical import LIMIT_BYTES, parse_json
from packager.base.digests import BLOCK_BYTES, hex_of
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.base.processes import run_fed, run_ok
from packager.base.progress import Event, Progress, silent
from packager.oci.config import parse_config
from packager.oci.descriptor import expect_list, expect_object
from packager.oci.entries import Entry, Kind, file_entry
from packager.oci.layout import DOCKER_FILE, INDEX_FILE, LAYOUT_BYTES, LAYOUT_FILE, blob_name
from packager.oci.manifest import parse_manifest
from packager.oci.tar_writer import write_tar
from packager.registry.bundle import Contents, DockerImage, format_contents, format_docker, image_entry
from packager.store.scratch import scratch_folder
from packager.trust.layers import open_bounded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.oci.config import ImageConfig
    from packager.oci.descriptor import Descriptor
    from packager.oci.manifest import Manifest
    from packager.store.store import Store

EngineName = Literal["docker", "podman"]
_FIRST_ZSTD = 23
"""Docker 23 is the first that reads zstd layers."""


@dataclass(frozen=True)
class Loaded:
    """An image in an engine: its name and id there, and of what the id is the digest."""

    engine: str
    name: str
    image_id: str
    proof: str


@dataclass(frozen=True)
class Load:
    """One image on its way into an engine's daemon."""

    store: Store
    engine: EngineName
    progress: Progress = silent

    def run(self, image: Descriptor, name: str) -> Loaded:
        """Load an image that was verified; an engine that then holds something else is an IntegrityError."""
        data = self.store.read(image.digest, LIMIT_BYTES)
        manifest = parse_manifest(data, where=image.digest)
        config = parse_config(self.store.read(manifest.config.digest, LIMIT_BYTES), where=manifest.config.digest)
        with scratch_folder(self.store.root) as scratch:
            entries = self._archive(image, manifest, name, scratch)
            self._feed(entries)
        return self._prove(image, manifest, config, name)

    def _archive(self, image: Descriptor, manifest: Manifest, name: str, scratch: Path) -> list[Entry]:
        if self._is_old_docker():
            layers = [self._plain(layer, scratch) for layer in manifest.layers]
            top: list[Entry] = []
        else:
            layers = [self._signed(layer.digest) for layer in manifest.layers]
            index = format_contents(Contents((image_entry(image, name),)))
            top = [file_entry(LAYOUT_FILE.encode(), LAYOUT_BYTES), file_entry(INDEX_FILE.encode(), index)]
            top.append(self._signed(image.digest))
        digests = tuple(_digest_of(layer) for layer in layers)
        docker = format_docker([DockerImage(manifest.config.digest, digests, (name,))])
        entries = {entry.path: entry for entry in (*top, *layers, self._signed(manifest.config.digest))}
        return [*entries.values(), file_entry(DOCKER_FILE.encode(), docker)]

    def _is_old_docker(self) -> bool:
        if self.engine == "podman":
            return False
        said = run_ok(["docker", "version", "--format", "{{.Server.Version}}"]).decode(errors="replace").strip()
        number = said.partition(".")[0]
        return not number.isdigit() or int(number) < _FIRST_ZSTD

    def _signed(self, digest: Digest) -> Entry:
        self.store.verify(digest)
        path = self.store.path(digest)
        return Entry(blob_name(digest).encode(), Kind.FILE, 0o644, size=path.stat().st_size, content=path)

    def _plain(self, layer: Descriptor, scratch: Path) -> Entry:
        """Unpack a layer; the file's name is only a name to docker, which hashes the bytes itself."""
        path = scratch / hex_of(layer.digest)
        with open_bounded(self.store, layer, progress=self.progress) as plain, path.open("wb") as out:
            while block := plain.read(BLOCK_BYTES):
                out.write(block)
            plain.finish()
        return Entry(blob_name(layer.digest).encode(), Kind.FILE, 0o644, size=path.stat().st_size, content=path)

    def _feed(self, entries: list[Entry]) -> None:
        total = sum(entry.size for entry in entries)
        task = f"load into {self.engine}"

        def write(sink: Callable[[bytes], object]) -> None:
            done = 0

            def count(block: bytes) -> None:
                nonlocal done
                sink(block)
                done += len(block)
                self.progress(Event(task, min(done, total), total, "bytes"))

            write_tar(entries, count)

        run_fed([self.engine, "load"], write)
        self.progress(Event(task, total, total, "bytes", "loaded", finished=True))

    def _prove(self, image: Descriptor, manifest: Manifest, config: ImageConfig, name: str) -> Loaded:
        place = f"{self.engine}: {name}"
        found = _inspect(self.engine, name)
        image_id = str(found.get("Id", "")).removeprefix("sha256:")
        proofs = {hex_of(manifest.config.digest): "the config's digest", hex_of(image.digest): "the manifest's digest"}
        if image_id not in proofs:
            expected = f"sha256:{hex_of(manifest.config.digest)} or {image.digest}"
            raise IntegrityError(f"expected the image id {expected}, found sha256:{image_id[:80]}", where=place)
        rootfs = expect_object(found.get("RootFS"), where=f"{place}: RootFS")
        layers = expect_list(rootfs.get("Layers"), where=f"{place}: RootFS.Layers")
        for number, expected in enumerate(config.diff_ids):
            if number >= len(layers) or layers[number] != expected:
                held = str(layers[number])[:80] if number < len(layers) else "nothing"
                raise IntegrityError(f"layer {number + 1}: expected {expected}, found {held}", where=place)
        if len(layers) != len(config.diff_ids):
            raise IntegrityError(f"expected {len(config.diff_ids)} layers, found {len(layers)}", where=place)
        return Loaded(self.engine, name, f"sha256:{image_id}", f"{proofs[image_id]} and {len(layers)} diff ids")


def _inspect(engine: str, name: str) -> dict[str, Any]:
    data = run_ok([engine, "image", "inspect", name])
    place = f"{engine} image inspect {name}"
    with contextlib.suppress(InputError):
        found = expect_list(parse_json(data, where=place), where=place)
        if len(found) == 1:
            return expect_object(found[0], where=place)
    raise WorldError("expected a list of one image, found something else", where=place)


def _digest_of(entry: Entry) -> Digest:
    from packager.base.digests import parse_digest  # noqa: PLC0415

    return parse_digest(f"sha256:{entry.path.rpartition(b'/')[2].decode()}")
