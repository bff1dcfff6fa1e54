"""A base image of a few of this machine's own programs, published in a registry of this process."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.digests import DiffId, digest_of
from packager.base.processes import find_program, run_ok
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import describe
from packager.oci.entries import Entry, Kind, dir_entry, file_entry, symlink_entry
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_LAYER_GZIP, MEDIA_MANIFEST, Manifest, format_manifest
from packager.oci.tar_writer import write_tar
from packager.seal.identities import RootSecret, write_root
from tests.support.suites import Sample, Suite, make_suite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.registry import MemoryRegistry

PROGRAMS = ("sh", "cat", "date", "head", "ls", "mkdir", "nproc", "rm", "sort", "test", "touch")
FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "etc", "usr/bin", "usr/lib", "usr/lib64", "workspace")


def publish_tiny_base(registry: MemoryRegistry) -> str:
    """Publish the image and return its reference by digest."""
    tar = io.BytesIO()
    write_tar(list(tiny_entries(PROGRAMS)), tar.write)
    blob = gzip.compress(tar.getvalue(), 1, mtime=0)
    config = format_config(ImageConfig("amd64", (DiffId(digest_of(tar.getvalue())),)))
    manifest = format_manifest(Manifest(describe(MEDIA_CONFIG, config), (describe(MEDIA_LAYER_GZIP, blob),)))
    for data in (config, blob):
        registry.put_blob("made/tiny", data)
    return f"{registry.host}/made/tiny@{registry.put_manifest('made/tiny', manifest, MEDIA_MANIFEST)}"


def tiny_entries(programs: Iterable[str]) -> Iterable[Entry]:
    yield from (dir_entry(name.encode()) for name in FOLDERS)
    yield from (symlink_entry(name, b"usr/" + name) for name in (b"bin", b"lib", b"lib64"))
    yield from (file_entry(b"etc/" + name, b"") for name in (b"hosts", b"hostname", b"resolv.conf"))
    libraries: set[Path] = set()
    for name in programs:
        found = find_program(name)
        if found is None:
            pytest.skip(f"no program {name} to make a base of")
        path = Path(found).resolve()
        yield _program(f"usr/bin/{name}", path)
        words = run_ok(["ldd", str(path)]).decode().split()
        libraries.update(Path(word) for word in words if word.startswith("/"))
    yield from (_program(str(_below_usr(path)), path.resolve()) for path in sorted(libraries))


def _below_usr(path: Path) -> Path:
    plain = path.relative_to("/")
    return plain if plain.parts[0] == "usr" else Path("usr") / plain


def _program(name: str, path: Path) -> Entry:
    return Entry(name.encode(), Kind.FILE, 0o755, size=path.stat().st_size, content=path)


@dataclass(frozen=True)
class TinyWorld:
    """A folder to make suites in that share a store, and a base image for them."""

    folder: Path
    image: str

    def suite(self, name: str, *prepare: str) -> Suite:
        """Make and lock a suite whose one target is prepared by some commands."""
        sample = Sample(
            name, {"code": "1\n"}, {"code": "2\n"}, base={"image": self.image}, fields={"prepare": list(prepare)}
        )
        suite = make_suite(self.folder / name, sample, store=self.folder / "store")
        write_root(suite.place.keys / "root.key", RootSecret(bytes(range(32))))
        api.lock(suite.place, suite.task)
        return suite
