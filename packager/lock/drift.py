"""What differs: between a recipe and its lock, and between two locks. Differences are values; nobody is blamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.base.digests import Digest
    from packager.lock.model import Lock


@dataclass(frozen=True, order=True)
class Difference:
    """One thing that was so in the lock (`before`, empty: absent) and is so now (`after`, empty: gone)."""

    subject: str
    before: str
    after: str

    def __str__(self) -> str:
        if not self.before:
            return f"{self.subject}: added, {self.after}"
        if not self.after:
            return f"{self.subject}: removed, was {self.before}"
        return f"{self.subject}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Wanted:
    """What a recipe asks for today, as far as it can be known without network."""

    task: str
    platform: str
    recipe: Digest
    dockerfile: Digest
    suite: str
    image: str
    ids: Mapping[str, str]
    commits: Mapping[str, str]
    toolchains: Mapping[str, str]
    prompt: Digest


def drift_of(lock: Lock, wanted: Wanted) -> tuple[Difference, ...]:
    """Return where a lock no longer is what its recipe asks for; nothing: the lock is up to date."""
    return _compare(_facts_of(lock), _facts_of_wanted(wanted))


def compare_locks(before: Lock, after: Lock) -> tuple[Difference, ...]:
    """Return every difference of two locks, one for each input that changed."""
    return _compare({**_facts_of(before), **_inputs_of(before)}, {**_facts_of(after), **_inputs_of(after)})


def by_kind(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the versions of each kind of toolchain, from pairs of kind and version."""
    found: dict[str, set[str]] = {}
    for kind, version in rows:
        found.setdefault(kind, set()).add(version)
    return {kind: " ".join(sorted(versions)) for kind, versions in found.items()}


def _facts_of(lock: Lock) -> dict[str, str]:
    tools = ((row.kind, row.version) for row in lock.toolchains)
    return {
        "task": lock.task,
        "platform": lock.platform,
        "recipe": lock.recipe,
        "dockerfile": lock.dockerfile,
        "base suite": lock.base.suite,
        "base image": lock.base.image or "",
        "prompt": lock.files.prompt,
        **{f"id {name}": value for name, value in lock.ids.items()},
        **{f"repository {repo.name}": repo.commit for repo in lock.repos},
        **{f"toolchain {kind}": versions for kind, versions in by_kind(tools).items() if kind != "npm"},
    }


def _facts_of_wanted(wanted: Wanted) -> dict[str, str]:
    return {
        "task": wanted.task,
        "platform": wanted.platform,
        "recipe": wanted.recipe,
        "dockerfile": wanted.dockerfile,
        "base suite": wanted.suite,
        "base image": wanted.image,
        "prompt": wanted.prompt,
        **{f"id {name}": value for name, value in wanted.ids.items()},
        **{f"repository {name}": commit for name, commit in wanted.commits.items()},
        **{f"toolchain {kind}": version for kind, version in wanted.toolchains.items()},
    }


def _inputs_of(lock: Lock) -> dict[str, str]:
    found: dict[str, str] = {}
    for blob in lock.base.packages:
        name, _, version = blob.key.rpartition("/")[2].partition("_")
        found[f"package {name}"] = f"{version.removesuffix('.deb')} {blob.digest}"
    if lock.base.manifest is not None:
        found["base manifest"] = lock.base.manifest
    for toolchain in lock.toolchains:
        name = f"artifact {toolchain.kind}"  # of several artifacts of one kind, all are named in one line
        found[name] = f"{found.get(name, '')} {toolchain.version} {toolchain.blob.digest}".lstrip()
    for repo in lock.repos:
        found[f"pack {repo.name}"] = repo.pack_digest
        if repo.shared is not None:
            found[f"shared pack {repo.name}"] = f"{repo.shared.commit} {repo.shared.pack_digest}"
    for fetch in lock.fetches:
        found[f"fetch {fetch.step} {fetch.blob.alias} {fetch.blob.key}"] = f"{fetch.blob.digest} ({fetch.origin})"
    for row in lock.absent:
        found[f"absent {row.step} {row.alias} {row.key}"] = "absent"
    files = (("gold", lock.files.gold), ("hidden", lock.files.hidden), ("gold manifests", lock.files.manifests))
    for sort, digests in files:
        found |= {f"{sort} {target}": digest for target, digest in digests.items()}
    return found


def _compare(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Difference, ...]:
    names = sorted(before.keys() | after.keys())
    pairs = ((name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(Difference(name, one, other) for name, one, other in pairs if one != other)
