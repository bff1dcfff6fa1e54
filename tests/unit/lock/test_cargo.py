"""Crates and Rust's distribution: what paths mean, pages made from crates, lock files, the toolchain's archives."""

from __future__ import annotations

import hashlib
import json
import lzma
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError, IntegrityError
from packager.lock.clients import Clients
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Sort
from packager.lock.ecosystems.cargo import RustCrates
from packager.lock.ecosystems.cargo_index import format_page, place_in_index, row_of
from packager.lock.ecosystems.rustup import RustDistribution
from packager.lock.rust_toolchain import resolve_rust
from packager.lock.toolchains import toolchain_entries
from packager.lock.upstream import Upstream
from tests.support.artifacts import make_crate, make_tar

if TYPE_CHECKING:
    from pathlib import Path

    from packager.store.store import Store
    from tests.support.fake_registry import FakeRegistry


def held(folder: Path, key: str, data: bytes) -> Held:
    path = folder / key.rpartition("/")[2]
    path.write_bytes(data)
    return Held(key, digest_of(data), len(data), path)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/config.json", Asked(Sort.INDEX, "config.json")),
        ("/index/config.json", Asked(Sort.INDEX, "config.json")),
        ("/1/a", Asked(Sort.INDEX, "a")),
        ("/2/ab", Asked(Sort.INDEX, "ab")),
        ("/3/a/abc", Asked(Sort.INDEX, "abc")),
        ("/se/rd/serde", Asked(Sort.INDEX, "serde")),
        ("/some/where/se/rd/serde_json", Asked(Sort.INDEX, "serde_json")),
        ("/xx/rd/serde", None),
        ("/3/b/abc", None),
        ("/serde", None),
        ("/crates/serde/serde-1.0.0.crate", Asked(Sort.ARTIFACT, "serde/serde-1.0.0.crate")),
        ("/crates/a-b/a-b-1.0.0-rc.1+x.crate", Asked(Sort.ARTIFACT, "a-b/a-b-1.0.0-rc.1+x.crate")),
        ("/crates/serde/other-1.0.0.crate", None),
    ],
)
def test_paths_of_crates_have_one_meaning(path: str, asked: Asked | None) -> None:
    assert RustCrates().asked(path) == asked


def test_a_page_belongs_to_its_crate_and_the_registrys_page_to_all() -> None:
    crates = RustCrates()
    assert crates.shelf(Asked(Sort.ARTIFACT, "Inflector/Inflector-0.11.4.crate")) == "inflector"
    assert crates.shelf(Asked(Sort.INDEX, "inflector")) == "inflector"
    assert crates.shelf(Asked(Sort.INDEX, "config.json")) == WHOLE
    assert crates.purl("x/x-1.0.0+b.crate") == "pkg:cargo/x@1.0.0%2Bb"


MANIFEST = """\
links = "z"
rust-version = "1.60"

[dependencies]
plain = "1.2"
renamed = { package = "real", version = "^0.3", default-features = false, features = ["x"] }

[dependencies.maybe]
version = "2"
optional = true

[dev-dependencies]
beside = { path = "../beside" }
tested = "0.1"

[build-dependencies]
cc = "1"

[target.'cfg(unix)'.dependencies]
libc = "0.2"

[features]
default = ["std"]
std = []
full = ["dep:maybe", "renamed?/y"]
"""


def test_a_row_says_what_the_crate_says_of_itself(tmp_path: Path) -> None:
    data = make_crate("Z-sys", "1.0.0", manifest=MANIFEST)
    row = row_of(held(tmp_path, "Z-sys/Z-sys-1.0.0.crate", data))
    deps = {(one["name"], one["kind"], one["target"]): one for one in row.pop("deps")}
    assert row == {
        "name": "Z-sys",
        "vers": "1.0.0",
        "cksum": hashlib.sha256(data).hexdigest(),
        "features": {"default": ["std"], "std": []},
        "features2": {"full": ["dep:maybe", "renamed?/y"]},
        "v": 2,
        "yanked": False,
        "links": "z",
        "rust_version": "1.60",
    }
    assert sorted(name for name, _, _ in deps) == ["cc", "libc", "maybe", "plain", "renamed", "tested"]
    assert deps["renamed", "normal", None] == {
        "name": "renamed",
        "package": "real",
        "req": "^0.3",
        "features": ["x"],
        "optional": False,
        "default_features": False,
        "target": None,
        "kind": "normal",
    }
    assert deps["maybe", "normal", None]["optional"]
    assert deps["cc", "build", None]["req"] == "1"
    assert deps["libc", "normal", "cfg(unix)"]["default_features"]


