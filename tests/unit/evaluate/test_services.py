"""The script around tests that need services, run by a shell as it is."""

from __future__ import annotations

import pytest

from packager.base.processes import run
from packager.evaluate.services import NOT_READY, Service, with_services


def ran(script: str) -> tuple[int, bytes, bytes]:
    done = run(["/bin/sh", "-c", script])
    return done.exit_code, done.stdout, done.stderr


def test_a_script_without_services_is_left_as_it_is() -> None:
    assert with_services("sh t/all.sh # tests", ()) == "sh t/all.sh # tests"


@pytest.mark.parametrize("code", [0, 3])
def test_tests_run_once_every_service_is_ready_and_their_exit_code_is_kept(tmp_path: object, code: int) -> None:
    services = [
        Service(name, f"echo {name}; echo x >{tmp_path}/{name} # up", f"test -e {tmp_path}/{name}")
        for name in ("a", "b")
    ]
    found, out, err = ran(with_services(f"cat {tmp_path}/a; exit {code} # tests", services))
    assert (found, out, sorted(err.split())) == (code, b"x\n", [b"a", b"b"])


def test_a_service_that_is_not_ready_in_time_ends_all_and_is_named() -> None:
    script = with_services("echo tests", [Service("db's", "exit 1", "exit 1")], tries=2)
    assert ran(script) == (NOT_READY, b"", b"wideswe-pack: the service db's was not ready in time\n")
