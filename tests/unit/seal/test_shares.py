"""A root secret in parts: all of them give it back, fewer or mixed ones give an error and nothing else."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, UsageError
from packager.seal.identities import RootSecret, create_root
from packager.seal.shares import fingerprint_of, join_shares, read_share, split_root, write_share

if TYPE_CHECKING:
    from pathlib import Path

ROOT = RootSecret(bytes(range(32)))


@pytest.mark.parametrize("total", [2, 3, 32])
def test_all_parts_in_any_order_give_the_secret_back(total: int, tmp_path: Path) -> None:
    shares = split_root(ROOT, total)
    for share in shares:
        write_share(tmp_path / f"{share.number}", share)
    read = [read_share(tmp_path / f"{share.number}") for share in shares]
    assert read == shares
    assert join_shares(read[::-1]) == ROOT
    assert (tmp_path / "1").stat().st_mode & 0o777 == 0o600


def test_fewer_parts_are_refused_and_are_not_the_secret() -> None:
    shares = split_root(ROOT, 3)
    for some in combinations(shares, 2):
        missing = ({1, 2, 3} - {share.number for share in some}).pop()
        with pytest.raises(InputError) as caught:
            join_shares(some)
        assert str(caught.value) == f"shares: expected 3 different parts, found 2, missing: {missing}"
    assert all(share.raw != ROOT.raw for share in shares)
    assert {share.raw for share in shares} & {share.raw for share in split_root(ROOT, 3)} == set()


def test_parts_of_two_secrets_or_twice_the_same_part_are_refused() -> None:
    first, second = split_root(ROOT, 2), split_root(create_root(), 2)
    with pytest.raises(InputError, match="expected parts of one secret"):
        join_shares([first[0], second[1]])
    with pytest.raises(InputError, match="expected 2 different parts, found 3"):
        join_shares([first[0], *first])
    other_split = split_root(ROOT, 2)
    with pytest.raises(InputError) as caught:
        join_shares([first[0], other_split[1]])
    assert str(caught.value) == "shares: what the parts give is not the secret that they name: one is damaged"


@pytest.mark.parametrize("total", [-1, 0, 1, 33])
def test_one_part_would_be_the_secret(total: int) -> None:
    with pytest.raises(UsageError) as caught:
        split_root(ROOT, total)
    assert str(caught.value) == f"expected 2 to 32 parts, found {total}"


def test_a_damaged_part_is_refused_and_shows_nothing(tmp_path: Path) -> None:
    share = split_root(ROOT, 2)[0]
    path = tmp_path / "share"
    write_share(path, share)
    good = path.read_text()
    for bad in (good.replace("v1", "v2"), good[:-4], good[1:], "", good.upper()):
        path.write_text(bad)
        with pytest.raises(InputError) as caught:
            read_share(path)
        assert not re.search(r"[A-Z0-9]{20}", str(caught.value).replace(str(path), ""))
    assert repr(share) == f"Share(number=1, total=2, fingerprint={fingerprint_of(ROOT)!r})"
