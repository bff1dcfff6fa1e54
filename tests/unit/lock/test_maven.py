from __future__ import annotations

import hashlib
import io
import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.clients import Clients
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Sort
from packager.lock.ecosystems.gradle import GradleDistributions
from packager.lock.ecosystems.maven import JavaPackages, gradle_plugins
from packager.lock.ecosystems.maven_pages import order_of_version
from packager.lock.upstream import Upstream
from packager.sandbox.fetches import Request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GET = Request("GET", "https", "x.invalid", 443, "/")
JUNIT = "junit/junit/4.12/junit-4.12.jar"
NOBODY = {"HOME": "/nonexistent", "PATH": "/nonexistent"}


def held(folder: Path, files: Mapping[str, bytes]) -> list[Held]:
    rows = []
    for number, (key, data) in enumerate(sorted(files.items())):
        path = folder / str(number)
        path.write_bytes(data)
        rows.append(Held(key, digest_of(data), len(data), path))
    return rows


def rendered(folder: Path, key: str, files: Mapping[str, bytes]) -> tuple[int, bytes]:
    asked = JavaPackages().asked(f"/{key}")
    assert asked is not None
    assert asked.sort is Sort.INDEX
    answer = JavaPackages().render(asked, GET, held(folder, files))
    assert isinstance(answer.body, bytes)
    return answer.status, answer.body


def jar(members: Mapping[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return data.getvalue()


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (f"/{JUNIT}", Asked(Sort.ARTIFACT, JUNIT)),
        (f"/{JUNIT}.sha1", Asked(Sort.INDEX, f"{JUNIT}.sha1")),
        (f"/{JUNIT}.asc", None),
        (f"/{JUNIT}.asc.sha1", None),
        ("/a/b/1.0/b-1.0.module", Asked(Sort.ARTIFACT, "a/b/1.0/b-1.0.module")),
        ("/a/b/1-SNAPSHOT/b-1-20240101.120000-3.jar", Asked(Sort.ARTIFACT, "a/b/1-SNAPSHOT/b-1-20240101.120000-3.jar")),
        ("/a/b/maven-metadata.xml", Asked(Sort.INDEX, "a/b/maven-metadata.xml")),
        ("/a/b/maven-metadata.xml.md5", Asked(Sort.INDEX, "a/b/maven-metadata.xml.md5")),
        ("/a/b/1.0/c-1.0.jar", None),
        ("/a/b/1.0/b-1.0", None),
        ("/archetype-catalog.xml", None),
        ("/a/../b/1.0/b-1.0.jar", Asked(Sort.ARTIFACT, "a/../b/1.0/b-1.0.jar")),  # check_key refuses it
    ],
)
def test_paths_of_a_repository_have_one_meaning(path: str, asked: Asked | None) -> None:
    assert JavaPackages().asked(path) == asked


@pytest.mark.parametrize(
    ("key", "purl"),
    [
        (JUNIT, "pkg:maven/junit/junit@4.12"),
        ("org/a/b/1.0-rc.1/b-1.0-rc.1.pom", "pkg:maven/org.a/b@1.0-rc.1?type=pom"),
        ("org/a/b/1.0/b-1.0-tests.jar", "pkg:maven/org.a/b@1.0?classifier=tests"),
        ("org/a/b/1.0/b-1.0-linux-x86_64.exe", "pkg:maven/org.a/b@1.0?classifier=linux-x86_64&type=exe"),
        ("org/a/b/1-SNAPSHOT/b-1-20240101.120000-3-all.zip", "pkg:maven/org.a/b@1-SNAPSHOT?classifier=all&type=zip"),
        ("org/a/b/1.0/b-1.0.module", "pkg:maven/org.a/b@1.0?type=module"),
    ],
)
def test_artifacts_have_package_urls(key: str, purl: str) -> None:
    assert JavaPackages().purl(key) == purl


def test_a_key_of_another_kind_has_no_package_url() -> None:
    with pytest.raises(InputError) as caught:
        JavaPackages().purl("a/b.jar")
    assert str(caught.value) == "maven: expected group/artifact/version/file, found 'a/b.jar'"


