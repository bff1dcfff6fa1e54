"""A process whose clock is ahead and whose directories come in any order; tried in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from packager.base.processes import Surroundings, run_ok

ROOT = Path(__file__).parents[3]
SCRIPT = """
import datetime as dt, json, os, pathlib, random, sys, time
from packager.base.disturbed import shift_clock, shuffle_listings
before = time.time(), dt.datetime.now(dt.timezone.utc)
shift_clock(400 * 86400)
from packager.sandbox.authority import Authority
authority = Authority()
from cryptography import x509
made = x509.load_pem_x509_certificate(authority.certificate_pem())
orders = set()
shuffle_listings(random.Random(1))
for _ in range(9):
    orders.add(tuple(os.listdir(sys.argv[1])))
    with os.scandir(sys.argv[1]) as entries:
        orders.add(tuple(entry.name for entry in entries))
print(json.dumps({
    "time": round((time.time() - before[0]) / 86400), "ns": round((time.time_ns() / 1e9 - before[0]) / 86400),
    "datetime": round((dt.datetime.now(dt.timezone.utc) - before[1]) / dt.timedelta(days=1)),
    "kind": isinstance(before[1], dt.datetime) and isinstance(dt.datetime.now(), dt.datetime) and not isinstance(1, dt.datetime),
    "trusted today": made.not_valid_before_utc < before[1] < made.not_valid_after_utc,
    "several orders": len(orders) > 1, "names": sorted(map(sorted, orders))[0],
    "glob": sorted(path.name for path in pathlib.Path(sys.argv[1]).glob("*")),
}))
"""


def test_clock_and_directories_are_others_and_certificates_hold_all_the_same(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(9)]
    for name in names:
        (tmp_path / name).touch()
    around = Surroundings(env={"PYTHONPATH": ":".join([str(ROOT), *sys.path])})
    said = json.loads(run_ok([sys.executable, "-c", SCRIPT, str(tmp_path)], around))
    assert said == {
        "time": 400,
        "ns": 400,
        "datetime": 400,
        "kind": True,
        "trusted today": True,
        "several orders": True,
        "names": names,
        "glob": names,
    }
