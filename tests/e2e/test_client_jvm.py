"""Maven and Gradle of this machine: small projects recorded from their repositories, then built from the lock alone."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.base.processes import Surroundings, run_ok
from packager.sandbox.namespaces import may_mount
from tests.support.client_walk import Project, Walked, needs, walk
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts")]

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ex.made</groupId>
  <artifactId>sample</artifactId>
  <version>1.0</version>
  <properties>
    <maven.compiler.source>17</maven.compiler.source>
    <maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>[4.11,4.12]</version><scope>test</scope></dependency>
  </dependencies>
</project>
"""
JAVA_TEST = """\
import static org.junit.Assert.assertEquals;

public class SampleTest {
    @org.junit.Test
    public void adds() { assertEquals(2, 1 + 1); }
}
"""
SCRUB = (
    "find /root/.m2 '(' -name _remote.repositories -o -name '*.lastUpdated' -o -name resolver-status.properties "
    "')' -delete"
)


EXPORT = (
    "cd /root/.gradle/caches/modules-2/files-2.1 && for file in */*/*/*/*; do group=${file%%/*}; rest=${file#*/}; "
    'place=/opt/maven/$(echo "$group" | tr . /)/${rest%/*/*}; mkdir -p "$place" && cp "$file" "$place/"; done && '
    "rm -rf /root/.gradle /work/.gradle /work/build"
)
"""Gradle's own cache holds times in a format of its own; what it fetched is kept as a repository instead."""

OFFLINE = """\
allprojects { afterEvaluate { repositories.clear(); repositories.maven { url "/opt/maven" } } }
"""
GRADLE_BUILD = """\
apply plugin: 'java'
repositories { mavenCentral() }
dependencies { testCompile 'junit:junit:4.12' }
"""


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.shows("Maven", "records", "replays offline", "cross-checked", "SBOM names")
def test_maven_finds_plugins_late_and_tests_from_the_lock_alone(tmp_path: Path) -> None:
    needs("mvn", "java")
    files = {"pom.xml": POM, "src/test/java/SampleTest.java": JAVA_TEST}
    command = f"mvn -B -q test && rm -rf target && {SCRUB}"
    done = walk(tmp_path, Project(command, files, dict(os.environ), after="mvn -B -q -o test"))
    assert {"pkg:maven/junit/junit@4.12", "pkg:maven/org.hamcrest/hamcrest-core@1.3"} <= set(done.purls)
    assert any(purl.startswith("pkg:maven/org.apache.maven.surefire/surefire-junit4@") for purl in done.purls)
    assert {row.blob.alias for row in done.recording.fetches} == {"maven"}
    assert [name for name in done.files if name.endswith(("_remote.repositories", ".properties", ".lastUpdated"))] == []
    assert done.recording.sources == ()
    junit = digests(done)["junit/junit/4.12/junit-4.12.jar"]
    summary = f"{junit}  junit/junit/4.12/junit-4.12.jar\n"
    checked = done.origins({".mvn/checksums/checksums.sha256": summary})
    assert [key for key, origin in checked.items() if origin == "lock"] == ["junit/junit/4.12/junit-4.12.jar"]


def digests(done: Walked) -> dict[str, str]:
    return {row.blob.key: row.blob.digest.removeprefix("sha256:") for row in done.recording.fetches}


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.shows("Gradle", "records", "replays offline", "cross-checked", "SBOM names")
def test_gradle_tests_from_what_was_exported_of_its_cache(tmp_path: Path) -> None:
    needs("gradle", "java")
    files = {
        "build.gradle": GRADLE_BUILD,
        "settings.gradle": "rootProject.name = 'sample'\n",
        "offline.gradle": OFFLINE,
        "src/test/java/SampleTest.java": JAVA_TEST,
    }
    after = (
        "gradle -q --no-daemon --offline -I offline.gradle test && test -e build/test-results/test/TEST-SampleTest.xml"
    )
    done = walk(tmp_path, Project(f"gradle -q test && {EXPORT}", files, dict(os.environ), after=after))
    assert {"pkg:maven/junit/junit@4.12", "pkg:maven/org.hamcrest/hamcrest-parent@1.3?type=pom"} <= set(done.purls)
    assert {row.blob.alias for row in done.recording.fetches} == {"maven"}
    metadata = (
        "<verification-metadata><components><component group='junit' name='junit' version='4.12'>"
        "<artifact name='junit-4.12.jar'><sha256 value='{}'/></artifact></component></components></verification-metadata>"
    )
    junit = digests(done)["junit/junit/4.12/junit-4.12.jar"]
    checked = done.origins({"gradle/verification-metadata.xml": metadata.format(junit)})
    assert [key for key, origin in checked.items() if origin == "lock"] == ["junit/junit/4.12/junit-4.12.jar"]
    with pytest.raises(InputError) as caught:
        done.origins({"gradle/verification-metadata.xml": metadata.format("00")})
    assert (
        "gradle/verification-metadata.xml (junit:junit:4.12): expected sha256:00, "
        f"found sha256:{junit} in maven junit/junit/4.12/junit-4.12.jar\n"
    ) in str(caught.value)


PLUGIN = """\
package ex.made;

public class Hello implements org.gradle.api.Plugin<org.gradle.api.Project> {
    public void apply(org.gradle.api.Project project) { project.getTasks().create("hello"); }
}
"""
PLUGIN_POM = """\
<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId><artifactId>{artifact}</artifactId>
<version>1.0</version><packaging>{packaging}</packaging>{dependencies}</project>
"""
NEEDS_PLUGIN = (
    "<dependencies><dependency><groupId>ex.made</groupId><artifactId>hello</artifactId><version>1.0</version>"
    "</dependency></dependencies>"
)


