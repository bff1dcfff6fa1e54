"""One flipped byte anywhere: refused by verify and by evaluate (a lock: by build), each with its own reason and code."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import Digest, digest_of, hex_of
from packager.oci.manifest import parse_manifest
from tests.support.docker_registry import docker_registry
from tests.support.walk import (
    ROOT,
    TASK,
    Party,
    blob_path,
    flipped,
    remembered,
    replace_file,
    sealed_file,
    signed_by_authors,
    with_seal,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.oci.manifest import Manifest
    from packager.oci.record import ImageRecord

pytestmark = [pytest.mark.engine, *([] if os.environ.get("WIDESWE_INPUTS") else [pytest.mark.network])]

HINT = "hint: wideswe-pack verify shows every check; pull (or build and sign) the image again\n"
BYTES, TRUST = 4, 5
BEFORE_LAYERS, AFTER_LAYERS, LAST_LAYER = 5, 2, -1


def image_of(party: Party) -> Manifest:
    return read_manifest(party, party.record.manifest.digest)


def read_manifest(party: Party, digest: Digest) -> Manifest:
    return parse_manifest(party.store.read(digest, 1 << 20))


@dataclass(frozen=True)
class Flip:
    """Which blob is damaged and where, the check that says no, what its reason says first, and evaluate's code."""

    digest: Callable[[Party], Digest]
    check: tuple[int, str]
    what: str
    exit_code: int
    place: int = -1


FLIPS = {
    "manifest": Flip(lambda party: party.record.manifest.digest, (1, "manifest digest"), "manifest: ", BYTES),
    "config": Flip(lambda party: image_of(party).config.digest, (3, "config"), "config: ", BYTES),
    "first byte of the base layer": Flip(
        lambda party: image_of(party).layers[0].digest, (6, "layer 1 of {count}"), "", BYTES, place=0
    ),
    "middle of the base layer": Flip(
        lambda party: image_of(party).layers[0].digest, (6, "layer 1 of {count}"), "", BYTES, place=1 << 20
    ),
    "a small layer": Flip(lambda party: image_of(party).layers[4].digest, (10, "layer 5 of {count}"), "", BYTES),
    "the sealed file in its layer": Flip(
        lambda party: image_of(party).layers[-1].digest,
        (LAST_LAYER, "layer {count} of {count}"),
        "",
        BYTES,
        place=30_000,
    ),
    "legacy signature's manifest": Flip(
        lambda party: party.record.signatures[0].manifest.digest,
        (4, "legacy signature"),
        "signature manifest: ",
        TRUST,
    ),
    "legacy signature's config": Flip(
        lambda party: read_manifest(party, party.record.signatures[0].manifest.digest).config.digest,
        (4, "legacy signature"),
        "signature config: ",
        TRUST,
    ),
    "legacy signature's payload": Flip(
        lambda party: read_manifest(party, party.record.signatures[0].manifest.digest).layers[0].digest,
        (4, "legacy signature"),
        "signed payload: ",
        TRUST,
    ),
    "bundle's manifest": Flip(
        lambda party: party.record.referrers[0].digest, (5, "bundle signature"), "referrer: ", TRUST
    ),
    "bundle": Flip(
        lambda party: read_manifest(party, party.record.referrers[0].digest).layers[0].digest,
        (5, "bundle signature"),
        "bundle: ",
        TRUST,
    ),
}


@pytest.mark.parametrize("name", FLIPS)
def test_one_flipped_byte_is_refused_by_verify_and_by_evaluate(name: str, author: Party) -> None:
    flip = FLIPS[name]
    digest = flip.digest(author)
    place = blob_path(author.store_root, digest)
    count = len(image_of(author).layers)
    number = BEFORE_LAYERS + count if flip.check[0] == LAST_LAYER else flip.check[0]
    check = flip.check[1].format(count=count)
    with flipped(author.store_root, digest, flip.place) as found:
        checks = author.ask("verify", TASK, exit_code=1)
    reason = f"{flip.what}{place}: expected the digest {digest}, found {found}"
    assert checks[-1] == {"number": number, "name": check, "ok": False, "reason": reason}
    assert [one["number"] for one in checks if one["ok"]] == list(range(1, number))
    with flipped(author.store_root, digest, flip.place):
        said = author.refuse("evaluate", TASK, "--gold", exit_code=flip.exit_code)
    assert said == f"error: {TASK}: check {number}, {check}: {reason}\n{HINT}"


