"""Made-up tasks of each ecosystem, locked against the real registries with stock clients, then built without network."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.errors import InputError
from packager.build.assemble import assemble_image
from packager.build.dockerfile import parse_dockerfile
from packager.build.record import replay_fetches
from packager.oci.layer import open_layer
from packager.oci.record import ImageRecord
from packager.oci.reference import parse_reference
from packager.oci.tar_reader import read_tar
from packager.registry.push import push_image
from packager.sandbox.namespaces import may_mount
from tests.support.docker_registry import docker_registry, require_program
from tests.support.locked_files import find_wheel, npm_lock, uv_lock
from tests.support.recorded_suites import SuitePlace, lock_and_build, purls, said
from tests.support.suites import Sample, make_suite

if TYPE_CHECKING:
    from pathlib import Path

    from packager.build.execute import Stage
    from packager.store.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts"),
]


@pytest.fixture(scope="module")
def store_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All suites share one store, since they share one base."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def place_for(tmp_path: Path, store_root: Path) -> SuitePlace:
    return SuitePlace(tmp_path, store_root)


APT = Sample(
    "apt",
    files={"README": "one\n"},
    gold={"README": "two\n"},
    fields={"dependencies": ["apt-get update", "apt-get install -y --no-install-recommends hello"]},
)


@pytest.mark.shows("apt", "records", "replays offline", "SBOM names")
def test_apt_get_installs_a_package(place_for: SuitePlace) -> None:
    suite = place_for.suite(APT)
    stage = lock_and_build(suite)
    assert said(suite.task_build().builder(), stage, "hello; dpkg --audit") == "Hello, world!\n"
    found = purls(suite)
    assert [purl.partition("@")[0] for purl in found] == ["pkg:deb/debian/hello"]
    assert set(found.values()) == {"recorded"}


PIN_IT = (
    "hint: checklist I (an input that is not pinned): pin a version, a commit or a digest in the recipe, and fetch it "
    "where it is recorded"
)


def test_a_step_that_asks_for_more_than_its_lock_has_is_told_what(place_for: SuitePlace) -> None:
    suite = place_for.suite(APT)
    api.lock(suite.place, suite.task)
    task_build = suite.task_build()
    head, _, _ = task_build.dockerfile(sealed=False).partition("\n# apt: what its lock files ask for")
    command = "curl -fsS http://host.invalid/thing?x=1"
    builder = replace(task_build.builder(), fetches=replay_fetches(task_build.store, ["x/dependencies"], (), ()))
    with pytest.raises(InputError) as caught:
        builder.build(parse_dockerfile(f"{head}\n# step: x/dependencies\nRUN {command}\n"))
    assert str(caught.value) == (
        f"step x/dependencies: exit code 22 from: {command}\n"
        "curl: (22) The requested URL returned error: 599\n"
        f"not in the lock: GET http://host.invalid/thing?x=1\n{PIN_IT}"
    )
    with pytest.raises(InputError) as caught:
        builder.build(parse_dockerfile(f"{head}\n# step: x/prepare\nRUN {command}\n"))
    assert str(caught.value) == (
        f"step x/prepare: exit code 6 from: {command}\ncurl: (6) Could not resolve host: host.invalid\n{PIN_IT}"
    )


UV = "uv==0.13.9"
SIX = "six-1.16.0-py2.py3-none-any.whl"


@pytest.mark.shows("uv", "records", "replays offline", "cross-checked", "SBOM names")
def test_pip_and_uv_install_what_a_lock_file_with_absolute_addresses_names(place_for: SuitePlace) -> None:
    wheel = find_wheel("six", SIX)
    project = (
        '[project]\nname = "sample"\nversion = "0.1.0"\nrequires-python = ">=3.11"\ndependencies = ["six==1.16.0"]\n'
    )
    sample = Sample(
        "uv",
        files={"pyproject.toml": project, "uv.lock": uv_lock("six", "1.16.0", wheel), "README": "one\n"},
        gold={"README": "two\n"},
        fields={
            "manifests": ["pyproject.toml", "uv.lock"],
            "dependencies": [
                "python3 -m venv /opt/uv",
                f"/opt/uv/bin/pip install --quiet --only-binary :all: {UV}",
                "UV_PROJECT_ENVIRONMENT=/opt/env/uv UV_NO_CACHE=1 /opt/uv/bin/uv sync --frozen --no-install-project",
            ],
        },
    )
    suite = place_for.suite(sample)
    stage = lock_and_build(suite)
    script = "/opt/env/uv/bin/python -B -c 'import six; print(six.__version__)'"
    assert said(suite.task_build().builder(), stage, script) == "1.16.0\n"
    assert purls(suite) == {"pkg:pypi/six@1.16.0": "lock", "pkg:pypi/uv@0.13.9": "recorded"}


@pytest.mark.shows("npm", "records", "replays offline", "cross-checked", "SBOM names")
def test_npm_ci_installs_what_a_lock_file_with_absolute_addresses_names(place_for: SuitePlace) -> None:
    require_program("npm")  # which says where its registry is
    package = {"name": "sample", "version": "1.0.0", "dependencies": {"ms": "2.1.3"}}
    sample = Sample(
        "npm",
        files={"package.json": json.dumps(package), "package-lock.json": npm_lock("ms", "2.1.3"), "README": "one\n"},
        gold={"README": "two\n"},
        fields={
            "toolchain": {"node": "24.21.0"},
            "manifests": ["package.json", "package-lock.json"],
            "dependencies": ["npm ci"],
        },
    )
    suite = place_for.suite(sample)
    stage = lock_and_build(suite)
    script = """cd npm && node -p 'require("ms")("2 days")'"""
    assert said(suite.task_build().builder(), stage, script) == "172800000\n"
    assert purls(suite) == {"pkg:npm/ms@2.1.3": "lock"}


ERRORS = """\
github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQAwrK5UwLGTwt4=
github.com/pkg/errors v0.9.1/go.mod h1:bwawxfHBFNV+L2hUp1rHADufV3IMtnDRdf1r5NINEl0=
"""
TOML = """\
github.com/BurntSushi/toml v1.3.2 h1:o7IhLm0Msx3BaB+n3Ag7L8EVlByGnpq14C4YWiu/gL8=
github.com/BurntSushi/toml v1.3.2/go.mod h1:CxXYINrC8qIiEnFrOxCa7Jy5BFHlXnUU2pbicEuybxQ=
"""
MAIN = 'package sample\n\nimport "github.com/pkg/errors"\n\nfunc Size(text string) (int, error) {{ {body} }}\n'
GO_TEST = """\
package sample

