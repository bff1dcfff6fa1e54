from __future__ import annotations

import gzip
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.ecosystems import web
from packager.lock.ecosystems.asked import Asked, Held, Sort
from packager.lock.ecosystems.gomod import GoModules
from packager.lock.ecosystems.known import client_environment, make_ecosystems
from packager.lock.ecosystems.npm import CORGI, NodePackages
from packager.lock.ecosystems.pip import PythonPackages
from packager.lock.ecosystems.pip_index import IndexFile, format_page, parse_page, project_and_version, same_version
from packager.lock.ecosystems.versions import order_of
from packager.sandbox.fetches import Answer, Request
from tests.support.artifacts import integrity_of, make_module, make_sdist, make_tar, make_tgz, make_wheel

if TYPE_CHECKING:
    from pathlib import Path

JSON = "application/vnd.pypi.simple.v1+json"


def get(accept: str = "*/*") -> Request:
    return Request("GET", "http", "x.invalid", 80, "/", {"accept": accept})


def held(folder: Path, key: str, data: bytes) -> Held:
    path = folder / digest_of(data).removeprefix("sha256:")
    path.write_bytes(data)
    return Held(key, digest_of(data), len(data), path)


def body_of(answer: Answer) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else answer.body.read_bytes()


@pytest.mark.parametrize(
    ("alias", "path", "asked"),
    [
        ("pypi", "/simple/Foo_Bar/", Asked(Sort.INDEX, "simple/foo-bar/")),
        ("pypi", "/simple/foo", Asked(Sort.INDEX, "simple/foo/")),
        ("pypi", "/files/foo-1.0.tar.gz", Asked(Sort.ARTIFACT, "foo-1.0.tar.gz")),
        ("pypi", "/files/foo-1.0%2Bcpu-py3-none-any.whl", Asked(Sort.ARTIFACT, "foo-1.0+cpu-py3-none-any.whl")),
        ("pypi", "/files/foo-1.0-py3-none-any.whl.metadata", None),
        ("pypi", "/pypi/foo/json", None),
        ("pypi", "/pypi/Foo_Bar/1.0/json", Asked(Sort.INDEX, "simple/foo-bar/", "1.0")),
        ("npm", "/ms", Asked(Sort.INDEX, "ms")),
        ("npm", "/@types%2fnode", Asked(Sort.INDEX, "@types/node")),
        ("npm", "/@types/node/22.0.0", Asked(Sort.INDEX, "@types/node", "22.0.0")),
        ("npm", "/@types/node/-/node-22.0.0.tgz", Asked(Sort.ARTIFACT, "@types/node/-/node-22.0.0.tgz")),
        ("npm", "/-/npm/v1/security/audits/quick", None),
        ("goproxy", "/github.com/!x/y/@v/list", Asked(Sort.INDEX, "github.com/!x/y/@v/list")),
        ("goproxy", "/ex.org/m/@latest", Asked(Sort.INDEX, "ex.org/m/@latest")),
        ("goproxy", "/ex.org/m/v2/@v/v2.0.0.zip", Asked(Sort.ARTIFACT, "ex.org/m/v2/@v/v2.0.0.zip")),
        ("goproxy", "/sumdb/sum.ex.org/supported", None),
        (
            "debian",
            "/debian/pool/main/j/jq/jq_1.6-2_amd64.deb",
            Asked(Sort.ARTIFACT, "pool/main/j/jq/jq_1.6-2_amd64.deb"),
        ),
        ("debian", "/debian/dists/bookworm/InRelease", Asked(Sort.INDEX, "dists/bookworm/InRelease")),
        ("debian", "/other/dists/bookworm/InRelease", None),
    ],
)
def test_paths_on_alias_hosts_have_one_meaning(alias: str, path: str, asked: Asked | None) -> None:
    assert make_ecosystems()[alias].asked(path) == asked