def test_a_blob_that_was_set_aside_is_refused_as_missing(author: Party) -> None:
    digest = image_of(author).layers[1].digest
    with flipped(author.store_root, digest):
        author.ask("verify", TASK, exit_code=1)
        assert not blob_path(author.store_root, digest).exists()
        again = author.ask("verify", TASK, exit_code=1)
    assert author.ask("verify", TASK)[-1]["ok"]
    assert again[-1]["reason"] == f"the blob {digest} is missing"


# What keeps every digest right: the image was made anew around the flipped byte, and signed or not. -------------------


def damaged_seal(party: Party, place: int) -> bytes:
    """Return the seal with another byte at a place: a letter, so that a MAC in base64 stays base64 whatever the key."""
    sealed = bytearray(sealed_file(party))
    sealed[place] = ord("B" if sealed[place] == ord("A") else "A")
    return bytes(sealed)


def judge(party: Party, record: ImageRecord, *, verify_code: int, evaluate_code: int) -> tuple[str, str]:
    """Let verify and evaluate see a record; return the reason of the last check and what evaluate says."""
    with remembered(party, record):
        checks = party.ask("verify", TASK, exit_code=verify_code)
        return checks[-1]["reason"], party.refuse("evaluate", TASK, "--gold", exit_code=evaluate_code)


def test_an_image_made_anew_without_a_signature_is_refused(author: Party) -> None:
    record = with_seal(author, damaged_seal(author, 40_000))
    reason, said = judge(author, record, verify_code=1, evaluate_code=TRUST)
    tag = f"sha256-{hex_of(record.manifest.digest)}.sig"
    assert reason == f"expected one manifest with the tag {tag}, found 0"
    assert said == f"error: {TASK}: check 4, legacy signature: {reason}\n{HINT}"


def test_the_old_signatures_do_not_fit_an_image_made_anew(author: Party) -> None:
    old = author.record
    record = with_seal(author, damaged_seal(author, 40_000))
    tag = f"sha256-{hex_of(record.manifest.digest)}.sig"
    moved = replace(record, signatures=(replace(old.signatures[0], tag=tag),), referrers=old.referrers)
    reason, said = judge(author, moved, verify_code=1, evaluate_code=TRUST)
    assert reason == f"it is about another image: {old.manifest.digest}"
    assert said == f"error: {TASK}: check 4, legacy signature: {reason}\n{HINT}"


def test_a_flipped_byte_in_the_seals_header_is_seen_without_its_key_even_when_signed(author: Party) -> None:
    record = signed_by_authors(author, with_seal(author, damaged_seal(author, 3)))
    reason, said = judge(author, record, verify_code=1, evaluate_code=BYTES)
    assert reason == "sealed file: expected the first line age-encryption.org/v1, found something else"
    number = BEFORE_LAYERS + len(image_of(author).layers) + AFTER_LAYERS
    assert said == f"error: {TASK}: check {number}, seal: {reason}\n{HINT}"


@pytest.mark.parametrize(
    ("place", "exit_code", "said"),
    [
        (150, BYTES, "error: seal: the header is damaged: its MAC does not hold\n"),
        (-1, BYTES, "error: seal: chunk 0 is damaged, cut off or out of order\n"),
        (300, BYTES, "error: seal: chunk 0 is damaged, cut off or out of order\n"),
    ],
)
def test_a_flipped_byte_in_a_signed_seal_is_refused_when_it_is_opened(
    place: int, exit_code: int, said: str, author: Party
) -> None:
    record = replace(
        signed_by_authors(author, with_seal(author, damaged_seal(author, place))), grants=author.record.grants
    )
    reason, found = judge(author, record, verify_code=0, evaluate_code=exit_code)
    assert reason == "sealed to one recipient, 65736 bytes"
    assert found == said


