"""Keys whose making was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager import api
from packager.trust.keyfiles import Password

if TYPE_CHECKING:
    from pathlib import Path


def test_a_keygen_killed_between_private_and_public_key_is_completed_by_the_next_one(tmp_path: Path) -> None:
    place = api.Place(tmp_path, tmp_path / "store", tmp_path / "keys", password=Password("x"))
    api.keygen(place)
    files = {path.name: path.read_bytes() for path in place.keys.iterdir()}
    (place.keys / "release.pub").unlink()
    api.keygen(place)
    assert {path.name: path.read_bytes() for path in place.keys.iterdir()} == files
