"""Hostile patches against real runs: what code under test does to its surroundings gains nothing.

Two small targets, `maker` and `user`; each runs t/*.sh from its checkout, which source lib.sh, which patches change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.evaluate.expected import ExpectedCases
from packager.evaluate.grade import TargetGrade, grade_target
from packager.evaluate.predictions import Patch
from packager.evaluate.profile import Profile, TargetProfile
from packager.evaluate.run import Session
from packager.evaluate.services import NOT_READY, Service
from packager.sandbox.engine import Limits
from packager.sandbox.namespaces import may_mount
from tests.support.host_engine import HostEngine
from tests.support.host_tree import PATH, make_host_layer
from tests.support.sleepers import sleeping

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root; the rootless engine is tested in test_rootless_engine.py"),
]

HIDDEN = '. ./lib.sh\n[ "$(answer)" = 42 ] && echo "ok 1 - answers" || { echo "not ok 1 - answers"; bad=1; }\n'
REST = 'echo "ok 2 - stands"\necho 1..2\nexit ${bad:-0}\n'
EXPECTED = ExpectedCases(("answers",), ("stands",))
GOOD = "answer() { echo 42; }"
WRONG = "answer() { echo 41; }"
ONLY_PREPARE = '[ "$WIDESWE_REPORT" ] && return 0'
DIG = 'python3 -c \'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range(3000)]\''
RESOLVED = ("resolved", "every expected test passed")
FAILED = ("unresolved", "1 of 2 expected tests did not pass, first 'answers'")


def a_target(name: str, **more: object) -> TargetProfile:
    given: dict[str, object] = {
        "name": name,
        "prepare": "",
        "run": "sh t/all.sh",
        "workdir": ".",
        "results": "tap",
        "report": "stdout",
        "timeout_s": 20.0,
        "env": (("PATH", PATH),),
        "protect": ("t/**",),
    }
    return TargetProfile(**{**given, **more})  # type: ignore[arg-type]


def lib(body: str) -> Patch:
    """A patch that replaces the line of lib.sh."""
    lines = body.split("\n")
    added = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/lib.sh b/lib.sh\n--- a/lib.sh\n+++ b/lib.sh\n@@ -1 +1,{len(lines)} @@\n"
    return Patch(f"{head}-answer() {{ :; }}\n{added}".encode())


def new_file(path: str, text: str, mode: str = "100644") -> bytes:
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
    lines = text.split("\n")
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n".encode() + "".join(f"+{line}\n" for line in lines).encode()


@pytest.fixture(scope="module")
def engine() -> HostEngine:
    return HostEngine()


@pytest.fixture
def judge(engine: HostEngine, tmp_path: Path) -> Callable[..., Mapping[str, TargetGrade]]:
    """Evaluate patches of `maker` and `user` (good unless given) and return the grades."""
    layer = make_host_layer(tmp_path / "layer")
    for name in ("maker", "user"):
        checkout = layer / "workspace" / name
        (checkout / "t").mkdir(parents=True)
        (checkout / "lib.sh").write_text("answer() { :; }\n")
        (checkout / "t" / "all.sh").write_text(". ./t/hidden.sh\n")

    def run(
        patches: Mapping[str, Patch | None],
        *targets: TargetProfile,
        services: tuple[Service, ...] = (),
        disk_bytes: int = 0,
        only: str | None = None,
    ) -> Mapping[str, TargetGrade]:
        chosen = targets or (a_target("maker"), a_target("user"))
        hidden = {target.name: {"t/hidden.sh": (0o644, (HIDDEN + REST).encode())} for target in chosen}
        profile = Profile("wide", chosen, Limits(1, 256 << 20, 64, disk_bytes), services)
        session = Session(engine, [layer], {}, profile, hidden, tmp_path / "store")
        tested = session.run({target.name: lib(GOOD) for target in chosen} | dict(patches), only=only)
        assert list((tmp_path / "store" / "tmp").iterdir()) == []
        return {name: grade_target(EXPECTED, one.run) for name, one in tested.items()}

    return run


def said(grade: TargetGrade) -> tuple[str, str]:
    return grade.outcome.value, grade.reason


def test_one_target_may_be_judged_alone_over_what_the_others_prepared(
    judge: Callable[..., Mapping[str, TargetGrade]],
) -> None:
    maker = a_target("maker", prepare="touch /made")
    user = a_target("user", prepare="[ -e /made ] || exit 3")
    alone = judge({"maker": lib(WRONG)}, maker, user, only="user")
    assert {name: said(one) for name, one in alone.items()} == {"user": RESOLVED}
    alone = judge({"user": lib(WRONG)}, maker, a_target("user", prepare="false"), only="maker")
    assert {name: said(one) for name, one in alone.items()} == {"maker": RESOLVED}
    assert said(judge({"user": None}, maker, user, only="user")["user"]) == ("missing", "no patch for this target")


def test_another_target_that_cannot_stand_at_gold_is_no_fault_of_the_patch(
    judge: Callable[..., Mapping[str, TargetGrade]],
) -> None:
    grades = judge({}, a_target("maker", prepare="exit 3"), a_target("user"), only="user")
    assert said(grades["user"]) == ("infra", "maker, which stands at gold: prepare ended with exit code 3")


def test_good_patches_are_resolved_and_a_wrong_one_is_not(judge: Callable[..., Mapping[str, TargetGrade]]) -> None:
    grades = judge({"user": lib(WRONG)})
    assert (said(grades["maker"]), said(grades["user"])) == (RESOLVED, FAILED)


@pytest.mark.parametrize("first", [True, False])
def test_the_tests_of_one_target_reach_nothing_of_another(
    judge: Callable[..., Mapping[str, TargetGrade]], first: bool
) -> None:
    forge = "echo 'echo ok 1 - answers; echo ok 2 - stands; echo 1..2' "
    attack = f"{GOOD}\n{forge} >/workspace/user/t/all.sh\n{forge} >/workspace/user/t/hidden.sh\necho '{GOOD}' >/workspace/user/lib.sh"
    targets = [a_target("maker"), a_target("user")]
    grades = judge({"maker": lib(attack), "user": lib(WRONG)}, *(targets if first else reversed(targets)))
    assert (said(grades["maker"]), said(grades["user"])) == (RESOLVED, FAILED)


def test_what_the_prepare_commands_changed_in_test_folders_is_undone(
    judge: Callable[..., Mapping[str, TargetGrade]],
) -> None:
    attack = (
        f"{WRONG}\n{ONLY_PREPARE}\nrm -r /workspace/*/t; ln -s /etc /workspace/maker/t; mkdir -p /workspace/user/t/hidden.sh/deep/er\n"
        "echo x >/workspace/user/t/hidden.sh/deep/er/file; echo 'exit 0' >/workspace/user/t/more.sh"
    )
    targets = a_target("maker", prepare=". ./lib.sh"), a_target("user")
    grades = judge({"maker": lib(attack)}, *targets)
    assert (said(grades["maker"])[0], said(grades["user"])) == ("unresolved", RESOLVED)
    assert grades["maker"].failing == ("answers",)


@pytest.mark.parametrize(
    "damage",
    [
        "rm -r /workspace/user; ln -s /etc /workspace/user",
        "rm -r /workspace/user; echo x >/workspace/user",
        "rm -r /workspace/user",
        f"cd /workspace/user; {DIG}",
        f"echo '{GOOD}' >/workspace/user/lib.sh",
    ],
)
@pytest.mark.parametrize(("body", "verdict"), [(GOOD, RESOLVED), (WRONG, FAILED)])
def test_what_prepare_commands_do_to_the_checkout_of_a_later_target_is_forgotten(
    judge: Callable[..., Mapping[str, TargetGrade]], damage: str, body: str, verdict: tuple[str, str]
) -> None:
    targets = a_target("maker", prepare=". ./lib.sh"), a_target("user")
    grades = judge({"maker": lib(f"{GOOD}\n{ONLY_PREPARE}\n{damage}"), "user": lib(body)}, *targets)
    assert said(grades["user"]) == verdict


def test_a_consumer_sees_what_its_producer_prepared(judge: Callable[..., Mapping[str, TargetGrade]]) -> None:
    made = f"{GOOD}\necho '{GOOD}' >/workspace/maker/made.sh; echo x >/opt-maker"
    targets = a_target("maker", prepare=". ./lib.sh"), a_target("user")
    seen = ". /workspace/maker/made.sh; test -e /opt-maker || exit 9"
    assert said(judge({"maker": lib(made), "user": lib(seen)}, *targets)["user"]) == RESOLVED


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (
            "rm -r /workspace/maker; ln -s /etc /workspace/maker",
            "no results: its tests cannot be put in place: /workspace/maker: the image has no checkout of this target",
        ),
        (
            DIG,
            f"no results: its tests cannot be put in place: {'d/' * 40}…: folders are nested deeper than 256",
        ),
    ],
)
def test_a_checkout_that_prepare_commands_broke_is_unresolved_and_not_our_fault(
    judge: Callable[..., Mapping[str, TargetGrade]], damage: str, reason: str
) -> None:
    targets = a_target("maker", prepare=". ./lib.sh"), a_target("user")
    grades = judge({"maker": lib(f"{GOOD}\n{damage}")}, *targets)
    assert (said(grades["maker"]), said(grades["user"])) == (("unresolved", reason), RESOLVED)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            f"{WRONG}\necho ok 1 - answers",
            "2 of 2 expected tests did not pass, first 'answers'; reported more often than when it was validated: 'answers'",
        ),
        (
            f"{GOOD}\necho ok 1 - answers",
            "no results: the report says that '<plan>' failed, but the test command ended with exit code 0",
        ),
        (
            "echo ok 1 - answers; echo ok 2 - stands; echo 1..2; exit 3",
            "no results: the report names no failure, but the test command ended with exit code 3",
        ),
        (
            f"{WRONG}\ntrap 'exit 0' EXIT",
            "no results: the report says that 'answers' failed, but the test command ended with exit code 0",
        ),
        ("kill -9 $$", "no results: the test command was killed (exit code 137)"),
        ("rm -r /workspace/maker; exit 0", "no results: the report is empty"),
    ],
)
def test_forged_lines_and_early_ends_pass_nothing(
    judge: Callable[..., Mapping[str, TargetGrade]], body: str, reason: str
) -> None:
    assert said(judge({"maker": lib(body)}, a_target("maker"))["maker"]) == ("unresolved", reason)


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        ("ln -s /etc/passwd $WIDESWE_REPORT", "no report was written (exit code 0)"),
        ("mkdir $WIDESWE_REPORT", "no report was written (exit code 0)"),
        ("mkfifo $WIDESWE_REPORT", "no report was written (exit code 0)"),
        (":", "no report was written (exit code 0)"),
        (": >$WIDESWE_REPORT", "the report is empty"),
        ("truncate -s 1T $WIDESWE_REPORT", "the report is larger than 268435456 bytes"),
        (
            "head -c 9000000 /dev/zero | sed 's/\\x0/ok\\n/g' >$WIDESWE_REPORT",
            "expected at most 1000000 results in a report",
        ),
    ],
)
def test_a_report_that_is_no_file_or_too_much_passes_nothing(
    judge: Callable[..., Mapping[str, TargetGrade]], leave: str, reason: str
) -> None:
    target = a_target("maker", report="file", run=". ./lib.sh")
    assert said(judge({"maker": lib(leave)}, target)["maker"]) == ("unresolved", f"no results: {reason}")


def test_a_report_cannot_be_left_before_the_test_command_starts(
    judge: Callable[..., Mapping[str, TargetGrade]],
) -> None:
    leave = "mkdir -p /run/wideswe/report; echo 'ok 1 - answers' >/run/wideswe/report/report"
    target = a_target("maker", report="file", prepare=". ./lib.sh", run=":")
    assert said(judge({"maker": lib(leave)}, target)["maker"]) == (
        "unresolved",
        "no results: no report was written (exit code 0)",
    )


def test_nothing_outlives_the_test_command(judge: Callable[..., Mapping[str, TargetGrade]], tmp_path: Path) -> None:
    begin = "(setsid sh -c ': >/tmp/begun; exec sleep 5151' >/dev/null 2>&1 &); while [ ! -e /tmp/begun ]; do :; done"
    linger = f"{WRONG}\n{begin}"
    grades = judge({"maker": lib(linger)}, a_target("maker"))
    assert said(grades["maker"]) == FAILED
    assert not sleeping("5151")
    assert list(tmp_path.rglob("report")) == []


@pytest.mark.parametrize(
    "bomb",
    [
        "bomb() { bomb | bomb & }; bomb; sleep 1",
        "i=0; while [ $i -lt 500 ]; do sleep 9 & i=$((i+1)); done",
        "head -c 3000000000 /dev/zero",
        "head -c 3000000000 /dev/zero >&2",
    ],
)
def test_bombs_and_floods_stay_in_their_run(judge: Callable[..., Mapping[str, TargetGrade]], bomb: str) -> None:
    grades = judge({"maker": lib(f"{bomb}\n{WRONG}")}, a_target("maker"), a_target("user"))
    assert (grades["maker"].outcome.value, said(grades["user"])) == ("unresolved", RESOLVED)


def test_a_run_that_never_ends_times_out(judge: Callable[..., Mapping[str, TargetGrade]]) -> None:
    grades = judge({"maker": lib("while :; do :; done")}, a_target("maker", timeout_s=1.0))
    assert said(grades["maker"]) == ("timeout", "not finished after 1 s")


def test_a_tree_deeper_than_any_stack_is_deleted_afterwards(judge: Callable[..., Mapping[str, TargetGrade]]) -> None:
    dig = f"{GOOD}\n(cd /tmp; {DIG})"
    assert said(judge({"maker": lib(dig)}, a_target("maker"))["maker"]) == RESOLVED


def test_patches_that_reach_for_the_tests_are_overwritten(judge: Callable[..., Mapping[str, TargetGrade]]) -> None:
    forged = "echo ok 1 - answers; echo ok 2 - stands; echo 1..2"
    patch = Patch(lib(WRONG).data + new_file("t/hidden.sh", forged) + new_file("t/more.sh", forged))
    assert said(judge({"maker": patch}, a_target("maker"))["maker"]) == FAILED
    folder = Patch(lib(WRONG).data + new_file("t/hidden.sh/x", forged))
    assert said(judge({"maker": folder}, a_target("maker"))["maker"]) == FAILED


def test_a_patch_of_thousands_of_nested_folders_is_unresolved(judge: Callable[..., Mapping[str, TargetGrade]]) -> None:
    deep = Patch(new_file("d/" * 2000 + "x", "x"))
    assert said(judge({"maker": deep}, a_target("maker"))["maker"]) == (
        "unresolved",
        f"no results: its tests cannot be put in place: {'d/' * 40}…: folders are nested deeper than 256",
    )


SERVER = (
    "import http.server as h\nclass A(h.BaseHTTPRequestHandler):\n    def do_GET(s):\n        s.send_response(200)\n"
    "        s.end_headers()\n        s.wfile.write(b'42')\nprint('listening', flush=True)\n"
    "h.HTTPServer(('127.0.0.1', 8080), A).serve_forever()"
)
ASK = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080').read().decode())\""


def test_services_answer_before_the_tests_begin_and_are_gone_after_them(
    judge: Callable[..., Mapping[str, TargetGrade]],
) -> None:
    answers = Service("answers", f'sleep 0.5; python3 -c "{SERVER}"', ASK)
    grades = judge({"maker": lib(f"answer() {{ {ASK}; }}"), "user": lib(WRONG)}, services=(answers,))
    assert (said(grades["maker"]), said(grades["user"])) == (RESOLVED, FAILED)


def test_a_service_that_is_never_ready_resolves_nothing_and_says_so(
    judge: Callable[..., Mapping[str, TargetGrade]],
) -> None:
    late = Service("late", "exit 1", "exit 0")
    grades = judge({}, a_target("maker", run=f"exit {NOT_READY}"), services=(late,))
    assert said(grades["maker"]) == ("unresolved", "no results: a service that the tests need was not ready in time")


@pytest.mark.parametrize("place", ["/workspace/maker/big", "/big", "$WIDESWE_REPORT"])
def test_tests_that_write_more_than_the_limit_are_ended(
    judge: Callable[..., Mapping[str, TargetGrade]], place: str
) -> None:
    flood = f'{GOOD}\nwhile :; do head -c 8000000 /dev/zero >>"{place}"; sleep 0.02; done'
    grades = judge({"maker": lib(flood)}, a_target("maker"), disk_bytes=64 << 20)
    assert said(grades["maker"]) == ("unresolved", "no results: more space on the disk than the limit allows")


def test_what_the_tests_delete_again_does_not_count(judge: Callable[..., Mapping[str, TargetGrade]]) -> None:
    churn = f"{GOOD}\nfor i in 1 2 3 4 5 6 7 8; do head -c 16000000 /dev/zero >big; sleep 0.2; rm big; done"
    assert said(judge({"maker": lib(churn)}, a_target("maker"), disk_bytes=64 << 20)["maker"]) == RESOLVED
