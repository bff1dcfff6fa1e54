from __future__ import annotations

from dataclasses import replace

import pytest

from packager.base.digests import digest_of
from packager.base.errors import UsageError
from packager.lock.model import (
    AbsentFetch,
    Lock,
    LockedBase,
    LockedBlob,
    LockedFetch,
    LockedFiles,
    LockedRepo,
    LockedToolchain,
)
from packager.lock.update import take_update


def lock_of(mark: str) -> Lock:
    """A lock in which everything is of one make."""
    digest = digest_of(mark.encode())

    def blob(alias: str, key: str) -> LockedBlob:
        return LockedBlob(alias, key, digest, 1)

    return Lock(
        "t",
        "linux/amd64",
        digest,
        digest,
        LockedBase("bookworm", (blob("debian", "pool/j/jq_1_amd64.deb"),)),
        LockedFiles(digest, {"one": digest}, {"one": digest}),
        ids={"sandbox": mark},
        repos=tuple(LockedRepo("target", name, "1" * 40, "2" * 40, digest, 1) for name in ("one", "two")),
        toolchains=(
            LockedToolchain("go", "1.24.0", blob("pypi", "go.whl")),
            LockedToolchain("node", "22.1.0", blob("npm", "n")),
        ),
        fetches=tuple(LockedFetch(step, blob("pypi", "x"), "a/b", "pkg:pypi/x@1", "recorded") for step in ("s/one", "s/two")),
        absent=tuple(AbsentFetch(step, "pypi", mark) for step in ("s/one", "s/two")),
    )  # fmt: skip


OLD, NEW = lock_of("old"), lock_of("new")
SELF = replace(OLD, recipe=NEW.recipe, dockerfile=NEW.dockerfile, ids=NEW.ids)
"""What is new whatever moves: a lock must fit the recipe that is there now."""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base", replace(SELF, base=NEW.base)),
        ("answer", replace(SELF, files=NEW.files)),
        ("one", replace(SELF, repos=(NEW.repos[0], OLD.repos[1]))),
        ("node", replace(SELF, toolchains=(OLD.toolchains[0], NEW.toolchains[1]))),
        (
            "s/two",
            replace(SELF, fetches=(OLD.fetches[0], NEW.fetches[1]), absent=(OLD.absent[0], NEW.absent[1])),
        ),
    ],
)
def test_one_thing_moves_and_the_rest_stays(name: str, expected: Lock) -> None:
    assert take_update(OLD, NEW, name) == expected


def test_a_thing_that_is_gone_from_the_new_lock_is_not_kept_under_its_name() -> None:
    assert take_update(OLD, replace(NEW, absent=()), "s/one").absent == (OLD.absent[1],)


def test_a_name_that_is_nothing_in_the_lock_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError) as caught:
        take_update(OLD, NEW, "three")
    assert str(caught.value) == (
        "--update three names nothing in the lock\nhint: one of: answer, base, go, node, one, s/one, s/two, two"
    )
