"""Stock tools judge what we publish: a table of who is asked, about what, with which key or policy, and what they say.

One small image lies in a real registry under its home, under the name of a mirror, and once without any signature.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.digests import Digest
from packager.oci.record import ImageRecord
from packager.oci.reference import parse_reference
from packager.registry.push import push_image
from packager.seal.bundle import seal
from packager.seal.grants import add_grants
from packager.seal.identities import create_evaluator_key, make_grants, task_identity, write_identity
from packager.trust import attestations as kinds
from packager.trust.attestations import attach_statement, format_statement
from packager.trust.export import format_engine_policy, format_registries
from packager.trust.signatures import sign_image
from packager.trust.validation import TargetCounts, Validated, make_result
from tests.support.debian_tools import obtain_command, obtain_program
from tests.support.docker_registry import docker_registry, require_program
from tests.support.sealed_images import CONTENTS, KEY, OTHER_KEY, ROOT, SealedImage, build_image, fixed_key
from tests.support.stock_tools import StockTools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.engine, pytest.mark.network]

ATTEST_KEY = fixed_key(3)
RESULT = make_result(Validated(3, {"greeter": TargetCounts(2, 5)}), sealed=Digest("sha256:" + "ab" * 32))
STATEMENTS: dict[str, dict[str, Any]] = {
    kinds.PROVENANCE_PREDICATE: {"buildDefinition": {}, "runDetails": {}},
    kinds.SBOM_PREDICATE: {"spdxVersion": "SPDX-2.3"},
    kinds.RESULT_PREDICATE: RESULT,
}
SHORT_NAMES = {
    "slsaprovenance1": kinds.PROVENANCE_PREDICATE,
    "spdxjson": kinds.SBOM_PREDICATE,
    kinds.RESULT_PREDICATE: kinds.RESULT_PREDICATE,
}


@dataclass(frozen=True)
class Stage:
    """The registry, the image in it, and a folder with keys, policies and grants."""

    host: str
    image: SealedImage
    record: ImageRecord
    folder: Path

    @property
    def tools(self) -> StockTools:
        return StockTools(self.folder)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("judged")
    image = build_image(folder / "store")
    with docker_registry(folder / "registry") as host:
        record = sign_image(image.record.manifest, f"{host}/home/hello:v1", KEY, image.store).added_to(
            ImageRecord(image.record.manifest)
        )
        for kind, predicate in STATEMENTS.items():
            statement = format_statement("hello", record.manifest.digest, kind, predicate)
            record = attach_statement(record, statement, ATTEST_KEY, image.store)
        evaluator, recipient = create_evaluator_key()
        task, _ = task_identity(ROOT, CONTENTS.suite, CONTENTS.task)
        grants = make_grants(task, [recipient], root=ROOT)
        record = replace(record, grants=tuple(add_grants(image.store, record.manifest, (), grants)))
        for name in ("home/hello:v1", "mirror/hello:v1", "home/moved:v1", "home/hello:v2"):
            push_image(image.store, record, parse_reference(f"{host}/{name}"))
        push_image(image.store, ImageRecord(record.manifest), parse_reference(f"{host}/home/bare:v1"))
        made = Stage(host, image, record, folder)
        write_files(made)
        write_identity(folder / "evaluator.key", evaluator)
        (folder / "grant.age").write_bytes(grants[0])
        (folder / "sealed.age").write_bytes(seal(CONTENTS, ROOT))
        yield made


def write_files(stage: Stage) -> None:
    for name, key in {"release": KEY, "attest": ATTEST_KEY, "other": OTHER_KEY}.items():
        (stage.folder / f"{name}.pub").write_bytes(key.public.pem)
    home, mirror = f"{stage.host}/home", f"{stage.host}/mirror"
    policies = {
        "ours": ([mirror], [KEY.public]),
        "two keys": ([mirror], [OTHER_KEY.public, KEY.public]),
        "wrong key": ([mirror], [OTHER_KEY.public]),
        "attest key": ([mirror], [ATTEST_KEY.public]),
        "no mirror": ([], [KEY.public]),
    }
    for name, (mirrors, keys) in policies.items():
        (stage.folder / f"{name}.json").write_text(format_engine_policy(home, mirrors, keys))
    strange = json.loads(format_engine_policy(home, [mirror], [KEY.public]))
    strange["transports"]["docker"][mirror][0]["signedIdentity"]["signedPrefix"] = f"{stage.host}/elsewhere"
    (stage.folder / "wrong identity.json").write_text(json.dumps(strange))
    (stage.folder / "registries.d").mkdir()
    (stage.folder / "registries.d" / "ours.yaml").write_text(format_registries(home, [mirror]))


SKOPEO = [
    ("ours", "home/hello:v1", ""),
    ("ours", "home/hello@DIGEST", ""),
    ("ours", "mirror/hello:v1", ""),
    ("ours", "mirror/hello@DIGEST", ""),
    ("two keys", "home/hello:v1", ""),
    ("two keys", "mirror/hello@DIGEST", ""),
    ("wrong key", "home/hello:v1", "cryptographic signature verification failed"),
    ("wrong key", "mirror/hello@DIGEST", "cryptographic signature verification failed"),
    ("attest key", "home/hello:v1", "cryptographic signature verification failed"),
    ("wrong identity", "mirror/hello:v1", "is not accepted"),
    ("ours", "home/moved:v1", "is not accepted"),
    ("ours", "home/hello:v2", "is not accepted"),
    ("no mirror", "mirror/hello:v1", "is rejected by policy"),
    ("ours", "home/bare:v1", "is not accepted|no signature exists"),
]


@pytest.mark.parametrize(("policy", "source", "refusal"), SKOPEO, ids=lambda value: str(value) or "accepted")
def test_skopeo_judges_by_the_policy_that_we_export(stage: Stage, policy: str, source: str, refusal: str) -> None:
    done = stage.tools.skopeo(policy, f"{stage.host}/{source.replace('DIGEST', stage.record.manifest.digest)}")
    said = done.stderr.decode()
    assert (done.exit_code == 0) is (not refusal), said
    assert not refusal or any(part in said for part in refusal.split("|")), said


@pytest.mark.parametrize("suite", ["trixie", "sid"])
@pytest.mark.parametrize(
    ("key", "source", "accepted"),
    [
        ("release", "home/hello:v1", True),
        ("release", "home/hello@DIGEST", True),
        ("release", "mirror/hello:v1", True),
        ("other", "home/hello:v1", False),
        ("release", "home/bare:v1", False),
    ],
)
def test_cosign_verifies_images(suite: str, key: str, source: str, accepted: bool, stage: Stage) -> None:
    name = f"{stage.host}/{source.replace('DIGEST', stage.record.manifest.digest)}"
    done = stage.tools.cosign(suite, "verify", "--key", f"{key}.pub", name)
    assert (done.exit_code == 0) is accepted, done.stderr.decode()


@pytest.mark.parametrize("suite", ["trixie", "sid"])
@pytest.mark.parametrize("kind", SHORT_NAMES)
def test_cosign_verifies_each_attestation_by_its_type(suite: str, kind: str, stage: Stage) -> None:
    name = f"{stage.host}/home/hello@{stage.record.manifest.digest}"
    done = stage.tools.cosign(suite, "verify-attestation", "--type", kind, "--key", "attest.pub", name)
    assert done.exit_code == 0, done.stderr.decode()
    said = {SHORT_NAMES[kind]} & {line for line in STATEMENTS if line.encode() in decoded(done.stdout)}
    assert said == {SHORT_NAMES[kind]}
    refused = stage.tools.cosign(suite, "verify-attestation", "--type", kind, "--key", "release.pub", name)
    assert refused.exit_code != 0
    missing = stage.tools.cosign(suite, "verify-attestation", "--type", "cyclonedx", "--key", "attest.pub", name)
    assert missing.exit_code != 0


def decoded(lines: bytes) -> bytes:
    """Return the payloads of the envelopes that cosign prints."""
    return b"\n".join(base64.b64decode(json.loads(line)["payload"]) for line in lines.splitlines() if line)


def test_an_attestation_key_alone_satisfies_stock_cosign_so_it_is_another_key_than_the_release_key(
    stage: Stage,
) -> None:
    """cosign's verify takes any statement by the key, whatever it says: report 7."""
    name = f"{stage.host}/home/hello:v1"
    assert stage.tools.cosign("sid", "verify", "--key", "attest.pub", name).exit_code == 0
    assert stage.tools.cosign("trixie", "verify", "--key", "attest.pub", name).exit_code != 0


