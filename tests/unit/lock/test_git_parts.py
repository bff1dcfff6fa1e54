from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, IntegrityError, WorldError
from packager.lock.git_delta import make_delta
from packager.lock.git_dependencies import open_packs
from packager.lock.git_globs import Globs
from packager.lock.git_mirrors import check_url, local_objects, rewrite_url
from packager.lock.git_objects import ObjectId, ObjectReader, parse_commit, parse_object_id, parse_tree
from packager.lock.git_pack import format_pack_index, stored_stream
from packager.store.store import Store
from tests.support.git_builder import GitBuilder

if TYPE_CHECKING:
    from pathlib import Path

BASE = b"".join(b"line %d of the base file\n" % number for number in range(400))


def apply_delta(base: bytes, delta: bytes) -> bytes:
    def varint(place: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = delta[place]
            value |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if not byte & 0x80:
                return value, place

    base_size, place = varint(0)
    target_size, place = varint(place)
    assert base_size == len(base)
    out = b""
    while place < len(delta):
        flags = delta[place]
        place += 1
        if not flags & 0x80:
            assert flags
            out += delta[place : place + flags]
            place += flags
            continue
        numbers = []
        for bits in (range(4), range(4, 7)):
            value = 0
            for shift, bit in enumerate(bits):
                if flags >> bit & 1:
                    value |= delta[place] << 8 * shift
                    place += 1
            numbers.append(value)
        out += base[numbers[0] : numbers[0] + (numbers[1] or 0x10000)]
    assert len(out) == target_size
    return out


@pytest.mark.parametrize(
    "target",
    [
        b"",
        BASE,
        BASE + b"tail",
        b"head" + BASE,
        BASE.replace(b"line 200 ", b"row 200 "),
        BASE.replace(b"line 7 ", b"x").replace(b"line 390 ", b"yy"),
        BASE[5000:] + BASE[:5000],
        BASE[100:3000] + b"z" * 500 + BASE[2000:],
        BASE * 12,
        b"unrelated",
    ],
)
@pytest.mark.parametrize("tree", [False, True])
def test_a_delta_turns_the_base_into_the_target(target: bytes, tree: bool) -> None:
    assert apply_delta(BASE, make_delta(BASE, target, tree=tree)) == target
    assert apply_delta(target, make_delta(target, BASE, tree=tree)) == BASE


def test_a_delta_of_a_tree_copies_whole_items() -> None:
    items = [b"100644 f%03d\0" % number + bytes([number]) * 20 for number in range(100)]
    base = b"".join(items)
    target = b"".join([*items[:10], b"100644 new\0" + b"\x77" * 20, *items[11:50], *items[52:]])
    delta = make_delta(base, target, tree=True)
    assert apply_delta(base, delta) == target
    assert len(delta) < 80


@pytest.mark.parametrize("size", [0, 1, 65534, 65535, 65536, 200000])
def test_a_stored_stream_is_a_zlib_stream_however_its_blocks_come(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    whole = b"".join(stored_stream([data], size))
    assert zlib.decompress(whole) == data
    assert b"".join(stored_stream([data[place : place + 777] for place in range(0, size, 777)], size)) == whole


def test_a_pack_index_holds_offsets_above_two_gigabytes() -> None:
    rows = [("11" * 20, 5, 12), ("00" * 20, 7, 1 << 33)]
    index = format_pack_index(rows, b"t" * 20)
    assert struct.unpack(">II", index[8 + 1024 + 40 + 8 : 8 + 1024 + 40 + 16]) == (1 << 31, 12)
    assert struct.unpack(">Q", index[8 + 1024 + 56 : 8 + 1024 + 64]) == (1 << 33,)


@pytest.mark.parametrize(
    ("globs", "path", "expected"),
    [
        (Globs(), b"any/thing", True),
        (Globs(("*.py",)), b"a.py", True),
        (Globs(("*.py",)), b"a/b.py", False),
        (Globs(("**/*.py",)), b"a.py", True),
        (Globs(("**/*.py",)), b"a/b/c.py", True),
        (Globs(("docs/**",)), b"docs/a/b", True),
        (Globs(("docs/**",)), b"docs", False),
        (Globs(("a/**/z",)), b"a/z", True),
        (Globs(("a/**/z",)), b"a/b/c/z", True),
        (Globs(("a/**/z",)), b"abz", False),
        (Globs(("[!a]?.txt",)), b"bx.txt", True),
        (Globs(("[!a]?.txt",)), b"ax.txt", False),
        (Globs(("[!a]b",)), b"/b", False),
        (Globs(("**",), ("**/*_test.go",)), b"x/y_test.go", False),
        (Globs((), ("**/*_test.go",)), b"x/y.go", True),
        (Globs(("caf\u00e9*",)), "caf\u00e9.txt".encode(), True),
        (Globs(("a.c",)), b"abc", False),
    ],
)
def test_globs_mean_what_they_mean_to_git(globs: Globs, path: bytes, expected: bool) -> None:
    assert globs.match(path) == expected


@pytest.mark.parametrize("glob", ["", "/a", "a//b", "docs/", "../a", "./a", "a[b"])
def test_a_glob_that_cannot_match_is_refused(glob: str) -> None:
    with pytest.raises(InputError, match=r"glob"):
        Globs((glob,)).match(b"a")


@pytest.mark.parametrize(
    ("url", "mirrors", "expected"),
    [
        ("https://h.invalid/o/n", {}, "https://h.invalid/o/n"),
        ("https://h.invalid/o/n", {"https://h.invalid/": "/m/"}, "/m/o/n"),
        ("https://h.invalid/o/n.git", {"https://h.invalid/{owner}/{name}": "/m/{owner}+{name}/repo"}, "/m/o+n/repo"),
        (
            "https://h.invalid/o/n/",
            {"https://h.invalid/{path}": "ssh://m.invalid/{path}.git"},
            "ssh://m.invalid/o/n.git",
        ),
        ("https://h.invalid/o/n", {"https://h.invalid/": "/short/", "https://h.invalid/o/": "/long/"}, "/long/n"),
        ("https://h.invalid/a/b/c", {"https://h.invalid/{owner}/{name}": "/m/{name}"}, "https://h.invalid/a/b/c"),
        ("https://h.invalid/../n", {"https://h.invalid/{owner}/{name}": "/m/{owner}/{name}"}, "https://h.invalid/../n"),
        ("https://h.invalid/../../etc", {"https://h.invalid/": "/m/"}, "https://h.invalid/../../etc"),
    ],
)
def test_a_mirror_stands_in_for_a_url(url: str, mirrors: dict[str, str], expected: str) -> None:
    assert rewrite_url(url, mirrors) == expected


def test_a_mirror_that_uses_an_unknown_placeholder_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        rewrite_url("https://h.invalid/a/b", {"https://h.invalid/{owner}/b": "/m/{name}"})
    assert (
        str(caught.value)
        == "mirrors: expected {name} in the prefix 'https://h.invalid/{owner}/b' too, since '/m/{name}' uses it"
    )


@pytest.mark.parametrize("url", ["--upload-pack=touch x", "ext::sh -c id", "relative/path", "fd::3", "user@host::x"])
def test_a_url_that_could_start_programs_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"^repo: expected the URL of a git repository, found "):
        check_url(url)


def test_a_directory_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorldError) as caught:
        local_objects(str(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}: expected a git repository (HEAD and objects, bare or in .git), found none\n"
        "hint: correct the mirror setting, or fetch the mirror again"
    )
    assert local_objects("https://h.invalid/x") is None


