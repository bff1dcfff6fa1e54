"""The canonicaliser's corner cases, byte for byte, on every Python from 3.11 to 3.14 that this machine has.

A golden file lists the entries of a case's tar (or its refusal, or its documents) for people, and ends with the digest
of its bytes. WIDESWE_UPDATE_GOLDEN=1 writes the files anew (and CANONICALISER_ID `c1` is over).
"""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import zstandard

from packager.base.digests import digest_of
from packager.base.processes import Surroundings, run
from packager.lock.bootstrap import CONFIGURE_SCRIPT
from packager.oci.layer import COMPRESSOR_ID, ZSTD_LEVEL, compressor
from tests.support.corner_cases import CASES
from tests.support.layer_difference import describe_tar

OUT = Path(__file__).parent / "out" / "corner_cases"
ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NOT_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="makes devices, owners or attributes, so it takes root")

ELSEWHERE = {
    "A24": "cpio alone has inode and device numbers",
    "B8": "fuse-overlayfs is not offered",
    "B9": "tests.e2e.test_same_digest:test_root_and_a_plain_user_build_the_same_image_elsewhere",
    "B11": "tests.e2e.test_reproduce:test_a_task_is_the_same_under_every_condition_and_a_statement_says_so",
    "C2": "tests.golden.test_golden_tar:test_zstd_has_golden_bytes_however_its_input_is_cut",
    "C3": "tests.golden.test_golden_tar:test_zstd_has_golden_bytes_however_its_input_is_cut",
    "C4": "tests.golden.test_golden_tar:test_zstd_has_golden_bytes_however_its_input_is_cut",
    "C5": "tests.golden.test_golden_tar:test_zstd_has_golden_bytes_however_its_input_is_cut",
    "C6": "tests.golden.test_canonicaliser:test_the_compressor_s_id_names_what_its_bytes_depend_on",
    "C7": "tests.golden.test_canonicaliser:test_a_compressed_layer_is_one_frame_and_nothing_else",
    "C8": "tests.unit.registry.test_registry_transfer:*",
    "E1": "tests.e2e.test_planted_defects:test_a_planted_defect_is_caught_and_named",
    "E3": "tests.unit.build.test_causes:test_a_path_that_is_known_to_differ_names_its_row",
    "E6": "tests.unit.build.test_causes:test_a_path_that_is_known_to_differ_names_its_row",
    "E9": "no kernel is installed in a base",
    "E12": "tests.golden.test_canonicaliser:test_the_base_is_scrubbed_of_what_the_canonicaliser_keeps",
    "E13": "tests.golden.test_canonicaliser:test_the_base_is_scrubbed_of_what_the_canonicaliser_keeps",
    "E14": "tests.unit.build.test_causes:test_a_path_that_is_known_to_differ_names_its_row",
    "E15": "tests.golden.test_canonicaliser:test_the_base_is_scrubbed_of_what_the_canonicaliser_keeps",
    "E16": "tests.e2e.test_planted_defects:test_a_planted_defect_is_caught_and_named",
    "E17": "tests.unit.build.test_causes:test_a_path_that_is_known_to_differ_names_its_row",
    "E18": "tests.golden.test_canonicaliser:test_the_base_is_scrubbed_of_what_the_canonicaliser_keeps",
    "E19": "no base of rpm packages",
    "E20": "no desktop is installed; reproduce compares the base's bytes",
    "E21": "tests.unit.build.test_causes:test_a_path_that_is_known_to_differ_names_its_row",
    "E22": "no kernel is installed in a base",
    "E23": "tests.e2e.test_planted_defects:test_a_planted_defect_is_caught_and_named",
}
"""Rows of the checklist that no corner case stands for: the test that does, or why there is none."""

ROWS = (
    *(f"A{n}" for n in range(1, 26)),
    *(f"B{n}" for n in range(1, 12)),
    *(f"C{n}" for n in range(1, 9)),
    "D",
    *(f"E{n}" for n in range(1, 25)),
)


