"""Writing a layer against the stock pipeline, in one run: `python tests/bench/bench_layer.py [FOLDER]`.

Stock: GNU tar --sort=name | sha256sum and zstd -3 -T2 | sha256sum. Prints one JSON line per case; exits 1 when a layer
takes longer than the stock pipeline or more than 300 MB. FOLDER is where the trees are made (about 1.5 GB).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ROUNDS = 3
LIMIT_BYTES = 300 << 20
SMALL_FILES = 40_000
LARGE_FILES = 4
LARGE_BYTES = 150 << 20

_STOCK = (
    'set -o pipefail; tar --sort=name -cf - -C "$1" . | tee >(sha256sum >"$2/a") | zstd -q -3 -T2 '
    '| tee >(sha256sum >"$2/b") >"$2/out"; wait'
)
_OURS = """
import json, resource, sys
from pathlib import Path
from packager.oci.layer import write_layer
from packager.oci.tree import scan_tree
from packager.store.store import Store
layer = write_layer(scan_tree(Path(sys.argv[1])), Store(Path(sys.argv[2])))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([layer.diff_size, layer.size, peak * 1024]))
"""


def main() -> int:
    base = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    failed = False
    for name, fill in (("small", fill_small), ("large", fill_large)):
        with tempfile.TemporaryDirectory(dir=base) as folder:
            tree = Path(folder, "tree")
            tree.mkdir()
            fill(tree)
            failed |= compare(name, tree, Path(folder))
    return int(failed)


def compare(name: str, tree: Path, folder: Path) -> bool:
    ours: list[float] = []
    stock: list[float] = []
    said = b""
    for _ in range(ROUNDS):
        with scratch(folder) as place:
            stock.append(timed(["bash", "-c", _STOCK, "stock", str(tree), str(place)])[0])
        with scratch(folder) as place:
            seconds, said = timed([sys.executable, "-c", _OURS, str(tree), str(place)])
            ours.append(seconds)
    tar_bytes, blob_bytes, peak = json.loads(said)
    ratio = min(ours) / min(stock)
    line = {
        "case": name,
        "ours_s": [round(value, 2) for value in ours],
        "stock_s": [round(value, 2) for value in stock],
        "ratio": round(ratio, 3),
        "median_ratio": round(statistics.median(ours) / statistics.median(stock), 3),
        "tar_bytes": tar_bytes,
        "blob_bytes": blob_bytes,
        "peak_rss_mb": peak >> 20,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    return ratio > 1 or peak > LIMIT_BYTES


def timed(argv: list[str]) -> tuple[float, bytes]:
    started = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return time.perf_counter() - started, done.stdout


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    place = folder / "scratch"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place)


def fill_small(tree: Path) -> None:
    chance = random.Random(1)
    text = source_text(chance, 8 << 20)
    for number in range(SMALL_FILES):
        place = tree / f"p{number % 97:02}" / f"q{number % 31:02}"
        place.mkdir(parents=True, exist_ok=True)
        size = min(int(chance.lognormvariate(8.5, 1.4)), 1 << 20)
        start = chance.randrange(len(text) - size)
        (place / f"file-{number}.py").write_bytes(text[start : start + size])


def fill_large(tree: Path) -> None:
    chance = random.Random(2)
    text = source_text(chance, 8 << 20)
    for number in range(LARGE_FILES):
        with (tree / f"large-{number}").open("wb") as out:
            for _ in range(LARGE_BYTES >> 20):
                start = chance.randrange(len(text) - (1 << 19))
                out.write(text[start : start + (1 << 19)] + chance.randbytes(1 << 19))


def source_text(chance: random.Random, size: int) -> bytes:
    words = [chance.randbytes(chance.randrange(1, 6)).hex() for _ in range(4000)]
    return " ".join(chance.choices(words, k=size // 5)).encode()[:size]


if __name__ == "__main__":
    sys.exit(main())
