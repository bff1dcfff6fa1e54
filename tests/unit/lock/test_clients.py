from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.lock.apt_sources import AptSource, choose_source, parse_deb822, parse_one_line, read_sources
from packager.lock.clients import Clients, first_proxy, without_credentials

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "/nonexistent"


def clients(root: Path, **environment: str) -> Clients:
    return Clients({"HOME": str(root), "PATH": NOWHERE, **environment}, root=root)


def test_an_override_goes_before_everything(tmp_path: Path) -> None:
    found = clients(tmp_path, WIDESWE_REGISTRY_PYPI="https://mirror.example/simple/", PIP_INDEX_URL="https://x.example")
    assert found.base_url("pypi") == "https://mirror.example/simple"


def test_the_variables_of_each_client_are_read(tmp_path: Path) -> None:
    found = clients(
        tmp_path,
        PIP_INDEX_URL="https://pip.example/simple/",
        npm_config_registry="https://npm.example/",
        GOPROXY="direct,https://one.example|https://two.example",
    )
    assert found.base_url("pypi") == "https://pip.example/simple"
    assert found.base_url("npm") == "https://npm.example"
    assert found.base_url("goproxy") == "https://one.example"


def test_npmrc_is_read_without_npm(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("audit=false\nregistry = https://npm.example/repo/\n")
    assert clients(tmp_path).base_url("npm") == "https://npm.example/repo"


def test_the_debian_archive_comes_from_apts_own_sources(tmp_path: Path) -> None:
    folder = tmp_path / "etc/apt/sources.list.d"
    folder.mkdir(parents=True)
    (folder / "debian.sources").write_text(
        "Types: deb\nURIs: http://deb.example/debian/\nSuites: bookworm bookworm-updates\nComponents: main contrib\n"
        "Signed-By: /usr/share/keyrings/key.gpg\n"
    )
    assert clients(tmp_path).base_url("debian") == "http://deb.example/debian"


def test_a_machine_without_the_suite_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "etc/apt").mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text("deb http://u.example/ubuntu noble main universe\n")
    with pytest.raises(InputError) as caught:
        clients(tmp_path).base_url("debian")
    assert str(caught.value) == (
        "apt sources: expected bookworm (main) among this machine's apt sources, found noble\n"
        "hint: add a source for bookworm main to apt's configuration, or lock on a machine that runs Debian bookworm"
    )


def test_an_unknown_alias_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        clients(tmp_path).base_url("planets")
    assert str(caught.value) == (
        "expected a registry alias (crates, debian, goproxy, gradleplugins, maven, npm, nuget, packagist, pypi, rubygems, "
        "rustdist), found 'planets'\nhint: set WIDESWE_REGISTRY_PLANETS"
    )


def test_a_url_that_is_none_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        clients(tmp_path, PIP_INDEX_URL="file://user:secret@/srv/simple").base_url("pypi")
    assert str(caught.value) == "the configuration of pypi: expected an http or https URL, found 'file:///srv/simple'"


def test_a_default_is_used_only_where_the_machine_says_nothing(tmp_path: Path) -> None:
    found = clients(tmp_path, GOPROXY="off")
    found.set_default("goproxy", "https://default.example")
    assert found.base_url("goproxy") == "https://default.example"
    other = clients(tmp_path, GOPROXY="https://set.example")
    other.set_default("goproxy", "https://default.example")
    assert other.base_url("goproxy") == "https://set.example"


def test_certificates_come_from_the_environment_then_from_the_system(tmp_path: Path) -> None:
    system = tmp_path / "etc/ssl/certs/ca-certificates.crt"
    system.parent.mkdir(parents=True)
    system.write_text("")
    own = tmp_path / "own.pem"
    own.write_text("")
    assert clients(tmp_path).ca_bundle == system
    assert clients(tmp_path, SSL_CERT_FILE=str(own)).ca_bundle == own
    assert clients(tmp_path, SSL_CERT_FILE=NOWHERE).ca_bundle == system


def test_sessions_take_no_credentials_from_the_machine(tmp_path: Path) -> None:
    session = clients(tmp_path, https_proxy="http://p.example:3128", NO_PROXY=".in.example").session()
    assert session.trust_env is False
    assert session.auth is None
    assert dict(session.proxies) == {
        "https": "http://p.example:3128",
        "http://in.example": "",
        "https://in.example": "",
    }


def test_the_first_url_of_a_goproxy_list_counts() -> None:
    assert first_proxy("direct") is None
    assert first_proxy("https://a.example,direct") == "https://a.example"


def test_credentials_are_taken_out_of_urls() -> None:
    assert without_credentials("https://me:pw@h.example:8443/x?y=1") == "https://h.example:8443/x?y=1"


def test_one_line_sources_with_options_and_comments() -> None:
    text = "# deb http://no.example x main\ndeb [arch=amd64 signed-by=/k.gpg] http://a.example/debian/ bookworm main non-free # c\ndeb-src http://s.example bookworm main\n"
    assert list(parse_one_line(text)) == [
        AptSource("http://a.example/debian", "bookworm", ("main", "non-free"), "/k.gpg")
    ]


def test_deb822_sources_keep_an_inline_key_and_skip_disabled_ones() -> None:
    text = (
        "Types: deb\nEnabled: no\nURIs: http://off.example\nSuites: a\nComponents: main\n\n"
        "Types: deb deb-src\n# note\nURIs: http://a.example http://b.example\nSuites: bookworm\nComponents: main\n"
        "Signed-By:\n -----BEGIN\n .\n abc\n"
    )
    found = list(parse_deb822(text))
    assert [source.uri for source in found] == ["http://a.example", "http://b.example"]
    assert found[0].signed_by == "-----BEGIN\n.\nabc"


def test_both_kinds_of_files_are_read_and_others_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (tmp_path / "sources.list").write_text("deb http://one.example bookworm main\n")
    (folder / "a.list.disabled").write_text("deb http://two.example bookworm main\n")
    (folder / "b.list").write_text("deb http://three.example bookworm-updates main\n")
    found = read_sources(tmp_path)
    assert [source.uri for source in found] == ["http://one.example", "http://three.example"]
    assert choose_source(found, "bookworm").uri == "http://one.example"