@pytest.mark.parametrize(
    ("alias", "path", "asked"),
    [
        ("pypi", "/packages/ab/cd/foo-1.0.tar.gz", Asked(Sort.ARTIFACT, "foo-1.0.tar.gz")),
        ("pypi", "/root/simple/foo/", Asked(Sort.INDEX, "simple/foo/")),
        ("npm", "/repository/npm/@a/b/-/b-1.0.0.tgz", Asked(Sort.ARTIFACT, "@a/b/-/b-1.0.0.tgz")),
        ("debian", "/mirror/pool/main/j/jq/jq_1_all.deb", Asked(Sort.ARTIFACT, "pool/main/j/jq/jq_1_all.deb")),
    ],
)
def test_addresses_on_foreign_hosts_are_guessed_by_their_ends(alias: str, path: str, asked: Asked | None) -> None:
    assert make_ecosystems()[alias].guess(path) == asked


@pytest.mark.parametrize(
    ("alias", "key", "purl"),
    [
        ("pypi", "charset_normalizer-3.5.3-cp311-cp311-manylinux1_x86_64.whl", "pkg:pypi/charset-normalizer@3.5.3"),
        ("pypi", "zope.interface-6.0.tar.gz", "pkg:pypi/zope-interface@6.0"),
        ("npm", "@scope/name/-/name-1.0.0-rc.1.tgz", "pkg:npm/%40scope/name@1.0.0-rc.1"),
        ("goproxy", "github.com/!burnt!sushi/toml/@v/v1.3.2.zip", "pkg:golang/github.com/BurntSushi/toml@v1.3.2"),
        (
            "debian",
            "pool/main/g/gcc-12/libstdc++6_12.2.0-14_amd64.deb",
            "pkg:deb/debian/libstdc++6@12.2.0-14?arch=amd64",
        ),
    ],
)
def test_artifacts_have_package_urls(alias: str, key: str, purl: str) -> None:
    assert make_ecosystems()[alias].purl(key) == purl


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("six-1.16.0-py2.py3-none-any.whl", ("six", "1.16.0")),
        ("backports.zoneinfo-0.2.1.tar.gz", ("backports-zoneinfo", "0.2.1")),
        ("python-dateutil-2.8.2.tar.gz", ("python-dateutil", "2.8.2")),
        ("a-b-3-1.0.zip", ("a-b-3", "1.0")),
        ("pytest-runner-6.0.0.dev1.tar.gz", ("pytest-runner", "6.0.0.dev1")),
    ],
)
def test_names_and_versions_of_distributions(filename: str, expected: tuple[str, str]) -> None:
    assert project_and_version(filename) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.0", "1", True),
        ("v1.0.0rc1", "1.0.0-RC.1", True),
        ("1.0c1", "1.0preview1", True),
        ("1.0alpha", "1.0a0", True),
        ("1.0-1", "1.0.post1", True),
        ("1.0.dev", "1.0dev0", True),
        ("1.0+cpu.1", "1.0+CPU-1", True),
        ("10", "1", False),
        ("1!1.0", "1.0", False),
        ("1.0", "1.0.post0", False),
        ("1.0+cpu", "1.0", False),
        ("odd", "odd", True),
        ("odd", "even", False),
    ],
)
def test_versions_that_pep_440_calls_equal(one: str, other: str, *, same: bool) -> None:
    assert same_version(one, other) is same


def test_a_file_that_is_no_distribution_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        project_and_version("README.md")
    assert str(caught.value) == "pypi: expected a wheel or source distribution, found 'README.md'"


def test_an_html_index_is_read() -> None:
    page = (
        b'<html><body><a href="../../p/foo-1.0.tar.gz#sha256=ab" data-requires-python="&gt;=3.8" data-yanked="bad">x</a>'
        b'<a href="https://h.example/foo-1.1.tar.gz">y</a></body></html>'
    )
    assert parse_page(page, "text/html", "https://i.example/simple/foo/") == [
        IndexFile("foo-1.0.tar.gz", "https://i.example/p/foo-1.0.tar.gz", (("sha256", "ab"),), ">=3.8", "bad"),
        IndexFile("foo-1.1.tar.gz", "https://h.example/foo-1.1.tar.gz"),
    ]


