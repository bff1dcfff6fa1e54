"""Trust policies as people write them: every fault at once, each with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.digests import Digest, digest_of
from packager.base.errors import InputError
from packager.trust.policy import SuitePolicy, format_policy, read_policy

if TYPE_CHECKING:
    from pathlib import Path

ROOT = digest_of(b"root")
PLAIN = f"""\
schema: wideswe-trust/1
suites:
  - name: small
    root: "{ROOT}"
"""


def refusal(folder: Path, text: str) -> str:
    path = folder / "trust.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_policy(path)
    return str(caught.value).replace(str(path), "trust.yaml")


def test_what_is_not_said_is_the_careful_choice(tmp_path: Path) -> None:
    (tmp_path / "trust.yaml").write_text(PLAIN)
    policy = read_policy(tmp_path / "trust.yaml").of(None, where="trust.yaml")
    assert policy == SuitePolicy("small", ROOT, release=1, attest=1, validated=True, reproduced=0, builders=())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    policy = SuitePolicy("small", Digest(ROOT), release=2, attest=3, validated=False, reproduced=0)
    (tmp_path / "trust.yaml").write_text(format_policy(policy))
    assert read_policy(tmp_path / "trust.yaml").suites == {"small": policy}


def test_builders_lie_beside_the_policy(tmp_path: Path) -> None:
    (tmp_path / "trust.yaml").write_text(PLAIN + "    reproduced: 1\n    builders: [lab.pub, other.pub]\n")
    policy = read_policy(tmp_path / "trust.yaml").suites["small"]
    assert (policy.reproduced, policy.builders) == (1, (tmp_path / "lab.pub", tmp_path / "other.pub"))


def test_a_suite_that_is_not_named_must_be_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "trust.yaml").write_text(f'{PLAIN}  - name: other\n    root: "{ROOT}"\n')
    policy = read_policy(tmp_path / "trust.yaml")
    assert policy.of("other", where="p").name == "other"
    with pytest.raises(InputError) as caught:
        policy.of(None, where="p")
    assert str(caught.value) == "p: it speaks of several suites: other, small\nhint: name one with --suite"
    with pytest.raises(InputError) as caught:
        policy.of("third", where="p")
    assert str(caught.value) == "p: it does not speak of the suite third\nhint: suites in it: other, small"


def test_every_fault_is_reported_at_once_with_its_line(tmp_path: Path) -> None:
    text = """\
schema: wideswe-trust/1
suites:
  - name: Small Suite
    root: sha256:12
    release: 0
    attest: 65
    validated: 1
    reproduced: 2
    builders: [one.pub]
    thresholds: 3
  - root: "sha256:0"
"""
    assert refusal(tmp_path, text).splitlines() == [
        "9 problems",
        "trust.yaml:3: suites.0.name: expected lower-case words joined by `.`, `-` or `_`, found 'Small Suite'",
        "trust.yaml:4: suites.0.root: expected sha256: and 64 hexadecimal digits, found 'sha256:12'",
        "trust.yaml:5: suites.0.release: expected a number from 1 to 64, found 0",
        "trust.yaml:6: suites.0.attest: expected a number from 1 to 64, found 65",
        "trust.yaml:7: suites.0.validated: expected true or false",
        "trust.yaml:8: suites.0.reproduced: expected at most 1, the number of builders",
        "trust.yaml:10: suites.0.thresholds: unknown key",
        "trust.yaml:11: suites.1.name: is missing",
        "trust.yaml:11: suites.1.root: expected sha256: and 64 hexadecimal digits, found 'sha256:0'",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1 problem\ntrust.yaml: the file is empty"),
        ("[]", "1 problem\ntrust.yaml: expected the keys schema (wideswe-trust/1) and suites, and no other"),
        (
            PLAIN.replace("/1", "/2"),
            "1 problem\ntrust.yaml: expected the keys schema (wideswe-trust/1) and suites, and no other",
        ),
        (
            PLAIN + "more: 1\n",
            "1 problem\ntrust.yaml: expected the keys schema (wideswe-trust/1) and suites, and no other",
        ),
        ("schema: wideswe-trust/1\nsuites: []\n", "1 problem\ntrust.yaml:2: suites: expected a list of 1 to 64 suites"),
        ("schema: wideswe-trust/1\nsuites: [1]\n", "1 problem\ntrust.yaml:2: suites.0: expected a mapping"),
        (
            PLAIN + "    validated: no\n",
            (
                "1 problem\ntrust.yaml:5: suites.0.validated: the value no reads as true or false in YAML 1.1 "
                '(hint: quote it to keep the text: "no")'
            ),
        ),
        (
            PLAIN + f'    root: "{ROOT}"\n',
            "1 problem\ntrust.yaml:5: suites.0.root: duplicate key, first at line 4 (hint: keep one of them)",
        ),
        (PLAIN + PLAIN.partition("suites:\n")[2], "1 problem\ntrust.yaml:5: suites.1.name: the suite is named twice"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert refusal(tmp_path, text) == said
