"""Reads what a gem says of itself: metadata.gz in its tar, YAML with Ruby's tags, of which nothing is made alive."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from packager.lock.ecosystems.asked import Held

_METADATA_BYTES = 16 << 20


@dataclass(frozen=True)
class GemSpec:
    """Dependencies at run time with their requirements as the compact index writes them, and what Ruby must be."""

    dependencies: tuple[tuple[str, str], ...]
    ruby: str
    rubygems: str


def read_gem_metadata(path: Path) -> dict[str, Any]:
    """Return a gem's specification as texts, lists and mappings; whatever is wrong with it raises as it comes."""
    with tarfile.open(path, "r:") as archive:
        packed = archive.extractfile("metadata.gz")
        stream = gzip.GzipFile(fileobj=packed)
        text = stream.read(_METADATA_BYTES)
    return _load(text)


def read_gem_spec(one: Held) -> GemSpec:
    """Read a gem's specification, or say why it cannot be read."""
    try:
        said = read_gem_metadata(one.path)
        rows = [row for row in said.get("dependencies") or [] if row.get("type", ":runtime") == ":runtime"]
        dependencies = tuple(sorted((str(row["name"]), _requirement(row) or ">= 0") for row in rows))
    except (tarfile.TarError, KeyError, OSError, EOFError, ValueError, TypeError, AttributeError, zlib.error) as error:
        raise InputError(f"the gem cannot be read: {error}", where=one.key) from error
    ruby, rubygems = (_wanted(said.get(f"required_{word}_version")) for word in ("ruby", "rubygems"))
    return GemSpec(dependencies, ruby, rubygems)


def _requirement(row: dict[str, Any]) -> str:
    return _wanted(row.get("requirement") or row.get("version_requirements"))


def _wanted(requirement: Any) -> str:  # noqa: ANN401 - YAML
    """Return `>= 1.0&< 2`; nothing for what any version satisfies."""
    pairs = requirement.get("requirements") or [] if isinstance(requirement, dict) else []
    wanted = sorted(f"{comparison} {version['version']}" for comparison, version in pairs)
    return "" if wanted == [">= 0"] else "&".join(wanted)


def _load(text: bytes) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - slow to import

    class Loader(yaml.BaseLoader):
        """Makes texts, lists and mappings of everything."""

    def plain(loader: Any, _suffix: str, node: Any) -> Any:  # noqa: ANN401 - yaml has no types
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    Loader.add_multi_constructor("!", plain)
    try:
        said = yaml.load(text, Loader)  # noqa: S506 - this loader makes no objects
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(said, dict):
        raise TypeError("expected a specification")
    return said
