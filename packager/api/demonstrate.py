"""The verb that walks the whole way by itself: demo."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from packager.api.author import build
from packager.api.judge import EvaluationRequest, evaluate
from packager.api.place import PLATFORM, Place
from packager.api.ship import keygen, sign, verify
from packager.base.files import full_disk_trouble
from packager.base.progress import Progress, silent
from packager.trust.keyfiles import Password

if TYPE_CHECKING:
    from packager.evaluate.verdict import Verdict
    from packager.store.store import Store


@dataclass(frozen=True)
class Demonstrated:
    """The whole walk of one task."""

    manifest: str
    content_id: str
    checks: int
    gold: Verdict
    empty: Verdict

    @property
    def as_expected(self) -> bool:
        """Whether gold is resolved and nothing is not."""
        return (self.gold.grade.outcome.value, self.empty.grade.outcome.value) == ("resolved", "unresolved")


@full_disk_trouble("demo")
def demo(place: Place, task: str, *, progress: Progress = silent) -> Demonstrated:
    """Walk the whole way with fresh keys in a folder of their own; the store is the usual one, the image forgotten."""
    store = place.store()
    with tempfile.TemporaryDirectory(prefix="wideswe-demo-") as folder:
        own = replace(place, keys=Path(folder) / "keys", password=Password(token_hex()))
        keygen(own)
        before = store.name("images", task)
        try:
            built = build(own, task, platform=PLATFORM, progress=progress)
            sign(own, task, home="wideswe.invalid/demo")
            checks = verify(own, task, progress=progress)
            gold = evaluate(own, task, EvaluationRequest(gold=True), progress=progress)
            empty = Path(folder) / "empty.patch"
            empty.touch()
            nothing = EvaluationRequest(target_patches=dict.fromkeys(gold.grade.targets, empty))
            unsolved = evaluate(own, task, nothing, progress=progress)
        finally:
            _put_back(store, task, before)
    return Demonstrated(built.manifest, built.content_id, len(checks), gold, unsolved)


def _put_back(store: Store, task: str, record: bytes | None) -> None:
    if record is None:
        store.remove_name("images", task)
    else:
        store.set_name("images", task, record)
