from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.lock.clients import Clients

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOWHERE = "/nonexistent"
SETTINGS = """\
<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
<mirror><id>blocker</id><mirrorOf>external:*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
<mirror><id>others</id><mirrorOf>*,!central</mirrorOf><url>https://others.example/</url></mirror>
<mirror><id>ours</id><mirrorOf>{of}</mirrorOf><url>https://mirror.example/m2/</url></mirror>
</mirrors></settings>
"""


def found(root: Path, alias: str, files: Mapping[str, str], **environment: str) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Clients({"HOME": str(root), "PATH": NOWHERE, **environment}, root=root).base_url(alias)


@pytest.mark.parametrize("of", ["*", "central", "external:*", "snapshots, central"])
@pytest.mark.parametrize("place", [".m2/settings.xml", "etc/maven/settings.xml"])
def test_a_mirror_of_maven_central_is_found(tmp_path: Path, of: str, place: str) -> None:
    assert found(tmp_path, "maven", {place: SETTINGS.format(of=of)}) == "https://mirror.example/m2"


def test_a_repository_called_central_is_found(tmp_path: Path) -> None:
    text = "<settings><profiles><profile><repositories><repository><id>central</id><url>https://c.example</url>"
    text += "</repository></repositories></profile></profiles></settings>"
    assert found(tmp_path, "maven", {".m2/settings.xml": text}) == "https://c.example"


def test_where_settings_say_nothing_maven_itself_does(tmp_path: Path) -> None:
    jar = tmp_path / "lib/maven-model-builder-3.x.jar"
    jar.parent.mkdir()
    with zipfile.ZipFile(jar, "w") as archive:
        model = "<project><repositories><repository><id>central</id><url>https://built.example/maven2</url>"
        archive.writestr("org/apache/maven/model/pom-4.0.0.xml", f"{model}</repository></repositories></project>")
    files = {".m2/settings.xml": SETTINGS.format(of="snapshots")}
    assert found(tmp_path, "maven", files, MAVEN_HOME=str(tmp_path)) == "https://built.example/maven2"


def test_settings_that_are_no_xml_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        found(tmp_path, "maven", {".m2/settings.xml": "<settings>"})
    assert str(caught.value) == f"{tmp_path}/.m2/settings.xml: expected XML: no element found: line 1, column 10"


@pytest.mark.parametrize("place", [".gradle/init.gradle", ".gradle/init.d/plugins.gradle.kts"])
def test_gradles_init_scripts_say_where_plugins_are(tmp_path: Path, place: str) -> None:
    text = (
        "allprojects { repositories { maven { url 'https://libraries.example/m2' } } }\n"
        'settingsEvaluated { pluginManagement { repositories { maven { url = uri("https://plugins.example/m2") } } } }\n'
    )
    assert found(tmp_path, "gradleplugins", {place: text}) == "https://plugins.example/m2"


@pytest.mark.parametrize(
    "text",
    [
        "---\n:sources:\n- https://gems.example/\n",
        "sources: [https://gems.example/]\n",
        ":sources:\n  - 'https://gems.example'\n",
    ],
)
def test_gemrc_says_where_gems_are(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, "rubygems", {".gemrc": text}) == "https://gems.example"


def test_a_mirror_of_all_gems_goes_before_gemrc(tmp_path: Path) -> None:
    files = {".gemrc": ":sources:\n- https://gems.example/\n"}
    assert found(tmp_path, "rubygems", files, BUNDLE_MIRROR__ALL="https://mirror.example/") == "https://mirror.example"


@pytest.mark.parametrize(
    "text",
    [
        '{"repositories": {"packagist.org": {"type": "composer", "url": "https?://packages.example"}}}',
        '{"repositories": [{"type": "vcs", "url": "https://git.example"}, {"type": "composer", "url": "https://packages.example"}]}',
    ],
)
def test_composers_settings_say_where_packages_are(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, "packagist", {".config/composer/config.json": text}) == "https://packages.example"


def test_composers_settings_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        found(tmp_path, "packagist", {"c/config.json": "[1]"}, COMPOSER_HOME=str(tmp_path / "c"))
    assert str(caught.value) == (
        f"{tmp_path}/c/config.json: expected Composer's settings: 'list' object has no attribute 'get'"
    )


def test_nugets_settings_say_where_packages_are(tmp_path: Path) -> None:
    text = (
        '<configuration><packageSources><clear /><add key="disk" value="/srv/packages" />'
        '<add key="ours" value="https://nuget.example/v3/index.json" /></packageSources>'
        '<apikeys><add key="x" value="https://other.example" /></apikeys></configuration>'
    )
    assert found(tmp_path, "nuget", {".nuget/NuGet/NuGet.Config": text}) == "https://nuget.example/v3/index.json"
