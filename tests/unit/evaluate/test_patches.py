"""The patch applier: what it does to a tree, and the whole text of what it refuses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, WorldError
from packager.base.processes import Surroundings, find_program, run_ok
from packager.evaluate.binary_patch import apply_delta, blob_id, format_binary_hunk
from packager.evaluate.patch_names import quote, unquote
from packager.evaluate.patches import apply_patch
from packager.evaluate.trees import DirectoryTree, Kind
from tests.support.file_trees import read_files, write_files
from tests.support.memory_tree import MemoryTree

if TYPE_CHECKING:
    from pathlib import Path

F, X, L = Kind.FILE, Kind.PROGRAM, Kind.SYMLINK
BEFORE = {
    b"src/x.py": (F, b"one\ntwo\nthree\nfour\nfive\n"),
    b"run.sh": (X, b"#!/bin/sh\n"),
    b"link": (L, b"src"),
    b"empty": (F, b""),
    b"crlf": (F, b"a\r\nb\r\nc\r\n"),
    b"open": (F, b"a\nb"),
    b"blob": (F, b"\0\1\2"),
}


def diff(path: str, *body: str) -> str:
    return "".join(line + "\n" for line in (f"diff --git a/{path} b/{path}", *body))


def edit(path: str, *hunks: str) -> str:
    return diff(path, f"--- a/{path}", f"+++ b/{path}", *hunks)


def applied(
    patch: str | bytes, before: dict[bytes, tuple[Kind, bytes]] | None = None
) -> dict[bytes, tuple[Kind, bytes]]:
    """What a patch changes: path by path the new file; DIRECTORY stands for gone."""
    tree = MemoryTree(BEFORE if before is None else before)
    start = dict(tree.files)
    apply_patch(patch.encode() if isinstance(patch, str) else patch, tree)
    gone = {path: (Kind.DIRECTORY, b"") for path in start if path not in tree.files}
    return {**{path: one for path, one in tree.files.items() if start.get(path) != one}, **gone}


def refused(patch: str | bytes, before: dict[bytes, tuple[Kind, bytes]] | None = None) -> str:
    """What the applier says; the tree must be untouched."""
    tree = MemoryTree(BEFORE if before is None else before)
    start = dict(tree.files)
    with pytest.raises(InputError) as caught:
        apply_patch(patch.encode() if isinstance(patch, str) else patch, tree)
    assert tree.files == start
    return str(caught.value)


GONE = (Kind.DIRECTORY, b"")
GOOD = edit("src/x.py", "@@ -1,3 +1,3 @@", " one", "-two", "+2", " three")


def test_an_edit_changes_exactly_its_lines() -> None:
    assert applied(GOOD) == {b"src/x.py": (F, b"one\n2\nthree\nfour\nfive\n")}


@pytest.mark.parametrize("patch", ["", "\n", " \n\n"])
def test_a_blank_patch_changes_nothing(patch: str) -> None:
    assert applied(patch) == {}


def test_a_patch_in_a_mail_is_read_and_its_signature_passed_over() -> None:
    mail = f"From abc Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n- a list\n+ of things\n---\n x | 2 +-\n\n{GOOD}-- \n2.39.5\n\n"
    assert applied(mail) == applied(GOOD)


def test_a_patch_that_lost_its_final_newline_is_still_whole() -> None:
    assert applied(GOOD.removesuffix("\n")) == applied(GOOD)


def test_new_deleted_moved_copied_and_mode_changes() -> None:
    patch = (
        diff("new", "new file mode 100755", "index 0000000..1234567", "--- /dev/null", "+++ b/new", "@@ -0,0 +1 @@", "+hi")
        + diff("void", "new file mode 100644", "index 0000000..e69de29")
        + diff("empty", "deleted file mode 100644", "index e69de29..0000000")
        + diff("run.sh", "old mode 100755", "new mode 100644")
        + "diff --git a/src/x.py b/lib/y.py\nsimilarity index 100%\nrename from src/x.py\nrename to lib/y.py\n"
        + "diff --git a/open b/shut\nsimilarity index 60%\ncopy from open\ncopy to shut\nindex 1..2 100644\n".replace("1..2", "1234..5678")
        + "--- a/open\n+++ b/shut\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
    )  # fmt: skip
    assert applied(patch) == {
        b"new": (X, b"hi\n"),
        b"void": (F, b""),
        b"empty": GONE,
        b"run.sh": (F, b"#!/bin/sh\n"),
        b"src/x.py": GONE,
        b"lib/y.py": BEFORE[b"src/x.py"],
        b"shut": (F, b"a\nc\n"),
    }


def test_two_files_can_swap_their_names() -> None:
    patch = (
        "diff --git a/open b/crlf\nsimilarity index 100%\nrename from open\nrename to crlf\n"
        "diff --git a/crlf b/open\nsimilarity index 100%\nrename from crlf\nrename to open\n"
    )
    assert applied(patch) == {b"open": BEFORE[b"crlf"], b"crlf": BEFORE[b"open"]}


def test_carriage_returns_are_bytes_like_any_other() -> None:
    assert applied(edit("crlf", "@@ -1,3 +1,3 @@", " a\r", "-b\r", "+B\r", " c\r"))[b"crlf"] == (F, b"a\r\nB\r\nc\r\n")
    assert refused(edit("crlf", "@@ -1,3 +1,3 @@", " a", "-b", "+B", " c")) == (
        "crlf, hunk 1 (line 4 of the patch): does not fit: at line 1 expected 'a\\n', found 'a\\r\\n'"
    )


def test_a_missing_newline_at_the_end_is_kept_added_and_removed() -> None:
    end = "\\ No newline at end of file"
    assert applied(edit("open", "@@ -1,2 +1,2 @@", "-a", "+A", " b", end))[b"open"] == (F, b"A\nb")
    assert applied(edit("open", "@@ -1,2 +1,2 @@", " a", "-b", end, "+b"))[b"open"] == (F, b"a\nb\n")
    assert applied(edit("empty", "@@ -0,0 +1 @@", "+x", end))[b"empty"] == (F, b"x")
    assert refused(edit("open", "@@ -1,2 +1,2 @@", "-a", "+A", " b")) == (
        "open, hunk 1 (line 4 of the patch): does not fit: at line 2 expected 'b\\n', found 'b'"
    )


def test_a_file_becomes_a_directory_a_directory_a_file_and_a_file_a_link() -> None:
    to_folder = diff("empty", "deleted file mode 100644") + diff("empty/in", "new file mode 100644")
    assert applied(to_folder) == {b"empty": GONE, b"empty/in": (F, b"")}
    lines = [f"-{word}" for word in ("one", "two", "three", "four", "five")]
    remove = diff("src/x.py", "deleted file mode 100644", "--- a/src/x.py", "+++ /dev/null", "@@ -1,5 +0,0 @@", *lines)
    assert applied(remove + diff("src", "new file mode 100644")) == {b"src/x.py": GONE, b"src": (F, b"")}
    link = ("--- /dev/null", "+++ b/empty", "@@ -0,0 +1 @@", "+run.sh", "\\ No newline at end of file")
    to_link = diff("empty", "deleted file mode 100644") + diff("empty", "new file mode 120000", *link)
    assert applied(to_link) == {b"empty": (L, b"run.sh")}


def test_a_link_is_edited_by_its_target_and_never_followed() -> None:
    end = "\\ No newline at end of file"
    patch = diff("link", "index 1234..5678 120000", "--- a/link", "+++ b/link", "@@ -1 +1 @@", "-src", end, "+lib", end)
    assert applied(patch) == {b"link": (L, b"lib")}


def test_a_hunk_that_moved_is_applied_at_the_nearest_place_and_said() -> None:
    tree = MemoryTree({b"f": (F, b"new\n" * 3 + b"".join(b"%d\n" % n for n in range(20)))})
    patch = edit("f", "@@ -5,3 +5,3 @@", " 4", "-5", "+five", " 6")
    done = apply_patch(patch.encode(), tree)
    assert done.moved_hunks == ("f, hunk 1 (line 4 of the patch): 3 lines further down",)
    assert b"4\nfive\n6\n" in tree.files[b"f"][1]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../x", "expected a plain path inside the tree, found '../x'"),
        ("a/../../x", "expected a plain path inside the tree, found 'a/../../x'"),
        ("/etc/passwd", "expected a plain path inside the tree, found '/etc/passwd'"),
        ("a//b", "expected a plain path inside the tree, found 'a//b'"),
        ("./a", "expected a plain path inside the tree, found './a'"),
        (".git/config", "a patch must not touch the repository itself: '.git/config'"),
        ("sub/.git", "a patch must not touch the repository itself: 'sub/.git'"),
        (".GIT/hooks/x", "a patch must not touch the repository itself: '.GIT/hooks/x'"),
        ("git~1/x", "a patch must not touch the repository itself: 'git~1/x'"),
        (".git./x", "a patch must not touch the repository itself: '.git./x'"),
        ("a" * 256, f"the path is too long: {('a' * 200)!r}"),
    ],
)
def test_a_path_that_leaves_the_tree_or_touches_the_repository_is_refused(path: str, said: str) -> None:
    assert refused(diff(path, "new file mode 100644")) == f"line 1 of the patch: {said}"
    moved = f"diff --git a/open b/{path}\nsimilarity index 100%\nrename from open\nrename to {path}\n"
    assert refused(moved) == f"line 4 of the patch: {said}"


REFUSED = {
    "no git patch": ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "line 1 of the patch: --- and +++ without a `diff --git` line\nhint: write it with git diff"),
    "prose": ("I changed the file.\n", "patch: expected `diff --git` lines, found none\nhint: write it with git diff"),
    "stray hunk": ("@@ -1 +1 @@\n-a\n+b\n", "line 1 of the patch: a hunk without a file"),
    "no such file": (edit("none", "@@ -1 +1 @@", "-a", "+b"), "none (line 1 of the patch): no such file to change: none"),
    "already there": (diff("open", "new file mode 100644"), "open (line 1 of the patch): the file is there already"),
    "directory there": (diff("src", "new file mode 100644"), "src (line 1 of the patch): there is a directory, which holds src/x.py"),
    "file as parent": (diff("open/x", "new file mode 100644"), "open/x (line 1 of the patch): open is a file, not a directory"),
    "link as parent": (diff("link/x.py", "new file mode 100644"), "link/x.py (line 1 of the patch): link is a symbolic link, not a directory"),
    "own link as parent": (
        diff("l", "new file mode 120000", "--- /dev/null", "+++ b/l", "@@ -0,0 +1 @@", "+/etc", "\\ No newline at end of file") + diff("l/x", "new file mode 100644"),
        "l/x (line 8 of the patch): the patch makes l a file and a directory"),
    "change below": (edit("link/x.py", "@@ -1 +1 @@", "-one", "+1"), "link/x.py (line 1 of the patch): no such file to change: link/x.py"),
    "directory changed": (edit("src", "@@ -1 +1 @@", "-one", "+1"), "src (line 1 of the patch): expected a file, found something else: src"),
    "twice": (GOOD + GOOD, "src/x.py (line 9 of the patch): the patch changes src/x.py twice"),
    "written twice": (diff("n", "new file mode 100644") * 2, "n (line 3 of the patch): the patch writes n twice"),
    "not removed whole": (diff("open", "deleted file mode 100644", "--- a/open", "+++ /dev/null", "@@ -1,1 +0,0 @@", "-a"), "open, hunk 1 (line 5 of the patch): does not fit: it must stand at the beginning or the end of the file, or after the hunk before it"),
    "removed without content": (diff("open", "deleted file mode 100644"), "open (line 1 of the patch): the file is removed, but the patch leaves content in it"),
    "new with old lines": (diff("n", "new file mode 100644", "--- /dev/null", "+++ b/n", "@@ -1 +1 @@", "-a", "+b"), "n, hunk 1 (line 5 of the patch): does not fit: at line 1 expected 'a\\n', found the end of the file"),
    "other context": (edit("src/x.py", "@@ -1,3 +1,3 @@", " one", "-zwei", "+2", " three"), "src/x.py, hunk 1 (line 4 of the patch): does not fit: at line 2 expected 'zwei\\n', found 'two\\n'"),
    "blanks": (edit("src/x.py", "@@ -1,3 +1,3 @@", " one", "-two ", "+2", " three"), "src/x.py, hunk 1 (line 4 of the patch): does not fit: at line 2 expected 'two \\n', found 'two\\n'"),
    "short hunk": (edit("src/x.py", "@@ -1,3 +1,3 @@", " one", "-two"), "line 4 of the patch: fewer lines than the hunk's header counts: found the end of the patch"),
    "cut hunk": (edit("src/x.py", "@@ -1,3 +1,3 @@", " one", "-two") + GOOD, "line 4 of the patch: fewer lines than the hunk's header counts: found b'diff --git a/src/x.py b/src/x.py\\n'"),
    "long hunk": (GOOD + " four\n", "line 9 of the patch: more lines than the hunk's header counts: b' four\\n'"),
    "too many old": (edit("src/x.py", "@@ -1,1 +1,2 @@", "-one", "-two", "+x", "+y"), "line 6 of the patch: more lines than the hunk's header counts"),
    "bad header": (edit("src/x.py", "@@ -1,x +1 @@", "-one"), "line 4 of the patch: not the header of a hunk: b'@@ -1,x +1 @@\\n'"),
    "no hunk": (edit("src/x.py"), "line 4 of the patch: expected a hunk"),
    "no plus line": (diff("open", "--- a/open", "@@ -1 +1 @@"), "line 3 of the patch: expected a line with +++ "),
    "names differ": (diff("open", "--- a/open", "+++ b/crlf", "@@ -1 +1 @@", "-a", "+b"), "crlf (line 1 of the patch): the names of the header do not agree"),
    "header names differ": (diff("open", "--- a/crlf", "+++ b/crlf", "@@ -1 +1 @@", "-a", "+b"), "crlf (line 1 of the patch): the names of the header do not agree"),
    "no prefix": ("diff --git x x\nnew file mode 100644\n", "? (line 1 of the patch): the names of the header do not agree"),
    "submodule": (diff("sub", "new file mode 160000", "index 0000000..1234567"), "line 2 of the patch: submodules cannot be changed by a patch"),
    "mode": (diff("n", "new file mode 100600"), "line 2 of the patch: expected mode 100644, 100755 or 120000, found b'100600'"),
    "file to link by mode": (diff("open", "old mode 100644", "new mode 120000"), "open (line 1 of the patch): a file becomes a link, or a link a file, without being removed"),
    "link as file": (diff("link", "old mode 100644", "new mode 100755"), "link (line 1 of the patch): expected a file, found a symbolic link"),
    "empty link": (diff("l", "new file mode 120000"), "l (line 1 of the patch): a symbolic link without a proper target"),
    "nothing": (diff("open", "index 1234..1234 100644"), "open (line 1 of the patch): a file patch that changes nothing"),
    "half rename": ("diff --git a/open b/n\nrename from open\n", "open (line 1 of the patch): a rename or copy without its two names"),
    "new and renamed": (diff("n", "new file mode 100644", "rename from open", "rename to n"), "n (line 1 of the patch): expected one of new, deleted, renamed and copied"),
    "binary unsaid": (diff("blob", "index 1234..5678 100644", "Binary files a/blob and b/blob differ"), "line 3 of the patch: the patch says that a binary file differs, but not how\nhint: write it with git diff --binary"),
    "bad index": (diff("blob", "index x..y"), "line 2 of the patch: not an index line: b'x..y'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_with_its_reason_and_nothing_is_changed(name: str) -> None:
    patch, expected = REFUSED[name]
    assert refused(patch) == expected
    if name not in {"prose", "no git patch"}:
        refused(diff("fresh", "new file mode 100644") + patch)


def test_a_patch_whose_last_file_fails_changes_no_file() -> None:
    assert "no such file" in refused(GOOD + edit("none", "@@ -1 +1 @@", "-a", "+b"))


def test_a_file_above_another_in_one_patch_is_refused_in_either_order() -> None:
    first, second = diff("n", "new file mode 100644"), diff("n/m", "new file mode 100644")
    for patch in (first + second, second + first):
        assert "the patch makes n a file and a directory" in refused(patch)


# Binary


def binary(path: str, before: bytes | None, after: bytes | None, hunk: bytes) -> bytes:
    ids = [b"0" * 40 if one is None else blob_id(one) for one in (before, after)]
    mode = "new file mode 100644" if before is None else "deleted file mode 100644" if after is None else ""
    head = diff(path, *([mode] if mode else [])).encode()
    return head + b"index %s..%s\nGIT binary patch\n" % tuple(ids) + hunk


def test_binary_files_are_made_changed_and_removed() -> None:
    content = bytes(range(256)) * 9
    assert applied(binary("new", None, content, format_binary_hunk(content))) == {b"new": (F, content)}
    old = BEFORE[b"blob"][1]
    patch = binary("blob", old, content, format_binary_hunk(content) + format_binary_hunk(old))
    assert applied(patch) == {b"blob": (F, content)}
    assert applied(binary("blob", old, None, format_binary_hunk(b""))) == {b"blob": GONE}


OLD, NEW = BEFORE[b"blob"][1], b"\0new"
BINARY_REFUSED = {
    "other file": (binary("blob", b"other", NEW, format_binary_hunk(NEW)), "blob (line 1 of the patch): the binary file is not the one that the patch was made for"),
    "other result": (binary("blob", OLD, b"other", format_binary_hunk(NEW)), "blob (line 1 of the patch): the binary data does not give the file that the patch names"),
    "no end": (binary("blob", OLD, NEW, format_binary_hunk(NEW).removesuffix(b"\n")), "line 3 of the patch: the binary data ends without an empty line"),
    "no data": (binary("blob", OLD, NEW, b""), "line 3 of the patch: expected literal or delta data"),
    "bad letter": (binary("blob", OLD, NEW, b"literal 4\n!abcde\n\n"), "line 3 of the patch: not a line of base 85: b'!abcde'"),
    "bad length": (binary("blob", OLD, NEW, b"literal 4\nDabc\n\n"), "line 3 of the patch: not a line of base 85: b'Dabc'"),
    "no zlib": (binary("blob", OLD, NEW, b"literal 4\nDabcde\n\n"), "line 3 of the patch: the binary data does not inflate: Error -3 while decompressing data: incorrect header check"),
    "bomb": (binary("blob", OLD, NEW, format_binary_hunk(b"\0" * 10_000_000).replace(b"literal 10000000", b"literal 4")), "line 3 of the patch: expected 4 bytes of binary data, found another number"),
    "huge": (binary("blob", OLD, NEW, b"literal 9999999999\nDabcde\n\n"), f"line 3 of the patch: expected at most {512 << 20} bytes, found 9999999999"),
    "short ids": (binary("blob", OLD, NEW, format_binary_hunk(NEW)).replace(blob_id(OLD), blob_id(OLD)[:12]), "line 3 of the patch: binary data without the full index line\nhint: git diff --binary"),
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY_REFUSED)
def test_binary_data_that_does_not_hold_is_refused(name: str) -> None:
    patch, expected = BINARY_REFUSED[name]
    assert refused(patch) == expected


@pytest.mark.parametrize(
    ("delta", "said"),
    [
        (b"", "index out of range"),
        (b"\x04\x01\x01x", "made for 4 bytes, found 3"),
        (b"\x03\x02\x01x", "expected 2 bytes, made 1"),
        (b"\x03\x01\x05x", "an instruction reaches beyond the data"),
        (b"\x03\x01\x00", "an instruction reaches beyond the data"),
        (b"\x03\x09\x91\x02\x09", "an instruction reaches beyond the data"),
        (b"\x03\x01\x91", "index out of range"),
        (b"\xff" * 20, "a size without end"),
        (b"\x03\xff\xff\xff\xff\x7f", f"expected at most {512 << 20} bytes, found 34359738367"),
    ],
)
def test_a_broken_delta_is_refused(delta: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        apply_delta(b"abc", delta, where="x")
    assert str(caught.value) == f"x: a broken delta: {said}"


@pytest.mark.engine
@pytest.mark.skipif(find_program("git") is None, reason="git is not installed")
def test_a_delta_made_by_git_gives_the_same_bytes(tmp_path: Path) -> None:
    old = b"".join(b"\0%d\xff" % (n * n) for n in range(9000))
    new = old[:20_000] + b"\0inserted" + old[21_000:] + b"tail"
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new").write_bytes(new)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    around = Surroundings(env=env, cwd=tmp_path)
    run_ok(["git", "init", "-q", "."], around)
    ids = [run_ok(["git", "hash-object", "-w", name], around).decode().strip() for name in ("old", "new")]
    patch = run_ok(["git", "diff", "--binary", *ids], around)
    assert b"delta " in patch
    patch = (
        patch.replace(ids[0].encode(), b"f")
        .replace(ids[1].encode(), b"f")
        .replace(b"index f..f", b"index %s..%s" % (ids[0].encode(), ids[1].encode()))
    )
    assert applied(patch, {b"f": (F, old)}) == {b"f": (F, new)}


# Names


@pytest.mark.parametrize(
    "path", [b"plain", b"with blank", b"\xc3\xa9", b"\xff", b't\tq"b\\n\nx\x01', b"b/b", b"a b/a b"]
)
def test_every_name_survives_quoting_and_the_header(path: bytes) -> None:
    assert unquote(quote(path), where="x") == path
    header = b"diff --git %s %s\nnew file mode 100644\n" % (quote(b"a/" + path), quote(b"b/" + path))
    assert applied(header) == {path: (F, b"")}


def test_a_mixed_header_with_one_quoted_name_is_read() -> None:
    assert applied(b'diff --git "a/x" b/x\nnew file mode 100644\n') == {b"x": (F, b"")}
    assert applied(b'diff --git a/x "b/x"\nnew file mode 100644\n') == {b"x": (F, b"")}
    assert "expected a quoted path" in refused(b'diff --git "a/x" "b/x\nnew file mode 100644\n')


def test_a_name_with_a_blank_ends_at_the_tab_that_git_adds() -> None:
    patch = edit("a b", "@@ -1 +1 @@", "-x", "+y").replace("/a b\n@@", "/a b\t\n@@").replace("--- a/a b", "--- a/a b\t")
    assert applied(patch, {b"a b": (F, b"x\n")}) == {b"a b": (F, b"y\n")}


def test_endless_headers_and_lines_are_refused() -> None:
    assert refused("diff --git " + "a b/" * 10_000) == "line 1 of the patch: the names of the header are too long"
    assert refused(b"\n" * 5_000_001) == "patch: expected at most 5000000 lines"


# On disk


def test_a_tree_on_disk_never_follows_a_link_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("safe\n")
    root = write_files(tmp_path / "tree", {b"in": (L, b"../outside"), b"f": (L, b"../outside/x")})
    with DirectoryTree(root) as tree:
        assert (tree.look(b"in"), tree.look(b"in/x"), tree.look(b"f")) == (L, None, L)
        with pytest.raises(InputError):
            tree.read(b"in/x")
        with pytest.raises(InputError):
            tree.names(b"in")
        with pytest.raises(WorldError):
            tree.write(b"in/y", b"", F)
        with pytest.raises(WorldError):
            tree.delete(b"in/x")
        with pytest.raises(InputError):
            apply_patch(edit("in/x", "@@ -1 +1 @@", "-safe", "+gone").encode(), tree)
        tree.write(b"f", b"mine\n", F)
    assert [one.name for one in outside.iterdir()] == ["x"]
    assert (outside / "x").read_text() == "safe\n"
    assert (root / "f").read_text() == "mine\n"


def test_a_hard_link_never_carries_a_change_out(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", {b"f": (F, b"old\n")})
    (tmp_path / "store").hardlink_to(root / "f")
    with DirectoryTree(root) as tree:
        apply_patch(edit("f", "@@ -1 +1 @@", "-old", "+new").encode(), tree)
    assert ((tmp_path / "store").read_text(), (root / "f").read_text()) == ("old\n", "new\n")


def test_a_pipe_is_neither_read_nor_waited_for(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", {b"f": (F, b"old\n")})
    os.mkfifo(root / "p")
    with DirectoryTree(root) as tree:
        assert tree.look(b"p") is Kind.OTHER
        with pytest.raises(InputError):
            tree.read(b"p")
        with pytest.raises(InputError) as caught:
            apply_patch(edit("p", "@@ -1 +1 @@", "-old", "+new").encode(), tree)
    assert str(caught.value) == "p (line 1 of the patch): expected a file, found something else: p"


def test_modes_do_not_depend_on_the_umask_and_empty_folders_go(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", {b"a/b/c": (F, b"")})
    before = os.umask(0o077)
    try:
        with DirectoryTree(root) as tree:
            apply_patch(
                (diff("a/b/c", "deleted file mode 100644") + diff("n/m", "new file mode 100755")).encode(), tree
            )
    finally:
        os.umask(before)
    assert read_files(root) == {b"n/m": (X, b"")}
    assert not (root / "a").exists()
    assert ((root / "n").stat().st_mode & 0o777, (root / "n/m").stat().st_mode & 0o777) == (0o755, 0o755)


def test_a_file_takes_the_place_of_folders_that_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "tree" / "d" / "e" / "f").mkdir(parents=True)
    with DirectoryTree(tmp_path / "tree") as tree:
        apply_patch(diff("d", "new file mode 100644").encode(), tree)
    assert read_files(tmp_path / "tree") == {b"d": (F, b"")}
