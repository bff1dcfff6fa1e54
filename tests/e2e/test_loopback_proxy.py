"""Real package clients in a sandbox, answered by a small hand-written source: over plain HTTP and through TLS."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import find_program
from packager.sandbox.engine import Bind, Command, Streams
from packager.sandbox.fetches import Answer
from packager.sandbox.namespaces import may_mount
from packager.sandbox.native import NativeEngine, NativeTree, prepare_process
from tests.support.fake_fetches import FakeFetches
from tests.support.host_tree import HOST_USR, make_host_layer, run_captured, shell

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root")]


@pytest.fixture(scope="module")
def engine() -> NativeEngine:
    prepare_process()
    return NativeEngine()


@pytest.fixture
def tree(engine: NativeEngine, tmp_path: Path) -> Iterator[NativeTree]:
    layer = make_host_layer(tmp_path / "layer")
    with engine.open_tree([layer], scratch=tmp_path / "scratch") as opened:
        yield opened


def fetched(tree: NativeTree, script: str, source: FakeFetches | None, **more: object) -> str:
    ended, out, err = run_captured(tree, shell(script, cwd="/work", **more), source)
    assert ended.exit_code == 0, out + err
    return out


def needs(program: str) -> None:
    if not Path("/usr", program).exists():
        pytest.skip(f"/usr/{program} is not installed")


def wheel() -> bytes:
    """Return a wheel that holds one module, `tiny`."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("tiny.py", "VALUE = 42\n")
        archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            "tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n"
        )
    return data.getvalue()