def test_a_page_lists_what_is_locked_oldest_first(tmp_path: Path) -> None:
    versions = ("1.10.0", "1.9.0", "1.10.0-rc.1")
    rows = [held(tmp_path, f"a/a-{one}.crate", make_crate("a", one)) for one in versions]
    page = format_page(rows)
    assert [json.loads(line)["vers"] for line in page.splitlines()] == ["1.9.0", "1.10.0-rc.1", "1.10.0"]
    assert format_page(rows[::-1]) == page


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"no tar", "a/a-1.0.0.crate: the crate cannot be read: not a gzip file"),
        (make_crate("b", "1.0.0"), "a/a-1.0.0.crate: expected a-1.0.0/Cargo.toml in the crate, found none"),
        (
            make_crate("a", "1.0.0", manifest="[dependencies]\nx = 5\n"),
            "a/a-1.0.0.crate: expected a manifest of a published crate: TypeError(\"argument of type 'int' is not iterable\")",
        ),
    ],
)
def test_a_crate_that_is_none_is_refused(tmp_path: Path, data: bytes, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        row_of(held(tmp_path, "a/a-1.0.0.crate", data))
    assert str(caught.value) == complaint


def test_places_follow_the_length_of_the_name() -> None:
    assert [place_in_index(one) for one in ("a", "AB", "abc", "abcd", "Serde_JSON")] == [
        "1/a",
        "2/ab",
        "3/a/abc",
        "ab/cd/abcd",
        "se/rd/serde_json",
    ]


LOCK = """\
version = 4

[[package]]
name = "mine"
version = "0.1.0"

[[package]]
name = "x"
version = "1.0.0"
source = "registry+https://index.example/"
checksum = "00"

[[package]]
name = "y"
version = "2.0.0"
source = "git+https://h.example/o/y.git?rev=1#{commit}"
"""
OLD = """\
[[package]]
name = "x"
version = "1.0.0"
source = "registry+https://index.example/"

[metadata]
"checksum x 1.0.0 (registry+https://index.example/)" = "00"
"checksum y 1.0.0 (git+https://h.example/)" = "<none>"
"""


@pytest.mark.parametrize("text", [LOCK.format(commit="a" * 40), OLD])
def test_lock_files_of_all_versions_promise_the_hashes_of_crates(text: str) -> None:
    (one,) = RustCrates().promises("sub/Cargo.lock", text.encode())
    assert (one.where, one.subject, one.expected) == (
        "sub/Cargo.lock (x 1.0.0)",
        "pkg:cargo/x@1.0.0",
        frozenset({"sha256:00"}),
    )
    assert RustCrates().promises("sub/other.lock", text.encode()) == []


def test_a_lock_file_that_is_none_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        RustCrates().promises("Cargo.lock", b"[[package")
    assert str(caught.value).startswith("Cargo.lock: the lock file cannot be read: ")


@pytest.mark.parametrize(
    ("dl", "url"),
    [
        ("{url}/crates", "{url}/crates/Ab-c/1.0.0/download"),
        ("{url}/{{crate}}-{{version}}.crate", "{url}/Ab-c-1.0.0.crate"),
        ("{url}/{{lowerprefix}}/{{crate}}/{{version}}", "{url}/ab/-c/Ab-c/1.0.0"),
    ],
)
def test_crate_files_are_where_the_index_says(registry: FakeRegistry, tmp_path: Path, dl: str, url: str) -> None:
    document = json.dumps({"dl": dl.format(url=registry.url)}).encode()
    registry.put("/index/config.json", document, "application/json")
    upstream = Upstream(registry.clients(tmp_path), pause=lambda _: None)
    assert RustCrates().locate("Ab-c/Ab-c-1.0.0.crate", upstream) == [url.format(url=registry.url)]


@pytest.mark.parametrize(
    "document", [b"{}", b"no json", b'{"dl": "ftp://x/"}', b'{"dl": "http://x/{sha256-checksum}"}']
)
def test_an_index_that_says_nothing_useful_is_refused(registry: FakeRegistry, tmp_path: Path, document: bytes) -> None:
    registry.put("/index/config.json", document, "application/json")
    upstream = Upstream(registry.clients(tmp_path), pause=lambda _: None)
    with pytest.raises(InputError) as caught:
        RustCrates().locate("a/a-1.0.0.crate", upstream)
    assert str(caught.value).startswith("crates: expected ")


def test_cargo_and_rustup_say_where_their_registries_are(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "cargo"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\ntest -n "$CARGO_HTTP_PROXY" -a -z "$http_proxy" || exit 2\ncat "$CARGO_HOME/config.toml" >&2\nexit 101\n'
    )
    program.chmod(0o755)
    (tmp_path / ".cargo").mkdir()
    (tmp_path / ".cargo/config.toml").write_text("  failed to download from `https://index.example/sub/config.json`\n")
    kept = tmp_path / ".rustup/toolchains/stable/lib/rustlib/multirust-channel-manifest.toml"
    kept.parent.mkdir(parents=True)
    kept.write_text('[x]\nurl = "https://dist.example/mirror/dist/2020-01-01/x.tar.gz"\n')
    environment = {"HOME": str(tmp_path), "PATH": f"{program.parent}:/usr/bin:/bin", "http_proxy": "http://p.example"}
    clients = Clients(environment, root=tmp_path)
    assert clients.base_url("crates") == "https://index.example/sub"
    assert clients.base_url("rustdist") == "https://dist.example/mirror"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/dist/channel-rust-1.94.1.toml", Asked(Sort.ARTIFACT, "channel-rust-1.94.1.toml")),
        ("/dist/channel-rust-1.94.1.toml.sha256", Asked(Sort.INDEX, "channel-rust-1.94.1.toml.sha256")),
        ("/dist/2026-05-19/channel-rust-nightly.toml", Asked(Sort.ARTIFACT, "2026-05-19/channel-rust-nightly.toml")),
        (
            "/dist/2026-05-19/rust-std-1.94.1-x86_64-unknown-linux-gnu.tar.xz",
            Asked(Sort.ARTIFACT, "2026-05-19/rust-std-1.94.1-x86_64-unknown-linux-gnu.tar.xz"),
        ),
        ("/dist/2026-05-19/rust-src-1.94.1.tar.gz", Asked(Sort.ARTIFACT, "2026-05-19/rust-src-1.94.1.tar.gz")),
        ("/rustup/release-stable.toml", None),
        ("/elsewhere/dist/channel-rust-1.94.1.toml", None),
    ],
)
def test_paths_of_the_distribution_have_one_meaning(path: str, asked: Asked | None) -> None:
    assert RustDistribution().asked(path) == asked


