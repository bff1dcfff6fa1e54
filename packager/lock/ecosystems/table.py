"""The table of ecosystems: what tests show of each package client; `tests/house/test_table.py` holds every mark."""

from __future__ import annotations

from dataclasses import dataclass

from packager.lock.ecosystems import web
from packager.lock.ecosystems.asked import Mark, Row
from packager.lock.ecosystems.known import make_ecosystems

HEAD = ("CLIENT", "REGISTRY", *(str(mark) for mark in Mark), "NOTE")


@dataclass(frozen=True)
class Line:
    """One package client, the alias of the registry that it speaks to, and what tests show of it."""

    alias: str
    row: Row

    def cells(self) -> tuple[str, ...]:
        """Return what people see: under each mark `yes` or nothing."""
        marks = ("yes" if mark in self.row.shown else "-" for mark in Mark)
        return (self.row.client, self.alias, *marks, self.row.note)


def table_lines() -> tuple[Line, ...]:
    """Return a line per package client, by registry and then in the order in which its ecosystem names them."""
    found = {ecosystem.alias: ecosystem.rows for ecosystem in make_ecosystems().values()}
    found[web.ALIAS] = web.ROWS
    return tuple(Line(alias, row) for alias, rows in sorted(found.items()) for row in rows)