def test_the_same_artifact_is_known_on_the_usual_host_and_on_a_mirror() -> None:
    clients = Clients({**NOBODY, "WIDESWE_REGISTRY_MAVEN": "https://mirror.example/central"})
    upstream, one = Upstream(clients), JavaPackages()
    for url in (f"https://usual.example/maven2/{JUNIT}", f"https://mirror.example/central/{JUNIT}"):
        assert one.claims(url, upstream) == Asked(Sort.ARTIFACT, JUNIT)
    assert one.claims(f"https://other.example/releases/{JUNIT}", upstream) is None
    assert one.locate(JUNIT, upstream) == [f"https://mirror.example/central/{JUNIT}"]
    unknown = Upstream(Clients(NOBODY))
    plugins = gradle_plugins()
    assert plugins.claims(f"https://plugins.example/m2/{JUNIT}", unknown) == Asked(Sort.ARTIFACT, JUNIT)
    assert plugins.locate(JUNIT, unknown) == [f"https://plugins.example/m2/{JUNIT}"]
    assert one.guess(f"/maven2/{JUNIT}") == Asked(Sort.ARTIFACT, JUNIT)
    assert gradle_plugins().guess(f"/m2/{JUNIT}") == Asked(Sort.ARTIFACT, JUNIT)
    assert one.guess(f"/m2/{JUNIT}") is None


def test_where_nothing_says_where_an_artifact_is_a_hint_says_what_to_do() -> None:
    with pytest.raises(InputError) as caught:
        gradle_plugins().locate(JUNIT, Upstream(Clients(NOBODY)))
    assert str(caught.value) == (
        "registries: no package client on this machine says where gradleplugins is\n"
        "hint: install or configure gradle, or set WIDESWE_REGISTRY_GRADLEPLUGINS to its URL"
    )


def test_metadata_lists_what_is_locked_and_no_time(tmp_path: Path) -> None:
    files = {f"a/b/{version}/b-{version}.pom": b"" for version in ("1.10", "1.9", "2.0-rc1", "1.9.1")}
    expected = (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<metadata><groupId>a</groupId><artifactId>b</artifactId><versioning>'
        b"<latest>2.0-rc1</latest><release>2.0-rc1</release><versions><version>1.9</version><version>1.9.1</version>"
        b"<version>1.10</version><version>2.0-rc1</version></versions><lastUpdated>19800101000000</lastUpdated>"
        b"</versioning></metadata>\n"
    )
    assert rendered(tmp_path, "a/b/maven-metadata.xml", files) == (200, expected)
    digest = hashlib.sha1(expected, usedforsecurity=False).hexdigest().encode()
    assert rendered(tmp_path, "a/b/maven-metadata.xml.sha1", files) == (200, digest)
    assert rendered(tmp_path, "a/c/maven-metadata.xml", files)[0] == 404


def test_metadata_of_a_group_lists_its_plugins_by_prefix(tmp_path: Path) -> None:
    descriptor = "<plugin><name>Near</name><goalPrefix>near</goalPrefix></plugin>"
    files = {
        "p/near-plugin/1/near-plugin-1.jar": jar({"META-INF/maven/plugin.xml": descriptor}),
        "p/plain/1/plain-1.jar": jar({"x": ""}),
    }
    status, page = rendered(tmp_path, "p/maven-metadata.xml", files)
    assert (status, page.partition(b"\n")[2]) == (
        200,
        (
            b"<metadata><plugins><plugin><name>Near</name><prefix>near</prefix>"
            b"<artifactId>near-plugin</artifactId></plugin></plugins></metadata>\n"
        ),
    )
    assert JavaPackages().shelf(Asked(Sort.INDEX, "p/maven-metadata.xml")) == WHOLE


def test_a_jar_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        rendered(tmp_path, "p/maven-metadata.xml", {"p/a/1/a-1.jar": b"no zip"})
    assert str(caught.value) == "p/a/1/a-1.jar: the jar cannot be read: File is not a zip file"


def test_checksums_are_those_of_the_locked_bytes(tmp_path: Path) -> None:
    digest = hashlib.md5(b"x", usedforsecurity=False).hexdigest().encode()
    assert rendered(tmp_path, f"{JUNIT}.md5", {JUNIT: b"x"}) == (200, digest)
    assert rendered(tmp_path, "junit/junit/4.12/junit-4.12.pom.sha1", {JUNIT: b"x"})[0] == 404


