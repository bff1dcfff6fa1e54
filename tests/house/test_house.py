"""The rules of the house, held against every file: imports run downward, doors are few, rooms stay small."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packager"
ROOMS = (
    "base",
    "oci",
    "store",
    "recipe",
    "sandbox",
    "lock",
    "build",
    "seal",
    "trust",
    "registry",
    "evaluate",
    "agents",
    "report",
    "export",
    "api",
    "cli",
)
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_NESTING = 3
_NESTING = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.Match)


def room_of(path: Path) -> str:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "cli" if name == "__main__" else name


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def nesting(node: ast.AST, depth: int = 0) -> int:
    deepest = depth
    for child in ast.iter_child_nodes(node):
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        deeper = depth + (1 if isinstance(child, _NESTING) and not is_elif else 0)
        deepest = max(deepest, nesting(child, deeper))
    return deepest


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_only_to_rooms_above(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        assert not {name for name in imported_modules(path) if name.startswith("packager.")}
        return
    for name in sorted(imported_modules(path)):
        parts = name.split(".")
        if parts[0] != "packager" or len(parts) == 1 or parts[1] not in ROOMS:
            continue
        assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{path} imports upward: {name}"


def test_no_module_imports_itself_in_a_circle() -> None:
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
    graph = {name: {found for found in imported_modules(path) if found in names} for name, path in names.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name in done:
            return
        for other in sorted(graph[name]):
            visit(other, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{path}:{node.lineno} {node.name} has {lines} lines"
            assert nesting(node) <= MAX_NESTING, f"{path}:{node.lineno} {node.name} nests {nesting(node)} deep"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_door_files_print_or_run_processes(path: Path) -> None:
    modules = imported_modules(path)
    if path != PACKAGE / "base" / "processes.py":
        assert "subprocess" not in modules
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    if room_of(path) != "cli":
        assert "print" not in names
    handlers = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ExceptHandler)]
    broad = [node for node in handlers if node.type is None or ast.unparse(node.type) == "Exception"]
    assert not broad or room_of(path) == "cli", f"{path} catches Exception"


def test_base_needs_only_the_standard_library() -> None:
    for path in (PACKAGE / "base").glob("*.py"):
        outside = {name.split(".")[0] for name in imported_modules(path)} - set(sys.stdlib_module_names) - {"packager"}
        assert not outside, f"{path}: {outside}"
