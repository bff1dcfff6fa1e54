"""A walk through the native engine that any user can take; reports what was seen as JSON, to be compared.

Run: python -m tests.support.sandbox_walk DIRECTORY
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

from packager.oci.layer import open_layer, write_layer
from packager.oci.tree import diff_trees, scan_tree
from packager.oci.unpack import unpack_layer
from packager.sandbox.engine import Bind, Command, Limits
from packager.sandbox.fetches import Answer
from packager.sandbox.native import NativeEngine, NativeTree, prepare_process
from packager.store.store import Store
from tests.support.fake_fetches import FakeFetches
from tests.support.host_tree import HOST_USR, make_host_layer, run_captured, shell

NET_RAW = "0000000200200000000000000000000000000000"
"""A version 2 security.capability: cap_net_raw, permitted."""
SEE = (
    "id -u; id -G; hostname; umask; pwd; cat /etc/hosts; ls /dev; ls /proc/self/fd; grep -E 'Cap|NoNew' /proc/self/status; "
    "ulimit -n; cut -d: -f3 /proc/self/cgroup | sort -u; tr -d '\\0' </proc/1/cmdline; readlink /proc/1/exe || echo hidden; "
    "mknod /tmp/n c 1 3 || echo no device; test -w /proc/sys/kernel/hostname; "
    "echo x >/proc/sys/kernel/hostname || echo read-only; cat /proc/net/dev | cut -d: -f1 | tail -n +3"
)
WRITE = (
    "cd /work; echo a >a; chown 42:43 a; chmod 6750 a; ln a b; ln -s a c; mkdir -m 2775 d; chown 65534 d; rm /etc/passwd; "
    "rm -r /root; mkdir /root; echo x >/root/x; mkfifo e"
)


def list_upper(tree: NativeTree) -> list[str]:
    """Describe every entry of the upper layer: path, type and mode, owner, device, opaque mark."""
    found = []
    for path in sorted(tree.upper.rglob("*")):
        status = path.lstat()
        name = path.relative_to(tree.upper)
        marks = {
            mark.split(".", 1)[1] for mark in os.listxattr(path, follow_symlinks=False) if mark.endswith(".opaque")
        }
        links = "" if stat.S_ISDIR(status.st_mode) or stat.S_ISCHR(status.st_mode) else f" links {status.st_nlink}"
        device = f" device {status.st_rdev}" if stat.S_ISCHR(status.st_mode) else ""
        found.append(
            f"{name} {stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid}{device}{links} {sorted(marks)}"
        )
    return found


def walk(place: Path) -> dict[str, object]:
    """Run commands of every kind in a tree below `place` and return what came of them."""
    scratch, results = place / "scratch", place / "results"
    results.mkdir()
    extra = place / "extra"
    (extra / "etc").mkdir(parents=True)
    (extra / "etc/extra").write_text("extra\n")
    seen: dict[str, object] = {}
    with NativeEngine().open_tree([make_host_layer(place / "layer"), extra], scratch=scratch) as tree:
        seen["see"] = run_captured(tree, shell(SEE))[1:]
        seen["write"] = run_captured(tree, shell(WRITE))[1:]
        seen["upper"] = list_upper(tree)
        user = shell("id -u; id -g; touch /etc/x; echo ok >/dev/stderr", uid=1000, gid=1000, cwd="/tmp")
        seen["user"] = run_captured(tree, user)[1:]
        bind = Bind(results, "/run/wideswe/results", writable=True)
        seen["bind"] = run_captured(tree, shell("echo r >/run/wideswe/results/r", binds=(bind,)))[1:]
        seen["results"] = (results / "r").read_text()
        seen["deadline"] = run_captured(tree, shell("sleep 99", timeout_s=0.5))[0].timed_out
        greedy = ("/usr/bin/python3", "-c", "bytearray(900 << 20)")
        limits = Limits(memory_bytes=200 << 20)
        seen["greedy failed"] = run_captured(tree, Command(greedy, binds=(HOST_USR,), limits=limits))[0].exit_code != 0
        source = FakeFetches({"https://files.invalid/a": Answer(200, "text/plain", b"fetched")})
        fetch = "import urllib.request as u; print(u.urlopen('https://files.invalid/a').read().decode())"
        seen["fetch"] = run_captured(tree, Command(("/usr/bin/python3", "-c", fetch), binds=(HOST_USR,)), source)[1:]
    seen["left"] = sorted(path.name for path in scratch.iterdir())
    return seen


def walk_layer(place: Path) -> dict[str, object]:
    """Let a command give a file an owner, set-id bits and a capability; return the layer, and what it unpacks to."""
    store = Store(place / "store")
    words = "chown(f, 7, 8); os.chmod(f, 0o6755); os.setxattr(f, 'security.capability', bytes.fromhex('%s'))"
    script = f"import os; f = '/work/ping'; open(f, 'w').close(); os.{words % NET_RAW}; os.remove('/etc/passwd')"
    with NativeEngine().open_tree([make_host_layer(place / "lower")], scratch=place / "scratch") as tree:
        ended = run_captured(tree, Command(("/usr/bin/python3", "-c", script), binds=(HOST_USR,)))
        entries = diff_trees(tree.lower, tree.root, upper=tree.upper)
        layer = write_layer(entries, store)
    unpacked = place / "unpacked"
    unpacked.mkdir()
    with open_layer(store, layer) as stream:
        unpack_layer(stream, unpacked, overlay_whiteouts=True)
    with NativeEngine().open_tree([place / "lower", unpacked], scratch=place / "scratch") as tree:
        whole = write_layer(scan_tree(tree.lower), store)
    lines = [f"{one.path!r} {one.kind.value} {one.mode:o} {one.uid}:{one.gid} {one.capability!r}" for one in entries]
    return {"ended": ended[1:], "entries": lines, "layer": layer.diff_id, "whole": whole.diff_id}


if __name__ == "__main__":
    prepare_process()
    sys.stdout.write(json.dumps({**walk(Path(sys.argv[1])), "granted": walk_layer(Path(sys.argv[1]))}, indent=1))