@pytest.mark.parametrize("channel", ["stable", "nightly", "1.94"])
def test_a_channel_that_moves_is_refused(channel: str) -> None:
    with pytest.raises(InputError) as caught:
        RustDistribution().asked(f"/dist/channel-rust-{channel}.toml")
    assert str(caught.value) == (
        f"rustdist: the channel {channel} moves\n"
        "hint: name a whole version such as 1.94.1, or a dated nightly such as nightly-2026-05-19"
    )


TRIPLE = "x86_64-unknown-linux-gnu"


def publish(registry: FakeRegistry, version: str = "1.2.3", **files: dict[str, bytes]) -> None:
    """Put a release into the registry: a component per keyword, its files below its folder."""
    lines = []
    for name, inside in files.items():
        component = name.replace("_", "-")
        top = f"{component}-{version}-{TRIPLE}"
        members: dict[str, Any] = {f"{top}/{path}": data for path, data in inside.items()}
        archive = lzma.compress(make_tar(members, executable=tuple(one for one in members if "/bin/" in one)))
        registry.put(f"/rust/dist/2020-01-02/{top}.tar.xz", archive)
        lines.append(f"[pkg.{component}.target.{TRIPLE}]")
        lines.append(f'xz_url = "https://elsewhere.example/dist/2020-01-02/{top}.tar.xz"')
        lines.append(f'xz_hash = "{hashlib.sha256(archive).hexdigest()}"')
    registry.put(f"/rust/dist/channel-rust-{version}.toml", "\n".join(lines).encode())


