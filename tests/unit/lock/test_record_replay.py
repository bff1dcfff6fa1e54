from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.ecosystems import web
from packager.lock.model import AbsentFetch, LockedBlob, LockedFetch
from packager.lock.recorder import Recorder, compare_recordings
from packager.lock.replay import Replay
from packager.lock.sources import Source
from packager.sandbox.fetches import Answer, Request
from tests.support.artifacts import make_module, make_tgz, make_wheel
from tests.support.fake_registry import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from packager.sandbox.fetches import FetchSource
    from packager.store.store import Store
    from tests.support.fake_registry import FakeRegistry

JSON = "application/vnd.pypi.simple.v1+json"
WHEEL = make_wheel("foo", "1.0")


def ask(source: FetchSource, url: str, *, accept: str = "*/*", method: str = "GET") -> Answer:
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return source.answer(Request(method, parts.scheme, parts.hostname or "", port, path, {"accept": accept}))


def body(answer: Answer) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else answer.body.read_bytes()


def replay_of(recorder: Recorder, store: Store) -> Replay:
    return Replay(store, recorder.fetches("s"), recorder.absent("s"))


@pytest.fixture
def recorder(registry: FakeRegistry, store: Store, tmp_path: Path) -> Recorder:
    return Recorder(store, registry.clients(tmp_path))


def test_what_was_taken_is_replayed_and_pages_list_nothing_else(
    registry: FakeRegistry, recorder: Recorder, store: Store
) -> None:
    registry.add_file("foo", "foo-1.0-py3-none-any.whl", WHEEL)
    registry.add_file("foo", "foo-2.0-py3-none-any.whl", make_wheel("foo", "2.0"))
    page = json.loads(body(ask(recorder, "http://pypi.invalid/simple/foo/", accept=JSON)))
    assert [file["url"] for file in page["files"]] == [
        "../../files/foo-1.0-py3-none-any.whl",
        "../../files/foo-2.0-py3-none-any.whl",
    ]
    assert body(ask(recorder, "http://pypi.invalid/files/foo-1.0-py3-none-any.whl")) == WHEEL
    assert recorder.fetches("deps") == (
        LockedFetch(
            "deps",
            LockedBlob("pypi", "foo-1.0-py3-none-any.whl", digest_of(WHEEL), len(WHEEL)),
            "application/octet-stream",
            "pkg:pypi/foo@1.0",
            "recorded",
        ),
    )
    assert recorder.absent("deps") == ()
    replay = replay_of(recorder, store)
    page = json.loads(body(ask(replay, "http://pypi.invalid/simple/foo/", accept=JSON)))
    assert [file["filename"] for file in page["files"]] == ["foo-1.0-py3-none-any.whl"]
    assert body(ask(replay, "http://pypi.invalid/files/foo-1.0-py3-none-any.whl")) == WHEEL
    assert replay.unknown() == ()


def test_an_unknown_request_fails_and_names_itself(recorder: Recorder, store: Store) -> None:
    replay = replay_of(recorder, store)
    answer = ask(replay, "http://pypi.invalid/files/bar-1.0-py3-none-any.whl")
    assert answer == Answer(
        599,
        "text/plain",
        b"wideswe-pack: not in the lock: GET http://pypi.invalid/files/bar-1.0-py3-none-any.whl\n",
    )
    assert ask(replay, "https://h.example/x?y=1").status == 599
    assert ask(replay, "http://npm.invalid/ms", method="POST").status == 599
    assert replay.unknown() == (
        "GET http://pypi.invalid/files/bar-1.0-py3-none-any.whl",
        "GET https://h.example/x?y=1",
        "POST http://npm.invalid/ms",
    )


def test_what_registries_lack_and_pages_of_which_nothing_was_taken_are_absent(
    registry: FakeRegistry, recorder: Recorder, store: Store
) -> None:
    registry.add_file("seen", "seen-1.0-py3-none-any.whl", WHEEL)
    registry.add_package("lonely", "1.0.0", make_tgz("lonely", "1.0.0"))
    registry.faults["/go/ex.org/@v/list"] = Fault([403])
    assert ask(recorder, "http://pypi.invalid/simple/seen/").status == 200
    assert ask(recorder, "http://pypi.invalid/simple/left-pad/").status == 404
    assert ask(recorder, "http://npm.invalid/lonely").status == 200
    assert ask(recorder, "http://goproxy.invalid/ex.org/@v/list").status == 404
    assert ask(recorder, "http://goproxy.invalid/ex.org/m/@v/v1.0.0.zip").status == 404
    assert recorder.absent("s") == (
        AbsentFetch("s", "goproxy", "ex.org/@v/list"),
        AbsentFetch("s", "goproxy", "ex.org/m/@v/v1.0.0.zip"),
        AbsentFetch("s", "npm", "lonely"),
        AbsentFetch("s", "pypi", "simple/left-pad/"),
        AbsentFetch("s", "pypi", "simple/seen/"),
    )
    replay = replay_of(recorder, store)
    for row in ("http://pypi.invalid/simple/seen/", "http://npm.invalid/lonely"):
        assert ask(replay, row).status == 404
    assert ask(replay, "http://goproxy.invalid/ex.org/m/@v/v1.0.0.zip").status == 404
    assert replay.unknown() == ()


