"""Git's smart HTTP protocol, the serving half, as far as clones and fetches need it (gitprotocol-http(5), -pack(5)).

Version 0, without multiple acknowledgements, side bands or filters: every client speaks it, and a pack that holds more
than a client lacks is as good as one that holds just that.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
RESULT = "application/x-git-upload-pack-result"
SERVICE = "git-upload-pack"

_CAPABILITIES = "ofs-delta shallow no-progress allow-tip-sha1-in-want allow-reachable-sha1-in-want object-format=sha1"
_ASKS_REFS = f"/info/refs?service={SERVICE}"
_ASKS_PACK = f"/{SERVICE}"
_ID = re.compile(rb"[0-9a-f]{40}")
_ALL = 0x7FFFFFFF
_BODY_BYTES = 64 << 20
_NO_REFS = b"0" * 40


@dataclass(frozen=True)
class Refs:
    """What a repository offers: commits by full name of branch or tag, and the branch that HEAD is."""

    commits: Mapping[str, str]
    head: str = ""


@dataclass(frozen=True)
class Wish:
    """What a client asks for; `depth` 0 is all history, `rounds` counts the pauses in which it waits for an answer."""

    wants: tuple[str, ...]
    depth: int = 0
    shallow: tuple[str, ...] = ()
    rounds: int = 0
    done: bool = False


@dataclass(frozen=True)
class Cut:
    """Where history ends: the commits whose parents are left out, and those of the client's that have theirs now."""

    shallow: tuple[str, ...] = ()
    unshallow: tuple[str, ...] = field(default=())


def repository_of(method: str, url: str) -> tuple[str, bool] | None:
    """Return the repository that a request is to, and whether it wants a pack (else the refs); None if it is no git."""
    if method == "GET" and url.endswith(_ASKS_REFS):
        return url.removesuffix(_ASKS_REFS), False
    if method == "POST" and url.endswith(_ASKS_PACK):
        return url.removesuffix(_ASKS_PACK), True
    return None


def format_refs(refs: Refs) -> bytes:
    """Return the advertisement of refs; tags are told as the commits that they point to."""
    rows = sorted(refs.commits.items())
    capabilities = _CAPABILITIES
    if refs.head in refs.commits:
        rows = [("HEAD", refs.commits[refs.head]), *rows]
        capabilities += f" symref=HEAD:{refs.head}"
    lines = [f"{commit} {name}".encode() for name, commit in rows] or [_NO_REFS + b" capabilities^{}"]
    lines[0] += b"\0" + capabilities.encode()
    return b"".join([packet(f"# service={SERVICE}".encode()), b"0000", *map(packet, lines), b"0000"])


def packet(text: bytes) -> bytes:
    """Return one line with its length before it."""
    return b"%04x%s\n" % (len(text) + 5, text)


def parse_wish(body: bytes, *, encoding: str = "") -> Wish:
    """Parse what a client posts to ask for a pack."""
    lines = list(_lines(_plain(body, encoding)))
    end = lines.index(None) if None in lines else len(lines)
    wants = [_id_of(line, b"want ") for line in lines[:end] if line and line.startswith(b"want ")]
    shallow = [_id_of(line, b"shallow ") for line in lines[:end] if line and line.startswith(b"shallow ")]
    depths = [line for line in lines[:end] if line and line.startswith(b"deepen")]
    for line in depths:
        if not re.fullmatch(rb"deepen \d{1,10}", line):
            raise InputError(f"expected a depth in commits, found {line[:80]!r}", where="git")
    if not wants:
        raise InputError("expected commits that a client wants, found none", where="git")
    depth = int(depths[0].split(b" ")[1]) if depths else 0
    rest = lines[end + 1 :]
    return Wish(tuple(sorted(set(wants))), depth, tuple(shallow), rest.count(None), b"done" in rest)


def wants_all_of(depth: int) -> bool:
    """Say whether a depth means the whole history (`git fetch --unshallow`)."""
    return depth == 0 or depth >= _ALL


def format_answer(wish: Wish, cut: Cut) -> bytes:
    """Return what comes before the pack; the pack itself follows only if the client is done with asking."""
    out = []
    if wish.depth:
        out += [packet(f"shallow {commit}".encode()) for commit in cut.shallow]
        out += [packet(f"unshallow {commit}".encode()) for commit in cut.unshallow]
        out.append(b"0000")
    if wish.done or wish.rounds:
        out.append(packet(b"NAK"))
    return b"".join(out)


def _lines(body: bytes) -> Iterator[bytes | None]:
    """Yield the lines of a body, None for a flush."""
    place = 0
    while place < len(body):
        digits = body[place : place + 4]
        if not re.fullmatch(rb"[0-9a-f]{4}", digits):
            raise InputError(f"expected the length of a line, found {digits!r}", where="git")
        size = int(digits, 16)
        if size == 0:
            place += 4
            yield None
            continue
        if size < 4 or place + size > len(body):  # noqa: PLR2004 - the length counts itself
            raise InputError("a line is longer than the request", where="git")
        yield body[place + 4 : place + size].removesuffix(b"\n")
        place += size


def _plain(body: bytes, encoding: str) -> bytes:
    if encoding not in {"gzip", "x-gzip"}:
        return body
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(body, _BODY_BYTES)
    except zlib.error as error:
        raise InputError(f"the request cannot be read: {error}", where="git") from error
    if not inflater.eof:
        raise InputError(f"expected a request of at most {_BODY_BYTES} bytes", where="git")
    return plain


def _id_of(line: bytes, start: bytes) -> str:
    found = line.removeprefix(start).split(b" ")[0].split(b"\0")[0]
    if _ID.fullmatch(found) is None:
        raise InputError(f"expected a commit id, found {found[:60]!r}", where="git")
    return found.decode()


def kept_refs(refs: Refs, commits: Iterable[str]) -> Refs:
    """Return the refs that point to one of these commits."""
    known = frozenset(commits)
    kept = {name: commit for name, commit in refs.commits.items() if commit in known}
    return Refs(kept, refs.head if refs.head in kept else "")
