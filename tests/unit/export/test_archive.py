"""The scorer is one file that needs Python and nothing else, and the same bytes each time."""

from __future__ import annotations

import ast
import io
import sys
import zipfile
from typing import TYPE_CHECKING

from packager.base.processes import Surroundings, run
from packager.export.archive import STAND_INS, format_scorer

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"mode": "solve", "task": "hello-wide-001", "env": {"A": 'it\'s "b"\n'}}


def test_the_same_settings_give_the_same_bytes() -> None:
    assert format_scorer(SETTINGS, {"seal.tar": b"x"}) == format_scorer(SETTINGS, {"seal.tar": b"x"})
    assert format_scorer(SETTINGS) != format_scorer({**SETTINGS, "mode": "harbor"})


def test_nothing_is_imported_that_is_not_in_it() -> None:
    with zipfile.ZipFile(io.BytesIO(format_scorer(SETTINGS))) as archive:
        names = set(archive.namelist())
        trees = [ast.parse(archive.read(name)) for name in names if name.endswith(".py")]
    there = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names}
    wanted = {module for tree in trees for module in run_time_imports(tree)}
    assert {name for name in wanted - there if name.partition(".")[0] not in sys.stdlib_module_names} == set()
    outside = {name for name in wanted if name.partition(".")[0] not in (*sys.stdlib_module_names, "packager")}
    assert outside == set(STAND_INS)


def run_time_imports(node: ast.AST) -> set[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return set()
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {node.module or ""}
    return set().union(*(run_time_imports(child) for child in ast.iter_child_nodes(node)))


def test_what_is_imported_while_tests_run_was_imported_before_them(tmp_path: Path) -> None:
    """Functions import some modules when they first run; by then the scorer looks for none any more."""
    scorer = tmp_path / "score.pyz"
    scorer.write_bytes(format_scorer(SETTINGS))
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from packager.export.scorer import settle_imports
settle_imports(sys.argv[1])
try:
    import wave
except ImportError:
    pass
else:
    sys.exit("modules are still looked for")
from packager.evaluate.predictions import read_predictions
from packager.evaluate.sections import SECTIONS
print(SECTIONS["pyproject.toml"](b"[tool.pytest]\\na = 1"), SECTIONS["setup.cfg"](b"[aliases]\\na = 1"))
"""
    done = run([sys.executable, "-I", "-S", "-c", program, str(scorer)], Surroundings(env={}, cwd=tmp_path))
    told = "[None, None, {'a': 1}, None, None, None, None, None] [None, {'aliases': {'a': '1'}}]\n"
    assert (done.exit_code, done.stdout.decode(), done.stderr) == (0, told, b"")


def test_it_runs_alone_and_says_what_it_lacks(tmp_path: Path) -> None:
    scorer = tmp_path / "score.pyz"
    scorer.write_bytes(format_scorer(SETTINGS))
    done = run([sys.executable, "-I", "-S", str(scorer)], Surroundings(env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path))
    told = "hello-wide-001: there is no WIDESWE_TASK_KEY to open the seal with"
    assert (done.exit_code, done.stdout, done.stderr.decode().splitlines()) == (6, b"", [told])