def test_services_that_are_no_packages_get_the_same_no_twice(recorder: Recorder, store: Store) -> None:
    for source in (recorder, replay_of(recorder, store)):
        assert ask(source, "http://npm.invalid/-/npm/v1/keys").status == 404
        assert ask(source, "http://goproxy.invalid/sumdb/sum.ex.org/supported").status == 404
    assert recorder.absent("s") == ()


def test_only_reading_is_recorded(recorder: Recorder) -> None:
    answer = ask(recorder, "http://npm.invalid/-/npm/v1/security/audits", method="POST")
    assert answer.status == 405
    assert body(answer) == (b"only GET and HEAD can be recorded: POST http://npm.invalid/-/npm/v1/security/audits\n")


def test_packuments_point_at_the_alias_host_and_keep_integrity(
    registry: FakeRegistry, recorder: Recorder, store: Store
) -> None:
    data = make_tgz("@a/b", "1.0.0")
    registry.add_package("@a/b", "1.0.0", data, dependencies={"c": "1"})
    page = json.loads(body(ask(recorder, "http://npm.invalid/@a%2fb")))
    dist = page["versions"]["1.0.0"]["dist"]
    assert dist["tarball"] == "http://npm.invalid/@a/b/-/b-1.0.0.tgz"
    assert sorted(dist) == ["integrity", "tarball"]
    assert body(ask(recorder, dist["tarball"])) == data
    replayed = json.loads(body(ask(replay_of(recorder, store), "http://npm.invalid/@a%2fb")))
    assert replayed["versions"]["1.0.0"]["dist"]["integrity"] == dist["integrity"]


def test_modules_are_kept_in_their_lasting_form(registry: FakeRegistry, recorder: Recorder, store: Store) -> None:
    registry.add_module("ex.org/m", "v1.0.0", make_module("ex.org/m", "v1.0.0"))
    info = body(ask(recorder, "http://goproxy.invalid/ex.org/m/@v/v1.0.0.info"))
    assert info == b'{"Time":"2020-01-02T03:04:05Z","Version":"v1.0.0"}'
    assert body(ask(recorder, "http://goproxy.invalid/ex.org/m/@latest")) == info
    replay = replay_of(recorder, store)
    assert body(ask(replay, "http://goproxy.invalid/ex.org/m/@latest")) == info
    assert body(ask(replay, "http://goproxy.invalid/ex.org/m/@v/list")) == b"v1.0.0\n"


def test_a_file_asked_for_by_the_address_in_the_index_is_the_registrys(
    registry: FakeRegistry, recorder: Recorder, store: Store
) -> None:
    """uv.lock holds absolute addresses of the index's file host; the lock must not know that host."""
    registry.add_file("foo", "foo-1.0-py3-none-any.whl", WHEEL)
    url = f"{registry.url}/files/foo-1.0-py3-none-any.whl"
    assert body(ask(recorder, url)) == WHEEL
    assert [(row.blob.alias, row.blob.key) for row in recorder.fetches("s")] == [("pypi", "foo-1.0-py3-none-any.whl")]
    replay = replay_of(recorder, store)
    assert body(ask(replay, "https://files.example/ab/cd/foo-1.0-py3-none-any.whl")) == WHEEL
    assert ask(replay, "https://files.example/simple/foo/").status == 200


def test_registries_asked_by_their_own_names_are_recognised(
    registry: FakeRegistry, recorder: Recorder, store: Store
) -> None:
    data = make_tgz("ms", "2.1.3")
    registry.add_package("ms", "2.1.3", data)
    registry.add_module("ex.org/m", "v1.0.0", make_module("ex.org/m", "v1.0.0"))
    registry.put("/debian/pool/main/x/x/x_1_amd64.deb", b"deb")
    for path in ("/npm/ms/-/ms-2.1.3.tgz", "/go/ex.org/m/@v/v1.0.0.mod", "/debian/pool/main/x/x/x_1_amd64.deb"):
        assert ask(recorder, f"{registry.url}{path}").status == 200
        mirrored = f"https://mirror.example{path.removeprefix('/go')}"
        assert ask(replay_of(recorder, store), mirrored).status == 200
    assert [row.blob.alias for row in recorder.fetches("s")] == ["debian", "goproxy", "npm"]


