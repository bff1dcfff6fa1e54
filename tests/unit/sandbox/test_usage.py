"""What a command has written is looked at now and then, and never for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.sandbox.usage import Watch, used_bytes

if TYPE_CHECKING:
    from pathlib import Path


def test_bytes_on_the_disk_count_and_holes_do_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "big").write_bytes(b"x" * 100_000)
    before = used_bytes([tmp_path], most=1 << 30)
    assert 100_000 <= before < 200_000
    with (tmp_path / "holes").open("wb") as stream:
        stream.truncate(1 << 40)
    assert used_bytes([tmp_path], most=1 << 30) <= before + 8192


def test_a_folder_that_went_away_counts_nothing(tmp_path: Path) -> None:
    assert used_bytes([tmp_path / "gone"], most=0) == 0


def test_a_watch_looks_when_it_is_time_and_remembers(tmp_path: Path) -> None:
    now = [0.0]
    watch = Watch([tmp_path], 50_000, clock=lambda: now[0])
    (tmp_path / "big").write_bytes(b"x" * 100_000)
    assert (watch.wait_s(), watch.is_over) == (0.5, False)
    now[0] = 0.5
    assert (watch.wait_s(), watch.is_over) == (0.5, True)
    (tmp_path / "big").unlink()
    now[0] = 1.0
    watch.wait_s()
    assert watch.is_over
