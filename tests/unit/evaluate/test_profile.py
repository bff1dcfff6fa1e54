"""The evaluation profile comes out of a seal that others made: every field of it is looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import InputError
from packager.evaluate.profile import Profile, TargetProfile, format_profile, parse_profile
from packager.sandbox.engine import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = TargetProfile(
    name="gauge",
    prepare="",
    run="perl t/all.pl",
    workdir="lib/x",
    results="tap",
    report="stdout",
    timeout_s=120.0,
    env=(("A", "1"),),
    protect=("t/**",),
)
PROFILE = Profile("hello-wide-001", (TARGET,), Limits(1, 512 << 20, 256))


def test_a_profile_is_read_as_it_was_written() -> None:
    assert parse_profile(format_profile(PROFILE)) == PROFILE


def edit(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(plain: dict[str, Any]) -> None:
        *above, last = path.split(".")
        place: Any = plain
        for part in above:
            place = place[int(part)] if part.isdigit() else place[part]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("targets", [], "targets: expected targets, each with a name of its own"),
        ("targets.0.name", "../etc", "targets[0].name: expected a plain path inside the tree, found '../etc'"),
        ("targets.0.name", "a/b", "targets[0].name: expected one name, found 'a/b'"),
        ("targets.0.workdir", "/etc", "targets[0].workdir: expected a plain path inside the tree, found '/etc'"),
        ("targets.0.workdir", "a/../..", "targets[0].workdir: expected a plain path inside the tree, found 'a/../..'"),
        ("targets.0.run", "a\0b", "targets[0].run: expected text without NUL, found 'a\\x00b'"),
        ("targets.0.run", 5, "targets[0].run: expected text without NUL, found '5'"),
        ("targets.0.run", "\ud800", "targets[0].run: expected text without NUL, found '\\ud800'"),
        ("targets.0.env", {"A=B": "x"}, "targets[0].env: expected the name of a variable, found 'A=B'"),
        ("targets.0.env", {"A": "\0"}, "targets[0].env: expected text without NUL, found '\\x00'"),
        ("targets.0.protect", ["/etc/*"], "targets[0].protect: expected a glob relative to the checkout, found '/etc/*'"),
        ("targets.0.protect", ["../x"], "targets[0].protect: expected a glob without empty, . and .. parts, found '../x'"),
        ("targets.0.timeout_s", -1, "targets[0].timeout_s: expected a whole number from 1 to 604800, found -1"),
        ("targets.0.timeout_s", 1e99, "targets[0].timeout_s: expected a whole number from 1 to 604800, found 1e+99"),
        ("targets.0.more", 1, "targets[0]: expected env, name, prepare, protect, report, results, run, timeout_s, workdir"),
        ("limits.cpus", 0, "limits.cpus: expected a whole number from 1 to 4096, found 0"),
        ("limits.pids", True, "limits.pids: expected a whole number from 1 to 4194304, found True"),
        ("limits.memory_bytes", 1 << 60, "limits.memory_bytes: expected a whole number from 1 to 17592186044416, found 1152921504606846976"),
        ("limits", {"cpus": 1}, "limits: expected cpus, memory_bytes, pids"),
        ("schema", 5, "expected wideswe-evaluation/1, found '5'"),
        ("task", ["x"], "task: expected text without NUL, found \"['x']\""),
    ],
)  # fmt: skip
def test_a_hostile_profile_is_refused_where_it_is_wrong(path: str, value: object, reason: str) -> None:
    plain = json.loads(format_profile(PROFILE))
    edit(path, value)(plain)
    with pytest.raises(InputError) as caught:
        parse_profile(json.dumps(plain).encode())
    text = str(caught.value).partition("\nhint: ")[0]
    assert text == f"evaluation profile: {reason}"


@pytest.mark.parametrize("data", [b"[]", b"null", b"{}", b"5"])
def test_what_is_no_profile_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        parse_profile(data)
