"""What validation concludes from rounds: which variation a test hangs on, and how base fails."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, run
from packager.evaluate import run as running
from packager.evaluate.classify import classify
from packager.evaluate.evidence import Round, TargetEvidence, Unstable, differing, is_borne, weigh
from packager.evaluate.results import End, Results, Status, TargetRun
from packager.evaluate.variations import shuffled_command

if TYPE_CHECKING:
    from pathlib import Path

P, F, E = Status.PASSED, Status.FAILED, Status.ERROR


def said(**statuses: Status) -> dict[str, running.Tested]:
    return {
        "t": running.Tested(
            TargetRun(results=Results({name.replace("__", "::"): one for name, one in statuses.items()}))
        )
    }


def weighed(*rounds: Round) -> TargetEvidence:
    results = [one.results("t") for one in rounds]
    return weigh("t", classify([base for base, _ in results], [gold for _, gold in results]), rounds)


def test_a_test_that_changes_between_runs_that_are_alike_says_so() -> None:
    rounds = (Round("", said(a=F, b=P), said(a=P, b=P)), Round("", said(a=F, b=F), said(a=P, b=P)))
    assert weighed(*rounds).unstable == {
        "b": Unstable(("runs that are alike",), ("passed", "failed"), ("passed", "passed"))
    }


def test_what_only_all_variations_together_change_names_them_all() -> None:
    plain, alone = Round("", said(a=F, b=P), said(a=P, b=P)), (said(a=F, b=P), said(a=P, b=P))
    together = Round("all variations together", said(a=F, b=P), said(a=P, b=F))
    found = weighed(plain, together, Round("order", *alone), Round("user", *alone)).unstable
    assert {name: one.by for name, one in found.items()} == {"b": ("all variations together",)}
    one_matters = Round("user", said(a=F, b=P), said(a=P, b=F))
    found = weighed(plain, together, Round("order", *alone), one_matters).unstable
    assert {name: one.by for name, one in found.items()} == {"b": ("user",)}


def test_a_module_that_cannot_be_collected_at_base_marks_what_gold_reports_of_it() -> None:
    found = weighed(Round("", said(tests=E, old=P), said(tests__new=P, old=P)))
    assert (found.base_failure, found.uncollected) == (("tests",), ("tests::new",))


def test_a_new_test_is_not_called_uncollected() -> None:
    found = weighed(Round("", said(old=P), said(new=P, old=P)))
    assert (found.base_failure, found.uncollected) == ((), ())


def test_a_base_that_reports_nothing_is_marked_with_its_reason() -> None:
    nothing = {"t": running.Tested(TargetRun(results=Results(reason="prepare ended with exit code 2")))}
    found = weighed(Round("", nothing, said(a=P)))
    assert (found.base_failure, found.uncollected) == (("no results: prepare ended with exit code 2",), ("a",))


def test_a_variation_is_borne_if_gold_reports_under_it() -> None:
    plain = Round("", said(a=F), said(a=P))
    hangs = Round("day", said(a=F), {"t": running.Tested(TargetRun(End.TIMEOUT, reason="not finished"))})
    assert not is_borne(hangs, [plain], "t")
    assert is_borne(Round("day", hangs.gold, said(a=F)), [plain], "t")
    assert differing([plain], hangs, "t") == {"a"}


@pytest.mark.parametrize("kind", ["function", "class"])
def test_pytest_is_shuffled_by_a_plugin_of_ours(kind: str, tmp_path: Path) -> None:
    names = [f"test_{letter}" for letter in "abcdefgh"]
    bodies = [f"def {name}(self=None): pass" for name in names]
    text = "\n".join(bodies) if kind == "function" else "class TestAll:\n" + "\n".join(f"    {one}" for one in bodies)
    (tmp_path / "test_it.py").write_text(text + "\n")
    command = shuffled_command("python -m pytest -v -p no:cacheprovider test_it.py")
    assert command is not None
    command = command.replace("/tmp/wideswe-order", str(tmp_path / "order"))
    env = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(["sh", "-c", command], Surroundings(env=env, cwd=tmp_path, timeout_s=60))
    ran = [line.partition(" ")[0].rpartition("::")[2] for line in done.stdout.decode().splitlines() if "PASSED" in line]
    assert sorted(ran) == names
    assert ran != names
