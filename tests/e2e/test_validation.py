"""Validation over real runs: tests that hang on order, zone, user or CPUs are set aside, with what they hang on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.evaluate.predictions import Patch
from packager.evaluate.profile import Profile, TargetProfile
from packager.evaluate.run import Session
from packager.evaluate.validate import Plan, Validation, format_evidence, validate_session
from packager.evaluate.variations import Variation, shuffled_command, variations_of
from packager.sandbox.engine import Limits
from packager.sandbox.namespaces import may_mount
from tests.support.host_engine import HostEngine
from tests.support.host_tree import PATH, make_host_layer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root; the rootless engine is tested in test_rootless_engine.py"),
]

TESTS = """\
. ./lib.sh
say() { count=$((count + 1)); if [ "$1" = "$2" ]; then echo "ok $count - $3"; else echo "not ok $count - $3"; bad=1; fi; }
one() { first=${first:-one}; say "$(answer)" 42 answers; }
two() { say "$first" "one" "comes second"; }
three() { say "$(id -u)" 0 "is root"; }
four() { say "$(nproc)" 1 "has one CPU"; }
five() { say "$(date +%z)" +0000 "is in Greenwich"; }
six() { say 1 1 stands; }
for name in ${*:-one two three four five six}; do $name; done
echo 1..$count
exit ${bad:-0}
"""
GOLD = """\
diff --git a/lib.sh b/lib.sh
--- a/lib.sh
+++ b/lib.sh
@@ -1 +1 @@
-answer() { :; }
+answer() { echo 42; }
"""
TARGET = TargetProfile(
    name="maker",
    prepare="",
    run="sh t/all.sh",
    workdir=".",
    results="tap",
    report="stdout",
    timeout_s=20.0,
    env=(("PATH", PATH),),
    protect=("t/**",),
)
NO_OTHER_DAY = "the image has no libfaketime (Debian: faketime), and a sandbox has the kernel's clock"
SHUFFLED = {"maker": "sh t/all.sh six five four three two one"}


LOADED = '[ "$(answer)" ] || { echo "Bail out!"; exit 1; }'


def hidden(script: str) -> dict[str, dict[str, tuple[int, bytes]]]:
    return {"maker": {"t/all.sh": (0o644, script.encode())}}


@pytest.fixture(scope="module")
def engine() -> HostEngine:
    return HostEngine()


@pytest.fixture
def session(engine: HostEngine, tmp_path: Path) -> Session:
    layer = make_host_layer(tmp_path / "layer")
    checkout = layer / "workspace" / "maker"
    (checkout / "t").mkdir(parents=True)
    (checkout / "lib.sh").write_text("answer() { :; }\n")
    store = tmp_path / "store"
    store.mkdir()
    profile = Profile("made-up-001", (TARGET,), Limits(cpus=1))
    return Session(engine, [layer], {"PATH": PATH, "TZ": "UTC"}, profile, hidden(TESTS), store)


def validate(session: Session, plan: Plan) -> Validation:
    return validate_session(session, {"maker": GOLD.encode()}, plan)


def test_flaky_tests_are_set_aside_with_what_they_hang_on(session: Session) -> None:
    variations, missing = variations_of(session, SHUFFLED)
    if "cpus" in missing:
        pytest.skip("needs two CPUs")
    if "day" not in missing:  # this machine has libfaketime
        variations = tuple(one for one in variations if one.name != "day")
        missing["day"] = NO_OTHER_DAY
    assert [one.name for one in variations] == ["order", "hash seed", "time of day", "user", "cpus"]
    assert missing == {"day": NO_OTHER_DAY}
    found = validate(session, Plan(2, variations, missing))
    assert found.valid
    assert found.expected["maker"].plain() == {"FAIL_TO_PASS": ["answers"], "PASS_TO_PASS": ["stands"]}
    assert {name: one.by for name, one in found.evidence["maker"].unstable.items()} == {
        "comes second": ("order",),
        "has one CPU": ("cpus",),
        "is in Greenwich": ("time of day",),
        "is root": ("user",),
    }
    together = ("alike", "alike", "all variations together", "order", "hash seed", "time of day", "user", "cpus")
    assert found.rounds == together
    kept = json.loads(format_evidence(found, subject=digest_of(b"")))
    said = kept["targets"]["maker"]["unstable"]["is root"]
    assert said == {
        "base": ["passed", "passed", "failed", "passed", "passed", "passed", "failed", "passed"],
        "by": ["user"],
        "gold": ["passed", "passed", "failed", "passed", "passed", "passed", "failed", "passed"],
    }


def test_stable_tests_cost_one_round_more(session: Session) -> None:
    seeds = Variation("hash seed", "", env=(("PYTHONHASHSEED", "1"),))
    noise = Variation("noise", "", env=(("NOISE", "1"),))
    found = validate(session, Plan(1, (seeds, noise)))
    assert found.rounds == ("alike", "all variations together")
    assert found.evidence["maker"].unstable == {}


def test_a_variation_that_the_tests_do_not_bear_sets_nothing_aside(session: Session) -> None:
    broken = Variation("order", "", commands={"maker": "sh t/no-such-file.sh"})
    found = validate(session, Plan(1, (broken,)))
    assert (found.valid, found.evidence["maker"].unstable) == (True, {})
    assert dict(found.evidence["maker"].not_borne) == {"order": "the report is empty"}


def test_only_unstable_tests_are_refused(session: Session) -> None:
    only_root = TESTS.replace("one two three four five six", "seven").replace(
        "three()", 'seven() { say "$(id -u)$(answer)" 042 "is root"; }\nthree()'
    )
    user = [one for one in variations_of(session, SHUFFLED)[0] if one.name == "user"]
    found = validate(replace(session, hidden=hidden(only_root)), Plan(1, tuple(user)))
    problem = "no test fails at base and passes with gold; 1 unstable tests were set aside"
    assert [target.problem for target in found.targets] == [problem]


def test_a_base_that_cannot_even_be_loaded_is_marked(session: Session) -> None:
    guarded = TESTS.replace(". ./lib.sh", f". ./lib.sh\n{LOADED}")
    found = validate(replace(session, hidden=hidden(guarded)), Plan(1))
    evidence = found.evidence["maker"]
    assert evidence.base_failure == ("<bail out>", "<plan>")
    assert evidence.uncollected == found.expected["maker"].fail_to_pass
    assert evidence.uncollected == ("answers", "comes second", "is in Greenwich", "is root", "stands")


def test_a_stub_says_which_tests_declare_nothing_but_names(session: Session) -> None:
    other = TESTS.replace("say 1 1 stands", 'say "${declared:-}" 1 "is declared"')
    gold = GOLD.replace("answer() { echo 42; }", "answer() { echo 42; }; declared=1").encode()
    stub = GOLD.replace("answer() { echo 42; }", "answer() { :; }; declared=1").encode()
    plan = Plan(1, stubs={"maker": Patch(stub)})
    found = validate_session(replace(session, hidden=hidden(other)), {"maker": gold}, plan)
    assert found.expected["maker"].fail_to_pass == ("answers", "is declared")
    assert found.stub_passes == {"maker": ("is declared",)}
    with pytest.raises(InputError) as caught:
        validate_session(session, {"maker": GOLD.encode()}, replace(plan, stubs={"maker": Patch(b"nonsense")}))
    assert str(caught.value).startswith("stub of maker: the stub does not apply: ")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("go test -json -count=1 .", "go test -shuffle=4711 -json -count=1 ."),
        ("cd a && go test ./...", "cd a && go test -shuffle=4711 ./..."),
        ("npx vitest run --dir v", "npx vitest run --sequence.shuffle --sequence.seed=4711 --dir v"),
        (
            "node node_modules/vitest/vitest.mjs run a.test.ts",
            "node node_modules/vitest/vitest.mjs run --sequence.shuffle --sequence.seed=4711 a.test.ts",
        ),
        ("node node_modules/jest/bin/jest.js a", "node node_modules/jest/bin/jest.js --randomize --seed=4711 a"),
        ("node_modules/.bin/jest --json", "node_modules/.bin/jest --randomize --seed=4711 --json"),
        ("bundle exec rspec spec", "bundle exec rspec --order rand:4711 spec"),
        ("vendor/bin/phpunit", "vendor/bin/phpunit --order-by=random --random-order-seed=4711"),
        ("python manage.py test -v 2", "python manage.py test --shuffle 4711 -v 2"),
        ("mvn -q test; code=$?", "mvn -q test -Dsurefire.runOrder=random; code=$?"),
        ("prove -v t", "prove --shuffle -v t"),
        ("perl t/all.pl", None),
        ("sh not-jest-at-all", None),
        ("cargo test 2>&1", None),
    ],
)
def test_known_commands_are_shuffled(run: str, expected: str | None) -> None:
    assert shuffled_command(run) == expected
