"""The verb that sums up: report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.files import full_disk_trouble, write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.report.summary import Summary


@full_disk_trouble("report")
def report(results: Sequence[Path], *, html: Path | None = None, csv: Path | None = None) -> Summary:
    """Read the verdicts below some folders, write a page and a table of them if asked to, and return their summary."""
    from packager.report.runs import read_runs
    from packager.report.summary import summarise

    runs = read_runs(results)
    if html is not None:
        from packager.report.page import format_page

        write_atomic(html, format_page(runs))
    if csv is not None:
        from packager.report.rows import format_csv

        write_atomic(csv, format_csv(runs))
    return summarise(runs)
