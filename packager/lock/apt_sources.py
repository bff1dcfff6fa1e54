"""Reads which Debian archives this machine trusts: apt's source lists, in both of their forms (sources.list(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPTION = re.compile(r"\s*([^\s=\]]+)=([^\s\]]+)")
_BRACKETS = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, order=True)
class AptSource:
    """One archive and suite: where it is, its components, and the file (or inline key) that its signature needs."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""


def read_sources(etc: Path) -> list[AptSource]:
    """Return the binary-package sources below an `/etc/apt` in the order in which apt reads them."""
    found: list[AptSource] = []
    folder = etc / "sources.list.d"
    for path in [etc / "sources.list", *(sorted(folder.iterdir()) if folder.is_dir() else ())]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".sources":
            found.extend(parse_deb822(text))
        elif path.suffix == ".list":
            found.extend(parse_one_line(text))
    return found


def parse_one_line(text: str) -> Iterator[AptSource]:
    """Yield the sources of a `.list` file."""
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        options = _BRACKETS.search(line)
        words = _BRACKETS.sub(" ", line, count=1).split()
        if len(words) < len(("deb", "uri", "suite")) or words[0] != "deb":
            continue
        named = dict(_OPTION.findall(options.group()[1:-1])) if options else {}
        yield AptSource(words[1].rstrip("/"), words[2], tuple(words[3:]), named.get("signed-by", ""))


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Yield the sources of a `.sources` file."""
    for stanza in parse_stanzas(text):
        if "deb" not in stanza.get("types", "").split() or stanza.get("enabled", "yes").lower() in {"no", "false"}:
            continue
        components = tuple(stanza.get("components", "").split())
        for uri in stanza.get("uris", "").split():
            for suite in stanza.get("suites", "").split():
                yield AptSource(uri.rstrip("/"), suite, components, stanza.get("signed-by", "").strip())


def parse_stanzas(text: str) -> Iterator[dict[str, str]]:
    """Yield the paragraphs of a control file as dictionaries with lower-case field names."""
    stanza: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza, name = {}, ""
        elif line[0] in " \t":
            stanza[name] = f"{stanza.get(name, '')}\n{line[1:]}"
        else:
            field, _, value = line.partition(":")
            name = field.strip().lower()
            stanza[name] = value.strip()
    if stanza:
        yield stanza


def choose_source(sources: list[AptSource], suite: str, *, component: str = "main") -> AptSource:
    """Return the machine's source for the main archive of a suite, or raise InputError."""
    for source in sources:
        if source.suite == suite and component in source.components:
            return source
    known = ", ".join(sorted({source.suite for source in sources})) or "none"
    raise InputError(
        f"expected {suite} ({component}) among this machine's apt sources, found {known}",
        where="apt sources",
        hint=f"add a source for {suite} {component} to apt's configuration, "
        f"or lock on a machine that runs Debian {suite}",
    )
