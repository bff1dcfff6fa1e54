"""Push and pull of an image of about 1 GB (random and zero bytes) against skopeo copy, in turns, in one run.

    python -m tests.bench.bench_registry [rounds] [folder]

Both speak to the same docker-registry on loopback, both move the same blobs (skopeo with --preserve-digests), and each
round uses repositories and folders of its own. Ratios below 1 mean that we are faster.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical
from packager.base.processes import run_ok
from packager.oci.descriptor import Descriptor, describe, format_descriptor
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_LAYER_TAR, Manifest, format_manifest, parse_manifest
from packager.oci.record import ImageRecord
from packager.oci.reference import parse_reference
from packager.registry.pull import pull_image
from packager.registry.push import push_image
from packager.store.store import Store
from tests.support.docker_registry import docker_registry, require_program

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
LAYERS_MIB = ((400, "random"), (250, "zero"), (200, "random"), (100, "zero"), (50, "random"))


def make_layer(store: Store, size_mib: int, kind: str, seed: int) -> Descriptor:
    source = random.Random(seed)
    with store.writer() as out:
        for n in range(size_mib):
            block = source.randbytes(MIB) if kind == "random" else n.to_bytes(8, "big") + bytes(MIB - 8)
            out.write(block)
        digest, size = out.commit()
    return Descriptor(MEDIA_LAYER_TAR, digest, size)


def make_image(store: Store) -> ImageRecord:
    layers = [make_layer(store, size, kind, n) for n, (size, kind) in enumerate(LAYERS_MIB)]
    config = format_canonical(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        }
    )
    store.put(config)
    data = format_manifest(Manifest(describe(MEDIA_CONFIG, config), tuple(layers)))
    store.put(data)
    return ImageRecord(describe("application/vnd.oci.image.manifest.v1+json", data))


def make_layout(store: Store, record: ImageRecord, folder: Path) -> Path:
    """An OCI layout that shares the store's blobs."""
    folder.mkdir()
    (folder / "blobs").symlink_to(store.root / "blobs")
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    entry = format_descriptor(record.manifest) | {"annotations": {"org.opencontainers.image.ref.name": "v1"}}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return folder


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def cpu_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def one_round(host: str, store: Store, record: ImageRecord, work: Path) -> dict[str, float]:
    skopeo = [require_program("skopeo"), "copy", "--quiet", "--preserve-digests", "--insecure-policy"]
    layout = work.parent / "layout"
    ours, theirs = f"{host}/{work.name}/ours:v1", f"{host}/{work.name}/theirs:v1"
    pulled = Store(work / "store")
    steps: dict[str, Callable[[], object]] = {
        "push ours": lambda: push_image(store, record, parse_reference(ours)),
        "push skopeo": lambda: run_ok([*skopeo, "--dest-tls-verify=false", f"oci:{layout}:v1", f"docker://{theirs}"]),
        "pull ours": lambda: pull_image(parse_reference(ours), pulled),
        "pull skopeo": lambda: run_ok(
            [*skopeo, "--src-tls-verify=false", f"docker://{theirs}", f"oci:{work / 'layout'}:v1"]
        ),
    }
    order = list(steps) if int(work.name[1:]) % 2 else ["push skopeo", "push ours", "pull skopeo", "pull ours"]
    times = {name: timed(steps[name]) for name in order}
    assert not pulled.check()
    shutil.rmtree(work)
    return times


def hash_speeds(store: Store, record: ImageRecord) -> tuple[float, float]:
    """Return how many bytes we verify, and `openssl speed` hashes, in a second of CPU: other work must not count."""
    layers = parse_manifest(store.read(record.manifest.digest, 1 << 20)).layers
    ours = max(
        sum(layer.size for layer in layers) / cpu_seconds(lambda: [store.verify(layer.digest) for layer in layers])
        for _ in range(2)
    )
    openssl = [require_program("openssl"), "speed", "-mr", "-seconds", "2", "-bytes", str(MIB), "sha256"]
    line = run_ok(openssl).decode().strip().splitlines()[-1]
    return ours, float(line.rpartition(":")[2])


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    base = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(dir=base) as name:
        folder = Path(name)
        store = Store(folder / "source")
        record = make_image(store)
        make_layout(store, record, folder / "layout")
        ours, openssl = hash_speeds(store, record)
        sys.stdout.write(
            f"verify: {ours / 1e6:.0f} MB/s, openssl speed sha256: {openssl / 1e6:.0f} MB/s, ratio {ours / openssl:.2f}\n"
        )
        found: list[dict[str, float]] = []
        for n in range(rounds):
            work = folder / f"r{n}"
            work.mkdir()
            with docker_registry(folder / "registry") as host:
                found.append(one_round(host, store, record, work))
            shutil.rmtree(folder / "registry")
            sys.stdout.write(
                f"round {n}: " + ", ".join(f"{key} {value:.2f} s" for key, value in found[-1].items()) + "\n"
            )
    for verb in ("push", "pull") if found else ():
        ratio = statistics.median(times[f"{verb} ours"] / times[f"{verb} skopeo"] for times in found)
        sys.stdout.write(f"{verb}: ours / skopeo = {ratio:.2f} (median of {rounds})\n")


if __name__ == "__main__":
    main()
