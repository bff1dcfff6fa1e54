"""The pinned Debian base, from the archive to a tree that works: apt inside it is recorded and replayed."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run, run_ok
from packager.lock.bootstrap import CONFIGURE_PATH, Deb, bootstrap_entries
from packager.lock.clients import Clients
from packager.lock.debian import resolve
from packager.lock.fetch import fetch_blobs
from packager.lock.recorder import Recorder
from packager.lock.replay import Replay
from packager.oci.layer import decompress, write_layer
from packager.oci.tree import scan_tree
from packager.oci.unpack import unpack_layer
from packager.store.store import Store
from tests.support.fetch_server import serve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.lock.model import LockedBase
    from packager.oci.layer import Layer
    from packager.sandbox.fetches import FetchSource

pytestmark = [pytest.mark.network, pytest.mark.engine]
PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE_DATE_EPOCH": "315532800"}


def enter(root: Path, command: Sequence[str], env: Mapping[str, str], *, network: bool = False) -> Sequence[str]:
    """Return how bubblewrap runs a command in a tree."""
    walls = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", *([] if network else ["--unshare-net"])]
    settings = [word for name, value in {**env, **PATH}.items() for word in ("--setenv", name, value)]
    mounts = ["--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "--chdir", "/", "--cap-add", "ALL"]
    return ["bwrap", *mounts, *walls, "--hostname", "build", "--clearenv", *settings, *command]


def unpack(layer: Layer, store: Store, target: Path) -> Path:
    target.mkdir()
    with store.open(layer.digest) as blob, decompress(blob, layer.media_type) as stream:
        unpack_layer(stream, target, overlay_whiteouts=False)
    return target


def make_base(base: LockedBase, store: Store, folder: Path) -> Path:
    """Lay out and configure a base below `folder`."""
    folder.mkdir()
    debs = [Deb(blob.key.rpartition("/")[2], store.path(blob.digest)) for blob in base.packages]
    layer = write_layer(bootstrap_entries(debs, suite=base.suite, scratch=folder), store)
    root = unpack(layer, store, folder / "root")
    run_ok(enter(root, ["/bin/sh", CONFIGURE_PATH], {}), Surroundings(timeout_s=600))
    return root


def install(root: Path, source: FetchSource) -> None:
    with serve(source) as environment:
        command = ["/bin/sh", "-ec", "apt-get update && apt-get install -y jq"]
        env = {name: value for name, value in environment.items() if name != "PATH"}
        done = run(enter(root, command, env, network=True), Surroundings(timeout_s=300))
    assert done.exit_code == 0, done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a base needs root or an engine's user namespace")
def test_a_base_is_the_same_twice_works_and_grows_offline(tmp_path: Path) -> None:
    if find_program("bwrap") is None or find_program("apt-get") is None:
        pytest.skip("bwrap or apt-get is not installed")
    store = Store(tmp_path / "store")
    base = resolve("bookworm", ["python3"], clients=Clients())
    fetch_blobs(base.packages, store, Clients())
    one, other = (make_base(base, store, tmp_path / name) for name in ("one", "with a blank"))
    layers = [write_layer(scan_tree(root), store) for root in (one, other)]
    assert layers[0].diff_id == layers[1].diff_id
    checks = 'dpkg --audit; test "$(python3 -c "print(6 * 7)")" = 42; test ! -e /.debs; test ! -s /etc/machine-id'
    assert run_ok(enter(one, ["/bin/sh", "-euc", checks], {})) == b""

    recorder = Recorder(store, Clients())
    install(one, recorder)
    replay = Replay(store, recorder.fetches("apt"), recorder.absent("apt"))
    install(other, replay)
    assert replay.unknown() == ()
    assert {row.blob.key.rpartition("/")[2].partition("_")[0] for row in recorder.fetches("apt")} == {
        "jq",
        "libjq1",
        "libonig5",
    }
    layers = [write_layer(scan_tree(root), store) for root in (one, other)]
    assert layers[0].diff_id == layers[1].diff_id
    shutil.rmtree(tmp_path)
