"""Evaluators whose key lives in an age plugin: grants to them, alone and beside others, open through stock age."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, IntegrityError, TrustError
from packager.base.processes import find_program
from packager.seal.identities import create_evaluator_key, make_grants, open_grant, parse_evaluators, task_identity
from packager.seal.stock_age import is_foreign_identity, is_foreign_recipient
from tests.support.age_plugin import IDENTITY, RECIPIENT, install_plugin
from tests.support.sealed_images import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.skipif(find_program("age") is None, reason="age is not installed")]

TASK, _ = task_identity(ROOT, "suite", "task")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", install_plugin(tmp_path))


@pytest.mark.usefixtures("plugin")
def test_a_grant_to_a_plugins_key_opens_with_it() -> None:
    (grant,) = make_grants(TASK, [RECIPIENT], root=ROOT)
    assert open_grant(grant, IDENTITY) == TASK


@pytest.mark.usefixtures("plugin")
def test_keys_of_both_kinds_open_what_is_theirs() -> None:
    own, recipient = create_evaluator_key()
    plain, masked = make_grants(TASK, [RECIPIENT, recipient], root=ROOT)
    assert open_grant(plain, own) == open_grant(masked, f"{own}\n{IDENTITY}") == TASK
    assert open_grant(plain, f"{IDENTITY}\n{own}") == TASK
    with pytest.raises(TrustError):
        open_grant(plain, IDENTITY)
    with pytest.raises(TrustError):
        open_grant(masked, own)


@pytest.mark.usefixtures("plugin")
def test_what_is_no_age_file_is_said_to_be_none() -> None:
    with pytest.raises(IntegrityError, match=r"^grant: age does not open it: "):
        open_grant(b"no age file", IDENTITY)


def test_a_plugin_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(InputError) as caught:
        make_grants(TASK, [RECIPIENT], root=ROOT)
    assert "age-plugin-masked" in str(caught.value)
    assert str(caught.value).startswith(f"grant: age does not encrypt to {RECIPIENT}: ")


def test_which_keys_are_not_ours_to_use() -> None:
    own, recipient = create_evaluator_key()
    assert is_foreign_identity(IDENTITY)
    assert is_foreign_recipient(RECIPIENT)
    assert not is_foreign_identity(own)
    assert not is_foreign_recipient(recipient)
    assert parse_evaluators(f"# mine\n{own}\n\n{IDENTITY}\n".encode(), where="k") == f"{own}\n{IDENTITY}"
    for bad in (b"", b"# nothing\n", b"AGE-PLUGIN-\n", IDENTITY.lower().encode(), b"\xff"):
        with pytest.raises(InputError):
            parse_evaluators(bad, where="k")
