"""Stock age opens our seals with a granted key and not without, and we read what it writes."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run
from packager.seal.age_reader import read_age
from packager.seal.age_writer import write_age
from packager.seal.bundle import open_seal, seal
from packager.seal.identities import (
    create_evaluator_key,
    make_grant,
    open_grant,
    read_identities,
    task_identity,
    write_identity,
)
from packager.seal.keys import recipient_of
from tests.support.sealed_images import CONTENTS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.processes import Finished

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(find_program("age") is None, reason="age is not installed"),
]

SIZES = (0, 1, 65535, 65536, 65537, 131072, 300_000)
WRONG_KEY = b"no identity matched any of the recipients"


def age(*arguments: str, folder: Path, stdin: bytes = b"") -> Finished:
    return run(["age", *arguments], Surroundings(cwd=folder, stdin=stdin, timeout_s=60))


@pytest.mark.parametrize("size", SIZES)
def test_age_opens_what_we_write_for_each_of_three_recipients(size: int, tmp_path: Path) -> None:
    people = [create_evaluator_key() for _ in range(3)]
    plain = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    data = b"".join(write_age(plain, [recipient for _, recipient in people], secret=bytes(32), context="x"))
    for number, (identity, _) in enumerate(people):
        write_identity(tmp_path / f"{number}.key", identity)
        done = age("-d", "-i", f"{number}.key", folder=tmp_path, stdin=data)
        assert (done.exit_code, done.stdout) == (0, plain), done.stderr.decode()


@pytest.mark.parametrize("size", SIZES)
def test_we_open_what_age_writes(size: int, tmp_path: Path) -> None:
    identity, recipient = create_evaluator_key()
    _, other = create_evaluator_key()
    plain = bytes(size)
    (tmp_path / "plain").write_bytes(plain)
    done = age("-r", other, "-r", recipient, "-o", "out.age", "plain", folder=tmp_path)
    assert done.exit_code == 0, done.stderr.decode()
    with (tmp_path / "out.age").open("rb") as stream:
        assert b"".join(read_age(stream, [identity])) == plain


def test_age_opens_a_seal_through_a_grant_and_not_without(tmp_path: Path) -> None:
    evaluator, recipient = create_evaluator_key()
    stranger, _ = create_evaluator_key()
    task, _ = task_identity(ROOT, CONTENTS.suite, CONTENTS.task)
    write_identity(tmp_path / "evaluator.key", evaluator)
    write_identity(tmp_path / "stranger.key", stranger)
    (tmp_path / "sealed.age").write_bytes(seal(CONTENTS, ROOT))
    (tmp_path / "grant.age").write_bytes(make_grant(task, [recipient], "image: sha256:…"))
    granted = age("-d", "-i", "evaluator.key", "grant.age", folder=tmp_path)
    assert granted.exit_code == 0, granted.stderr.decode()
    (tmp_path / "task.key").write_bytes(granted.stdout)
    opened = age("-d", "-i", "task.key", "sealed.age", folder=tmp_path)
    assert opened.exit_code == 0, opened.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(opened.stdout)) as archive:
        assert archive.getnames()[0] == "SEAL.json"
    for key, file in (("stranger.key", "grant.age"), ("evaluator.key", "sealed.age"), ("stranger.key", "sealed.age")):
        refused = age("-d", "-i", key, file, folder=tmp_path)
        assert refused.exit_code != 0
        assert refused.stdout == b""
        assert WRONG_KEY in refused.stderr
    assert open_seal((tmp_path / "sealed.age").read_bytes(), read_identities(tmp_path / "task.key")[0]) == CONTENTS


def test_a_grant_made_with_age_alone_opens_with_us(tmp_path: Path) -> None:
    evaluator, recipient = create_evaluator_key()
    task, _ = task_identity(ROOT, CONTENTS.suite, CONTENTS.task)
    text = f"# wideswe grant v1\n{task}\n".encode()
    done = age("-r", recipient, folder=tmp_path, stdin=text)
    assert done.exit_code == 0, done.stderr.decode()
    assert open_grant(done.stdout, evaluator) == task


def test_age_refuses_a_seal_with_a_flipped_byte_as_we_do(tmp_path: Path) -> None:
    task, _ = task_identity(ROOT, CONTENTS.suite, CONTENTS.task)
    write_identity(tmp_path / "task.key", task)
    data = seal(CONTENTS, ROOT)
    for place in (0, 30, 120, 170, 190, 210, len(data) - 1):
        broken = bytearray(data)
        broken[place] ^= 1
        assert age("-d", "-i", "task.key", folder=tmp_path, stdin=bytes(broken)).exit_code != 0


@pytest.mark.skipif(find_program("age-keygen") is None, reason="age-keygen is not installed")
def test_keys_of_age_keygen_are_ours_and_the_other_way_round(tmp_path: Path) -> None:
    identity, recipient = create_evaluator_key()
    write_identity(tmp_path / "ours", identity)
    shown = run(["age-keygen", "-y", str(tmp_path / "ours")])
    assert shown.stdout == f"{recipient}\n".encode()
    assert run(["age-keygen", "-o", str(tmp_path / "theirs")]).exit_code == 0
    (theirs,) = read_identities(tmp_path / "theirs")
    assert f"# public key: {recipient_of(theirs)}\n" in (tmp_path / "theirs").read_text()