def shown(data: bytes) -> str:
    """Return a case's bytes as people read them: a tar's entries, or the text that it is; then the digest."""
    if len(data) % 512 == 0 and data.endswith(bytes(1024)):
        lines = list(describe_tar(io.BytesIO(data)))
    else:
        lines = data.decode("utf-8", "backslashreplace").splitlines()
    return "\n".join([*lines, digest_of(data)]) + "\n"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[NOT_ROOT] if CASES[name].root else []) for name in CASES])
def test_a_corner_case_has_its_golden_bytes(name: str, tmp_path: Path) -> None:
    golden = OUT / f"{name}.txt"
    text = shown(CASES[name].make(os.fsencode(tmp_path)))
    if os.environ.get("WIDESWE_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text


def interpreter(version: str) -> str | None:
    """Return a Python of a version: this one, one on the path, or one that pyenv has."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    kept = sorted(
        Path(os.environ.get("PYENV_ROOT", Path("~/.pyenv").expanduser())).glob(f"versions/{version}*/bin/python")
    )
    found = shutil.which(f"python{version}")
    candidates = [str(path) for path in kept] + ([found] if found else [])
    return next((name for name in candidates if run([name, "-c", ""]).exit_code == 0), None)


@pytest.mark.engine
@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_gives_the_golden_bytes(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    env = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "random", "PATH": os.defpath}
    done = run(
        [python, "-m", "tests.support.corner_cases", str(tmp_path)], Surroundings(env=env, cwd=ROOT, timeout_s=60)
    )
    assert done.exit_code == 0, done.stderr.decode()
    golden = {path.stem: path.read_text(encoding="utf-8").splitlines()[-1] for path in OUT.glob("*.txt")}
    wanted = {name for name, case in CASES.items() if os.geteuid() == 0 or not case.root}
    assert {name: f"sha256:{digest}" for name, digest in json.loads(done.stdout).items()} == {
        name: golden[name] for name in wanted
    }


def test_every_row_of_the_checklist_has_a_test_or_a_reason() -> None:
    ours = {row for case in CASES.values() for row in case.rows}
    missing = [row for row in ROWS if row not in ours and row not in ELSEWHERE]
    assert missing == []
    assert [row for row in ELSEWHERE if row in ours] == []
    assert sorted(path.stem for path in OUT.glob("*.txt")) == sorted(CASES)
    for place in ELSEWHERE.values():
        module, colon, name = place.partition(":")
        if colon:
            found = importlib.import_module(module)
            assert name == "*" or callable(getattr(found, name)), place


def test_no_golden_file_is_empty_or_a_case_that_was_not_refused() -> None:
    for path in OUT.glob("*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[-1] != digest_of(b""), path.name
        assert not path.stem.endswith("-refused") or len(lines) > 1, path.name


def test_the_compressor_s_id_names_what_its_bytes_depend_on() -> None:
    library = ".".join(map(str, zstandard.ZSTD_VERSION))
    expected = f"zstd;zstandard={zstandard.__version__};libzstd={library};level={ZSTD_LEVEL};threads>=1"
    assert expected == COMPRESSOR_ID


def test_a_compressed_layer_is_one_frame_and_nothing_else() -> None:
    packer = compressor("zstd")
    data = packer.compress(b"layer " * 100_000) + packer.flush()
    parameters = zstandard.get_frame_parameters(data)
    assert (parameters.content_size, parameters.has_checksum, parameters.dict_id) == (2**64 - 1, False, 0)
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    assert unpacker.decompress(data) == b"layer " * 100_000
    assert (unpacker.eof, unpacker.unused_data) == (True, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/var/lib/systemd/random-seed",
        "/var/lib/systemd/catalog/database",
        "/var/cache/fontconfig",
        "/var/cache/man",
        "/root/.gnupg",
    ],
)
def test_the_base_is_scrubbed_of_what_the_canonicaliser_keeps(path: str) -> None:
    removed = [word for line in CONFIGURE_SCRIPT.splitlines() if line.startswith("rm -") for word in line.split()]
    assert path in removed
