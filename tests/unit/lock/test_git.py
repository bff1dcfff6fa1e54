from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest

from packager.base.errors import InputError, IntegrityError, PackError, WorldError
from packager.lock.git import GitRepository, GitSources, History, _fetch
from packager.lock.git_objects import ObjectId
from packager.lock.git_runner import make_git_directory
from packager.lock.git_tree import Pins
from packager.oci.entries import Entry, Kind, file_entry
from packager.store.store import Store
from tests.support.git_builder import TIME, Files, GitBuilder, PlainPlace

pytestmark = pytest.mark.engine

URL = "https://h.invalid/owner/name.git"
ONE_ID = "38fb39b2a958898c84d348acabf055f794f422cd"
PACK_PATH = b".git/objects/pack/pack-209b811080fc1ce1c41274cc5be65a6588a57282.pack"
NASTY: Files = {
    "plain.txt": "one\ntwo\n",
    "run.sh": ("100755", b"#!/bin/sh\n"),
    "old": ("100664", b"group writable in old gits\n"),
    "link": ("120000", b"plain.txt"),
    "caf\udce9": b"latin-1 name\n",
    'a b\n"q"/' + "n" * 120 + "/deep.txt": b"long name\n",
    "ignored.log": b"ignored but tracked\n",
    ".gitignore": b"*.log\n",
    ".gitattributes": b"* text=auto export-ignore filter=lfs diff=none\n*.txt ident\n",
    "crlf.txt": b"a\r\nb\r\n",
    "empty": b"",
    "sub-dir": b"sorts before sub/\n",
    "sub/file": b"x\n",
    "sub/z/file": b"y\n",
    "sub0": b"sorts after sub/\n",
    "binary": bytes(range(256)) * 300,
}


@pytest.fixture
def mirror(tmp_path: Path) -> GitBuilder:
    return GitBuilder(tmp_path / "mirrors" / "owner+name" / "repo")


def obtain(mirror: GitBuilder, commit: str) -> GitRepository:
    root = mirror.path.parents[1]
    sources = GitSources(
        PlainPlace(root.parent / "store"), {"https://h.invalid/{owner}/{name}": f"{root}/{{owner}}+{{name}}/repo"}, root
    )
    return sources.obtain(URL, commit)