def test_any_other_address_is_kept_without_its_host(registry: FakeRegistry, recorder: Recorder, store: Store) -> None:
    registry.put("/tools/tool.tar.gz", b"tool", "application/gzip; charset=binary")
    url = f"{registry.url}/tools/tool.tar.gz"
    assert body(ask(recorder, url)) == b"tool"
    assert ask(recorder, f"{registry.url}/tools/none").status == 404
    row = recorder.fetches("s")[0]
    assert (row.blob.alias, row.blob.key, row.media_type) == ("web", web.key_of(url), "application/gzip")
    assert "127.0.0.1" not in row.blob.key
    assert recorder.sources() == (Source("web", web.key_of(url), url),)
    replay = replay_of(recorder, store)
    assert body(ask(replay, url)) == b"tool"
    assert ask(replay, f"{registry.url}/tools/none").status == 404
    assert ask(replay, "https://other.example/tools/tool.tar.gz").status == 599


def test_a_tarball_named_as_registries_name_them_is_this_machines_registrys(
    registry: FakeRegistry, recorder: Recorder, store: Store
) -> None:
    """A yarn.lock names the public registry whichever the machine uses; what that one lacks is fetched as named."""
    data, own = make_tgz("@a/b", "1.0.0"), make_tgz("own", "1.0.0")
    registry.add_package("@a/b", "1.0.0", data)
    registry.put("/own/-/own-1.0.0.tgz", own)
    registry.put("/x/-/y-1.0.0.tgz", b"no package: its folder has another name")
    assert body(ask(recorder, "https://yarn.example/@a/b/-/b-1.0.0.tgz")) == data
    assert body(ask(recorder, f"{registry.url}/own/-/own-1.0.0.tgz")) == own
    assert ask(recorder, f"{registry.url}/x/-/y-1.0.0.tgz").status == 200
    assert ask(recorder, f"{registry.url}/own/-/own-9.0.0.tgz").status == 404
    assert sorted(row.purl for row in recorder.fetches("s")) == [
        "pkg:generic/own-1.0.0.tgz",
        "pkg:generic/y-1.0.0.tgz",
        "pkg:npm/%40a/b@1.0.0",
    ]
    assert [row.alias for row in recorder.absent("s")] == ["web"]
    replay = replay_of(recorder, store)
    for url, expected in ((f"{registry.url}/own/-/own-1.0.0.tgz", own), ("https://o.example/@a/b/-/b-1.0.0.tgz", data)):
        assert body(ask(replay, url)) == expected
    assert ask(replay, f"{registry.url}/own/-/own-9.0.0.tgz").status == 404


def release(answer: Answer) -> list[tuple[str, str]]:
    return [(row["url"], row["packagetype"]) for row in json.loads(body(answer))["urls"]]


def test_one_version_of_a_python_project_is_told_as_its_site_tells_it(
    registry: FakeRegistry, recorder: Recorder, store: Store
) -> None:
    """poetry asks for nothing else; the page is made from the index, which every mirror has."""
    for name in ("foo-1.0-py3-none-any.whl", "foo-1.0.0.tar.gz", "foo-2.0-py3-none-any.whl"):
        registry.add_file("foo", name, WHEEL)
    both = [
        ("http://pypi.invalid/files/foo-1.0-py3-none-any.whl", "bdist_wheel"),
        ("http://pypi.invalid/files/foo-1.0.0.tar.gz", "sdist"),
    ]
    assert release(ask(recorder, "http://pypi.invalid/pypi/foo/1.0.0/json")) == both
    assert release(ask(recorder, f"{registry.url}/pypi/Foo/1/json")) == both
    assert ask(recorder, "http://pypi.invalid/pypi/foo/3.0/json").status == 404
    assert ask(recorder, both[0][0]).status == 200
    replay = replay_of(recorder, store)
    for url in ("http://pypi.invalid/pypi/foo/1.0/json", "https://site.example/pypi/foo/1.0.0/json"):
        assert release(ask(replay, url)) == both[:1]
    assert ask(replay, "https://site.example/pypi/foo/2.0/json").status == 404
    assert ask(replay, "https://site.example/pypi/bar/1.0/json").status == 599


def test_the_site_that_pip_was_made_for_is_this_machines_index(
    registry: FakeRegistry, recorder: Recorder, store: Store, tmp_path: Path
) -> None:
    site, files = registry.clients(tmp_path).pypi_sites
    if not site:
        pytest.skip("there is no pip here to say which site it was made for")
    registry.add_file("foo", "foo-1.0-py3-none-any.whl", WHEEL)
    assert ask(recorder, f"{site}/simple/foo/", accept=JSON).status == 200
    assert len(release(ask(recorder, f"{site}/pypi/foo/1.0/json"))) == 1
    assert body(ask(recorder, f"https://{files}/packages/ab/foo-1.0-py3-none-any.whl")) == WHEEL
    assert [(row.blob.alias, row.blob.key) for row in recorder.fetches("s")] == [("pypi", "foo-1.0-py3-none-any.whl")]
    replayed = ask(replay_of(recorder, store), f"{site}/pypi/foo/1.0/json")
    assert len(release(replayed)) == 1