def test_versions_are_ordered_as_maven_orders_them() -> None:
    ordered = ["1-alpha", "1-beta-2", "1-beta-10", "1-rc1", "1-SNAPSHOT", "1.0", "1.0.1", "1.2", "1.10", "2"]
    assert sorted([*ordered[5:], *ordered[:5]], key=order_of_version) == ordered
    assert order_of_version("1.0") == order_of_version("1") == order_of_version("1.0.0-GA")


def test_gradles_verification_metadata_is_a_promise() -> None:
    text = (
        b'<verification-metadata xmlns="https://schema.example/dependency-verification"><components>'
        b'<component group="junit" name="junit" version="4.12"><artifact name="junit-4.12.jar">'
        b'<sha256 value="AA" origin="Generated"><also-trust value="bb"/></sha256><md5 value="cc"/></artifact>'
        b'<artifact name="junit-4.12.pom"><pgp value="1"/></artifact></component></components></verification-metadata>'
    )
    (one,) = JavaPackages().promises("gradle/verification-metadata.xml", text)
    assert (one.where, one.subject, one.expected) == (
        "gradle/verification-metadata.xml (junit:junit:4.12)",
        JUNIT,
        frozenset({"sha256:aa", "sha256:bb"}),
    )
    assert JavaPackages().subject(JUNIT) == JUNIT


def test_an_entity_in_verification_metadata_is_refused() -> None:
    text = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><verification-metadata>&a;</verification-metadata>'
    with pytest.raises(InputError) as caught:
        JavaPackages().promises("verification-metadata.xml", text)
    assert str(caught.value).startswith("verification-metadata.xml: the lock file cannot be read: EntitiesForbidden")


def test_trusted_checksums_are_promises() -> None:
    text = f"{'a' * 64}  {JUNIT}\n# no line\n".encode()
    (one,) = JavaPackages().promises(".mvn/checksums/checksums-central.sha256", text)
    assert (one.where, one.subject, one.expected) == (
        ".mvn/checksums/checksums-central.sha256:1",
        JUNIT,
        frozenset({f"sha256:{'a' * 64}"}),
    )
    assert JavaPackages().promises("checksums.sha1", text) == []


def test_every_jvm_is_led_through_the_proxy_and_trusts_its_authority() -> None:
    options = JavaPackages().environment()["JAVA_TOOL_OPTIONS"].split()
    assert {"-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=3128", "-Dhttp.proxyPort=3128"} <= set(options)
    assert "-Djavax.net.ssl.trustStore=/run/wideswe/ca.p12" in options


def test_a_distribution_of_gradle_is_known_by_its_name_wherever_it_is() -> None:
    one, upstream = GradleDistributions(), Upstream(Clients(NOBODY))
    url = "https://dist.example/distributions/gradle-8.5-bin.zip"
    assert one.claims(url, upstream) == Asked(Sort.ARTIFACT, "gradle-8.5-bin.zip")
    assert one.claims("https://dist.example/gradle-8.5-docs.zip", upstream) is None
    assert one.guess("/x/gradle-8.5-bin.zip") == Asked(Sort.ARTIFACT, "gradle-8.5-bin.zip")
    assert one.locate("gradle-8.5-bin.zip", upstream) == [url]
    assert one.purl("gradle-8.5-rc-1-all.zip") == "pkg:generic/gradle@8.5-rc-1"
    with pytest.raises(InputError) as caught:
        one.purl("gradle.zip")
    assert str(caught.value) == "gradle: expected gradle-<version>-bin.zip or -all.zip, found 'gradle.zip'"


def test_a_wrapper_promises_its_distribution() -> None:
    text = b"distributionUrl=https\\://dist.example/distributions/gradle-8.5-bin.zip\ndistributionSha256Sum=AB\n"
    (one,) = GradleDistributions().promises("gradle/wrapper/gradle-wrapper.properties", text)
    assert (one.subject, one.expected) == ("gradle-8.5-bin.zip", frozenset({"sha256:ab"}))
    assert GradleDistributions().promises("gradle-wrapper.properties", text.partition(b"\n")[0]) == []
