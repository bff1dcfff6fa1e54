"""The command line as authors and labs run it, each with a store and keys of their own, and ways to damage a store."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zstandard

from packager.base.digests import digest_of, hex_of
from packager.base.processes import Surroundings, run
from packager.oci.config import format_config, parse_config
from packager.oci.descriptor import describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, format_manifest, parse_manifest
from packager.oci.places import SEALED_PATH
from packager.oci.record import ImageRecord, format_record, parse_record
from packager.seal.bundle import open_seal
from packager.seal.identities import read_root, task_identity
from packager.store.store import Store
from packager.trust.keyfiles import Password, read_private_key
from packager.trust.signatures import sign_image

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.digests import Digest
    from packager.base.processes import Finished
    from packager.seal.bundle import SealContents

ROOT = Path(__file__).parents[2]
TASK = "hello-wide-001"
TARGETS = ("gauge", "tidewatch")
HOME = "registry.example/wideswe"
TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Party:
    """Somebody with a store and keys; `root` is the suite's folder (a lab has none), `inputs` locked inputs."""

    folder: Path
    store_root: Path
    root: Path
    key_folder: Path | None = None
    inputs: str | None = None

    @property
    def store(self) -> Store:
        return Store(self.store_root)

    @property
    def keys(self) -> Path:
        return self.key_folder or self.folder / "keys"

    @property
    def record(self) -> ImageRecord:
        data = self.store.name("images", TASK)
        assert data is not None
        return parse_record(data)

    def environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("WIDESWE_")}
        env.update(
            WIDESWE_ROOT=str(self.root),
            WIDESWE_STORE=str(self.store_root),
            WIDESWE_KEYS=str(self.keys),
            WIDESWE_PASSWORD="",
            PYTHONPATH=str(ROOT),
            PYTHONDONTWRITEBYTECODE="1",
        )
        return env if self.inputs is None else {**env, "WIDESWE_INPUTS": self.inputs}

    def call(self, *words: str | Path, before: tuple[str, ...] = ()) -> Finished:
        """Run wideswe-pack to its end."""
        argv = [*before, sys.executable, "-m", "packager", "--quiet", *map(str, words)]
        return run(argv, Surroundings(env=self.environment(), cwd=self.folder, timeout_s=TIMEOUT_S))

    def ask(self, *words: str | Path, exit_code: int = 0) -> Any:
        """Run wideswe-pack, which must end with the exit code, and return its first result."""
        done = self.call("--json", *words)
        assert done.exit_code == exit_code, (done.exit_code, done.stderr.decode(), done.stdout.decode())
        return json.loads(done.stdout.splitlines()[0])

    def refuse(self, *words: str | Path, exit_code: int) -> str:
        """Run wideswe-pack, which must end with the exit code and without a result, and return what it says."""
        done = self.call(*words)
        assert (done.exit_code, done.stdout) == (exit_code, b""), done.stderr.decode()
        return done.stderr.decode()

    def evaluate(self, *words: str | Path, exit_code: int = 0) -> Any:
        return self.ask("evaluate", TASK, *words, exit_code=exit_code)


def outcomes(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Return the outcomes of a verdict: the task's under its name, and those of the targets."""
    bound = verdict["bound"]
    return {TASK: bound["outcome"], **{name: one["outcome"] for name, one in bound["targets"].items()}}


def reasons(verdict: Mapping[str, Any]) -> dict[str, str]:
    return {name: one["reason"] for name, one in verdict["bound"]["targets"].items()}


def sealed_file(party: Party) -> bytes:
    """Return the sealed file from the last layer, read with tools that are not ours."""
    layer = parse_manifest(party.store.read(party.record.manifest.digest, 1 << 20)).layers[-1]
    plain = zstandard.ZstdDecompressor().stream_reader(party.store.read(layer.digest, 1 << 26)).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        member = archive.extractfile(SEALED_PATH.decode())
        assert member is not None
        return member.read()


def read_contents(party: Party) -> SealContents:
    """Return what is sealed, opened with the suite's secret."""
    identity, _ = task_identity(read_root(party.keys / "root.key"), "wideswe", TASK)
    return open_seal(sealed_file(party), identity)


def blob_path(root: Path, digest: Digest) -> Path:
    return root / "blobs" / "sha256" / hex_of(digest)


@contextlib.contextmanager
def flipped(root: Path, digest: Digest, place: int = -1) -> Iterator[Digest]:
    """Flip one bit of one byte of a blob behind the store's back, yield what it now hashes to, and repair all."""
    path = blob_path(root, digest)
    good = path.read_bytes()
    bad = bytearray(good)
    bad[place] ^= 1
    replace_file(path, bytes(bad))
    try:
        yield digest_of(bytes(bad))
    finally:
        (root / "quarantine" / hex_of(digest)).unlink(missing_ok=True)
        replace_file(path, good)


def replace_file(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(0o444)


def with_seal(party: Party, sealed: bytes) -> ImageRecord:
    """Return the image with another sealed file: layer, config and manifest fit it; it has no signatures yet."""
    store = party.store
    manifest = parse_manifest(store.read(party.record.manifest.digest, 1 << 20))
    layer = write_layer([file_entry(SEALED_PATH, sealed)], store)
    config = parse_config(store.read(manifest.config.digest, 1 << 20))
    written = format_config(replace(config, diff_ids=(*config.diff_ids[:-1], layer.diff_id)))
    store.put(written)
    layers = (*manifest.layers[:-1], layer.descriptor())
    data = format_manifest(replace(manifest, config=describe(MEDIA_CONFIG, written), layers=layers))
    store.put(data)
    return ImageRecord(describe(MEDIA_MANIFEST, data))


def signed_by_authors(party: Party, record: ImageRecord) -> ImageRecord:
    key = read_private_key(party.keys / "release.key", Password(""))
    return sign_image(record.manifest, f"{HOME}/{TASK}:v1", key, party.store).added_to(record)


@contextlib.contextmanager
def remembered(party: Party, record: ImageRecord) -> Iterator[None]:
    """Make a record the task's image, and put the one before back."""
    before = party.record
    party.store.set_name("images", TASK, format_record(record))
    try:
        yield
    finally:
        party.store.set_name("images", TASK, format_record(before))