def test_an_index_page_is_written_so_that_it_reads_back() -> None:
    files = [
        IndexFile("foo-1.0.tar.gz", "https://h.example/foo-1.0.tar.gz", (("sha256", "ab"),), ">=3.8,<4", yanked=True),
        IndexFile("foo-1.0-py3-none-any.whl", "https://h.example/foo-1.0-py3-none-any.whl", (("sha256", "cd"),)),
    ]
    for as_json, media_type in ((True, JSON), (False, "text/html")):
        page = format_page("foo", files, as_json=as_json)
        assert parse_page(page, media_type, "https://i.example/simple/foo/") == sorted(
            files, key=lambda file: file.name
        )
        assert page == format_page("foo", files[::-1], as_json=as_json)


def test_a_replayed_python_page_lists_locked_files_only_and_what_they_require(tmp_path: Path) -> None:
    wheel = held(tmp_path, "foo-1.0-py3-none-any.whl", make_wheel("foo", "1.0", python=">=3.8"))
    sdist = held(tmp_path, "foo-0.9.tar.gz", make_sdist("foo", "0.9", python=">=3.7"))
    asked = Asked(Sort.INDEX, "simple/foo/")
    page = json.loads(body_of(PythonPackages().render(asked, get(JSON), [wheel, sdist])))
    assert page["versions"] == ["0.9", "1.0"]
    assert page["files"][1] == {
        "core-metadata": False,
        "filename": "foo-1.0-py3-none-any.whl",
        "hashes": {"sha256": wheel.digest.removeprefix("sha256:")},
        "requires-python": ">=3.8",
        "size": wheel.size,
        "upload-time": "1980-01-01T00:00:00Z",
        "url": "../../files/foo-1.0-py3-none-any.whl",
        "yanked": False,
    }
    html = body_of(PythonPackages().render(asked, get("text/html"), [sdist])).decode()
    assert f'href="../../files/foo-0.9.tar.gz#sha256={sdist.digest.removeprefix("sha256:")}"' in html
    assert 'data-requires-python="&gt;=3.7"' in html


def test_a_broken_wheel_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        PythonPackages().render(
            Asked(Sort.INDEX, "simple/foo/"), get(), [held(tmp_path, "foo-1.0-py3-none-any.whl", b"no zip")]
        )
    assert str(caught.value) == ("foo-1.0-py3-none-any.whl: the distribution cannot be read: File is not a zip file")


def test_a_replayed_packument_is_made_from_the_tarballs(tmp_path: Path) -> None:
    old = held(tmp_path, "@a/b/-/b-1.0.0.tgz", make_tgz("@a/b", "1.0.0", bin="cli.js", scripts={"install": "x"}))
    data = make_tgz("@a/b", "1.10.0", dependencies={"c": "1", "d": "2"}, optionalDependencies={"d": "2"}, os=["linux"])
    new = held(tmp_path, "@a/b/-/b-1.10.0.tgz", data)
    beta = held(tmp_path, "@a/b/-/b-2.0.0-beta.tgz", make_tgz("@a/b", "2.0.0-beta", files={"binding.gyp": b"{}"}))
    answer = NodePackages().render(Asked(Sort.INDEX, "@a/b"), get(CORGI), [old, new, beta])
    page = json.loads(body_of(answer))
    assert answer.media_type == CORGI
    assert page["dist-tags"] == {"latest": "1.10.0"}
    assert list(page["versions"]) == ["1.0.0", "1.10.0", "2.0.0-beta"]
    assert page["versions"]["1.0.0"]["bin"] == {"b": "cli.js"}
    assert page["versions"]["1.0.0"]["hasInstallScript"] is True
    assert page["versions"]["2.0.0-beta"]["hasInstallScript"] is True
    assert page["versions"]["1.10.0"]["dependencies"] == {"c": "1"}
    assert page["versions"]["1.10.0"]["dist"]["integrity"] == integrity_of(data)
    assert page["versions"]["1.10.0"]["dist"]["tarball"] == "http://npm.invalid/@a/b/-/b-1.10.0.tgz"