def test_rust_is_three_components_laid_out_as_their_installers_do(
    registry: FakeRegistry, store: Store, tmp_path: Path
) -> None:
    publish(
        registry,
        cargo={"components": b"cargo\n", "cargo/manifest.in": b"1", "cargo/bin/cargo": b"c"},
        rustc={"install.sh": b"#!", "rustc/manifest.in": b"2", "rustc/bin/rustc": b"r", "rustc/lib/librustc.so": b"l"},
        rust_std={f"rust-std-{TRIPLE}/manifest.in": b"3", f"rust-std-{TRIPLE}/lib/rustlib/{TRIPLE}/lib/s.rlib": b"s"},
    )
    rows = resolve_rust("1.2.3", Upstream(registry.clients(tmp_path), pause=lambda _: None), store)
    assert [(row.kind, row.version, row.blob.alias, row.blob.key) for row in rows] == [
        ("rust", "1.2.3", "rustdist", f"2020-01-02/{name}-1.2.3-{TRIPLE}.tar.xz")
        for name in ("cargo", "rust-std", "rustc")
    ]
    entries = {entry.path: entry for entry in toolchain_entries(rows, store, tmp_path)}
    files = {path.decode(): entry.mode for path, entry in entries.items() if entry.content is not None}
    assert files == {
        "opt/toolchains/rust/bin/cargo": 0o755,
        "opt/toolchains/rust/bin/rustc": 0o755,
        "opt/toolchains/rust/lib/librustc.so": 0o644,
        f"opt/toolchains/rust/lib/rustlib/{TRIPLE}/lib/s.rlib": 0o644,
    }


def test_an_older_version_stands_beside_the_newest_under_its_own_name(
    registry: FakeRegistry, store: Store, tmp_path: Path
) -> None:
    rows = []
    for version in ("1.9.0", "1.10.0"):
        std = {f"rust-std-{TRIPLE}/lib/std.rlib": version.encode()}
        tools = {"cargo": {"cargo/bin/cargo": b"c"}, "rustc": {"rustc/bin/rustc": b"r"}, "rust_std": std}
        publish(registry, version, **tools)
        rows += resolve_rust(version, Upstream(registry.clients(tmp_path), pause=lambda _: None), store)
    files = {entry.path.decode() for entry in toolchain_entries(rows, store, tmp_path) if entry.content is not None}
    inside = ("bin/cargo", "bin/rustc", "lib/std.rlib")
    assert files == {f"opt/toolchains/{name}/{path}" for name in ("rust", "rust-1.9.0") for path in inside}


def test_a_release_that_does_not_exist_or_lies_is_refused(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    upstream = Upstream(registry.clients(tmp_path), pause=lambda _: None)
    with pytest.raises(InputError) as caught:
        resolve_rust("1.2.3", upstream, store)
    assert str(caught.value) == (
        "toolchain.rust: expected Rust 1.2.3, found no such release\n"
        "hint: choose a release such as 1.94.1, or give an archive with its sha256"
    )
    with pytest.raises(InputError) as caught:
        resolve_rust("stable", upstream, store)
    assert str(caught.value) == "toolchain.rust: expected an exact version such as 1.94.1, found 'stable'"
    publish(registry, cargo={"cargo/bin/cargo": b"c"})
    registry.put(f"/rust/dist/2020-01-02/cargo-1.2.3-{TRIPLE}.tar.xz", b"other")
    with pytest.raises(IntegrityError) as refused:
        resolve_rust("1.2.3", upstream, store)
    assert str(refused.value).startswith(
        f"rustdist 2020-01-02/cargo-1.2.3-{TRIPLE}.tar.xz: expected the digest sha256:"
    )
    publish(registry, cargo={"cargo/bin/cargo": b"c"})
    with pytest.raises(InputError) as caught:
        resolve_rust("1.2.3", upstream, store)
    assert (
        str(caught.value)
        == f"toolchain.rust: expected rust-std for {TRIPLE} in the channel manifest: KeyError('rust-std')"
    )
