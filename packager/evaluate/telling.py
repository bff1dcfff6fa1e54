"""Completes what a verdict says of its run: who made the patch, how often it asked, and why it failed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.evaluate.failures import classify_failure
from packager.evaluate.run_record import RunRecord

if TYPE_CHECKING:
    from packager.evaluate.predictions import Prediction
    from packager.evaluate.trajectory import Trajectory
    from packager.evaluate.verdict import Verdict

RELEASED_LISTS = "release, "
"""How the details begin that say how far the lists that judged are those of a release."""


def tell(
    verdict: Verdict,
    handed_in: Prediction | None,
    *,
    said: RunRecord | None = None,
    trajectory: Trajectory | None = None,
) -> Verdict:
    """Return a verdict whose record says what others say of the run, too, and has the class of failure.

    What `said` has goes before what the prediction says.
    """
    judged = verdict.run or RunRecord(verdict.mode, tuple(verdict.patches))
    said = said or judged
    if handed_in is not None:
        said = replace(
            said,
            model=said.model or handed_in.model,
            requests=handed_in.requests if said.requests is None else said.requests,
        )
    if said.requests is None and trajectory is not None:
        said = replace(said, requests=trajectory.requests)
    run = replace(
        said,
        mode=judged.mode,
        targets=judged.targets,
        kind=judged.kind or said.kind,
        changes=judged.changes,
        strays=said.strays or _strays(verdict, trajectory),
    )
    failure = classify_failure(verdict.grade, run.changes, trajectory, strays=run.strays)
    return replace(verdict, run=replace(run, failure=failure))


def tell_again(
    verdict: Verdict,
    handed_in: Prediction | None,
    *,
    said: RunRecord | None = None,
    trajectory: Trajectory | None = None,
) -> Verdict:
    """Return an earlier verdict on the same patch with what others say of the run now, not what they said then."""
    old = verdict.run or RunRecord(verdict.mode, tuple(verdict.patches))
    lists = {key: text for key, text in old.details.items() if key.startswith(RELEASED_LISTS)}
    bare = RunRecord(old.mode, old.targets, kind=old.kind, changes=old.changes, details=lists)
    if said is not None:
        said = replace(said, details={**said.details, **lists})
    return tell(replace(verdict, run=bare), handed_in, said=said, trajectory=trajectory)


def _strays(verdict: Verdict, trajectory: Trajectory | None) -> tuple[str, ...]:
    """Return the repositories that the agent wrote to although they are no target that it had to change."""
    found = frozenset() if trajectory is None else trajectory.repositories()
    return tuple(sorted(name for name in found - set(verdict.patches) if name[:1].isalnum()))
