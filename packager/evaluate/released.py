"""Holds the lists of tests that a release fixed against those that validation found: which ids differ, and how.

The file that a recipe names as `frozen` has, by target, FAIL_TO_PASS and PASS_TO_PASS in the release's own spelling;
MISSING_TO_PASS (the part of FAIL_TO_PASS that does not exist at base) is not compared. `aliases`, by target too, may
map released ids to the ids that are found here. What neither is equal nor has an alias is matched by rule where exactly
one XX Nothing is graded by these lists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.base.canonical import parse_json
from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packager.evaluate.expected import ExpectedCases

LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
_KEYS = {*LISTS, "MISSING_TO_PASS", "aliases"}
_LIMIT_BYTES = 64 << 20
_MOST_NAMED = 20
_COPY = re.compile(r"::#[0-9]+$")
_OUTER = re.compile(r"::|\s>\s")
_PARTS = re.compile(r"::|\s>\s|[./\\:#\s]+")


@dataclass(frozen=True)
class ReleasedLists:
    """What a release says of one target."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReleasedList:
    """One list: how many ids the release has and how many of these are in ours; the rest by name.

    `gone` says where a released id is now; `new` are ids that the release does not have in this list.
    """

    released: int
    same: int
    gone: Mapping[str, str] = field(default_factory=dict)
    new: tuple[str, ...] = ()

    def summary(self, name: str) -> str:
        """Say in a few words how the list differs."""
        said = f"{name} {self.same} of {self.released} as released"
        return f"{said}, {len(self.new)} more" if self.new else said


