"""The verb that takes over released benchmarks: import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.files import full_disk_trouble

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.api.place import Place
    from packager.recipe.released.values import Imported


@full_disk_trouble("import")
def import_released(place: Place, checkout: Path, into: Path, *, cases: Sequence[str] = ()) -> Imported:
    """Turn case folders of a user's own checkout of WideSWE into recipes, or drafts with what is left to write."""
    from packager.recipe.released.importing import import_cases

    return import_cases(checkout, into, cases=cases, images=place.root / "images")
