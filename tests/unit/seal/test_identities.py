"""Keys, grants and their files: made once, derived apart, never shown."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

import pyrage
import pytest

from packager.base.errors import InputError, IntegrityError, TrustError, WorldError
from packager.seal.bech32 import format_bech32, parse_bech32
from packager.seal.identities import (
    MAX_IDENTITIES,
    RootSecret,
    create_evaluator_key,
    create_root,
    make_grant,
    open_grant,
    parse_identities,
    read_identities,
    read_root,
    task_identity,
    write_identity,
    write_root,
)
from packager.seal.keyfiles import create_secret_file, read_secret_file
from packager.seal.keys import format_identity, parse_identity, parse_recipient, recipient_of

if TYPE_CHECKING:
    from pathlib import Path

ROOT = RootSecret(bytes(range(32)))
# A key pair of rage's test suite.
KNOWN_IDENTITY = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33"
KNOWN_RECIPIENT = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa"
KEYGEN_HINT = "hint: make one with `age-keygen` or `wideswe-pack keygen`"


def test_the_spelling_of_keys_is_that_of_age() -> None:
    assert recipient_of(KNOWN_IDENTITY) == KNOWN_RECIPIENT
    assert format_identity(parse_identity(KNOWN_IDENTITY).private_bytes_raw()) == KNOWN_IDENTITY
    for _ in range(20):
        identity, recipient = create_evaluator_key()
        assert str(pyrage.x25519.Identity.from_str(str(identity)).to_public()) == recipient


def test_bech32_roundtrips_any_bytes() -> None:
    for length in (0, 1, 16, 32, 33):
        assert parse_bech32(format_bech32("x", bytes(range(length))), prefix="x", length=length) == bytes(range(length))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            KNOWN_RECIPIENT[:-1] + "q",
            "the checksum of a key that starts with age1 does not hold\nhint: copy the key again",
        ),
        (KNOWN_RECIPIENT.replace("t7", "T7"), "a key that starts with age1 mixes upper and lower case"),
        (KNOWN_IDENTITY, "expected a key that starts with age1"),
        ("", "expected a key that starts with age1"),
        ("age1", "the checksum of a key that starts with age1 does not hold\nhint: copy the key again"),
        (format_bech32("age", bytes(31)), "expected 32 bytes in a key that starts with age1, found 31"),
        (
            "age1pq1qqqq",
            f"a post-quantum recipient (age1pq1…), which rage and pyrage cannot use\n{KEYGEN_HINT}",
        ),
        (
            "ssh-ed25519 AAAA",
            f"an SSH public key, expected an X25519 recipient (age1…)\n{KEYGEN_HINT}",
        ),
    ],
)
def test_a_wrong_recipient_is_refused_with_its_own_reason(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_recipient(text)
    assert str(caught.value) == reason


def test_a_wrong_secret_is_refused_without_being_shown() -> None:
    broken = KNOWN_IDENTITY[:-1] + "4"
    with pytest.raises(InputError) as caught:
        parse_identities(f"# a comment\n{broken}\n".encode(), where="key.txt")
    shown = "".join(traceback.format_exception(caught.value))
    assert str(caught.value) == (
        "key.txt: the checksum of a key that starts with age-secret-key-1 does not hold\nhint: copy the key again"
    )
    assert "GQ9778" not in shown.upper()


def test_secrets_are_hidden_in_reprs() -> None:
    identity, _ = task_identity(ROOT, "suite", "task")
    assert repr(identity) == "Identity(hidden)"
    assert repr([identity]) == "[Identity(hidden)]"
    assert repr(ROOT) == "RootSecret()"
    assert str(identity).startswith("AGE-SECRET-KEY-1")


def test_task_identities_differ_by_suite_and_task_and_come_again() -> None:
    names = [("a", "b"), ("a", "c"), ("b", "b"), ("a.b", "c"), ("a", "b.c")]
    keys = [task_identity(ROOT, suite, task) for suite, task in names]
    assert len(set(keys)) == len(names)
    assert keys == [task_identity(ROOT, suite, task) for suite, task in names]
    assert task_identity(create_root(), "a", "b") != keys[0]
    assert keys[0][1] == "age1fkkmpma3yuygvjw3j2xjd22jxmn2smzv00ktxw75yy9wugy6wygsgxju8s"


@pytest.mark.parametrize("name", ["", "a/b", "A", "a b", "..", "-a", "a\n", "a" * 201, "a--b"])
def test_a_name_that_could_blur_the_context_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"^task: expected lower-case words joined by `\.`, `-` or `_`, found "):
        task_identity(ROOT, "suite", name)


def test_purposes_of_a_root_are_apart() -> None:
    assert len({ROOT.raw, ROOT.derive("seal"), ROOT.derive("identity"), ROOT.derive("case ids")}) == 4


def test_root_and_identity_files_are_private_and_never_written_over(tmp_path: Path) -> None:
    identity, recipient = create_evaluator_key()
    write_root(tmp_path / "keys" / "root", ROOT)
    write_identity(tmp_path / "keys" / "me", identity)
    assert read_root(tmp_path / "keys" / "root") == ROOT
    assert read_identities(tmp_path / "keys" / "me") == (identity,)
    assert (tmp_path / "keys" / "me").read_text() == f"# public key: {recipient}\n{identity}\n"
    for name in ("root", "me"):
        path = tmp_path / "keys" / name
        before = path.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(InputError) as caught:
            write_root(path, create_root())
        assert str(caught.value) == (
            f"{path}: exists already and is not written over\n"
            "hint: choose another path, or move the old key to a safe place first: what it opened needs it"
        )
        assert path.read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["me", "root"]


def test_a_key_file_is_private_under_any_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        create_secret_file(tmp_path / "key", b"x")
    finally:
        os.umask(old)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="exists already"):
        create_secret_file(tmp_path / "key", b"x")
    assert not (tmp_path / "elsewhere").exists()


def test_key_files_that_cannot_be_read_or_written_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_secret_file(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path / 'none'}: cannot be read: No such file or directory"
    (tmp_path / "big").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(InputError, match="expected at most 1048576 bytes, found more"):
        read_secret_file(tmp_path / "big")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WorldError) as refused:
        create_secret_file(tmp_path / "file" / "key", b"x")
    assert str(refused.value) == f"{tmp_path / 'file' / 'key'}: cannot be written: File exists"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "k: expected 1 to 1024 identities, found 0"),
        (b"# only a comment\n", "k: expected 1 to 1024 identities, found 0"),
        (b"\xff\xfe", "k: not a text file of keys"),
        (b"password\n", "k: expected a key that starts with age-secret-key-1"),
        (KNOWN_RECIPIENT.encode(), "k: expected a key that starts with age-secret-key-1"),
        ((KNOWN_IDENTITY + "\n").encode() * (MAX_IDENTITIES + 1), "k: expected 1 to 1024 identities, found 1025"),
    ],
)
def test_a_file_that_is_no_identity_file_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_identities(data, where="k")
    assert str(caught.value) == reason


def test_a_root_file_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(KNOWN_IDENTITY)
    (tmp_path / "b").write_text("")
    with pytest.raises(InputError, match="expected a key that starts with wideswe-root-1"):
        read_root(tmp_path / "a")
    with pytest.raises(InputError, match="expected one root secret, found 0 keys"):
        read_root(tmp_path / "b")


def test_a_grant_hands_a_task_identity_to_each_evaluator_and_to_nobody_else() -> None:
    identity, _ = task_identity(ROOT, "suite", "task")
    people = [create_evaluator_key() for _ in range(3)]
    grant = make_grant(identity, [recipient for _, recipient in people[:2]], "image: sha256:00\nAGE-SECRET-KEY-1X")
    assert open_grant(grant, people[0][0]) == identity
    assert open_grant(grant, people[1][0]) == identity
    with pytest.raises(TrustError) as caught:
        open_grant(grant, people[2][0])
    assert str(caught.value) == (
        "grant: none of 1 given identities opens it\nhint: ask the suite's owner for a grant to your evaluator key"
    )
    plain = pyrage.decrypt(grant, [pyrage.x25519.Identity.from_str(str(people[0][0]))])
    assert plain == f"# wideswe grant v1\n# image: sha256:00\n# AGE-SECRET-KEY-1X\n{identity}\n".encode()


def test_a_grant_may_hold_the_identities_of_a_whole_suite() -> None:
    evaluator, recipient = create_evaluator_key()
    identities = [task_identity(ROOT, "suite", f"task-{n}")[0] for n in range(120)]
    handed = open_grant(make_grant("\n".join(identities), [recipient]), evaluator)
    assert str(handed).splitlines() == [str(one) for one in identities]
    assert repr(handed) == "Identity(hidden)"


def test_two_grants_are_never_equal() -> None:
    identity, recipient = create_evaluator_key()
    assert make_grant(identity, [recipient]) != make_grant(identity, [recipient])


def test_a_grant_to_nobody_or_of_nothing_is_refused() -> None:
    identity, recipient = create_evaluator_key()
    with pytest.raises(InputError, match="nobody to encrypt to: the list of recipients is empty"):
        make_grant(identity, [])
    with pytest.raises(InputError, match="identity to grant: expected 1 to 1024 identities, found 0"):
        make_grant("", [recipient])
    with pytest.raises(InputError, match="expected a key that starts with age1"):
        make_grant(identity, [str(identity)])


def test_an_age_file_that_is_no_grant_is_refused() -> None:
    evaluator, recipient = create_evaluator_key()
    other = pyrage.encrypt(str(evaluator).encode(), [pyrage.x25519.Recipient.from_str(recipient)])
    with pytest.raises(InputError) as caught:
        open_grant(other, evaluator)
    assert str(caught.value) == "grant: what it holds does not begin with `# wideswe grant v1`"
    with pytest.raises(IntegrityError, match=r"^grant: chunk 0 is damaged, cut off or out of order$"):
        open_grant(make_grant(evaluator, [recipient])[:-1], evaluator)
    with pytest.raises(InputError, match="grant: expected at most 2097152 bytes of grant, found 2097153"):
        open_grant(bytes((2 << 20) + 1), evaluator)
