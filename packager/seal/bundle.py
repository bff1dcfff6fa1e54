"""The sealed bundle: gold patches, hidden tests and expected lists of one task, in one padded tar, in one age file.

Members: `SEAL.json` first (schema, suite, task, version: checked after opening, so that seals cannot change places),
`expected.json`, `gold/TARGET.patch`, `hidden/TARGET/PATH`. After the tar's end come zeros up to a bucket, so that the
size says little. There is exactly one plaintext for given contents; any other is refused.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical, parse_json
from packager.base.errors import InputError, IntegrityError, TrustError
from packager.base.paths import parse_relative
from packager.oci.descriptor import expect_list, expect_object
from packager.oci.entries import Entry, Kind, dir_entry, file_entry, symlink_entry
from packager.oci.tar_reader import read_tar
from packager.oci.tar_writer import write_tar
from packager.seal.age_reader import read_age
from packager.seal.identities import RootSecret, parse_identities, parse_name, task_identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.oci.tar_reader import EntryReader

SCHEMA = "wideswe-seal/1"
LIMIT_BYTES = 256 << 20
SYMLINK_MODE = 0o120000
FILE_MODES = (0o644, 0o755)

_FIRST = b"SEAL.json"
_EXPECTED = b"expected.json"
_PROFILE = b"profile.json"
_LISTS = frozenset({"FAIL_TO_PASS", "PASS_TO_PASS"})
_BUCKETS = tuple(size << 10 for size in (64, 256, 1024, 4096, 8192, 16384))

HiddenFile = tuple[int, bytes]
"""Mode (0o644, 0o755 or SYMLINK_MODE) and bytes (of a symlink: its text)."""


@dataclass(frozen=True)
class SealName:
    """Which seal it is."""

    suite: str
    task: str
    version: str

    def __post_init__(self) -> None:
        for kind in ("suite", "task", "version"):
            parse_name(getattr(self, kind), where=kind)

    def __str__(self) -> str:
        return f"{self.suite}/{self.task}/{self.version}"


@dataclass(frozen=True)
class SealContents:
    """What is sealed.

    Paths are relative to the target's checkout; bytes that are not UTF-8 are surrogates in them. The expected lists are
    sorted and without repetition once they come out of a seal. `profile` says how the targets are tested (JSON).
    """

    suite: str
    task: str
    version: str
    gold: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    hidden: Mapping[str, Mapping[str, HiddenFile]] = field(default_factory=dict, repr=False)
    expected: Mapping[str, Mapping[str, list[str]]] | None = field(default=None, repr=False)
    profile: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> SealName:
        """Which seal it is."""
        return SealName(self.suite, self.task, self.version)


def seal(contents: SealContents, root: RootSecret) -> bytes:
    """Return the sealed file; the same contents and root give the same bytes."""
    _, recipient = task_identity(root, contents.suite, contents.task)
    plain = format_plain(contents)
    from packager.seal.age_writer import write_age  # noqa: PLC0415 - whoever opens a seal needs none

    return b"".join(write_age(plain, [recipient], secret=root.derive("seal"), context=str(contents.name)))


def open_seal(data: bytes, identity: str, *, expect: SealName | None = None, where: str = "seal") -> SealContents:
    """Return what is sealed; `identity` is a task's key, or several, one a line, as `open_grant` returns them.

    TrustError if no key opens it or, with `expect`, if it is another task's seal; IntegrityError if it is damaged.
    """
    identities = parse_identities(identity.encode(), where="identity")
    plain = _gather(data, identities, where)
    contents = parse_plain(plain, where=where)
    if expect is not None and contents.name != expect:
        raise TrustError(f"expected the seal of {expect}, found that of {contents.name}", where=where)
    return contents


def format_plain(contents: SealContents) -> bytes:
    """Return the plaintext: canonical tar and padding."""
    out = bytearray()
    write_tar(_entries(contents), out.extend)
    if len(out) > LIMIT_BYTES:
        raise InputError(f"expected at most {LIMIT_BYTES} bytes to seal, found {len(out)}", where=str(contents.name))
    return bytes(out) + bytes(padded_size(len(out)) - len(out))


def padded_size(size: int) -> int:
    """Return the bucket that a plaintext is padded to: 64 KiB to 16 MiB, above that Padmé (at most 12 % more)."""
    bucket = next((bucket for bucket in _BUCKETS if size <= bucket), None)
    if bucket is not None:
        return bucket
    exponent = size.bit_length() - 1
    step = 1 << (exponent - exponent.bit_length())
    return -(-size // step) * step


def parse_plain(plain: bytes, *, where: str = "seal") -> SealContents:
    """Return the contents of a plaintext; one that `format_plain` would not write is an IntegrityError."""
    parts = _Parts()
    try:
        for number, (entry, reader) in enumerate(read_tar(io.BytesIO(plain))):
            parts.take(number, entry, reader)
        contents = parts.contents()
        canonical = format_plain(contents)
    except InputError as error:
        raise IntegrityError(f"what it holds is not a wideswe seal: {error}", where=where) from None
    if canonical != plain:
        raise IntegrityError("what it holds is not in canonical form", where=where)
    return contents


def _gather(data: bytes, identities: tuple[str, ...], where: str) -> bytes:
    if len(data) > 2 * LIMIT_BYTES:
        raise IntegrityError(f"expected at most {2 * LIMIT_BYTES} bytes of seal, found {len(data)}", where=where)
    return b"".join(read_age(io.BytesIO(data), identities, where=where))


def _entries(contents: SealContents) -> list[Entry]:
    name = contents.name
    first = {"schema": SCHEMA, "suite": name.suite, "task": name.task, "version": name.version}
    entries = [file_entry(_FIRST, format_canonical(first))]
    if contents.expected is not None:
        entries.append(file_entry(_EXPECTED, format_canonical(_check_expected(contents.expected))))
    if contents.profile:
        entries.append(file_entry(_PROFILE, contents.profile))
    for target, patch in contents.gold.items():
        parse_name(target, where="gold target")
        entries.append(file_entry(b"gold/%s.patch" % target.encode(), patch))
    for target, files in contents.hidden.items():
        folder = b"hidden/" + parse_name(target, where="hidden target").encode()
        _check_folders(files)
        entries.append(dir_entry(folder))
        entries += [_hidden_entry(folder, path, mode, data) for path, (mode, data) in files.items()]
    return entries


def _hidden_entry(folder: bytes, path: str, mode: int, data: bytes) -> Entry:
    raw = folder + b"/" + parse_relative(path, where="hidden file").encode("utf-8", "surrogateescape")
    if mode == SYMLINK_MODE:
        return symlink_entry(raw, data)
    if mode not in FILE_MODES:
        raise InputError(f"expected mode 0o644, 0o755 or 0o120000, found {mode:#o}", where=f"hidden file {path}")
    return file_entry(raw, data, mode=mode)


def _check_folders(files: Mapping[str, HiddenFile]) -> None:
    for path in files:
        parents = accumulate(path.split("/")[:-1], "{}/{}".format)
        blocked = next((parent for parent in parents if parent in files), None)
        if blocked is not None:
            raise InputError("a file stands where a directory is needed", where=f"hidden file {blocked}")


def _check_expected(value: object) -> dict[str, dict[str, list[str]]]:
    expected = expect_object(value, where="expected")
    for target, lists in expected.items():
        place = f"expected.{parse_name(target, where='expected target')}"
        if expect_object(lists, where=place).keys() != _LISTS:
            raise InputError("expected the lists FAIL_TO_PASS and PASS_TO_PASS and nothing else", where=place)
        for kind in sorted(_LISTS):
            cases = expect_list(lists[kind], where=f"{place}.{kind}")
            if not all(isinstance(case, str) for case in cases):
                raise InputError("expected texts", where=f"{place}.{kind}")
    return {target: {kind: sorted(set(lists[kind])) for kind in sorted(_LISTS)} for target, lists in expected.items()}


class _Parts:
    """Members of a sealed tar as they are read."""

    def __init__(self) -> None:
        self.first: dict[str, Any] = {}
        self.expected: dict[str, dict[str, list[str]]] | None = None
        self.gold: dict[str, bytes] = {}
        self.hidden: dict[str, dict[str, HiddenFile]] = {}
        self.profile = b""

    def take(self, number: int, entry: Entry, reader: EntryReader) -> None:
        if (number == 0) != (entry.path == _FIRST):
            raise InputError("its first member is not SEAL.json")
        folder, _, rest = entry.path.partition(b"/")
        if entry.path == _FIRST:
            self._take_first(reader.read())
        elif entry.path == _EXPECTED:
            self.expected = _check_expected(parse_json(reader.read(), where="expected.json", limit=LIMIT_BYTES))
        elif entry.path == _PROFILE:
            self.profile = reader.read()
        elif folder == b"gold" and entry.kind is Kind.FILE:
            self.gold[rest.removesuffix(b".patch").decode("ascii", "replace")] = reader.read()
        elif folder == b"hidden" and rest:
            self._take_hidden(rest, entry, reader)

    def _take_first(self, data: bytes) -> None:
        self.first = expect_object(parse_json(data, where="SEAL.json"), where="SEAL.json")
        if self.first.get("schema") != SCHEMA:
            found = str(self.first.get("schema"))[:80]
            raise InputError(f"expected the schema {SCHEMA}, found {found}")

    def _take_hidden(self, rest: bytes, entry: Entry, reader: EntryReader) -> None:
        target, _, path = rest.decode("utf-8", "surrogateescape").partition("/")
        files = self.hidden.setdefault(target, {})
        if path and entry.kind is Kind.FILE:
            files[path] = (entry.mode, reader.read())
        elif path and entry.kind is Kind.SYMLINK:
            files[path] = (SYMLINK_MODE, entry.link)

    def contents(self) -> SealContents:
        texts = [self.first.get(kind) for kind in ("suite", "task", "version")]
        suite, task, version = (text if isinstance(text, str) else "" for text in texts)
        return SealContents(suite, task, version, self.gold, self.hidden, self.expected, self.profile)
