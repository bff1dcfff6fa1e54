from __future__ import annotations

from dataclasses import replace

from packager.base.digests import digest_of
from packager.lock.drift import Difference, Wanted, compare_locks, drift_of
from packager.lock.model import (
    Lock,
    LockedBase,
    LockedBlob,
    LockedFetch,
    LockedFiles,
    LockedRepo,
    LockedToolchain,
)

RECIPE, PROMPT, TEMPLATE = digest_of(b"recipe"), digest_of(b"prompt"), digest_of(b"dockerfile")


def blob(alias: str, key: str, data: bytes = b"") -> LockedBlob:
    return LockedBlob(alias, key, digest_of(data), len(data))


LOCK = Lock(
    task="t",
    platform="linux/amd64",
    recipe=RECIPE,
    dockerfile=TEMPLATE,
    ids={"sandbox": "s1"},
    base=LockedBase("bookworm", (blob("debian", "pool/main/j/jq/jq_1.6-2_amd64.deb"),)),
    repos=(LockedRepo("target", "one", "1" * 40, "2" * 40, digest_of(b"pack"), 4),),
    toolchains=(
        LockedToolchain("node", "22.1.0", blob("npm", "node/-/node-22.1.0.tgz")),
        LockedToolchain("npm", "10.9.0", blob("npm", "npm/-/npm-10.9.0.tgz")),
    ),
    fetches=(LockedFetch("s", blob("pypi", "foo-1.0.tar.gz"), "x/y", "pkg:pypi/foo@1.0", "lock"),),
    files=LockedFiles(PROMPT, {"one": digest_of(b"gold")}, {}),
)
WANTED = Wanted(
    task="t",
    platform="linux/amd64",
    recipe=RECIPE,
    dockerfile=TEMPLATE,
    suite="bookworm",
    image="",
    ids={"sandbox": "s1"},
    commits={"one": "1" * 40},
    toolchains={"node": "22.1.0"},
    prompt=PROMPT,
)


def test_a_lock_of_its_recipe_does_not_drift() -> None:
    assert drift_of(LOCK, WANTED) == ()
    assert compare_locks(LOCK, LOCK) == ()


def test_each_thing_that_drifts_is_named() -> None:
    wanted = replace(
        WANTED,
        recipe=digest_of(b"new"),
        commits={"one": "3" * 40, "two": "4" * 40},
        toolchains={},
        ids={"sandbox": "s2"},
    )
    assert [str(difference) for difference in drift_of(LOCK, wanted)] == [
        "id sandbox: s1 -> s2",
        f"recipe: {RECIPE} -> {digest_of(b'new')}",
        f"repository one: {'1' * 40} -> {'3' * 40}",
        f"repository two: added, {'4' * 40}",
        "toolchain node: removed, was 22.1.0",
    ]


def test_two_locks_differ_by_input() -> None:
    after = replace(
        LOCK,
        base=LockedBase("bookworm", (blob("debian", "pool/main/j/jq/jq_1.6-3_amd64.deb", b"x"),)),
        fetches=(*LOCK.fetches, LockedFetch("s", blob("pypi", "bar-2.tar.gz"), "x/y", "pkg:pypi/bar@2", "recorded")),
        files=LockedFiles(PROMPT, {}, {}),
    )
    empty = digest_of(b"")
    assert compare_locks(LOCK, after) == (
        Difference("fetch s pypi bar-2.tar.gz", "", f"{empty} (recorded)"),
        Difference("gold one", str(digest_of(b"gold")), ""),
        Difference("package jq", f"1.6-2_amd64 {empty}", f"1.6-3_amd64 {digest_of(b'x')}"),
    )