def test_one_version_or_tag_of_a_package(tmp_path: Path) -> None:
    rows = [held(tmp_path, "m/-/m-1.0.0.tgz", make_tgz("m", "1.0.0"))]
    npm = NodePackages()
    assert json.loads(body_of(npm.render(Asked(Sort.INDEX, "m", "latest"), get(), rows)))["version"] == "1.0.0"
    assert npm.render(Asked(Sort.INDEX, "m", "2.0.0"), get(), rows).status == 404


def test_a_tarball_without_manifest_is_named(tmp_path: Path) -> None:
    row = held(tmp_path, "m/-/m-1.0.0.tgz", gzip.compress(make_tar({"package/x": b""}), mtime=0))
    with pytest.raises(InputError) as caught:
        NodePackages().render(Asked(Sort.INDEX, "m"), get(), [row])
    assert str(caught.value) == "m/-/m-1.0.0.tgz: expected a package.json in the package, found none"


def test_replayed_module_pages_know_locked_versions_only(tmp_path: Path) -> None:
    versions = ("v1.9.0", "v1.10.0", "v1.11.0-rc.1", "v0.0.0-20200101000000-0123456789ab")
    rows = [
        held(tmp_path, f"ex.org/m/@v/{version}.info", b'{"Version":"%b"}' % version.encode()) for version in versions
    ]
    go = GoModules()
    listed = body_of(go.render(Asked(Sort.INDEX, "ex.org/m/@v/list"), get(), rows))
    assert listed == b"v1.9.0\nv1.10.0\nv1.11.0-rc.1\n"
    assert body_of(go.render(Asked(Sort.INDEX, "ex.org/m/@latest"), get(), rows)) == b'{"Version":"v1.10.0"}'
    assert body_of(go.render(Asked(Sort.INDEX, "ex.org/m/@latest"), get(), rows[3:])) == (
        b'{"Version":"v0.0.0-20200101000000-0123456789ab"}'
    )


def test_versions_are_ordered_as_semver_says() -> None:
    ordered = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0",
        "1.2.0",
        "1.10.0",
    ]
    shuffled = ordered[::-1]
    assert sorted(shuffled, key=order_of) == ordered


def test_module_hashes_are_those_of_go_sum(tmp_path: Path) -> None:
    """Figures from `go mod download -json` for the same bytes (dirhash.Hash1)."""
    files = make_module("ex.org/m", "v1.0.0")
    (tmp_path / "mod").write_bytes(files["mod"])
    (tmp_path / "zip").write_bytes(files["zip"])
    assert GoModules().measure(tmp_path / "mod", "h1") == MOD_SUM
    assert GoModules().measure(tmp_path / "zip", "h1") == ZIP_SUM


MOD_SUM = "h1:sI9qwijsFiEpbiJZjnnGKHdGu3eSK6muyaCJOEfmMXQ="
ZIP_SUM = "h1:imdehLq6dDeJFt/wjfJuU/8BJz7kfKZMtHINhYIV6+w="


def test_requirements_with_hashes_are_promises() -> None:
    text = b"# c\nFoo_Bar==1.0 ; python_version > '3' \\\n    --hash=sha256:aa \\\n    --hash=sha512:bb\nbaz>=2\nqux==3 --hash sha256:cc\n"
    found = PythonPackages().promises("a/requirements.txt", text)
    assert [(one.where, one.subject, one.expected) for one in found] == [
        ("a/requirements.txt:2", "pkg:pypi/foo-bar@1.0", frozenset({"sha256:aa", "sha512:bb"})),
        ("a/requirements.txt:6", "pkg:pypi/qux@3", frozenset({"sha256:cc"})),
    ]