def test_many_clients_at_once_cause_one_fetch(registry: FakeRegistry, recorder: Recorder) -> None:
    registry.add_file("foo", "foo-1.0-py3-none-any.whl", WHEEL)
    with ThreadPoolExecutor(8) as pool:
        urls = ["http://pypi.invalid/files/foo-1.0-py3-none-any.whl"] * 16
        assert {body(answer) for answer in pool.map(lambda url: ask(recorder, url), urls)} == {WHEEL}
    assert registry.requests["/files/foo-1.0-py3-none-any.whl"] == 1


def test_trouble_upstream_is_told_to_the_client_and_kept(registry: FakeRegistry, recorder: Recorder) -> None:
    registry.add_file("foo", "foo-1.0-py3-none-any.whl", WHEEL)
    registry.faults["/simple/foo/"] = Fault([401])
    answer = ask(recorder, "http://pypi.invalid/simple/foo/")
    assert answer.status == 502
    assert recorder.failures() == (
        f"GET http://pypi.invalid/simple/foo/: {registry.url}/simple/foo/: expected status 200, found 401",
    )
    assert recorder.absent("s") == ()


def test_a_page_that_is_no_index_is_refused(registry: FakeRegistry, recorder: Recorder) -> None:
    registry.put("/simple/foo/", b"[1]", JSON)
    registry.put("/npm/foo", b"<html>", "text/html")
    assert ask(recorder, "http://pypi.invalid/simple/foo/").status == 502
    assert ask(recorder, "http://npm.invalid/foo").status == 502
    assert [line.partition(": ")[2] for line in recorder.failures()] == [
        "pypi: expected a project's page of a simple index, found b'[1]'",
        "npm foo: expected a packument, found b'<html>'",
    ]


def test_a_broken_blob_is_never_served(registry: FakeRegistry, recorder: Recorder, store: Store) -> None:
    registry.add_file("foo", "foo-1.0-py3-none-any.whl", WHEEL)
    ask(recorder, "http://pypi.invalid/files/foo-1.0-py3-none-any.whl")
    path = store.path(digest_of(WHEEL))
    path.chmod(0o644)
    path.write_bytes(WHEEL[:-1] + b"x")
    answer = ask(replay_of(recorder, store), "http://pypi.invalid/files/foo-1.0-py3-none-any.whl")
    assert answer.status == 500
    assert b"expected the digest" in body(answer)
    assert not store.has(digest_of(WHEEL))


@pytest.mark.parametrize(
    "url",
    [
        "http://npm.invalid/..",
        "http://npm.invalid/%2e%2e/-/x.tgz",
        "http://npm.invalid/a%00b",
        "http://goproxy.invalid/ex.org/../../x/@v/list",
        "http://debian.invalid/debian/dists/../../etc",
        "http://pypi.invalid/files/..%2f..%2fx-1.0.tar.gz",
    ],
)
def test_names_that_lead_elsewhere_are_neither_asked_for_nor_kept(
    registry: FakeRegistry, recorder: Recorder, store: Store, url: str
) -> None:
    assert ask(recorder, url).status in {404, 502}
    assert dict(registry.requests) == {}
    assert (recorder.fetches("s"), recorder.absent("s")) == ((), ())
    assert ask(replay_of(recorder, store), url).status in {404, 599}


def test_two_recordings_that_agree_are_accepted() -> None:
    rows = (fetch("a", b"1"), fetch("b", b"2"))
    compare_recordings(rows, rows[::-1])


def test_bytes_that_change_under_one_key_are_mutable_and_luck_is_no_lock() -> None:
    with pytest.raises(InputError) as caught:
        compare_recordings([fetch("a", b"1"), fetch("b", b"2")], [fetch("a", b"x")])
    assert str(caught.value) == (
        "record: two recordings of one command differ\n"
        f"pypi a: mutable: first {digest_of(b'1')}, then {digest_of(b'x')}\n"
        "pypi b: fetched in only one of two recordings\n"
        "hint: checklist I: pin what the command fetches (a version, a lock file, a commit): the same each time"
    )


def fetch(key: str, data: bytes) -> LockedFetch:
    return LockedFetch("s", LockedBlob("pypi", key, digest_of(data), len(data)), "x/y", "pkg:generic/x", "recorded")