def compiled(folder: Path, source: str, name: str, members: Mapping[str, str]) -> bytes:
    """Return a jar of one class and some texts, compiled against this machine's Gradle."""
    (folder / "src").mkdir(parents=True)
    path = folder / "src" / f"{name.rpartition('.')[2]}.java"
    path.write_text(source)
    libraries = [*Path("/usr/share/gradle/lib").glob("gradle-*.jar"), *Path("/usr/share/java").glob("groovy-all.jar")]
    classpath = ":".join(map(str, libraries))
    run_ok(["/usr/bin/javac", "-proc:none", "-cp", classpath, "-d", str(folder / "out"), str(path)], Surroundings())
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.write(folder / "out" / f"{name.replace('.', '/')}.class", f"{name.replace('.', '/')}.class")
        for member, text in members.items():
            archive.writestr(member, text)
    return data.getvalue()


@pytest.mark.slow
@pytest.mark.shows("Gradle plugins", "records", "replays offline", "SBOM names")
def test_gradle_finds_a_plugin_by_its_marker(tmp_path: Path) -> None:
    needs("gradle", "javac")
    properties = {"META-INF/gradle-plugins/ex.made.hello.properties": "implementation-class=ex.made.Hello\n"}
    marker = PLUGIN_POM.format(
        group="ex.made.hello", artifact="ex.made.hello.gradle.plugin", packaging="pom", dependencies=NEEDS_PLUGIN
    )
    own = PLUGIN_POM.format(group="ex.made", artifact="hello", packaging="jar", dependencies="")
    portal = {
        "/m2/ex/made/hello/ex.made.hello.gradle.plugin/1.0/ex.made.hello.gradle.plugin-1.0.pom": marker.encode(),
        "/m2/ex/made/hello/1.0/hello-1.0.pom": own.encode(),
        "/m2/ex/made/hello/1.0/hello-1.0.jar": compiled(tmp_path / "plugin", PLUGIN, "ex.made.Hello", properties),
    }
    files = {
        "settings.gradle": "pluginManagement { repositories { maven { url 'http://plugins.example/m2/' } } }\n",
        "build.gradle": "plugins { id 'ex.made.hello' version '1.0' }\n",
    }
    with SmallRegistry(portal) as registry:
        command = f"gradle -q hello && {EXPORT}"
        done = walk(tmp_path, Project(command, files, {"http_proxy": registry.url}))
    assert done.purls == [
        "pkg:maven/ex.made.hello/ex.made.hello.gradle.plugin@1.0?type=pom",
        "pkg:maven/ex.made/hello@1.0",
        "pkg:maven/ex.made/hello@1.0?type=pom",
    ]
    assert {row.blob.alias for row in done.recording.fetches} == {"gradleplugins"}
    assert {source.url.partition("/ex/")[0] for source in done.recording.sources} == {"http://plugins.example/m2"}
    assert done.never("plugins.example")


LAUNCHER = """\
package org.gradle.launcher;

public class GradleMain {
    public static void main(String[] words) throws Exception {
        java.nio.file.Files.writeString(java.nio.file.Path.of("/work/said"), String.join(" ", words));
    }
}
"""
WRAPPER = "/usr/share/gradle/lib/plugins/gradle-plugins-4.4.1.jar"


@pytest.mark.shows("Gradle wrapper", "records", "replays offline", "cross-checked", "SBOM names")
def test_gradles_wrapper_fetches_its_distribution(tmp_path: Path) -> None:
    needs("gradle", "javac")
    with zipfile.ZipFile(WRAPPER) as archive:
        name = next(name for name in archive.namelist() if name.endswith("gradle-wrapper.jar"))
        wrapper = io.BytesIO(archive.read(name))
    with zipfile.ZipFile(wrapper, "a") as archive:
        archive.writestr("build-receipt.properties", "versionNumber=4.4.1\n")  # which Debian leaves out
    launcher = compiled(tmp_path / "launcher", LAUNCHER, "org.gradle.launcher.GradleMain", {})
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for folder in ("", "bin/", "lib/"):
            archive.mkdir(f"gradle-8.5/{folder}")
        archive.writestr("gradle-8.5/bin/gradle", "#!/bin/sh\n")
        archive.writestr("gradle-8.5/lib/gradle-launcher-8.5.jar", launcher)
    properties = (
        "distributionBase=GRADLE_USER_HOME\ndistributionPath=wrapper/dists\nzipStoreBase=GRADLE_USER_HOME\n"
        "zipStorePath=wrapper/dists\ndistributionUrl=http\\://dist.example/distributions/gradle-8.5-bin.zip\n"
        f"distributionSha256Sum={hashlib.sha256(data.getvalue()).hexdigest()}\n"
    )
    name = "gradle/wrapper/gradle-wrapper.properties"
    files: dict[str, str | bytes] = {name: properties, "gradle/wrapper/gradle-wrapper.jar": wrapper.getvalue()}
    start = "java -cp gradle/wrapper/gradle-wrapper.jar org.gradle.wrapper.GradleWrapperMain"
    with SmallRegistry({"/distributions/gradle-8.5-bin.zip": data.getvalue()}) as registry:
        done = walk(tmp_path, Project(f"{start} hello", files, {"http_proxy": registry.url}, after=f"{start} again"))
    assert done.files["work/said"] == b"hello"
    assert done.keys == ["gradle gradle-8.5-bin.zip"]
    assert done.purls == ["pkg:generic/gradle@8.5"]
    assert done.origins({name: properties}) == {"gradle-8.5-bin.zip": "lock"}
    assert [source.url for source in done.recording.sources] == ["http://dist.example/distributions/gradle-8.5-bin.zip"]
