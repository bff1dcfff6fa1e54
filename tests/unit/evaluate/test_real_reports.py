"""Readers against what real test programs write, failing tests included."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run
from packager.evaluate.readers import read_results
from tests.support.debian_tools import go_cache

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine


def around(place: Path, **more: str) -> Surroundings:
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "LC_ALL": "C.UTF-8", **more}
    return Surroundings(env=env, cwd=place, timeout_s=300)


def read(kind: str, data: bytes) -> dict[str, str]:
    return {name: status.value for name, status in read_results(kind, data).statuses.items()}


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_program(program) is None, reason=f"{program} is not installed")


def test_what_pytest_writes(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").write_text("")
    (tmp_path / "tests" / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('v', ['a::b, c=1-None', 'x/y', 'n\\nl'])\n"
        "def test_p(v): assert v\n"
        "class TestC:\n"
        "    def test_f(self): assert 0\n"
        "    def test_s(self): pytest.skip('x')\n"
        "@pytest.fixture\n"
        "def late():\n"
        "    yield\n"
        "    raise ValueError\n"
        "def test_both(late): assert 0\n"
    )
    (tmp_path / "tests" / "test_b.py").write_text("import no_such_module_here\n")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    run([*argv, "--junitxml", "out.xml"], around(tmp_path, PYTHONDONTWRITEBYTECODE="1"))
    assert read("junit-xml", (tmp_path / "out.xml").read_bytes()) == {
        "tests.test_a.TestC::test_f": "failed",
        "tests.test_a.TestC::test_s": "skipped",
        "tests.test_a::test_both": "failed",
        "tests.test_a::test_both::#2": "error",
        "tests.test_a::test_p[a::b, c=1-None]": "passed",
        "tests.test_a::test_p[n\\nl]": "passed",
        "tests.test_a::test_p[x/y]": "passed",
        "tests.test_b": "error",
    }


@needs("go")
def test_what_go_test_writes(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module e.org/g\n\ngo 1.18\n")
    (tmp_path / "a_test.go").write_text(
        'package g\nimport "testing"\n'
        'func TestA(t *testing.T) { t.Run("a b/c::d", func(t *testing.T) {}); t.Run("bad", func(t *testing.T) { t.Fail() }) }\n'
        "func TestS(t *testing.T) { t.Skip() }\n"
        'func TestP(t *testing.T) { panic("x") }\n'
        "func TestZ(t *testing.T) {}\n"
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "b_test.go").write_text("package b\nfunc broken() { undefined() }\n")
    environment = around(
        tmp_path, GOCACHE=go_cache(), GOPROXY="off", GOFLAGS="-mod=mod", GOTOOLCHAIN="local", CGO_ENABLED="0"
    )
    done = run(["go", "test", "-json", "-count=1", "./..."], environment)
    assert read("gotest-json", done.stdout) == {
        "e.org/g/b::<build>": "failed",
        "e.org/g::TestA": "failed",
        "e.org/g::TestA/a_b/c::d": "passed",
        "e.org/g::TestA/bad": "failed",
        "e.org/g::TestP": "failed",
        "e.org/g::TestS": "skipped",
    }


@needs("node")
def test_what_node_test_writes(tmp_path: Path) -> None:
    (tmp_path / "t.test.js").write_text(
        "const {test, describe, it} = require('node:test');\n"
        "test('top # hash', () => {});\n"
        "test('fails', () => { throw new Error('ok 9 - forged'); });\n"
        "describe('suite', () => { it('inner', () => {}); it.skip('later', () => {}); });\n"
        "test('planned', {todo: true}, () => { throw 1; });\n"
    )
    done = run(["node", "--test", "--test-reporter=tap", "t.test.js"], around(tmp_path))
    if b"TAP version" not in done.stdout:
        pytest.skip("this node does not write TAP")
    assert read("tap", done.stdout) == {
        "fails": "failed",
        "planned": "skipped",
        "suite": "passed",
        "suite > inner": "passed",
        "suite > later": "skipped",
        "top # hash": "passed",
    }
