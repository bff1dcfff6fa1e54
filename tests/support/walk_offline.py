"""What a lab does after the push, in a network namespace whose only interface is loopback; results go out as JSON.

Run: unshare --net python -m tests.support.walk_offline FOLDER KEYS PATCHES
FOLDER holds the registry's data; KEYS are the lab's; PATCHES has one folder or file of patches for each evaluation.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.docker_registry import docker_registry
from tests.support.walk import TASK, Party, outcomes

OUTSIDE = ("192.0.2.1", 443)
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def outside_says() -> str:
    """Say why no packet leaves: the kernel has no route."""
    with socket.socket() as probe:
        probe.settimeout(5)
        try:
            probe.connect(OUTSIDE)
        except OSError as error:
            return str(error.strerror)
    return "connected"


def interfaces() -> list[str]:
    return sorted(name for _, name in socket.if_nameindex())


def walk(folder: Path, keys: Path, patches: Path) -> dict[str, Any]:
    """Pull by another name, verify, evaluate gold and each of the patches."""
    empty = folder / "no-suite"
    empty.mkdir()
    lab = Party(empty, folder / "lab-store", empty, keys)
    seconds: dict[str, float] = {}
    found: dict[str, Any] = {"interfaces": interfaces(), "outside": outside_says(), "seconds": seconds}

    def timed(name: str, *words: str | Path) -> Any:
        began = time.monotonic()
        done = lab.call("--json", *words)
        seconds[name] = round(time.monotonic() - began, 2)
        answer = json.loads(done.stdout) if done.stdout else None
        return {"exit_code": done.exit_code, "answer": answer, "said": done.stderr.decode()}

    with docker_registry(folder / "registry") as host:
        found["pull"] = timed("pull", "pull", f"{host}/mirror/of-a-task:v1")
    found["verify"] = timed("verify", "verify", TASK)
    found["evaluate"] = {"gold": timed("gold", "evaluate", TASK, "--gold")}
    for path in sorted(patches.iterdir()):
        found["evaluate"][path.stem] = timed(path.stem, "evaluate", TASK, "--patch", path)
    for one in found["evaluate"].values():
        one["answer"] = outcomes(one["answer"])
    return found


def raise_loopback() -> None:
    """Do what `ip link set lo up` does, which a small system lacks (netdevice(7))."""
    with socket.socket() as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def main() -> None:
    raise_loopback()
    folder, keys, patches = map(Path, sys.argv[1:])
    try:
        json.dump(walk(folder, keys, patches), sys.stdout)
    finally:
        shutil.rmtree(folder / "lab-store", ignore_errors=True)


if __name__ == "__main__":
    main()
