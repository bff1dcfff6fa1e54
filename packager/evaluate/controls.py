"""Control tests: one more test beside the hidden ones that must fail, so that a patch that makes all pass is caught.

It is written behind a hidden test that is known to count, under that test's name and a word that is new for each run;
only for runners and commands where one more failure changes nothing but the exit code. It never reaches the grade.
"""

from __future__ import annotations

import re
import shlex
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from packager.evaluate.results import End, Results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.evaluate.expected import ExpectedCases
    from packager.evaluate.profile import TargetProfile
    from packager.evaluate.results import TargetRun
    from packager.evaluate.workspace import HiddenFiles

_LIMIT_BYTES = 1 << 20


class _Runner(NamedTuple):
    """What names a runner in a command, which options make a control unsafe, and how a control is written."""

    program: re.Pattern[str]
    unsafe: re.Pattern[str]
    file: re.Pattern[str]
    known: re.Pattern[str]
    write: Callable[[re.Match[str], str], str]


def _pytest(match: re.Match[str], word: str) -> str:
    return f'\n\ndef {match[1]}_{word}():\n    raise AssertionError("{word}")\n'


def _go(match: re.Match[str], word: str) -> str:
    return f'\n\nfunc {match[1]}_{word}(t *testing.T) {{\n\tt.Fatal("{word}")\n}}\n'


def _rspec(match: re.Match[str], word: str) -> str:
    return f'\n\nRSpec.describe("{match[1]} {word}") {{ it("holds") {{ raise "{word}" }} }}\n'


def _node(match: re.Match[str], word: str) -> str:
    return f'\n\n{match[1]}("{match[2]} {word}", () => {{ throw new Error("{word}"); }});\n'


_NODE_TEST = re.compile(r"^(?:  |\t)?(test|it)\(['\"]([\w ,.-]+)['\"]", re.MULTILINE)

RUNNERS = (
    _Runner(
        re.compile(r"(?:.*/)?py\.?test"),
        re.compile(r"-x|--exitfirst|--maxfail.*|-k.*|-m.*|--sw|--stepwise.*|--lf|--ff|--co|--collect-only|.*::.*"),
        re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test)\.py"),
        re.compile(r"^(?:    )?def (test_\w+)\(", re.MULTILINE),
        _pytest,
    ),
    _Runner(
        re.compile(r"(?:.*/)?go"),
        re.compile(r"--?run(?:=.*)?|--?failfast.*|--?list.*"),
        re.compile(r".*_test\.go"),
        re.compile(r"^func (Test\w+)\(t \*testing\.T\)", re.MULTILINE),
        _go,
    ),
    _Runner(
        re.compile(r"(?:.*/)?rspec"),
        re.compile(r"--fail-fast.*|-e.*|--example.*|-t.*|--tag.*|--only-failures|-n|--next-failure|.*\.rb[:\[].*"),
        re.compile(r".*_spec\.rb"),
        re.compile(r"^RSpec\.describe \"([\w ,.-]+)\"", re.MULTILINE),
        _rspec,
    ),
    _Runner(
        re.compile(r"(?:.*/)?(?:vitest|jest)"),
        re.compile(r"--bail.*|-b|-t.*|--testNamePattern.*|--changed.*|-o|--onlyChanged|--onlyFailures|-f"),
        re.compile(r".*\.(?:test|spec)\.[cm]?[jt]sx?"),
        _NODE_TEST,
        _node,
    ),
)


def plant(target: TargetProfile, hidden: HiddenFiles, expected: ExpectedCases, word: str) -> HiddenFiles | None:
    """Return the hidden files with a control that carries `word`, or None where there can be none."""
    runner = _runner_of(target.run)
    if runner is None or target.results not in {"junit-xml", "gotest-json"}:
        return None
    ids = "\n".join((*expected.fail_to_pass, *expected.pass_to_pass))
    for path, (mode, data) in sorted(hidden.items()):
        if stat.S_ISLNK(mode) or len(data) > _LIMIT_BYTES or not runner.file.fullmatch(path):
            continue
        text = data.decode("utf-8", "surrogateescape")
        match = next((one for one in runner.known.finditer(text) if one[one.re.groups] in ids), None)
        if match is not None:
            written = text + runner.write(match, word)
            return {**hidden, path: (mode, written.encode("utf-8", "surrogateescape"))}
    return None


def _runner_of(run: str) -> _Runner | None:
    """Return the runner whose command ends the script, if nothing comes after it and it runs all tests it is given."""
    try:
        lexer = shlex.shlex(run, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:
        return None
    marks = [word for word in words if set(word) <= set("();<>|&")]
    if "\n" in run.strip() or any(mark != "&&" for mark in marks):
        return None
    last = words[len(words) - words[::-1].index("&&") :] if "&&" in words else words
    for runner in RUNNERS:
        place = next((number for number, word in enumerate(last) if runner.program.fullmatch(word)), None)
        if place is not None:
            return None if any(runner.unsafe.fullmatch(word) for word in last[place + 1 :]) else runner
    return None


def take_out(run: TargetRun, word: str) -> TargetRun:
    """Return a run without its control; `distrust` says so if the control did not fail as it must."""
    if run.end is not End.FINISHED or not run.results.statuses:
        return run
    found = {name: status for name, status in run.results.statuses.items() if word in name}
    rest = {name: status for name, status in run.results.statuses.items() if name not in found}
    results = Results(rest, "" if rest else "the report names no test but the control")
    distrust = ""
    if not found:
        distrust = "a control test, which must fail, was not reported"
    elif not all(status.is_bad for status in found.values()):
        distrust = "a control test, which must fail, was reported as passed or skipped"
    return replace(run, results=results, distrust=distrust)


def plant_all(
    targets: tuple[TargetProfile, ...],
    hidden: Mapping[str, HiddenFiles],
    expected: Mapping[str, ExpectedCases],
    word: str,
) -> tuple[dict[str, HiddenFiles], frozenset[str]]:
    """Return the hidden files of all targets with controls, and the names of the targets that have one."""
    planted = {one.name: plant(one, hidden.get(one.name, {}), expected[one.name], word) for one in targets}
    with_control = {name: files for name, files in planted.items() if files is not None}
    return {**hidden, **with_control}, frozenset(with_control)
