"""What must start fast loads nothing slow: whoever adds an import to these paths learns of it here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from packager.base.processes import Surroundings, run_ok

ROOT = Path(__file__).parents[2]
SLOW = ("requests", "docker", "jinja2", "pydantic", "yaml", "rich", "nacl", "tempfile", "ssl", "xml", "defusedxml")
NOTHING_TO_DO = ("packager.cli.main", "packager.cli.author", "packager.api.author", "packager.build.known")
EVALUATE = (
    "packager.cli.main",
    "packager.cli.judge",
    "packager.api.judge",
    "packager.evaluate.judge",
    "packager.evaluate.verdict",
    "packager.sandbox.native",
    "packager.seal.grants",
    "packager.trust.keyfiles",
    "packager.trust.verify",
)


def loaded(modules: tuple[str, ...]) -> set[str]:
    code = f"import sys, {', '.join(modules)}; print(*sorted(sys.modules))"
    found = run_ok(
        [sys.executable, "-S", "-c", code], Surroundings(env={"PYTHONPATH": ":".join([str(ROOT), *sys.path])})
    )
    return set(found.decode().split())


@pytest.mark.parametrize("modules", [NOTHING_TO_DO, EVALUATE], ids=["nothing to do", "evaluate"])
def test_nothing_slow_is_loaded(modules: tuple[str, ...]) -> None:
    found = loaded(modules)
    assert set(modules) <= found
    assert {name for name in SLOW if name in found} == set()


def test_a_build_with_nothing_to_do_loads_no_cryptography_and_no_layers() -> None:
    found = loaded(NOTHING_TO_DO)
    assert {"cryptography", "zstandard", "subprocess", "packager.oci.layer", "packager.lock.model"} & found == set()