@pytest.mark.parametrize("text", ["main", "abc123", "A" * 40, "a" * 41, "-" + "a" * 39])
def test_a_commit_that_could_move_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_object_id(text, where="x")
    assert str(caught.value) == (
        f"x: expected a full commit id of 40 hexadecimal digits, found {text!r}\n"
        "hint: write all 40 hexadecimal digits; branches, tags and short ids can move"
    )


@pytest.mark.parametrize("data", [b"100644 a", b"100644 a\0" + b"x" * 19, b"\0" * 30, b"x" * 30])
def test_a_damaged_tree_is_refused(data: bytes) -> None:
    with pytest.raises(IntegrityError, match=r"^tree t: a tree object is cut short or malformed$"):
        parse_tree(ObjectId("t"), data)


def test_a_tree_with_a_mode_that_is_no_number_is_refused() -> None:
    with pytest.raises(IntegrityError, match=r"^tree t: a tree object has the mode b'9'$"):
        parse_tree(ObjectId("t"), b"9 a\0" + b"x" * 20)


def test_a_commit_with_an_odd_date_counts_as_the_beginning() -> None:
    tree = "a" * 40
    commit = parse_commit(ObjectId("c"), f"tree {tree}\nparent {tree}\ncommitter X <> yesterday\n\ntree no\n".encode())
    assert (commit.tree, commit.parents, commit.time) == (tree, (tree,), 0)


def test_an_index_that_a_kill_cut_off_is_never_taken_for_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A git that dies in the middle of `index-pack` leaves the part that it wrote, where it was told to write."""
    made = GitBuilder(tmp_path / "made")
    commit = made.commit({"a.txt": "1\n" * 50})
    store = Store(tmp_path / "store")
    pack = store.put(packed(made, commit))
    dies = tmp_path / "bin" / "git"
    dies.parent.mkdir()
    dies.write_text(DYING_GIT.format(git=shutil.which("git")))
    dies.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(dies.parent), prepend=os.pathsep)
        with pytest.raises(WorldError, match="git index-pack failed"):
            open_packs(store, pack)
    with ObjectReader(open_packs(store, pack)) as reader:
        assert reader.commit(commit).id == commit


DYING_GIT = """#!/bin/sh
'{git}' "$@" || exit
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || index=$2
    case $1 in *.pack) index=${{index:-${{1%.pack}}.idx}} pack=1 ;; esac
    shift
done
[ -z "${{pack:-}}" ] || {{ truncate -s 500 "$index"; kill -9 $$; }}
"""


def packed(made: GitBuilder, commit: str) -> bytes:
    """Return a pack of all that a commit reaches."""
    argv = ["git", "-C", str(made.path), "pack-objects", "--revs", "--stdout", "-q"]
    return subprocess.run(argv, input=f"{commit}\n".encode(), capture_output=True, check=True).stdout
