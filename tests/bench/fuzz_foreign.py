"""Feeds every parser of foreign bytes for a while: by chance, or guided by coverage where atheris is installed.

    python -m tests.bench.fuzz_foreign SECONDS [PARSER …]
    python -m tests.bench.fuzz_foreign --guided SECONDS PARSER

Ends with the first input that makes a parser do anything but take it or raise a PackError.
"""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOREIGN, SEEDS = "tests.support.foreign", "tests.property.test_foreign_bytes"


def mutate(source: random.Random, data: bytes) -> bytes:
    """Return data with a few bytes changed, cut out, repeated or put in."""
    for _ in range(source.randint(1, 6)):
        start = source.randrange(len(data) + 1)
        end = min(len(data), start + source.choice((1, 1, 2, 4, 16, 512)))
        put = source.choice(
            (b"", source.randbytes(1), source.randbytes(4), data[start:end] * 2, b"\0", b'"', b"[" * 70)
        )
        data = data[:start] + put + data[end:]
    return data


def by_chance(name: str, seconds: float) -> str:
    """Feed mutations of the seed; return how many were fed and taken."""
    foreign, seed = importlib.import_module(FOREIGN), importlib.import_module(SEEDS).seeds()[name]
    source, until = random.Random(name), time.monotonic() + seconds
    fed = taken = 0
    while time.monotonic() < until:
        data = mutate(source, seed)
        try:
            taken += foreign.feed(name, data)
        except BaseException:
            sys.stdout.write(f"{name}: {data!r}\n")
            raise
        fed += 1
    return f"{name}: {fed} inputs, {taken} taken, no crash\n"


def guided(name: str, seconds: str) -> None:
    """Let libFuzzer choose inputs by the branches that they reach; it says so itself and ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["packager"]):
        foreign = importlib.import_module(FOREIGN)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "seed").write_bytes(importlib.import_module(SEEDS).seeds()[name])
        options = [f"-max_total_time={seconds}", "-max_len=20000", "-print_final_stats=1", folder]
        atheris.Setup(["fuzz", *options], lambda data: feed_one(foreign, name, data))
        atheris.Fuzz()


def feed_one(foreign: Any, name: str, data: bytes) -> None:
    foreign.feed(name, data)


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--guided"]:
        guided(words[2], words[1])
        return
    for name in words[1:] or list(importlib.import_module(FOREIGN).PARSERS):
        sys.stdout.write(by_chance(name, float(words[0])))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