def packed(members: dict[str, bytes]) -> bytes:
    """Return a gzip-compressed tar of files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def test_curl_reads_http_and_https_whole_and_in_parts(tree: NativeTree, tmp_path: Path) -> None:
    needs("bin/curl")
    big = tmp_path / "big"
    big.write_bytes(b"0123456789abcdef" * (1 << 16))
    source = FakeFetches(
        {
            "http://files.invalid/big": Answer(200, "application/zip", big),
            "https://files.invalid/big": Answer(200, "application/zip", big),
            "https://files.invalid/post": Answer(200, "text/plain", b"thanks\n"),
        }
    )
    digest = hashlib.sha256(big.read_bytes()).hexdigest()
    for scheme in ("http", "https"):
        assert fetched(tree, f"curl -sSf {scheme}://files.invalid/big | sha256sum", source) == f"{digest}  -\n"
        assert fetched(tree, f"curl -sSf -r 14-17 {scheme}://files.invalid/big", source) == "ef01"
    out = fetched(tree, "head -c 3000000 /dev/zero | curl -sSf --data-binary @- https://files.invalid/post", source)
    assert (out, len(source.asked[-1].body)) == ("thanks\n", 3_000_000)
    ended, out, _ = run_captured(tree, shell("curl -sS -w '%{http_code}' https://files.invalid/unknown"), source)
    assert (ended.exit_code, out) == (0, "not in the lock: GET https://files.invalid/unknown\n599")


def test_nothing_but_the_proxy_answers(tree: NativeTree) -> None:
    needs("bin/curl")
    source = FakeFetches({})
    ended, _, err = run_captured(tree, shell("curl -sS --noproxy '*' https://files.invalid/"), source)
    assert (ended.exit_code, source.asked) == (6, [])
    assert err == "curl: (6) Could not resolve host: files.invalid\n"


def test_the_sources_variables_win_and_nothing_of_the_proxy_stays(tree: NativeTree) -> None:
    source = FakeFetches({}, {"PIP_INDEX_URL": "theirs", "HTTP_PROXY": "never"})
    out = fetched(
        tree,
        "echo $PIP_INDEX_URL $HTTP_PROXY $no_proxy $MINE; ls -l /run/wideswe",
        source,
        env={"PIP_INDEX_URL": "own", "MINE": "mine"},
    )
    assert out.startswith("theirs http://127.0.0.1:3128 localhost,127.0.0.1,::1 mine\n")
    assert out.splitlines()[-1].startswith("-rw-r--r-- 1 root root ")
    assert fetched(tree, "ls -A /run/wideswe; echo $HTTP_PROXY.", None) == ".\n"
    assert sorted(str(path.relative_to(tree.upper)) for path in tree.upper.rglob("*")) == ["run", "run/wideswe"]


def test_a_fault_in_the_source_is_raised_by_the_run(tree: NativeTree) -> None:
    needs("bin/curl")
    with pytest.raises(KeyError, match=r"bug\.invalid"):
        tree.run(shell("curl -s http://bug.invalid/"), Streams(), fetches=FakeFetches({}))


def test_the_deadline_holds_while_a_client_waits(tree: NativeTree) -> None:
    ended, _, _ = run_captured(tree, shell("sleep 99", timeout_s=0.5), FakeFetches({}))
    assert (ended.timed_out, ended.exit_code) == (True, 137)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_pip_installs_from_an_index(tree: NativeTree, scheme: str) -> None:
    needs("lib/python3/dist-packages/pip")
    data = wheel()
    page = (
        f'<a href="{scheme}://files.invalid/tiny-1.0-py3-none-any.whl#sha256={hashlib.sha256(data).hexdigest()}">t</a>'
    )
    source = FakeFetches(
        {
            f"{scheme}://pypi.invalid/simple/tiny/": Answer(200, "text/html", page.encode()),
            f"{scheme}://files.invalid/tiny-1.0-py3-none-any.whl": Answer(200, "application/zip", data),
        },
        {"PIP_INDEX_URL": f"{scheme}://pypi.invalid/simple/", "PIP_TRUSTED_HOST": "pypi.invalid files.invalid"}
        if scheme == "http"
        else {"PIP_INDEX_URL": f"{scheme}://pypi.invalid/simple/"},
    )
    script = "python3 -m pip install -q --no-cache-dir --target /work/lib tiny && PYTHONPATH=/work/lib python3 -c 'import tiny; print(tiny.VALUE)'"
    assert fetched(tree, script, source).endswith("42\n")


def test_uv_installs_what_it_read_in_parts(tree: NativeTree) -> None:
    program = find_program("uv")
    if program is None:
        pytest.skip("uv is not installed")
    data = wheel()
    name = "tiny-1.0-py3-none-any.whl"
    document = {
        "meta": {"api-version": "1.0"},
        "name": "tiny",
        "files": [{"filename": name, "url": f"https://files.invalid/{name}", "hashes": {}, "requires-python": None}],
    }
    media_type = "application/vnd.pypi.simple.v1+json"
    source = FakeFetches(
        {
            "https://pypi.invalid/simple/tiny/": Answer(200, media_type, json.dumps(document).encode()),
            f"https://files.invalid/{name}": Answer(200, "application/zip", data),
        },
        {"UV_INDEX_URL": "https://pypi.invalid/simple/", "UV_NO_CACHE": "1"},
    )
    script = (
        "/run/wideswe/uv pip install -q --python /usr/bin/python3 --target /work/lib tiny && "
        "PYTHONPATH=/work/lib python3 -c 'import tiny; print(tiny.VALUE)'"
    )
    binds = (Bind(Path(program).resolve(), "/run/wideswe/uv"),)
    assert fetched(tree, script, source, binds=binds, env={"HOME": "/tmp"}) == "42\n"


def test_npm_installs_from_a_registry(tree: NativeTree) -> None:
    needs("bin/npm")
    data = packed(
        {
            "package/package.json": b'{"name":"tiny","version":"1.0.0","main":"i.js"}',
            "package/i.js": b"module.exports=42",
        }
    )
    digest = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    version = {
        "name": "tiny",
        "version": "1.0.0",
        "dist": {"tarball": "https://npm.invalid/tiny/-/tiny-1.0.0.tgz", "shasum": digest},
    }
    document = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    source = FakeFetches(
        {
            "https://npm.invalid/tiny": Answer(200, "application/json", json.dumps(document).encode()),
            "https://npm.invalid/tiny/-/tiny-1.0.0.tgz": Answer(200, "application/octet-stream", data),
        },
        {
            "npm_config_registry": "https://npm.invalid/",
            "npm_config_audit": "false",
            "npm_config_update_notifier": "false",
        },
    )
    script = "npm install --silent --no-fund tiny >/dev/null && node -p 'require(\"tiny\")'"
    assert fetched(tree, script, source, env={"HOME": "/tmp"}) == "42\n"


def test_go_downloads_a_module(tree: NativeTree) -> None:
    needs("local/go/bin/go")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("tiny.invalid/m@v1.0.0/go.mod", "module tiny.invalid/m\n")
        archive.writestr("tiny.invalid/m@v1.0.0/m.go", "package m\n\nconst Value = 42\n")
    base = "https://goproxy.invalid/tiny.invalid/m/@v/v1.0.0"
    info = b'{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}'
    source = FakeFetches(
        {
            f"{base}.info": Answer(200, "application/json", info),
            f"{base}.mod": Answer(200, "text/plain", b"module tiny.invalid/m\n"),
            f"{base}.zip": Answer(200, "application/zip", data.getvalue()),
        },
        {"GOPROXY": "https://goproxy.invalid", "GONOSUMDB": "*", "GOFLAGS": "-mod=mod"},
    )
    script = (
        "printf 'module x\\n\\nrequire tiny.invalid/m v1.0.0\\n' >go.mod && "
        "/usr/local/go/bin/go mod download && cat /tmp/go/pkg/mod/tiny.invalid/m@v1.0.0/m.go | tail -1"
    )
    assert fetched(tree, script, source, env={"HOME": "/tmp", "GOTOOLCHAIN": "local"}) == "const Value = 42\n"


def test_git_clones_over_the_dumb_protocol(tree: NativeTree) -> None:
    needs("bin/git")
    made = fetched(
        tree,
        "git init -q -b main a && cd a && git config user.email a@b && git config user.name a && echo x >f && git add f && "
        "git commit -qm one && git update-server-info && cd .git && find . -type f",
        FakeFetches({}),
        env={"HOME": "/tmp"},
    )
    inside = tree.root / "work/a/.git"
    answers = {
        f"https://git.invalid/a.git/{name[2:]}": Answer(200, "application/octet-stream", inside / name)
        for name in made.split()
    }
    refs = answers.pop("https://git.invalid/a.git/info/refs")
    answers["https://git.invalid/a.git/info/refs?service=git-upload-pack"] = Answer(200, "text/plain", refs.body)
    missing = Answer(404)
    answers |= {
        f"https://git.invalid/a.git/objects/info/{name}": missing for name in ("packs", "http-alternates", "alternates")
    }
    assert (
        fetched(tree, "git clone -q https://git.invalid/a.git b && cat b/f", FakeFetches(answers), env={"HOME": "/tmp"})
        == "x\n"
    )


def test_apt_updates_and_downloads(tree: NativeTree) -> None:
    needs("bin/apt-get")
    index = b"Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: a\nDescription: t\nFilename: pool/tiny_1.0_all.deb\n"
    deb = b"not really a package\n"
    index += f"Size: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\n\n".encode()
    release = (
        "Origin: t\nSuite: s\nCodename: s\nDate: Thu, 01 Jan 2015 00:00:00 UTC\nArchitectures: all amd64\nComponents: main\n"
        f"SHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} main/binary-amd64/Packages\n"
    )
    source = FakeFetches(
        {
            "http://debian.invalid/dists/s/InRelease": Answer(404),
            "http://debian.invalid/dists/s/Release": Answer(200, "text/plain", release.encode()),
            "http://debian.invalid/dists/s/Release.gpg": Answer(404),
            "http://debian.invalid/dists/s/main/binary-amd64/Packages": Answer(200, "text/plain", index),
            "http://debian.invalid/pool/tiny_1.0_all.deb": Answer(200, "application/octet-stream", deb),
        }
    )
    script = (
        "mkdir -p /etc/apt/preferences.d /etc/apt/apt.conf.d /var/lib/dpkg /var/lib/apt/lists/partial "
        "/var/cache/apt/archives/partial && touch /var/lib/dpkg/status && "
        "echo 'deb [trusted=yes arch=amd64] http://debian.invalid s main' >/etc/apt/sources.list && "
        "apt-get -q -o APT::Sandbox::User=root -o Acquire::Languages=none update >&2 && "
        "apt-get -q -o APT::Sandbox::User=root download tiny >&2 && cat tiny_1.0_all.deb"
    )
    assert fetched(tree, script, source) == deb.decode()


def test_python_trusts_the_proxy_as_another_user(tree: NativeTree) -> None:
    source = FakeFetches({"https://files.invalid/a": Answer(200, "text/plain", b"seen")})
    script = "import sys, urllib.request as u; sys.stdout.write(u.urlopen('https://files.invalid/a').read().decode())"
    command = Command(("/usr/bin/python3", "-c", script), binds=(HOST_USR,), uid=1000, gid=1000)
    ended, out, err = run_captured(tree, command, source)
    assert (ended.exit_code, out, err) == (0, "seen", "")