import "testing"

func TestSize(t *testing.T) {
\tif size, err := Size("a = 1\\nb = 2\\n"); size != 2 || err != nil {
\t\tt.Fatal(size, err)
\t}
}
"""
GO = Sample(
    "gomod",
    files={
        "go.mod": "module ex.invalid/sample\n\ngo 1.21\n\nrequire github.com/pkg/errors v0.9.1\n",
        "go.sum": ERRORS,
        "size.go": MAIN.format(body='return 0, errors.New("not yet")'),
    },
    gold={
        "go.mod": (
            "module ex.invalid/sample\n\ngo 1.21\n\n"
            "require (\n\tgithub.com/BurntSushi/toml v1.3.2\n\tgithub.com/pkg/errors v0.9.1\n)\n"
        ),
        "go.sum": TOML + ERRORS,
        "size.go": (
            'package sample\n\nimport (\n\t"github.com/BurntSushi/toml"\n\t"github.com/pkg/errors"\n)\n\n'
            "func Size(text string) (int, error) {\n\tvar found map[string]any\n"
            '\t_, err := toml.Decode(text, &found)\n\treturn len(found), errors.Wrap(err, "size")\n}\n'
        ),
    },
    hidden={"size_test.go": GO_TEST},
    fields={
        "toolchain": {"go": "1.26.0"},
        "manifests": ["go.mod", "go.sum"],
        "dependencies": ["XDG_CONFIG_HOME=/tmp/config GOCACHE=/tmp/go-build go mod download"],
        "test": {
            "run": "go test -json -count=1 ./...",
            "results": "gotest-json",
            "env": {
                "CGO_ENABLED": "0",
                "GOCACHE": "/tmp/go-build",
                "GOFLAGS": "-buildvcs=false",
                "GOPROXY": "off",
                "GOSUMDB": "off",
                "XDG_CONFIG_HOME": "/tmp/config",
            },
        },
    },
)


@pytest.mark.shows("Go modules", "records", "replays offline", "cross-checked")
def test_a_dependency_that_gold_adds_is_there_without_any_trace_of_golds_files(place_for: SuitePlace) -> None:
    suite = place_for.suite(GO)
    stage = lock_and_build(suite)
    lock = suite.lock()
    assert list(lock.files.manifests) == ["gomod"]
    assert {fetch.step for fetch in lock.fetches} == {"gomod/gold/dependencies"}  # base needs no module beside gold's
    assert {fetch.origin for fetch in lock.fetches if fetch.blob.key.endswith(".zip")} == {"lock"}
    builder = suite.task_build().builder()
    listed = said(
        builder, stage, "cd /root/go/pkg/mod/github.com && ls -d */* && git -C /workspace/gomod status --short"
    )
    assert listed == "!burnt!sushi/toml@v1.3.2\npkg/errors@v0.9.1\n"
    texts = workspace_texts(builder.store, stage)
    assert b"BurntSushi" not in b"".join(texts.values())
    assert texts[b"workspace/gomod/go.mod"] == GO.files["go.mod"].encode()
    found = api.validate(suite.place, suite.task, api.ValidationRequest(runs=1))
    assert found.valid
    assert found.expected["gomod"].plain() == {"FAIL_TO_PASS": ["ex.invalid/sample::TestSize"], "PASS_TO_PASS": []}


def workspace_texts(store: Store, stage: Stage) -> dict[bytes, bytes]:
    """Return the files of all layers below the workspace; of twins, all bytes together."""
    found: dict[bytes, bytes] = {}
    for layer in stage.layers:
        with open_layer(store, layer) as stream:
            for entry, reader in read_tar(stream):
                if entry.path.startswith(b"workspace/"):
                    data = reader.read()
                    found[entry.path] = data if found.get(entry.path, data) == data else found[entry.path] + data
    return found


def test_a_base_image_is_pulled_by_digest_and_then_needs_no_registry(place_for: SuitePlace, tmp_path: Path) -> None:
    first = place_for.suite(APT)
    api.lock(first.place, first.task)
    task_build = first.task_build()
    head, _, _ = task_build.dockerfile(sealed=False).partition("\n# apt: what its lock files ask for")
    base = task_build.builder().build(parse_dockerfile(head))
    image = assemble_image(base, task_build.store, task="base", platform="linux/amd64")
    with docker_registry(tmp_path / "registry") as host:
        push_image(task_build.store, ImageRecord(image.manifest), parse_reference(f"{host}/made/base:v1"))
        name = f"{host}/made/base@{image.manifest.digest}"
        sample = Sample(
            "image",
            files={"README": "one\n"},
            gold={"README": "two\n"},
            base={"image": name},
            fields={"prepare": ["python3 -c 'import ssl'"]},
        )
        suite = make_suite(tmp_path / "image", sample, store=tmp_path / "image-store")
        api.lock(suite.place, suite.task)
        lock = suite.lock()
        assert (lock.base.image, lock.base.manifest) == (image.manifest.digest, image.manifest.digest)
        assert host not in suite.lock_path.read_text()
        away = replace(suite.place, store_root=tmp_path / "away")
        fetched = api.fetch(away, suite.task, into=tmp_path / "inputs")
    offline = replace(suite.place, store_root=tmp_path / "offline", inputs=(tmp_path / "inputs",))
    assert fetched.blobs == len(list((tmp_path / "inputs").rglob("sha256/*")))
    assert f"FROM {name}\nENTRYPOINT []\n" in suite.task_build().dockerfile(sealed=False)
    built = offline.task_build(suite.task, "linux/amd64", lambda _: None).environment()
    assert built == suite.task_build().environment()
    assert built.layers[: len(base.layers)] == base.layers
    assert said(suite.task_build().builder(), built, "cat /workspace/image/README; git --version | cut -c1-4") == (
        "one\ngit \n"
    )