def lay_out(root: Path, entries: list[Entry]) -> None:
    for entry in entries:
        path = root / os.fsdecode(entry.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind is Kind.DIR:
            path.mkdir(exist_ok=True)
        elif entry.kind is Kind.SYMLINK:
            path.symlink_to(os.fsdecode(entry.link))
        else:
            content = content_of(entry)
            assert content is not None
            assert len(content) == entry.size
            path.write_bytes(content)
            path.chmod(entry.mode)


def git(root: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="replace")


def history(mirror: GitBuilder) -> list[str]:
    one = mirror.commit({"a.txt": "1\n" * 50, "d/x": "x\n"}, time=TIME)
    two = mirror.commit({"a.txt": "1\n" * 50 + "2\n", "d/x": "x\n"}, one, time=TIME + 1)
    side = mirror.commit({"a.txt": "side\n" + "1\n" * 50, "d/y": "y\n"}, one, time=TIME + 1)
    merge = mirror.commit({**NASTY, "a.txt": "side\n" + "1\n" * 50 + "2\n"}, two, side, time=TIME + 2)
    future = mirror.commit({**NASTY, "a.txt": "the answer\n"}, merge, time=TIME - 5, message="answer")
    mirror.ref("refs/heads/main", future)
    mirror.ref("refs/tags/v1", merge)
    return [one, two, side, merge, future]


@pytest.mark.parametrize("depth", ["ancestors", "none"])
def test_a_checkout_is_clean_and_holds_nothing_of_the_future(
    mirror: GitBuilder, tmp_path: Path, depth: History
) -> None:
    *past, base, future = history(mirror)
    repository = obtain(mirror, base)
    checkout = tmp_path / "checkout"
    entries = repository.canonical_git(base, depth, b"w/r") + repository.tree_entries(base, b"w/r")
    lay_out(checkout, entries)
    work = checkout / "w" / "r"
    written = (work / ".git" / "index").read_bytes()
    assert git(work, "status", "--porcelain=v1", "--ignored") == ""
    assert (work / ".git" / "index").read_bytes() == written
    assert git(work, "diff", "HEAD") == ""
    git(work, "fsck", "--strict", "--full")
    commits = git(work, "rev-list", "--all").split()
    assert sorted(commits) == (sorted([*past, base]) if depth == "ancestors" else [repository.head_id(base, "none")])
    names = git(work, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    assert future not in names
    reached = git(work, "rev-list", "--objects", "--no-object-names", "HEAD").split()
    assert sorted(names) == sorted(reached)
    assert git(work, "log", "-1", "--format=%T").strip() == repository.commit(base).tree
    assert len(git(work, "blame", "-s", "a.txt").splitlines()) == 52
    files = sorted(str(path.relative_to(work / ".git")) for path in (work / ".git").rglob("*") if path.is_file())
    assert files[:3] + files[5:] == ["HEAD", "config", "index", "refs/heads/main"]
    assert [Path(name).suffix for name in files[3:5]] == [".idx", ".pack"]


def test_the_index_is_what_git_itself_writes(mirror: GitBuilder, tmp_path: Path) -> None:
    base = history(mirror)[3]
    repository = obtain(mirror, base)
    lay_out(tmp_path / "c", repository.canonical_git(base, "ancestors") + repository.tree_entries(base))
    work = tmp_path / "c"
    ours = (work / ".git" / "index").read_bytes()
    (work / ".git" / "index").unlink()
    git(work, "read-tree", "HEAD")
    assert (work / ".git" / "index").read_bytes() == ours


def test_a_tree_survives_with_modes_links_and_odd_names(mirror: GitBuilder) -> None:
    base = mirror.commit(NASTY)
    found = {entry.path: entry for entry in obtain(mirror, base).tree_entries(base)}
    assert set(found) >= {name.encode("utf-8", "surrogateescape") for name in NASTY}
    assert (found[b"run.sh"].mode, found[b"old"].mode, found[b"plain.txt"].mode) == (0o755, 0o644, 0o644)
    assert (found[b"link"].kind, found[b"link"].link) == (Kind.SYMLINK, b"plain.txt")
    assert found[b"caf\xe9"].content == b"latin-1 name\n"
    assert found[b"crlf.txt"].content == b"a\r\nb\r\n"
    assert found[b"sub"].kind is Kind.DIR
    big = found[b"binary"]
    assert isinstance(big.content, Path)
    assert stat.S_IMODE(big.content.stat().st_mode) == 0o444
    assert big.content.read_bytes() == NASTY["binary"]
    assert {entry.uid for entry in found.values()} | {entry.gid for entry in found.values()} == {0}


def test_a_kept_file_that_was_damaged_is_written_again(mirror: GitBuilder) -> None:
    base = mirror.commit(NASTY)
    repository = obtain(mirror, base)
    (big,) = repository.tree_entries(base, include=("binary",))
    assert isinstance(big.content, Path)
    big.content.chmod(0o644)
    big.content.write_bytes(b"z" * big.size)
    (again,) = repository.tree_entries(base, include=("binary",))
    assert isinstance(again.content, Path)
    assert again.content.read_bytes() == NASTY["binary"]


def test_the_pack_is_the_same_from_another_packing_and_is_kept(mirror: GitBuilder, tmp_path: Path) -> None:
    base = history(mirror)[3]
    ours = {entry.path: entry for entry in obtain(mirror, base).canonical_git(base, "ancestors")}
    clone = tmp_path / "elsewhere" / "mirrors" / "owner+name" / "repo"
    subprocess.run(["git", "clone", "-q", "--bare", mirror.path, clone], check=True)
    subprocess.run(["git", "-C", clone, "repack", "-q", "-a", "-d", "-f", "--depth=3"], check=True)
    other = GitSources(PlainPlace(tmp_path / "other"), {"https://h.invalid/{owner}/{name}": str(clone)}, tmp_path)
    theirs = {entry.path: entry for entry in other.obtain(URL, base).canonical_git(base, "ancestors")}
    assert set(theirs) == set(ours)
    for path, entry in ours.items():
        assert content_of(theirs[path]) == content_of(entry)


def content_of(entry: Entry) -> bytes | None:
    return entry.content.read_bytes() if isinstance(entry.content, Path) else entry.content


def test_the_ids_and_the_pack_of_a_small_history_are_constants(mirror: GitBuilder) -> None:
    one, _, _, base, _ = history(mirror)
    assert one == ONE_ID
    packs = [
        entry.path for entry in obtain(mirror, base).canonical_git(base, "ancestors") if entry.path.endswith(b".pack")
    ]
    assert packs == [PACK_PATH]


def test_a_kept_pack_that_was_damaged_is_written_again(mirror: GitBuilder) -> None:
    base = history(mirror)[3]
    repository = obtain(mirror, base)
    first = {entry.path: content_of(entry) for entry in repository.canonical_git(base, "ancestors")}
    (pack,) = (repository.cache / "packs").rglob("*.pack")
    data = bytearray(pack.read_bytes())
    data[40] ^= 1
    pack.write_bytes(data)
    assert {entry.path: content_of(entry) for entry in repository.canonical_git(base, "ancestors")} == first


def test_a_commit_that_the_mirror_lacks_is_refused(mirror: GitBuilder) -> None:
    history(mirror)
    with pytest.raises(InputError) as caught:
        obtain(mirror, "1" * 40)
    assert str(caught.value) == (
        f"{URL}: expected commit {'1' * 40}, found no such commit in the source\n"
        "hint: correct the commit, or update the mirror or bundle"
    )


def test_an_old_blob_that_the_mirror_lacks_only_stops_the_history(mirror: GitBuilder) -> None:
    large = mirror.blob(b"large old file\n")
    one = mirror.commit({"data/large.bin": b"large old file\n", "a": "1\n"})
    base = mirror.commit({"a": "2\n"}, one)
    mirror.object_path(large).unlink()
    repository = obtain(mirror, base)
    assert [entry.path for entry in repository.tree_entries(base)] == [b"a"]
    assert repository.canonical_git(base, "none")
    with pytest.raises(WorldError) as caught:
        repository.canonical_git(base, "ancestors")
    assert str(caught.value) == (
        f"git source: the source lacks 1 of the history's 3 blobs: data/large.bin (blob {large})\n"
        "hint: write `history: none` for this repository, or use a source that has them"
    )
    with pytest.raises(
        WorldError, match=rf"^git source: the source lacks blob {large} of data/large.bin, which the commit needs\n"
    ):
        repository.tree_entries(one)


def test_a_shallow_mirror_is_detected(mirror: GitBuilder) -> None:
    one = mirror.commit({"a": "1\n"})
    base = mirror.commit({"a": "2\n"}, one)
    mirror.object_path(one).unlink()
    repository = obtain(mirror, base)
    assert repository.canonical_git(base, "none")
    with pytest.raises(WorldError) as caught:
        repository.canonical_git(base, "ancestors")
    assert str(caught.value) == (
        f"git source: the history of {base} is cut off: commit {one}, a parent of {base}, is missing\n"
        "hint: the source is a shallow clone; unshallow it, or write `history: none` for this repository"
    )


def test_a_forged_object_is_refused(mirror: GitBuilder) -> None:
    real = mirror.blob(b"real\n")
    base = mirror.commit({"a": b"real\n"})
    subprocess.run(["git", "--git-dir", mirror.path, "repack", "-q", "-a", "-d"], check=False)
    forged = mirror.blob(b"fake\n")
    path = mirror.object_path(real)
    path.chmod(0o644) if path.exists() else path.parent.mkdir(exist_ok=True)
    path.write_bytes(mirror.object_path(forged).read_bytes())
    with pytest.raises(PackError) as caught:
        obtain(mirror, base).tree_entries(base)
    assert isinstance(caught.value, (IntegrityError, WorldError))


@pytest.mark.parametrize("name", [b".git", b".GIT", b"..", b"a/b", b"."])
def test_a_name_that_leaves_the_checkout_is_refused(mirror: GitBuilder, name: bytes) -> None:
    base = mirror.commit(mirror.raw_tree([("100644", name, mirror.blob(b"x"))]))
    with pytest.raises(InputError) as caught:
        obtain(mirror, base).tree_entries(base)
    assert str(caught.value) == (
        f"{name.decode()}: the tree holds a name that no checkout may have\n"
        "hint: such a tree was made to harm whoever checks it out; do not use this commit"
    )


def test_submodules_and_lfs_pointers_are_refused_by_name_until_pinned(mirror: GitBuilder, tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3\n"
    base = mirror.commit({"lib/sub": ("160000", "2" * 40), "model.bin": pointer, "a": "x\n"})
    repository = obtain(mirror, base)
    with pytest.raises(InputError) as caught:
        repository.tree_entries(base)
    assert str(caught.value) == (
        "git source: the tree holds submodules: lib/sub\n"
        "hint: pin each submodule's repository, or choose a commit without them"
    )
    with pytest.raises(InputError) as caught:
        repository.pinned(Pins(submodules={b"lib/sub": ()})).tree_entries(base)
    assert str(caught.value) == (
        "git source: the tree holds Git LFS pointers: model.bin\n"
        "hint: their content is not in the repository; pin each by its sha256, or choose another commit"
    )
    real = tmp_path / "model"
    real.write_bytes(b"abc")
    pins = Pins(submodules={b"lib/sub": [file_entry(b"inner", b"i")]}, lfs={b"model.bin": real})
    found = {entry.path: content_of(entry) for entry in repository.pinned(pins).tree_entries(base)}
    assert found == {b"a": b"x\n", b"lib": None, b"lib/sub": None, b"lib/sub/inner": b"i", b"model.bin": b"abc"}
    lay_out(
        tmp_path / "c",
        repository.canonical_git(base, "none")
        + repository.pinned(Pins(pins.submodules, {b"model.bin": None})).tree_entries(base),
    )
    assert git(tmp_path / "c", "status", "--porcelain") == ""


def test_a_diff_is_the_change_itself_and_can_leave_files_out(mirror: GitBuilder, tmp_path: Path) -> None:
    nasty = {**NASTY, "old": "an index cannot hold mode 100664\n"}
    old = mirror.commit({**nasty, "gone": "bye\n", "mode": "m\n", "swap": "file\n", "bin/x": b"\0old" * 50})
    new = mirror.commit({**nasty, "new file": "hi\n", "mode": ("100755", b"m\n"), "swap": ("120000", b"mode"),
        "bin/x": b"\0new" * 70, "bin/y": b"\0" * 100, "caf\udce9": b"changed\n", "t/a_test.go": "test\n"}, old)  # fmt: skip
    repository = obtain(mirror, old)
    patch = repository.diff(old, new)
    assert b"t/a_test.go" in patch
    assert b"t/a_test.go" not in repository.diff(old, new, exclude=("**/*_test.go",))
    assert (
        repository.diff(old, new, include=("mode",)) == b"diff --git a/mode b/mode\nold mode 100644\nnew mode 100755\n"
    )
    work = tmp_path / "c"
    lay_out(work, repository.canonical_git(old, "none") + repository.tree_entries(old))
    (tmp_path / "p").write_bytes(patch)
    git(work, "apply", "--cached", str(tmp_path / "p"))
    assert git(work, "write-tree").strip() == repository.commit(new).tree


def test_a_hostile_mirror_starts_nothing_and_changes_nothing(
    mirror: GitBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, *_, base, _ = history(mirror)
    honest = obtain(mirror, base).diff(old, base)
    trap = tmp_path / "trap"
    script = f'#!/bin/sh\ntouch "{trap}"\n'
    (mirror.path / "hooks").mkdir()
    for name in ("reference-transaction", "post-index-change", "evil"):
        (mirror.path / "hooks" / name).write_text(script)
        (mirror.path / "hooks" / name).chmod(0o755)
    evil = mirror.path / "hooks" / "evil"
    (mirror.path / "config").write_text(
        f"[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n[diff]\n\texternal = {evil}\n\tnoprefix = true\n"
        f'[uploadpack]\n\tpackObjectsHook = {evil}\n[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\turl = ext::{evil}\n'
    )
    (mirror.path / "info").mkdir()
    (mirror.path / "info" / "attributes").write_text("* -diff\n")
    (mirror.path / "info" / "grafts").write_text(f"{base}\n")
    fake = mirror.commit({"replaced": "yes\n"})
    mirror.ref(f"refs/replace/{base}", fake)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(evil))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'diff.noprefix=true'")
    repository = obtain(mirror, base)
    assert repository.diff(old, base) == honest
    assert len(repository.ancestry(base)) == 4
    assert repository.canonical_git(base, "ancestors")
    assert not trap.exists()


def test_ancestry_puts_children_first_whatever_the_dates_say(mirror: GitBuilder) -> None:
    one, two, side, base, future = history(mirror)
    repository = obtain(mirror, future)
    order = [commit.id for commit in repository.ancestry(future)]
    assert order == [future, base, *sorted([two, side]), one]
    assert repository.is_ancestor(one, future)
    assert not repository.is_ancestor(future, base)
    assert repository.commit_time(future) == TIME - 5


def test_a_bundle_beside_the_recipe_is_enough(mirror: GitBuilder, tmp_path: Path) -> None:
    *_, base, future = history(mirror)
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    subprocess.run(
        ["git", "--git-dir", mirror.path, "bundle", "create", "-q", recipes / "x.bundle", "--all"], check=True
    )
    sources = GitSources(PlainPlace(tmp_path / "store"), {}, recipes)
    repository = sources.obtain("", base, bundle=Path("x.bundle"))
    direct = obtain(mirror, base).canonical_git(base, "ancestors")
    assert [content_of(entry) for entry in repository.canonical_git(base, "ancestors")] == [
        content_of(entry) for entry in direct
    ]
    assert sources.obtain("", future, bundle=Path("x.bundle")).commit(future).parents == (base,)
    (recipes / "bad.bundle").write_bytes(b"# v2 git bundle\nnonsense\n")
    with pytest.raises(InputError, match=r"bad\.bundle: not a usable git bundle: "):
        sources.obtain("", base, bundle=Path("bad.bundle"))
    with pytest.raises(InputError) as caught:
        sources.obtain("", base, bundle=Path("no.bundle"))
    assert str(caught.value) == (
        f"{recipes}/no.bundle: expected a git bundle, found no file\nhint: make it: git bundle create FILE --all"
    )


def test_what_was_fetched_once_needs_no_network_again(mirror: GitBuilder, tmp_path: Path) -> None:
    *_, base, _future = history(mirror)
    fetched = "ssh://nobody@nowhere.invalid/x"
    sources = GitSources(PlainPlace(tmp_path / "store"), {}, tmp_path)
    fill_as_fetched(tmp_path, mirror, fetched, base)
    assert sources.obtain(fetched, base).commit_time(base) == TIME + 2


def fill_as_fetched(tmp_path: Path, mirror: GitBuilder, url: str, base: str) -> None:
    key = hashlib.sha256(url.encode()).hexdigest()[:32]
    directory = make_git_directory(tmp_path / "store" / "git" / f"{key}.git")
    _fetch(directory, f"file://{mirror.path}", ObjectId(base))


def test_a_server_that_does_not_answer_is_reported_with_git_s_own_words(tmp_path: Path) -> None:
    sources = GitSources(PlainPlace(tmp_path / "store"), {}, tmp_path)
    with pytest.raises(WorldError) as caught:
        sources.obtain("http://127.0.0.1:9/x", "3" * 40)
    assert caught.value.retryable
    assert str(caught.value).startswith(
        f"http://127.0.0.1:9/x: cannot fetch commit {'3' * 40}: fatal: unable to access "
    )
    assert str(caught.value).endswith(
        "\nhint: check the network, or configure a mirror or a bundle for this repository"
    )


def test_long_histories_make_bounded_chains_of_deltas_and_small_packs(mirror: GitBuilder, tmp_path: Path) -> None:
    lines = [f"line {number} of a file that grows and changes\n" for number in range(300)]
    tip = ""
    size = 0
    for number in range(130):
        lines[number * 2] = f"changed by commit {number}\n"
        size += len("".join(lines))
        tip = mirror.commit({"src/file.txt": "".join(lines)}, *([tip] if tip else []), time=TIME + number)
    entries = obtain(mirror, tip).canonical_git(tip, "ancestors")
    (pack,) = (entry for entry in entries if entry.path.endswith(b".pack"))
    assert pack.size < size // 10
    lay_out(tmp_path / "c", entries)
    git(tmp_path / "c", "fsck", "--strict")
    rows = git(
        tmp_path / "c", "verify-pack", "-v", f".git/objects/pack/{pack.path.decode().rpartition('/')[2]}"
    ).splitlines()
    depths = [int(row.split()[5]) for row in rows if len(row.split()) == 7]
    assert max(depths) == 50


def test_a_real_store_is_a_place_for_repositories(mirror: GitBuilder, tmp_path: Path) -> None:
    base = history(mirror)[3]
    sources = GitSources(Store(tmp_path / "real"), {"https://h.invalid/{owner}/{name}": str(mirror.path)}, tmp_path)
    ours = sources.obtain(URL, base).canonical_git(base, "none")
    assert [content_of(entry) for entry in ours] == [
        content_of(entry) for entry in obtain(mirror, base).canonical_git(base, "none")
    ]
