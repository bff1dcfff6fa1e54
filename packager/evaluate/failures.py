"""Why a task is not resolved: Scope, Delivery or Post-edit, from the final diffs and the agent's trajectory.

The three classes are those of the paper's first figure (arXiv 2609.33382): incomplete scope identification, recognised
work without delivery, and failure after the edit. Only a task that is `unresolved` has one; of its targets only those
that are not resolved are looked at:

- **scope**: the target's final diff is empty, and the trajectory does not show that the agent knew of work there;
- **delivery**: the target's final diff is empty or cannot be applied, although the agent handed in a change, wrote to
  the target (and lost or took back what it wrote), or said that the target is to be changed;
- **post-edit**: the target has a final diff that applies, and a required test does not pass.

A task has the class of the first stage that broke: scope before delivery before post-edit. Reading a target, or naming
it as an example, is no knowledge of work there. "Said" is a rule of thumb over the agent's own words: a sentence
without a negation that names the target, by its folder's name or a path into it, as the object of a plan to change it
("update the caller in kubo") or as what has to ("kubo needs the new option"). The sentence is the evidence, so that a
person can disagree: `failure_class` in TASK.facts.json beside the verdict outweighs what is found here. An empty diff
without a trajectory has no class, since nothing tells scope from delivery.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.evaluate.grade import Outcome
from packager.evaluate.run_record import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.evaluate.grade import TargetGrade, TaskGrade
    from packager.evaluate.run_record import Change
    from packager.evaluate.trajectory import Trajectory


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SENTENCE = re.compile(r"[\n;!?]+|\.(?=\s|$)")
_WORD = re.compile(r"[\w./'-]+")
_NO = _words("no not never without nothing none neither unchanged unaffected already cannot")
_CHANGE = _words(
    "adapt add adjust change edit extend fix implement migrate modify patch rewrite update wire "
    "adapting adding adjusting changing editing extending fixing implementing migrating modifying patching rewriting "
    "updating wiring"
)
_PLAN = _words("must should shall will i'll we'll to also then next now let me let's please and need needs")
_EXAMPLE = _words("as like from how following mirroring than per see unlike using with")
_OUGHT = _words("need needs must should require requires broken wrong faulty buggy")
_TO_CHANGE = ("has to", "have to", "to be")
_BEFORE, _AFTER, _AHEAD = 9, 7, 4
_QUOTED = 240
_MOST_SENTENCE = 2000


def classify_failure(
    grade: TaskGrade, changes: Mapping[str, Change], trajectory: Trajectory | None, *, strays: tuple[str, ...] = ()
) -> Failure | None:
    """Return why a task is not resolved; None if it is, if nothing was judged, or if nobody can know.

    `strays` are other repositories that the agent changed: evidence for a wrong scope.
    """
    if grade.outcome is not Outcome.UNRESOLVED:
        return None
    failing = {name: one for name, one in grade.targets.items() if one.outcome is Outcome.UNRESOLVED}
    found = [_of_target(name, one, changes.get(name), trajectory) for name, one in failing.items()]
    if None in found:
        return None
    order = ("scope", "delivery", "post-edit")
    worst = min((one for one in found if one is not None), key=lambda one: order.index(one.failure_class))
    if worst.failure_class == "scope" and strays:
        return Failure("scope", worst.target, f"{worst.evidence}; changed instead: {', '.join(strays)}")
    return worst


def _of_target(name: str, grade: TargetGrade, change: Change | None, trajectory: Trajectory | None) -> Failure | None:
    if change == "edited":
        return Failure("post-edit", name, f"changed, and {grade.reason}"[:_QUOTED])
    if change == "refused":
        return Failure("delivery", name, f"a patch that does not apply: {grade.reason}"[:_QUOTED])
    if change is None or trajectory is None:
        return None
    if name in trajectory.repositories():
        wrote = next(path for path in trajectory.edited if name in path.split("/"))
        return Failure("delivery", name, f"wrote {wrote}, and nothing of it is left"[:_QUOTED])
    words = recognised(name, trajectory)
    if words:
        return Failure("delivery", name, f"said: {words}"[:_QUOTED])
    return Failure("scope", name, "not changed, and never named as what is to be changed")


def recognised(name: str, trajectory: Trajectory) -> str:
    """Return the sentence in which the agent says that a target is to be changed, or nothing."""
    for sentence in _sentences(trajectory, name.lower()):
        words = _WORD.findall(sentence.lower())
        if _NO & set(words) or any(word.endswith("n't") for word in words):
            continue
        places = [number for number, word in enumerate(words) if _is_in(name.lower(), word)]
        if any(_is_object(words, place) or _is_subject(words, place) for place in places):
            return " ".join(sentence.split())
    return ""


def _sentences(trajectory: Trajectory, lower: str) -> Iterator[str]:
    for text in trajectory.said:
        for sentence in _SENTENCE.split(text.replace("\u2019", "'")):
            if len(sentence) <= _MOST_SENTENCE and lower in sentence.lower():
                yield sentence


def _is_in(name: str, word: str) -> bool:
    """Say whether a word is the name of a target or a path into it."""
    return name in word.strip("./'-").removesuffix("'s").split("/")


def _is_object(words: list[str], place: int) -> bool:
    """Say whether a plan to change something stands before the name, and nothing in between calls it an example."""
    for number in range(place - 1, max(-1, place - 1 - _BEFORE), -1):
        if words[number] in _EXAMPLE:
            return False
        if words[number] in _CHANGE:
            before = words[max(0, number - _AHEAD) : number]
            return all(not word.strip("-.0123456789") for word in before) or bool(_PLAN & set(before))
    return False


def _is_subject(words: list[str], place: int) -> bool:
    """Say whether it is said behind the name that it has to become something else."""
    after = words[place + 1 : place + 1 + _AFTER]
    example = next((number for number, word in enumerate(after) if word in _EXAMPLE), len(after))
    meant = after[:example]
    return bool(_OUGHT & set(meant)) or any(pair in " ".join(meant) for pair in _TO_CHANGE)