@dataclass(frozen=True)
class Comparison:
    """Both lists of one target, and released ids that are spelled otherwise here."""

    fail_to_pass: ReleasedList
    pass_to_pass: ReleasedList
    respelled: Mapping[str, str] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether both lists have the same tests."""
        return not any(one.gone or one.new for one in (self.fail_to_pass, self.pass_to_pass))

    def plain(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        lists = zip(LISTS, (self.fail_to_pass, self.pass_to_pass), strict=True)
        return {
            **{
                name: {"released": one.released, "same": one.same, "gone": dict(one.gone), "new": list(one.new)}
                for name, one in lists
            },
            "respelled": dict(self.respelled),
        }

    def summary(self) -> str:
        """Say in a sentence how the lists differ."""
        return "; ".join((self.fail_to_pass.summary("FAIL_TO_PASS"), self.pass_to_pass.summary("PASS_TO_PASS")))


def summarise_plain(plain: Any) -> str:  # noqa: ANN401 - JSON
    """Say what `Comparison.plain` says, with the names of the first tests that differ; InputError for anything else."""
    sentences = []
    for name in LISTS:
        try:
            one = plain[name]
            listed = ReleasedList(one["released"], one["same"], dict(one["gone"]), tuple(one["new"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a comparison with a release: {error!r}", where="validation") from error
        named = [f"{test} ({where})" for test, where in listed.gone.items()][:_MOST_NAMED]
        sentences.append(listed.summary(name) + (f": not here {', '.join(named)}" if named else ""))
    return "; ".join(sentences)


def parse_released(data: bytes, targets: Iterable[str], *, where: str) -> dict[str, ReleasedLists]:
    """Return the lists of a release by target; targets that it does not name have none. InputError for other files."""
    plain: Any = parse_json(data, where=where, limit=_LIMIT_BYTES)
    if not isinstance(plain, dict):
        raise InputError("expected lists by target", where=where)
    if strange := sorted(set(plain) - set(targets)):
        raise InputError(f"lists of {strange[0]!r}, which is no target", where=where)
    return {name: _parse_lists(lists, where=f"{where}: {name}") for name, lists in sorted(plain.items())}


def _parse_lists(lists: Any, *, where: str) -> ReleasedLists:  # noqa: ANN401 - JSON
    if not isinstance(lists, dict) or not set(LISTS) <= set(lists) <= _KEYS:
        more = ", ".join(sorted(_KEYS - set(LISTS)))
        raise InputError(f"expected {' and '.join(LISTS)}, and beside them at most {more}", where=where)
    for name in sorted(set(lists) - {"aliases"}):
        if not _are_ids(lists[name]):
            raise InputError(f"expected a list of test ids in {name}", where=where)
    aliases = lists.get("aliases", {})
    if not isinstance(aliases, dict) or not _are_ids(list(aliases.values())):
        raise InputError("expected test ids by released test id in aliases", where=where)
    if len(set(aliases.values())) < len(aliases):
        raise InputError("two aliases for one test id", where=where)
    return ReleasedLists(tuple(lists["FAIL_TO_PASS"]), tuple(lists["PASS_TO_PASS"]), aliases)


def _are_ids(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) and one for one in found)


def compare_released(released: ReleasedLists, expected: ExpectedCases) -> Comparison:
    """Compare what a release says of a target with what validation found."""
    theirs = dict.fromkeys((*released.fail_to_pass, *released.pass_to_pass))
    places = _places(expected)
    respelled = _match([*theirs], [*places], released.aliases)
    known = {one: respelled.get(one, one) for one in theirs}
    return Comparison(
        _compare(released.fail_to_pass, expected.fail_to_pass, "FAIL_TO_PASS", (known, places)),
        _compare(released.pass_to_pass, expected.pass_to_pass, "PASS_TO_PASS", (known, places)),
        dict(sorted(respelled.items())),
    )


def _places(expected: ExpectedCases) -> dict[str, str]:
    """Return where each test that was seen is."""
    return {
        **{name: f"left out: {why}" for name, why in expected.left_out.items()},
        **{name: f"unstable: {why}" for name, why in expected.unstable.items()},
        **dict.fromkeys(expected.pass_to_pass, "PASS_TO_PASS"),
        **dict.fromkeys(expected.fail_to_pass, "FAIL_TO_PASS"),
    }


def _compare(
    theirs: Iterable[str], ours: Iterable[str], name: str, seen: tuple[Mapping[str, str], Mapping[str, str]]
) -> ReleasedList:
    known, places = seen
    wanted = dict.fromkeys(theirs)
    gone = {one: places.get(known[one], "not reported") for one in wanted if places.get(known[one]) != name}
    met = {known[one] for one in wanted}
    return ReleasedList(
        len(wanted),
        len(wanted) - len(gone),
        dict(sorted(gone.items())),
        tuple(sorted(one for one in ours if one not in met)),
    )


def _match(theirs: list[str], ours: list[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """Return our id for each released one that is spelled otherwise, where there is no doubt."""
    known, taken = set(theirs), set(ours)
    found = {one: other for one, other in aliases.items() if one in known and one != other}
    left = [one for one in theirs if one not in found and one not in taken]
    free = [one for one in ours if one not in known and one not in found.values()]
    for key in (_whole, _title, _last_two, _last, _exit_status):
        both = _unique(left, key), _unique(free, key)
        pairs = {both[0][name]: both[1][name] for name in both[0].keys() & both[1].keys() if name}
        found.update(pairs)
        left = [one for one in left if one not in pairs]
        free = [one for one in free if one not in pairs.values()]
    return found


def _unique(names: list[str], key: Callable[[str], str]) -> dict[str, str]:
    """Return names by a key that no other of them has."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return {short: same[0] for short, same in found.items() if len(same) == 1}


def _split(name: str) -> list[str]:
    return [part for part in _PARTS.split(_COPY.sub("", name)) if part]


def _whole(name: str) -> str:
    return "\0".join(_split(name))


def _title(name: str) -> str:
    return "\0".join(_split(_OUTER.split(_COPY.sub("", name))[-1]))


def _last_two(name: str) -> str:
    return "\0".join(_split(name)[-2:])


def _last(name: str) -> str:
    return "\0".join(_split(name)[-1:])


def _exit_status(name: str) -> str:
    return "exit" if name == "<command>" or name.startswith("profile::") else ""