# The lock ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def suite(author: Party, tmp_path: Path) -> Party:
    """Give the author with a suite of his own to damage, and the same store and keys."""
    for name in ("recipes", "lockfiles", "images"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return Party(tmp_path, author.store_root, tmp_path, author.keys, os.environ.get("WIDESWE_INPUTS"))


STAYS_HEXADECIMAL, STAYS_NOT = b"0123456789bcde", b"af"


def flip_after(data: bytes, mark: bytes, which: bytes = b"") -> tuple[bytes, str, str]:
    """Flip one bit of the first byte (of those in `which`) after a mark; return the file, and the text around it.

    The text goes from quote to quote, before and after.
    """
    place = data.index(mark) + len(mark)
    start, end = data.rindex(b'"', 0, place) + 1, data.index(b'"', place)
    place += next(number for number, byte in enumerate(data[place:end] or b" ") if not which or byte in which)
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed), data[start:end].decode(), bytes(changed[start:end]).decode()


RELOCK = f"\nhint: wideswe-pack lock --task {TASK}"
AGAIN = "\nhint: the lock was made by another version of wideswe-pack; lock again"
LOCK_FLIPS = {
    "syntax": (b'\n  "absent": ', 3, "{lock}: not acceptable JSON: Expecting value: line 2 column 13 (char 14)"),
    "schema": (b'"schema": "wideswe-lock/', 3, "{lock}: schema: expected {old}, found '{new}'"),
    "task": (
        b'"task": "',
        3,
        "{new}: the lock does not fit the recipe: task: {new} -> {old}\nhint: wideswe-pack lock --task {new}",
    ),
    "recipe": (b'"recipe": "sha256:', 3, TASK + ": the lock does not fit the recipe: recipe: {new} -> {old}" + RELOCK),
    "no digit": (
        b'"prompt": "sha256:',
        3,
        "{lock}: files: prompt: expected sha256: and 64 hexadecimal digits, found '{new}'",
    ),
    "a repository": (
        b'"pack": {\n        "digest": "sha256:',
        4,
        "gauge: expected the canonical pack {new}, found {old}" + AGAIN,
    ),
    "gold": (
        b'"gold": {\n      "gauge": "sha256:',
        4,
        TASK + ": gold of gauge: expected {new}, found {old}" + RELOCK,
    ),
}


@pytest.mark.parametrize("name", LOCK_FLIPS)
def test_one_flipped_byte_in_the_lock_is_refused_by_build(name: str, suite: Party) -> None:
    mark, exit_code, text = LOCK_FLIPS[name]
    lock = suite.root / "lockfiles" / f"{TASK}.linux-amd64.lock.json"
    which = STAYS_NOT if name == "no digit" else STAYS_HEXADECIMAL if mark.endswith(b"sha256:") else b""
    changed, old, new = flip_after(lock.read_bytes(), mark, which)
    lock.write_bytes(changed)
    before = suite.record
    said = suite.refuse("build", "--task", TASK, exit_code=exit_code)
    assert said == f"error: {text.format(lock=lock, old=old, new=new)}\n"
    assert suite.record == before


# The registry --------------------------------------------------------------------------------------------------------


def test_what_a_registry_damaged_is_refused_by_pull(author: Party, tmp_path: Path) -> None:
    lab = Party(tmp_path, tmp_path / "store", tmp_path)
    layer = image_of(author).layers[-1].digest
    with docker_registry(tmp_path / "registry") as host:
        author.ask("push", "--task", TASK, "--to", f"{host}/wideswe")
        kept = tmp_path / "registry/data/docker/registry/v2/blobs/sha256" / hex_of(layer)[:2] / hex_of(layer) / "data"
        bad = bytearray(kept.read_bytes())
        bad[1000] ^= 1
        replace_file(kept, bytes(bad))
        said = lab.refuse("pull", f"{host}/wideswe/{TASK}:v1", exit_code=BYTES)
    where = f"{host}/wideswe/{TASK}: blob {layer}"
    assert said == f"error: {where}: expected {layer}, found {digest_of(bytes(bad))} ({len(bad)} bytes)\n"
    assert lab.store.names("images") == []
    assert not blob_path(lab.store_root, layer).exists()
