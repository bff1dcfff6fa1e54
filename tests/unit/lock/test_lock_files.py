"""Lock files of every package manager as promises: made-up ones in every form that the managers write."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.lock.crosscheck import cross_check
from packager.lock.ecosystems.npm import NodePackages
from packager.lock.ecosystems.npm_locks import YARN_ZIP
from packager.lock.ecosystems.pip import PythonPackages
from packager.lock.ecosystems.yarn_zip import hash_of_yarn_zip
from packager.lock.model import LockedBlob, LockedFetch
from tests.support.artifacts import folder, link, make_tar, make_tgz

if TYPE_CHECKING:
    from pathlib import Path

    from packager.store.store import Store

Told = list[tuple[str, str, list[str]]]


def node(name: str, text: str) -> Told:
    return [(one.where, one.subject, sorted(one.expected)) for one in NodePackages().promises(name, text.encode())]


def python(name: str, text: str) -> Told:
    return [(one.where, one.subject, sorted(one.expected)) for one in PythonPackages().promises(name, text.encode())]


PNPM_9 = """\
---
lockfileVersion: '9.0'
importers: {.: {packageManagerDependencies: {pnpm: {specifier: 11.3.0, version: 11.3.0}}}}
packages:
  pnpm@11.3.0: {resolution: {integrity: sha512-PP==}}
