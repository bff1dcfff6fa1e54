"""Opens the seal of an image with a grant and the evaluator's key, wherever that is kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packager.api.place import EVALUATOR_KEY, Place
from packager.base.errors import InputError, TrustError
from packager.base.files import is_there

if TYPE_CHECKING:
    from pathlib import Path

    from packager.evaluate.judge import StoredImage
    from packager.seal.bundle import SealContents
    from packager.seal.keys import Identity
    from packager.store.store import Store

EVALUATOR_VARIABLE = "WIDESWE_EVALUATOR_KEY"
"""May hold the evaluator's key itself, where files are not wanted."""


def open_sealed(
    place: Place, store: Store, image: StoredImage, task: str, *, evaluator: Path | None = None
) -> SealContents:
    """Open an image's seal with a grant and the evaluator's key; it must be the seal of the task."""
    from packager.seal.bundle import open_seal

    identity = task_key(place, store, image, evaluator=evaluator)
    contents = open_seal(image.sealed(store), identity)
    if contents.task != task:
        raise TrustError(f"expected the seal of {task}, found that of {contents.task}", where=task)
    return contents


def task_key(place: Place, store: Store, image: StoredImage, *, evaluator: Path | None = None) -> Identity:
    """Return the key of an image's task, as one of its grants hands it to the evaluator's key."""
    from packager.seal.grants import open_grants

    return open_grants(store, image.record.grants, _evaluator(place, evaluator), image.sealed(store))


def _evaluator(place: Place, named: Path | None) -> str:
    """Return the evaluator's keys: of the named file, of the environment, or of the keys folder."""
    from packager.seal.identities import parse_evaluators
    from packager.seal.keyfiles import read_secret_file

    text = os.environ.get(EVALUATOR_VARIABLE)
    if named is None and text:
        return parse_evaluators(text.encode(), where=EVALUATOR_VARIABLE)
    path = named or place.keys / EVALUATOR_KEY
    if not is_there(path):
        raise InputError("there is no evaluator key to open the seal with", where=str(path), hint="wideswe-pack keygen")
    return parse_evaluators(read_secret_file(path), where=str(path))
