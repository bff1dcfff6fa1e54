"""The shipped tasks, built with a root secret of their own; inputs come from the stores of this machine or the network."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from packager import api
from packager.seal.identities import RootSecret, write_root

ROOT = Path(__file__).parents[2]
HELLO = "hello-wide-001"
ROOT_SECRET = RootSecret(bytes(range(32)))


def build_shipped(task: str, folder: Path) -> api.Place:
    """Build a task into a store below `folder`; steps that a store of this machine has done are not done again."""
    stores = machine_stores()
    place = api.Place(root=ROOT, store_root=folder / "store", keys=folder / "keys", inputs=tuple(stores))
    results = place.store_root / "results"
    results.mkdir(parents=True)
    for known in (path for store in stores for path in (store / "results").glob("*")):
        shutil.copyfile(known, results / known.name)
    write_root(place.keys / "root.key", ROOT_SECRET)
    api.build(place, task)
    return place


def machine_stores() -> list[Path]:
    """Return the stores that wideswe-pack uses on this machine."""
    home = Path(os.environ.get("XDG_DATA_HOME") or Path("~").expanduser() / ".local/share") / "wideswe-pack"
    named = os.environ.get("WIDESWE_INPUTS", "").split(os.pathsep)
    candidates = [os.environ.get("WIDESWE_STORE", ""), *named, str(home)]
    return [Path(name).absolute() for name in candidates if name and (Path(name) / "blobs").is_dir()]