def test_a_uv_lock_is_a_promise() -> None:
    text = b'version = 1\n[[package]]\nname = "foo"\nversion = "1.0"\nsdist = {url = "u", hash = "sha256:aa"}\nwheels = [{url = "v", hash = "sha256:bb"}]\n[[package]]\nname = "me"\nversion = "0"\n'
    found = PythonPackages().promises("uv.lock", text)
    assert [(one.subject, one.expected) for one in found] == [
        ("pkg:pypi/foo@1.0", frozenset({"sha256:aa", "sha256:bb"}))
    ]


def test_package_locks_of_all_versions_are_promises() -> None:
    new = {
        "lockfileVersion": 3,
        "packages": {
            "": {"name": "x", "version": "1"},
            "node_modules/a/node_modules/@s/b": {"version": "1.0.0", "integrity": "sha512-AA== sha1-BB="},
            "node_modules/alias": {"name": "real", "version": "2.0.0", "integrity": "sha512-CC=="},
            "node_modules/linked": {"link": True, "resolved": "../l"},
        },
    }
    found = NodePackages().promises("p/package-lock.json", json.dumps(new).encode())
    assert [(one.subject, one.expected) for one in found] == [
        ("pkg:npm/%40s/b@1.0.0", frozenset({"sha512-AA==", "sha1-BB="})),
        ("pkg:npm/real@2.0.0", frozenset({"sha512-CC=="})),
    ]
    old = {
        "dependencies": {
            "a": {"version": "1.0.0", "integrity": "x", "dependencies": {"b": {"version": "2.0.0", "integrity": "y"}}}
        }
    }
    found = NodePackages().promises("npm-shrinkwrap.json", json.dumps(old).encode())
    assert [one.subject for one in found] == ["pkg:npm/a@1.0.0", "pkg:npm/b@2.0.0"]


def test_a_go_sum_is_a_promise() -> None:
    text = b"ex.org/M v1.0.0 h1:aa=\nex.org/M v1.0.0/go.mod h1:bb=\n"
    found = GoModules().promises("go.sum", text)
    assert [(one.where, one.subject, one.expected) for one in found] == [
        ("go.sum:1", "ex.org/M@v1.0.0 zip", frozenset({"h1:aa="})),
        ("go.sum:2", "ex.org/M@v1.0.0 mod", frozenset({"h1:bb="})),
    ]
    assert GoModules().subject("ex.org/!m/@v/v1.0.0.zip") == "ex.org/M@v1.0.0 zip"


def test_web_keys_hide_the_host_and_tell_addresses_apart() -> None:
    one, other = web.key_of("https://a.example/x/tool.tar.gz?v=1"), web.key_of("https://b.example/x/tool.tar.gz?v=1")
    assert one != other
    assert one.endswith("/tool.tar.gz")
    assert "example" not in one
    assert web.key_of("https://user:pw@a.example/x/tool.tar.gz?v=1#f") == one
    assert web.key_of("https://a.example/").endswith("/index")
    assert web.url_of("https", "a.example", 443, "/x") == "https://a.example/x"
    assert web.url_of("http", "a.example", 8080, "/x") == "http://a.example:8080/x"


def test_clients_are_pointed_at_alias_hosts_only() -> None:
    environment = client_environment(make_ecosystems().values())
    urls = [value for value in environment.values() if "://" in value]
    assert urls
    assert {url for url in urls if ".invalid" not in url} == {"http://127.0.0.1:3128"}  # the proxy, for yarn berry


def test_a_device_in_a_tarball_does_not_end_its_reading(tmp_path: Path) -> None:
    device = tarfile.TarInfo("package/dev")
    device.type = tarfile.CHRTYPE
    data = gzip.compress(make_tar({"package/dev": device, "package/package.json": b'{"version":"1.0.0"}'}), mtime=0)
    page = NodePackages().render(Asked(Sort.INDEX, "m"), get(), [held(tmp_path, "m/-/m-1.0.0.tgz", data)])
    assert json.loads(body_of(page))["versions"]["1.0.0"]["name"] == "m"
