"""From a difference to its likely cause: by path, by what makes it vary, and by the bytes."""

from __future__ import annotations

import gzip
import json

import pytest

from packager.build.causes import REPEATED, likely_cause
from packager.build.checklist import CHECKLIST
from packager.oci.compare import EntryDifference

PATHS = {
    "etc/machine-id": "E1",
    "var/lib/dbus/machine-id": "E1",
    "var/cache/ldconfig/aux-cache": "E2",
    "etc/ld.so.cache": "E3",
    "var/log/apt/history.log": "E4",
    "etc/shadow": "E5",
    "etc/passwd": "E6",
    "var/lib/dpkg/status-old": "E7",
    "var/cache/apt/pkgcache.bin": "E8",
    "etc/hosts": "E10",
    "run/motd.dynamic": "E11",
    "var/lib/systemd/random-seed": "E12",
    "var/cache/fontconfig/abc.cache-8": "E13",
    "usr/lib/locale/locale-archive": "E14",
    "var/cache/man/index.db": "E15",
    "etc/ssh/ssh_host_ed25519_key": "E16",
    "etc/ssl/certs/java/cacerts": "E17",
    "root/.gnupg/random_seed": "E18",
    "root/.config/go/telemetry/local/weekends": "E21",
    "home/who/.bash_history": "E21",
    "usr/lib/python3/__pycache__/a.cpython-311.pyc": "F1",
    "opt/env/lib/a-1.dist-info/direct_url.json": "F2",
    "opt/env/lib/a-1.dist-info/uv_cache.json": "F3",
    "wheels/a-1-py3-none-any.whl": "F4",
    "opt/env/pyvenv.cfg": "F5",
    "w/node_modules/.package-lock.json": "F6",
    "w/node_modules/.modules.yaml": "F7",
    "w/.yarn/install-state.gz": "F8",
    "root/go/pkg/mod/cache/lock": "F11",
    "w/target/.rustc_info.json": "F12",
    "w/build/.ninja_log": "F15",
    "w/target/a.jar": "F16",
    "root/.m2/repository/g/a/_remote.repositories": "F17",
    "root/.gradle/journal-1/file-access.bin": "F18",
    "w/gems/a/mkmf.log": "F19",
    "w/vendor/composer/autoload_real.php": "F20",
    "usr/lib/perl5/perllocal.pod": "F22",
    "w/.pytest_cache/v/cache/nodeids": "F23",
    "w/.git/index": "G1",
    "w/.git/objects/pack/pack-1.idx": "G2",
    "w/.git/logs/HEAD": "G3",
    "w/.git/config": "G4",
    "w/.git/FETCH_HEAD": "G5",
    "w/.git/refs/heads/main": "G6",
}

CONTENTS = {
    "time": (b"built Mon Nov 30 00:00:01 UTC 2026\n", b"built Mon Nov 30 00:00:02 UTC 2026\n", "H time"),
    "seconds": (b"t=1764460800", b"t=1764460801", "H time"),
    "zone": (b"Fri Jan  2 00:00:00 UTC 1970", b"Fri Jan  2 05:30:00 +0530 1970", "H time zone"),
    "uuid": (
        b"id 0d5f9dd4-7a31-4f3e-9a43-000000000001",
        b"id 0d5f9dd4-7a31-4f3e-9a43-000000000002",
        "H random",
    ),
    "port": (b'{"url": "http://127.0.0.1:40001/"}', b'{"url": "http://127.0.0.1:40002/"}', "H port"),
    "name": (b"cc /tmp/tmp.AAAA/f.c", b"cc /tmp/tmp.BBBB/f.c", "H name"),
    "mounts": (b"overlay / overlay lowerdir=/a,rw", b"overlay / overlay lowerdir=/b,rw", "H mounts"),
    "order of lines": (b"a\nc\nb\n", b"b\na\nc\n", "H hash seed"),
    "order of JSON": (json.dumps([{"a": 1, "b": 2}, 3]).encode(), b'[3,{"b":2,"a":1}]', "H hash seed"),
    "sorting": (b"A\nB\na\nb\n", b"A\na\nB\nb\n", "H locale"),
    "host": (b"built on build\n", b"built on lab-7\n", "H host name"),
    "gzip time": (gzip.compress(b"a", mtime=1), gzip.compress(b"a", mtime=2), "C1"),
    "gzip body": (
        gzip.compress(b"a" * 99, 1, mtime=1)[:8] + b"\0\xff1",
        gzip.compress(b"a", mtime=1)[:8] + b"\0\xff2",
        "C2",
    ),
    "zip": (b"PK\x03\x04 1", b"PK\x03\x04 2", "F4"),
    "elf": (b"\x7fELF 1", b"\x7fELF 2", "F14"),
    "ar": (b"!<arch>\n 1", b"!<arch>\n 2", "F14"),
    "go": (b'\x7fELF Go build ID: "a"', b'\x7fELF Go build ID: "b"', "F10"),
    "noise": (b"\x00\x91\x17", b"\x22\x80\x99", "H random"),
}


