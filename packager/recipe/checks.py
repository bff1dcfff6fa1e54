"""What must hold between the values of a recipe; reads plain values, so that one wrong value hides no other fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CROSS = "recipe_relation"
"""Type of the pydantic error of a recipe whose values do not hold together."""

MAX_CONTEXTS = 20
MAX_TARGETS = 3

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """One fault at a key of the recipe, such as ("targets", 0, "name")."""

    key: Key
    message: str
    hint: str = ""


def format_key(key: Sequence[str | int]) -> str:
    """Return a key as people write it: targets[0].gold.commit."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return text.removeprefix(".")


def relation_faults(plain: Mapping[str, Any]) -> list[Fault]:
    """Return every fault between the values of a recipe; values of a wrong type are passed over."""
    return [
        *_count_faults(plain),
        *_base_faults(plain),
        *_name_faults(plain),
        *_source_faults(plain),
        *_commit_faults(plain),
        *_target_faults(plain),
        *_link_faults(plain),
    ]


def mappings(plain: Mapping[str, Any], key: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield number and value of the mappings in a list; whatever else is there is passed over."""
    found = plain.get(key)
    for index, one in enumerate(found if isinstance(found, (list, tuple)) else ()):
        if isinstance(one, dict):
            yield index, one


def mapping(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping at `key`, or an empty one."""
    found = plain.get(key)
    return found if isinstance(found, dict) else {}


def text(plain: Mapping[str, Any], key: str) -> str | None:
    """Return the text at `key`, or None."""
    found = plain.get(key)
    return found if isinstance(found, str) else None


def repositories(plain: Mapping[str, Any]) -> Iterator[tuple[Key, Mapping[str, Any]]]:
    """Yield key and value of every target and context."""
    for group in ("targets", "contexts"):
        for index, one in mappings(plain, group):
            yield (group, index), one


def _count_faults(plain: Mapping[str, Any]) -> Iterator[Fault]:
    targets, contexts = plain.get("targets"), plain.get("contexts")
    if isinstance(targets, (list, tuple)) and not 1 <= len(targets) <= MAX_TARGETS:
        yield Fault(("targets",), f"expected 1 to {MAX_TARGETS} targets, found {len(targets)}")
    if plain.get("platforms") == []:
        yield Fault(("platforms",), "expected at least one platform", "such as linux/amd64")
    if isinstance(contexts, (list, tuple)) and len(contexts) > MAX_CONTEXTS:
        yield Fault(("contexts",), f"expected at most {MAX_CONTEXTS} contexts, found {len(contexts)}")


def _base_faults(plain: Mapping[str, Any]) -> Iterator[Fault]:
    base = plain.get("base")
    if not isinstance(base, dict):
        return
    if "debian" in base and "image" in base:
        yield Fault(("base",), "expected debian or image, found both", "keep the one that the task is built on")
    elif "debian" not in base and "image" not in base:
        yield Fault(("base",), "expected debian or image, found neither", "such as debian: bookworm")
    elif "image" in base and base.get("packages"):
        yield Fault(("base", "packages"), "packages belong to a Debian base", "an image brings its own")


def _name_faults(plain: Mapping[str, Any]) -> Iterator[Fault]:
    first: dict[str, tuple[Key, str]] = {}
    for key, one in repositories(plain):
        name = text(one, "name")
        if name is None:
            continue
        other = first.setdefault(name.casefold(), (key, name))
        if other[0] == key:
            continue
        same = "taken by" if other[1] == name else f"different from {other[1]!r} only by case, at"
        message = f"the folder /workspace/{name} is {same} {format_key(other[0])}"
        yield Fault((*key, "name"), message, "give every target and context a name of its own")
    services: set[str] = set()
    for index, one in mappings(plain, "services"):
        name = text(one, "name")
        if name is not None and name in services:
            yield Fault(("services", index, "name"), f"there is another service {name!r}")
        services.add(name or "")


def _source_faults(plain: Mapping[str, Any]) -> Iterator[Fault]:
    first: dict[str, Key] = {}
    for key, one in repositories(plain):
        repo = text(one, "repo")
        if repo is None:
            if "repo" not in one and "bundle" not in one:
                yield Fault(key, "expected repo or bundle, found neither", "name where the commit can be had")
            continue
        other = first.setdefault(_same_repository(repo), key)
        if other != key:
            message = f"the same repository as {format_key(other)}"
            yield Fault((*key, "repo"), message, "a second checkout could show what the first must hide")


def _same_repository(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    return f"{parts.netloc.lower()}{parts.path.rstrip('/').removesuffix('.git')}".casefold()


def _commit_faults(plain: Mapping[str, Any]) -> Iterator[Fault]:
    secret: dict[str, str] = {}
    for index, target in mappings(plain, "targets"):
        base, gold, hidden = text(target, "commit"), mapping(target, "gold"), mapping(target, "hidden")
        for part, holder in (("gold", gold), ("hidden", hidden)):
            commit = text(holder, "commit")
            if commit is None:
                continue
            secret[commit] = format_key(("targets", index, part))
            if commit == base:
                hint = f"the base is what the agent sees; {part} must be something else"
                yield Fault(("targets", index, part, "commit"), "the same commit as the base", hint)
        if "from" in gold and gold.get("from") == gold.get("commit"):
            yield Fault(("targets", index, "gold", "from"), "the same commit as the gold commit: the change is empty")
    for key, one in repositories(plain):
        place = secret.get(text(one, "commit") or "")
        if place is not None and not place.startswith(f"{format_key(key)}."):
            yield Fault((*key, "commit"), f"this commit is the answer at {place}", "a checkout must not hold gold")
        if one.get("leave_out") and one.get("history", "none" if key[0] == "contexts" else "ancestors") != "none":
            hint = "write history: none; older commits would hold the files"
            yield Fault((*key, "leave_out"), "files can be left out only where history is none", hint)


def _target_faults(plain: Mapping[str, Any]) -> Iterator[Fault]:
    for index, target in mappings(plain, "targets"):
        yield from (Fault(("targets", index, *one.key), one.message, one.hint) for one in _gold_faults(target))
        yield from (Fault(("targets", index, *one.key), one.message, one.hint) for one in _hidden_faults(target))


def _gold_faults(target: Mapping[str, Any]) -> Iterator[Fault]:
    gold = target.get("gold")
    if not isinstance(gold, dict):
        return
    if "commit" in gold and "patch" in gold:
        yield Fault(("gold",), "expected commit or patch, found both", "keep the one that solves the task")
    elif "commit" not in gold and "patch" not in gold:
        yield Fault(("gold",), "expected commit or patch, found neither")
    elif "patch" in gold:
        yield from (
            Fault(("gold", key), f"{key} selects from a commit, but gold is a patch file")
            for key in ("from", "include", "exclude")
            if gold.get(key)
        )


def _hidden_faults(target: Mapping[str, Any]) -> Iterator[Fault]:
    hidden = target.get("hidden")
    if not isinstance(hidden, dict):
        return
    if "patch" in hidden:
        others = [key for key in ("commit", "paths", "files") if hidden.get(key)]
        if others:
            yield Fault(("hidden",), f"expected patch alone, found {', '.join(others)} beside it")
        return
    if not hidden.get("paths") and "files" not in hidden:
        yield Fault(("hidden",), "expected paths of a commit, or files, found neither", "the hidden tests judge")
    elif hidden.get("paths") and "commit" not in hidden:
        yield Fault(("hidden", "paths"), "paths without a commit to take them from", "add hidden.commit")
    elif "commit" in hidden and not hidden.get("paths"):
        yield Fault(("hidden", "commit"), "a commit without paths to take from it", "add hidden.paths")


def _link_faults(plain: Mapping[str, Any]) -> Iterator[Fault]:
    names = [name for _, one in mappings(plain, "targets") if (name := text(one, "name")) is not None]
    edges: dict[str, set[str]] = {}
    for index, link in mappings(plain, "links"):
        ends = (text(link, "consumer"), text(link, "producer"))
        for role, name in zip(("consumer", "producer"), ends, strict=True):
            if name is not None and name not in names:
                hint = f"targets: {', '.join(sorted(names))}"
                yield Fault(("links", index, role), f"expected the name of a target, found {name!r}", hint)
        if None in ends:
            continue
        consumer, producer = str(ends[0]), str(ends[1])
        if consumer == producer:
            yield Fault(("links", index), f"{consumer} is linked to itself")
        elif producer in edges.get(consumer, ()):
            yield Fault(("links", index), f"{consumer} is linked to {producer} twice")
        elif _reaches(edges, producer, consumer):
            yield Fault(("links", index), f"links go in a circle: {producer} already consumes {consumer}")
        edges.setdefault(consumer, set()).add(producer)
        if link.get("how") == "pip-editable" and "environment" not in link:
            hint = f"such as /opt/env/{consumer}"
            yield Fault(("links", index), "missing key environment: where the consumer's Python is", hint)
    if plain.get("relation") == "producer-consumer" and not plain.get("links"):
        hint = "say how the consumer is tested against the producer's checkout, or relation: parallel"
        yield Fault(("relation",), "producer-consumer without links", hint)


def _reaches(edges: Mapping[str, set[str]], start: str, goal: str) -> bool:
    seen, waiting = {start}, [start]
    while waiting:
        for other in edges.get(waiting.pop(), set()) - seen:
            if other == goal:
                return True
            seen.add(other)
            waiting.append(other)
    return False