---
lockfileVersion: '9.0'
packages:
  '@s/a@1.0.0-rc.1':
    resolution: {integrity: sha512-AA==}
  b@2.0.0:
    resolution: {integrity: sha1-BB=, tarball: https://r.invalid/b.tgz}
  c@https://h.invalid/c.tgz:
    resolution: {tarball: https://h.invalid/c.tgz}
    version: 3.0.0
snapshots:
  '@s/a@1.0.0-rc.1(b@2.0.0)': {}
"""
PNPM_6 = """\
lockfileVersion: '6.0'
packages:
  /@s/a@1.0.0(b@2.0.0):
    resolution: {integrity: sha512-AA==}
  file:../c:
    resolution: {directory: ../c, type: directory}
    name: c
"""
PNPM_5 = """\
lockfileVersion: 5.4
packages:
  /@s/a/1.0.0_b@2.0.0:
    resolution: {integrity: sha512-AA==}
  github.com/o/c/0123:
    resolution: {tarball: https://h.invalid/c}
    name: c
    version: 1.0.0
"""


def test_a_pnpm_lock_of_any_version_is_a_promise() -> None:
    assert node("a/pnpm-lock.yaml", PNPM_9) == [
        ("a/pnpm-lock.yaml (pnpm@11.3.0)", "pkg:npm/pnpm@11.3.0", ["sha512-PP=="]),
        ("a/pnpm-lock.yaml (@s/a@1.0.0-rc.1)", "pkg:npm/%40s/a@1.0.0-rc.1", ["sha512-AA=="]),
        ("a/pnpm-lock.yaml (b@2.0.0)", "pkg:npm/b@2.0.0", ["sha1-BB="]),
    ]
    assert [row[1] for row in node("pnpm-lock.yaml", PNPM_6)] == ["pkg:npm/%40s/a@1.0.0"]
    assert [row[1] for row in node("pnpm-lock.yaml", PNPM_5)] == ["pkg:npm/%40s/a@1.0.0"]
    assert node("pnpm-lock.yaml", "lockfileVersion: '9.0'\n") == []


YARN_1 = """\
# yarn lockfile v1


"@s/a@^1.0.0", "@s/a@~1.0.1":
  version "1.0.2"
  resolved "https://r.invalid/@s/a/-/a-1.0.2.tgz#0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33"
  integrity sha512-AA== sha1-BB=
  dependencies:
    version "2.0.0"

alias@npm:real@2:
  version "2.0.0"
  resolved "https://r.invalid/npm/real/-/real-2.0.0.tgz#0beec7b5ea3f0fdbc95d0dd47f3c5bc275da8a33"

"g@git+https://h.invalid/g.git":
  version "3.0.0"
  resolved "git+https://h.invalid/g.git#0123"
"""


def test_a_lock_of_yarn_1_is_a_promise_also_where_it_has_a_sha1_only() -> None:
    assert node("yarn.lock", YARN_1) == [
        ('yarn.lock ("@s/a@^1.0.0", "@s/a@~1.0.1")', "pkg:npm/%40s/a@1.0.2", ["sha1-BB=", "sha512-AA=="]),
        ("yarn.lock (alias@npm:real@2)", "pkg:npm/real@2.0.0", ["sha1-C+7Hteo/D9vJXQ3UfzxbwnXaijM="]),
    ]
    assert node("yarn.lock", "# yarn lockfile v1\n") == []


BERRY = """\
__metadata:
  version: 8
  cacheKey: 10c0

"@s/a@npm:^1.0.0, @s/a@npm:~1.0.1":
  version: 1.0.2
  resolution: "@s/a@npm:1.0.2"
  checksum: 10c0/aa
  languageName: node

"alias@npm:b@2":
  version: 2.0.0
  resolution: "b@npm:2.0.0"
  checksum: bb

"c@npm:3":
  version: 3.0.0
  resolution: "c@npm:3.0.0"
  checksum: 10/cc

"x@workspace:.":
  version: 0.0.0-use.local
  resolution: "x@workspace:."
"""


def test_a_lock_of_yarn_berry_promises_zips_that_are_not_compressed() -> None:
    assert node("yarn.lock", BERRY) == [
        ("yarn.lock (@s/a@npm:^1.0.0, @s/a@npm:~1.0.1)", "pkg:npm/%40s/a@1.0.2", ["10c0-aa"]),
        ("yarn.lock (alias@npm:b@2)", "pkg:npm/b@2.0.0", ["10c0-bb"]),
    ]
    assert node("yarn.lock", BERRY.replace("cacheKey: 10c0", "cacheKey: 8")) == [
        ("yarn.lock (@s/a@npm:^1.0.0, @s/a@npm:~1.0.1)", "pkg:npm/%40s/a@1.0.2", ["10c0-aa"])
    ]


BUN = """\
{
  "lockfileVersion": 1, // of text
  "workspaces": {"": {"name": "x",},},
  /* as bun writes it, */ "packages": {
    "@s/a": ["@s/a@1.0.0", "", {"bin": {"a": "//not a comment,}"}}, "sha512-AA=="],
    "b/alias": ["real@2.0.0", "https://r.invalid/", {}, "sha512-BB=="],
    "c": ["c@github:o/c#0123", {}, "o-c-0123"],
    "w": ["w@workspace:packages/w"],
  },
}
"""


def test_a_bun_lock_is_a_promise() -> None:
    assert node("bun.lock", BUN) == [
        ("bun.lock (@s/a)", "pkg:npm/%40s/a@1.0.0", ["sha512-AA=="]),
        ("bun.lock (b/alias)", "pkg:npm/real@2.0.0", ["sha512-BB=="]),
    ]


POETRY = """\
[[package]]
name = "Foo_Bar"
version = "1.0"
files = [{file = "foo_bar-1.0.tar.gz", hash = "sha256:aa"}, {file = "foo_bar-1.0-py3-none-any.whl", hash = "sha256:bb"}]

[[package]]
name = "from-git"
version = "2.0"
files = []

[metadata]
lock-version = "2.1"
"""
OLD_POETRY = """\
[[package]]
name = "foo"
version = "1.0"

[metadata.files]
foo = [{file = "foo-1.0.tar.gz", hash = "sha256:aa"}]
"""
OLD_PDM = (
    '[[package]]\nname = "foo"\nversion = "1.0"\n[metadata.files]\n"foo 1.0" = [{url = "u", hash = "sha256:aa"}]\n'
)
PYLOCK = """\
lock-version = "1.0"
[[packages]]
name = "foo"
version = "1.0"
wheels = [{name = "foo-1.0-py3-none-any.whl", hashes = {sha256 = "aa"}}]
sdist = {name = "foo-1.0.tar.gz", hashes = {sha256 = "bb"}}
[[packages]]
name = "me"
directory = {path = "."}
"""
UV = """\
version = 1
[[package]]
name = "me"
source = { editable = "." }
[[package]]
name = "foo"
version = "1.0"
wheels = [{ url = "u", hash = "sha256:aa" }, { path = "x.whl" }]
"""


@pytest.mark.parametrize("name", ["poetry.lock", "pdm.lock"])
def test_the_locks_of_poetry_and_pdm_are_promises(name: str) -> None:
    both = [(f"d/{name} (Foo_Bar)", "pkg:pypi/foo-bar@1.0", ["sha256:aa", "sha256:bb"])]
    assert python(f"d/{name}", POETRY) == both
    assert python(name, OLD_POETRY) == python(name, OLD_PDM) == [(f"{name} (foo)", "pkg:pypi/foo@1.0", ["sha256:aa"])]


def test_the_lock_of_uv_and_the_standard_one_are_promises() -> None:
    assert python("uv.lock", UV) == [("uv.lock (foo)", "pkg:pypi/foo@1.0", ["sha256:aa"])]
    for name in ("pylock.toml", "pylock.dev.toml"):
        assert python(name, PYLOCK) == [(f"{name} (foo)", "pkg:pypi/foo@1.0", ["sha256:aa", "sha256:bb"])]
    assert python("notpylock.toml", PYLOCK) == []


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("package-lock.json", "{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("pnpm-lock.yaml", "packages: [a]", "'list' object has no attribute 'items'"),
        ("pnpm-lock.yaml", "packages: {a@1.0.0: 3}", "'int' object has no attribute 'get'"),
        ("yarn.lock", "__metadata: x", "'str' object has no attribute 'get'"),
        ("bun.lock", '{"packages": {"a": []}}', "list index out of range"),
        ("bun.lock", "[]", "'list' object has no attribute 'get'"),
    ],
)
def test_a_lock_that_cannot_be_read_is_named(name: str, text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        NodePackages().promises(f"d/{name}", text.encode())
    assert str(caught.value) == f"d/{name}: the lock file cannot be read: {why}"


@pytest.mark.parametrize("name", ["package-lock.json", "pnpm-lock.yaml", "bun.lock"])
def test_a_lock_that_nests_without_end_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="the lock file cannot be read"):
        NodePackages().promises(name, DEEP.encode())


@pytest.mark.parametrize("name", ["poetry.lock", "pdm.lock", "uv.lock", "pylock.toml"])
@pytest.mark.parametrize("text", ["[[package]]\nwheels = 1\n[[packages]]\nwheels = 1\n", "x = ", "\0"])
def test_a_lock_of_python_that_cannot_be_read_is_named(name: str, text: str) -> None:
    with pytest.raises(InputError, match=rf"^d/{name}: the lock file cannot be read: "):
        PythonPackages().promises(f"d/{name}", text.encode())


LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "pnpm-lock.yaml",
            f"{LAUGHS}packages: {{a@1.0.0: {{resolution: {{integrity: *a39}}}}}}\n",
            "expected text, found a list",
        ),
        (
            "yarn.lock",
            f"{LAUGHS}__metadata: {{cacheKey: 10c0}}\nb: {{resolution: *a39}}\n",
            "'list' object has no attribute 'get'",
        ),
        (
            "yarn.lock",
            "__metadata: {cacheKey: 10c0}\nb: {resolution: {}}\n",
            "expected text, found a dict",
        ),
        (
            "pnpm-lock.yaml",
            "a: &a {b: c}\npackages: {<<: [*a, *a]}\n",
            "expected no merge keys (<<), which no package manager writes",
        ),
    ],
)
def test_aliases_that_multiply_cost_nothing(name: str, text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        node(name, text)
    assert str(caught.value) == f"{name}: the lock file cannot be read: {why}"


def test_comments_without_end_are_read_once() -> None:
    assert node("bun.lock", '{"packages": {}} ' + "/* " * 500_000) == []


def test_yaml_cannot_make_objects() -> None:
    with pytest.raises(InputError, match="could not determine a constructor"):
        node("pnpm-lock.yaml", "packages: !!python/object/apply:os.system [false]\n")


MEMBERS = {
    "package/package.json": b'{"name": "@s/a", "version": "1.0.0"}',
    "package/bin/run": b"#!/bin/sh\n",
    "package/lib/deep/ré.js": b"x" * 1000,
    "package/lib/a.js": b"",
}


def zipped(names: dict[str, tuple[int, bytes]]) -> str:
    """Return the SHA-512 of a zip as berry writes it, made by Python's own module."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, (mode, data) in names.items():
            member = zipfile.ZipInfo(name, (1984, 6, 22, 21, 50, 0))
            member.external_attr, member.create_version = mode << 16, 63
            member.extract_version = 20 if name.endswith("/") else 10
            archive.writestr(member, data)
    return hashlib.sha512(out.getvalue()).hexdigest()


def test_the_zip_of_yarn_berry_is_that_of_another_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    rest = {"package/one": link("package/one", "lib/a.js"), "package/empty/": folder("package/empty/")}
    path.write_bytes(make_tar({**MEMBERS, **rest}, executable=("package/bin/run",)))
    top, directory, file = "node_modules/@s/a", 0o040755, 0o100644
    expected = zipped(
        {
            **dict.fromkeys(("node_modules/", "node_modules/@s/", f"{top}/"), (directory, b"")),
            f"{top}/package.json": (file, MEMBERS["package/package.json"]),
            f"{top}/bin/": (directory, b""),
            f"{top}/bin/run": (0o100755, MEMBERS["package/bin/run"]),
            **dict.fromkeys((f"{top}/lib/", f"{top}/lib/deep/"), (directory, b"")),
            f"{top}/lib/deep/ré.js": (file, b"x" * 1000),
            f"{top}/lib/a.js": (file, b""),
            f"{top}/one": (0o120777, b"lib/a.js"),
            f"{top}/empty/": (directory, b""),
        }
    )
    assert hash_of_yarn_zip(path) == expected


def test_members_that_berry_passes_over_are_in_no_zip(tmp_path: Path) -> None:
    strange: dict[str, bytes | tarfile.TarInfo] = {
        "package/../../evil": b"x",
        "package/pipe": link("package/pipe", "", kind=tarfile.FIFOTYPE),
        "top": b"no folder to take off",
    }
    (tmp_path / "plain").write_bytes(make_tar(MEMBERS))
    (tmp_path / "strange").write_bytes(make_tar({**MEMBERS, **strange}))
    assert hash_of_yarn_zip(tmp_path / "plain") == hash_of_yarn_zip(tmp_path / "strange")


@pytest.mark.parametrize("data", [b"", b"no tar", make_tar({"package/package.json": b"{"})])
def test_a_package_that_cannot_be_zipped_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(InputError, match=r"^a: the package cannot be read: "):
        hash_of_yarn_zip(tmp_path / "a")


def test_a_package_is_held_against_each_kind_of_lock(store: Store, tmp_path: Path) -> None:
    data = make_tgz("a", "1.0.0")
    (tmp_path / "a").write_bytes(data)
    ecosystem = NodePackages()
    sha512, checksum = (ecosystem.measure(tmp_path / "a", algorithm) for algorithm in ("sha512", YARN_ZIP))
    row = LockedFetch("s", LockedBlob("npm", "a/-/a-1.0.0.tgz", store.put(data), len(data)), "x/y", "p", "recorded")
    locks = {
        "package-lock.json": json.dumps({"packages": {"a": {"name": "a", "version": "1.0.0", "integrity": sha512}}}),
        "pnpm-lock.yaml": f"packages: {{a@1.0.0: {{resolution: {{integrity: {sha512}}}}}}}",
        "bun.lock": json.dumps({"packages": {"a": ["a@1.0.0", "", {}, sha512]}}),
        "1/yarn.lock": f'a@1:\n  version "1.0.0"\n  resolved "https://r/a/-/a-1.0.0.tgz"\n  integrity {sha512}\n',
        "2/yarn.lock": (
            f"__metadata: {{cacheKey: {YARN_ZIP}}}\n"
            f"a@npm:1: {{version: 1.0.0, resolution: a@npm:1.0.0, checksum: {checksum.replace('-', '/')}}}\n"
        ),
    }
    for name, text in locks.items():
        assert [found.origin for found in cross_check([row], {name: text.encode()}, store)] == ["lock"]
        wrong = text.replace(sha512[7:20], "A" * 13).replace(checksum[5:20], "a" * 15)
        with pytest.raises(InputError) as caught:
            cross_check([row], {name: wrong.encode()}, store)
        found = checksum if name == "2/yarn.lock" else sha512
        assert f"found {found} in npm a/-/a-1.0.0.tgz" in str(caught.value)
