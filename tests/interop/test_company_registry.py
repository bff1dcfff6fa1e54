"""A company's registry: TLS by its own authority, a name of its own, credentials from a helper; the verbs as people call them.

The same walk goes through distribution with basic authentication and through a registry with token authentication.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from packager import api
from packager.cli.main import cli
from packager.oci.record import format_record
from packager.seal.identities import RootSecret, create_evaluator_key, write_root
from packager.trust.keyfiles import Password, write_key_pair
from tests.support.docker_registry import docker_registry
from tests.support.platform_images import TASK, platform_image
from tests.support.private_ca import PrivateCa, install_helper, make_private_ca
from tests.support.registry import MemoryRegistry, Options
from tests.support.sealed_images import fixed_key
from tests.support.walk import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.engine
NAME = "registry.company.test"
BCRYPT_OF_SECRET = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
GIVES = 'echo \'{"ServerURL":"x","Username":"someone","Secret":"secret"}\''
_resolve = socket.getaddrinfo


@dataclass(frozen=True)
class Stage:
    """A registry by its name, and the folders of an author and a lab."""

    host: str
    folder: Path
    ca: PrivateCa

    def call(self, *words: str, who: str = "author") -> Result:
        """Run a verb in this process, where the company's name resolves."""
        places = [
            "--root",
            str(ROOT),
            "--store",
            str(self.folder / who),
            "--keys",
            str(self.folder / f"{who}.keys"),
        ]
        return CliRunner().invoke(cli, ["--json", "--quiet", *places, *words], standalone_mode=False)

    def ask(self, *words: str, who: str = "author") -> Any:
        result = self.call(*words, who=who)
        assert result.exception is None, result.exception
        return json.loads(result.stdout.splitlines()[0]) if result.stdout else None

    def refusal(self, *words: str) -> str:
        result = self.call(*words)
        assert result.exception is not None
        return str(result.exception).replace(self.host, "HOST")

    def asked(self) -> set[str]:
        return set((self.folder / "asked").read_text().splitlines())


def resolve(host: Any, *more: Any, **options: Any) -> Any:
    """A resolver that knows the company's name; everything else is as ever."""
    return _resolve("127.0.0.1" if host in (NAME, NAME.encode()) else host, *more, **options)


@pytest.fixture(scope="module")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    keys = tmp_path_factory.mktemp("keys")
    for number, role in enumerate(("release", "attest", "suite-root"), start=1):
        write_key_pair(keys / f"{role}.key", keys / f"{role}.pub", fixed_key(number), Password(""))
    write_root(keys / "root.key", RootSecret(bytes(range(32))))
    return keys


@pytest.fixture(params=["basic", "token"])
def stage(
    request: pytest.FixtureRequest, key_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    shutil.copytree(key_files, tmp_path / "author.keys")
    ca = make_private_ca(tmp_path, NAME)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca.authority))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("WIDESWE_PASSWORD", "")
    if request.param == "basic":
        (tmp_path / "htpasswd").write_text(f"someone:{BCRYPT_OF_SECRET}\n")
        files = (ca.certificate, ca.key)
        with docker_registry(tmp_path / "registry", htpasswd=tmp_path / "htpasswd", tls=files) as address:
            yield prepared(tmp_path, ca, address)
        return
    options = Options(authentication="bearer", users={"someone": "secret"})
    with MemoryRegistry(options, ca.context()) as registry:
        options.realm = f"https://{NAME}:{registry.host.rpartition(':')[2]}/token"
        yield prepared(tmp_path, ca, registry.host)


def prepared(folder: Path, ca: PrivateCa, address: str) -> Stage:
    """Give the author keys and an image for two platforms."""
    made = Stage(f"{NAME}:{address.rpartition(':')[2]}", folder, ca)
    install_helper(folder, [made.host], GIVES)
    place = api.Place(folder, folder / "author", folder / "author.keys", password=Password(""))
    record = platform_image(place.store(), "amd64", name=f"{made.host}/wideswe/{TASK}:v1")
    place.store().set_name("images", TASK, format_record(record))
    return made


def test_every_verb_that_speaks_to_a_registry_does_it_over_tls_with_the_helpers_credentials(stage: Stage) -> None:
    space = f"{stage.host}/wideswe"
    pushed = stage.ask("push", "--task", TASK, "--to", space)
    stage.ask("index", f"{space}/{TASK}:v1", pushed["manifest"])
    stage.ask("grant", "--task", TASK, "--to", create_evaluator_key()[1], "--publish", space)
    stage.ask("suite", "create", "wideswe", "--home", space, "--task", TASK)
    stage.ask("suite", "push", "wideswe", "--to", space)
    (stage.folder / "lab.keys").mkdir()
    policy = stage.folder / "lab.keys" / "trust.yaml"
    stage.ask("trust", "export", "--format", "trust.yaml", "--into", str(policy))
    policy.write_text(policy.read_text().replace("validated: true", "validated: false"))
    stage.ask("suite", "pull", f"{space}/wideswe-suite:latest", who="lab")
    pulled = stage.ask("pull", f"{space}/{TASK}:v1", "--platform", "linux/amd64", who="lab")
    assert pulled["manifest"] == pushed["manifest"]
    assert [check["ok"] for check in stage.ask("verify", TASK, who="lab")] == [True] * 11
    copied = stage.ask("mirror", space, f"{stage.host}/copy", "--suite", "wideswe", who="lab")
    assert copied["reference"] == f"{stage.host}/copy/{TASK}:v1"
    whole = ("mirror", f"{space}/{TASK}:v1", f"{stage.host}/copy/{TASK}:v1")
    assert [stage.ask(*whole, who="lab")["moved"] for _ in range(2)] == [3, 0], "the index's own signatures, once"
    assert stage.asked() == {f"get {stage.host}"}


def test_what_is_wrong_with_certificate_or_credentials_is_said(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("push", "--task", TASK, "--to", f"{stage.host}/wideswe")
    install_helper(stage.folder, [stage.host], "echo the vault is locked; exit 1")
    assert stage.refusal(*words) == "HOST: docker-credential-company ended with exit code 1: the vault is locked"
    install_helper(stage.folder, [stage.host], "echo credentials not found in native keychain; exit 1")
    assert "401" in stage.refusal(*words)
    install_helper(stage.folder, [stage.host], GIVES.replace("secret", "wrong"))
    assert "401" in stage.refusal(*words)
    (stage.folder / "docker-credential-company").unlink()
    assert (
        stage.refusal(*words) == "program not found: docker-credential-company\nhint: install docker-credential-company"
    )
    install_helper(stage.folder, [stage.host], GIVES)
    asked = (stage.folder / "asked").read_text()
    monkeypatch.delenv("SSL_CERT_FILE")
    said = stage.refusal(*words)
    assert said.startswith(f"HOST/wideswe/{TASK}: ")
    assert "TLS failed: " in said
    assert "certificate verify failed" in said
    assert said.endswith(
        "\nhint: the certificate must be signed by a CA of the system's bundle (SSL_CERT_FILE names another)"
    )
    assert (stage.folder / "asked").read_text() == asked, "nobody's secret is looked for before the certificate is good"
    assert "TLS failed: " in stage.refusal(*words, "--plain-http", "elsewhere.test:1")
