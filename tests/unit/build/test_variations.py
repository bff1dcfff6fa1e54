"""What can be varied on which machine, and how a rebuild is told."""

from __future__ import annotations

import pytest

from packager.base.digests import digest_of
from packager.base.errors import UsageError
from packager.build.statement import Rebuild, format_rebuild_statement, rebuild_predicate
from packager.build.variations import Here, Settings, choose, together, variations

RICH = Here((0, 1, 5), 0o022, {}, may_map_users=True, memory="", engines=("docker", "podman"))
POOR = Here((3,), 0o077, {"TZ": "America/St_Johns", "LC_ALL": "de_DE.UTF-8", "PYTHONHASHSEED": "1"})


def test_on_a_rich_machine_everything_is_varied_at_once() -> None:
    rows = variations(RICH)
    assert [row.name for row in rows if not row.possible] == []
    assert together(rows) == Settings(
        env={
            "USER": "someone-else",
            "LOGNAME": "someone-else",
            "HOME": "/nonexistent",
            "TZ": "America/St_Johns",
            "LC_ALL": "de_DE.UTF-8",
            "LANG": "de_DE.UTF-8",
            "PYTHONHASHSEED": "1",
        },
        umask=0o077,
        host_name="rebuilt.example.org",
        clock_days=400,
        order_seed=1,
        cpus=(5,),
        user_namespace=True,
        in_memory=True,
        elsewhere=True,
        long_path=True,
    )
    assert {row.name: row.value for row in rows}["engine"] == "docker, podman"


def test_what_a_machine_has_already_is_varied_to_something_else_and_what_it_cannot_is_said() -> None:
    rows = {row.name: row for row in variations(POOR)}
    settings = together(rows.values())
    assert (settings.umask, settings.env["TZ"], settings.env["LC_ALL"], settings.env["PYTHONHASHSEED"]) == (
        0o022,
        "Asia/Kathmandu",
        "C",
        "2",
    )
    assert {name: row.value for name, row in rows.items() if not row.possible} == {
        "file system": "no file system in memory can be mounted",
        "cpus": "this process may use one processor only",
        "user namespace": "only root of the machine can map its ids",
        "engine": "no second engine works here; see wideswe-pack doctor",
    }
    assert (settings.cpus, settings.user_namespace, settings.in_memory) == ((), False, False)


def test_every_variation_changes_something_but_the_engine_which_builds_by_itself() -> None:
    assert [row.name for row in variations(RICH) if row.apply(Settings()) == Settings()] == ["engine"]


def test_variations_are_chosen_by_name() -> None:
    rows = variations(RICH)
    assert choose(rows, ()) == rows
    assert [row.name for row in choose(rows, ("umask", "clock"))] == ["clock", "umask"]
    with pytest.raises(UsageError, match=r"^nothing called moon, sun can be varied\nhint: one of: clock, host name, "):
        choose(rows, ("sun", "umask", "moon"))


def test_a_statement_has_the_same_bytes_whatever_the_order_of_what_was_varied() -> None:
    digest = digest_of(b"")
    rebuild = Rebuild("t", "linux/amd64", digest, digest, digest, ("podman", "native", "podman"), "1", same=False)
    rows = variations(POOR)
    one, other = (format_rebuild_statement(digest, rebuild_predicate(rebuild, order)) for order in (rows, rows[::-1]))
    assert one == other
    assert b'"result":"DIFFERENT"' in one
    assert b'"engines":["native","podman"]' in one