def test_crane_has_the_same_digest_and_oras_finds_all_that_hangs_on_it(stage: Stage) -> None:
    done = stage.tools.crane("digest", "--insecure", f"{stage.host}/home/hello:v1")
    assert done.stdout.decode().strip() == stage.record.manifest.digest, done.stderr.decode()
    oras = obtain_program("oras", "sid")
    name = f"{stage.host}/home/hello@{stage.record.manifest.digest}"
    done = stage.tools.call([str(oras), "discover", "--plain-http", "--format", "json", name])
    assert done.exit_code == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    listed = found.get("referrers", found.get("manifests"))
    wanted = {entry.digest for entry in (*stage.record.referrers, *stage.record.grants)}
    assert {entry["digest"] for entry in listed} == wanted
    types = {entry["artifactType"] for entry in listed}
    assert types == {"application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.wideswe.key-grant.v1"}


@pytest.mark.parametrize("tool", ["age here", "age of sid", "rage"])
def test_stock_age_opens_the_grant_and_with_it_the_seal(tool: str, stage: Stage) -> None:
    argv = {
        "age here": lambda: [require_program("age")],
        "age of sid": lambda: [str(obtain_program("age", "sid"))],
        "rage": lambda: obtain_command("rage", "sid", "libgcc-s1"),
    }[tool]()
    granted = stage.tools.call([*argv, "-d", "-i", "evaluator.key", "grant.age"])
    assert granted.exit_code == 0, granted.stderr.decode()
    (stage.folder / "task.key").write_bytes(granted.stdout)
    opened = stage.tools.call([*argv, "-d", "-i", "task.key", "sealed.age"])
    assert opened.exit_code == 0, opened.stderr.decode()
    assert opened.stdout[257:262] == b"ustar"
    assert stage.tools.call([*argv, "-d", "-i", "evaluator.key", "sealed.age"]).exit_code != 0