def content(a: bytes, b: bytes, path: bytes = b"opt/f") -> EntryDifference:
    return EntryDifference(path, "content", "", "", (a, b))


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_known_to_differ_names_its_row(path: str) -> None:
    found = EntryDifference(path.encode(), "content", "1 byte", "2 bytes")
    assert likely_cause(found).id == PATHS[path]
    assert likely_cause(found, ["cpus"]).id == PATHS[path]


@pytest.mark.parametrize("name", CONTENTS)
def test_bytes_tell_what_made_them_differ(name: str) -> None:
    one, other, cause = CONTENTS[name]
    assert likely_cause(content(one, other)).id == cause
    assert likely_cause(content(other, one), [REPEATED]).id == cause


def test_a_table_of_mounts_is_one_even_where_only_another_file_system_changes_it() -> None:
    rows = b"142 118 0:42 / / rw,nodev - overlay", b"138 118 0:42 / / rw,nodev - overlay"
    found = EntryDifference(b"x/mounts/mounts", "content", "", "", rows)
    assert likely_cause(found, ["file system"]).id == "H mounts"


def test_a_condition_that_alone_matters_says_more_than_the_bytes() -> None:
    lines = content(b"a\nc\nb\n", b"b\na\nc\n")
    assert likely_cause(lines, ["file system", "directory order"]).id == "A1"
    assert likely_cause(lines, ["cpus"]).id == "H cpus"
    assert likely_cause(lines, ["user namespace"]).id == "H user"
    assert likely_cause(lines, ["cpus", "file system"]).id == "H hash seed"


@pytest.mark.parametrize(
    ("field", "a", "b", "cause"),
    [
        ("mode", "0644", "0600", "A10"),
        ("owner", "0:0", "65534:65534", "A7"),
        ("capability", "none", "00", "A20"),
        ("kind", "file 0644 0:0", "hardlink 0644 0:0 to a", "A15"),
        ("kind", "dir 0755 0:0", "deleted", "B1"),
        ("link", "/tmp/a.1", "/tmp/a.2", "H name"),
        ("entry", "absent", "file 0644 0:0", "H name"),
    ],
)
def test_other_fields_have_rows_of_their_own(field: str, a: str, b: str, cause: str) -> None:
    assert likely_cause(EntryDifference(b"opt/f", field, a, b)).id == cause


def test_an_entry_that_comes_and_goes_with_a_condition_is_no_name_by_chance() -> None:
    found = EntryDifference(b"opt/f", "entry", "absent", "file 0644 0:0")
    assert likely_cause(found, ["cpus", "user namespace"]).id == "B5"
    assert likely_cause(found, [REPEATED]).id == "H name"


def test_every_row_says_what_to_do() -> None:
    assert all(row.title and row.cure for row in CHECKLIST.values())
    assert str(CHECKLIST["C1"]) == (
        "C1 (header of gzip): gzip -n, or write to a pipe: neither time nor name is then stored"
    )
