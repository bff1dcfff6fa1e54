from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import marshal
import struct
import tarfile
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard

from packager.build import audit
from packager.build.audit import NO_LAYER, LeakKind
from packager.lock.git_objects import object_id
from packager.oci.entries import Entry, Kind, file_entry, symlink_entry
from tests.support.audit_image import BASE_SOURCE, CONTEXT, GOLD_SOURCE, HIDDEN_TEST, TARGET, PlantedImage, make_image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.engine

GIT = TARGET.decode() + "/.git"
NEW_NAME = "tidy_option_value"
TEXT = (LeakKind.GOLD_FILE, LeakKind.GOLD_NAME, LeakKind.GOLD_TEXT)


@pytest.fixture
def image(tmp_path: Path) -> PlantedImage:
    return make_image(tmp_path)


def kinds_at(image: PlantedImage, path: str, layer: int | None = None) -> set[LeakKind]:
    findings = image.audit()
    assert {finding.path for finding in findings} == {path}, [str(finding) for finding in findings]
    assert {finding.layer for finding in findings} == {len(image.layers) - 1 if layer is None else layer}
    return {finding.kind for finding in findings}


def zip_of(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def tar_bytes(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def ar_of(files: dict[str, bytes]) -> bytes:
    rows = [
        f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        for name, data in files.items()
    ]
    return b"!<arch>\n" + b"".join(rows)


def pyc_of(source: str) -> bytes:
    return (
        b"\xa7\x0d\r\n"
        + struct.pack("<III", 1, 0, 0)
        + marshal.dumps(compile(source, "options.py", "exec", dont_inherit=True, optimize=2))
    )


def test_a_clean_image_has_no_findings(image: PlantedImage) -> None:
    assert image.audit() == []


def test_a_future_commit_in_a_pack_is_found(image: PlantedImage) -> None:
    image.add(
        *(
            entry
            for entry in image.target.canonical_git(image.future, "ancestors", TARGET)
            if entry.path.endswith((b".pack", b".idx"))
        )
    )
    findings = image.audit()
    assert {finding.layer for finding in findings} == {len(image.layers) - 1}
    (commit,) = (finding for finding in findings if finding.kind is LeakKind.FUTURE_COMMIT)
    assert str(commit).startswith(f"future-commit: layer 4: {GIT}/objects/pack/pack-")
    assert commit.detail == f"commit {image.future[:12]} (Tidy option values) is not an ancestor of the locked base"
    assert {finding.kind for finding in findings} == {
        LeakKind.FUTURE_COMMIT,
        LeakKind.UNREACHED,
        LeakKind.HIDDEN_NAME,
        LeakKind.HIDDEN_TEXT,
        LeakKind.GOLD_NAME,
        LeakKind.GOLD_TEXT,
    }


def test_a_loose_future_commit_is_found(image: PlantedImage) -> None:
    framed = b"commit 5\0later"
    name = object_id("commit", b"later")
    image.put(f"{GIT}/objects/{name[:2]}/{name[2:]}", zlib.compress(framed))
    assert kinds_at(image, f"{GIT}/objects/{name[:2]}/{name[2:]}") == {LeakKind.FUTURE_COMMIT}


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("refs/tags/v1", "{base}\n", LeakKind.TAG),
        ("packed-refs", "# pack-refs with: peeled\n{base} refs/tags/v2\n^{base}\n", LeakKind.TAG),
        ("logs/HEAD", "{base} {base} A <a@b> 1 +0000\tclone: from x\n", LeakKind.REFLOG),
        ("logs/refs/heads/main", "{base} {base} A <a@b> 1 +0000\treset\n", LeakKind.REFLOG),
        ("refs/notes/commits", "{base}\n", LeakKind.NOTE),
        ("packed-refs", "{base} refs/notes/review\n", LeakKind.NOTE),
        ("refs/remotes/origin/main", "{base}\n", LeakKind.REF),
        ("refs/stash", "{base}\n", LeakKind.REF),
        ("refs/heads/topic", "{base}\n", LeakKind.REF),
        ("ORIG_HEAD", "{base}\n", LeakKind.REF),
        ("FETCH_HEAD", "{base}\t\tbranch 'x' of y\n", LeakKind.REF),
        ("HEAD", "ref: refs/heads/other\n", LeakKind.REF),
        ("objects/info/alternates", "/elsewhere/objects\n", LeakKind.REF),
        ("config", '[core]\n\tbare = false\n[remote "origin"]\n\turl = x\n', LeakKind.REF),
    ],
)
def test_what_no_repository_may_keep_is_found(image: PlantedImage, path: str, content: str, kind: LeakKind) -> None:
    image.put(f"{GIT}/{path}", content.format(base=image.base).encode())
    assert kinds_at(image, f"{GIT}/{path}") == {kind}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("refs/heads/main", "{base}\n"),
        ("packed-refs", "# pack-refs with: peeled\n{base} refs/heads/main\n"),
        ("logs/HEAD", ""),
        ("HEAD", "{base}\n"),
        ("info/exclude", "# nothing\n"),
    ],
)
def test_what_a_repository_may_keep_is_no_finding(image: PlantedImage, path: str, content: str) -> None:
    image.put(f"{GIT}/{path}", content.format(base=image.base).encode())
    assert image.audit() == []


def test_a_ref_that_moved_on_names_both_commits(image: PlantedImage) -> None:
    image.put(f"{GIT}/refs/heads/main", f"{image.future}\n".encode())
    details = {finding.kind: finding.detail for finding in image.audit()}
    assert details[LeakKind.REF] == f"refs/heads/main is {image.future}, expected {image.base}"
    assert details[LeakKind.FUTURE_COMMIT] == f"future commit: '{image.future}'"


def test_gold_text_in_a_file_is_found(image: PlantedImage) -> None:
    image.put("root/notes.txt", image.gold())
    assert kinds_at(image, "root/notes.txt") == {LeakKind.GOLD_NAME, LeakKind.GOLD_TEXT}


def test_the_gold_file_itself_is_found_by_its_content(image: PlantedImage) -> None:
    image.put("root/whole.py", GOLD_SOURCE.encode())
    assert kinds_at(image, "root/whole.py") == set(TEXT)


def test_gold_text_that_was_indented_anew_is_found(image: PlantedImage) -> None:
    lines = [line for line in GOLD_SOURCE.splitlines() if "nobody may set twice" in line]
    image.put("root/x.txt", b"\n".join(b"\t\t" + line.replace(" ", "   ").encode() for line in lines))
    assert kinds_at(image, "root/x.txt") == {LeakKind.GOLD_TEXT}


def test_a_single_short_line_that_gold_happens_to_add_is_no_finding(image: PlantedImage) -> None:
    image.put("usr/lib/other.py", b"def f(cleaned):\n        raise ValueError(cleaned)\n")
    assert image.audit() == []


def test_a_layer_that_a_later_layer_deletes_is_searched_too(image: PlantedImage) -> None:
    image.put("tmp/gold.patch", image.gold())
    image.add(Entry(b"tmp/gold.patch", Kind.WHITEOUT))
    assert kinds_at(image, "tmp/gold.patch", layer=len(image.layers) - 2) == {LeakKind.GOLD_NAME, LeakKind.GOLD_TEXT}


PIP, GO = "root/.cache/pip", "root/go/pkg/mod/cache/download/x/@v"
WRAPPERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "a wheel": (f"{PIP}/wheels/o.whl", lambda data: zip_of({"options.py": data})),
    "a stored zip": (f"{GO}/v2.zip", lambda data: zip_of({"options.py": data}, zipfile.ZIP_STORED)),
    "a cached http response": (f"{PIP}/http/a/b", lambda data: b"cc=4,\x82\xa8response" + zip_of({"o.py": data}) + b"\xa7headers"),
    "a cached sdist": (f"{PIP}/http/c", lambda data: b"cc=4,\x82\xa8response" + gzip.compress(tar_bytes({"o.py": data})) + b"\xa7headers"),
    "a tar.gz": ("root/.npm/_cacache/content-v2/x", lambda data: gzip.compress(tar_bytes({"package/o.py": data}))),
    "a tar.xz": ("a.tar.xz", lambda data: lzma.compress(tar_bytes({"o.py": data}))),
    "a tar.bz2": ("a.tar.bz2", lambda data: bz2.compress(tar_bytes({"o.py": data}))),
    "a tar.zst": ("a.tar.zst", lambda data: zstandard.compress(tar_bytes({"o.py": data}))),
    "a deb": ("a.deb", lambda data: ar_of({"debian-binary": b"2.0", "data.tar.xz": lzma.compress(tar_bytes({"o": data}))})),
    "a zip in a tar": ("a.tar", lambda data: tar_bytes({"first": b"x", "in.zip": zip_of({"o.py": data})})),
    "a zip without directory": ("cut.zip", lambda data: zip_of({"o.py": data})[:-60]),
    "a zip behind a broken member": ("b.zip", lambda data: b"PK\x03\x04" + zip_of({"o.py": data})),
    "a zlib stream": ("z", zlib.compress),
    "two gzips in one": ("two.gz", lambda data: gzip.compress(b"one\n") + gzip.compress(data)),
    "a cut gzip": ("cut.gz", lambda data: gzip.compress(data + bytes(range(256)) * 40)[:-20]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPERS)
def test_gold_in_an_archive_is_found(image: PlantedImage, name: str) -> None:
    path, wrap = WRAPPERS[name]
    image.put(path, wrap(GOLD_SOURCE.encode()))
    findings = image.audit()
    assert all(finding.path.startswith(path) for finding in findings)
    assert {LeakKind.GOLD_NAME, LeakKind.GOLD_TEXT} <= {finding.kind for finding in findings}


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_gold_behind_megabytes_of_noise_in_an_archive_is_found(
    image: PlantedImage, compress: Callable[[bytes], bytes]
) -> None:
    noise = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(200_000))
    image.put("noise", compress(noise + b"\n" + GOLD_SOURCE.encode()))
    assert LeakKind.GOLD_TEXT in {finding.kind for finding in image.audit()}


@pytest.mark.parametrize("name", WRAPPERS)
def test_public_text_in_an_archive_is_no_finding(image: PlantedImage, name: str) -> None:
    path, wrap = WRAPPERS[name]
    image.put(path, wrap(BASE_SOURCE.encode()))
    assert image.audit() == []


def test_gold_in_a_pyc_is_found_and_the_base_s_is_not(image: PlantedImage) -> None:
    image.put("workspace/options/__pycache__/options.cpython-311.pyc", pyc_of(GOLD_SOURCE))
    assert kinds_at(image, "workspace/options/__pycache__/options.cpython-311.pyc") == {
        LeakKind.GOLD_NAME,
        LeakKind.GOLD_TEXT,
    }
    image.layers[-1] = [file_entry(b"workspace/options/__pycache__/options.cpython-311.pyc", pyc_of(BASE_SOURCE))]
    assert image.audit() == []


def test_gold_in_the_image_history_is_found(image: PlantedImage) -> None:
    image.config["history"] = [
        {"created_by": "COPY prompt"},
        {"created_by": f"RUN sed -i s/old/{NEW_NAME}/ options.py"},
    ]
    assert kinds_at(image, "config.history[1].created_by", NO_LAYER) == {LeakKind.GOLD_NAME}


def test_gold_in_a_label_is_found(image: PlantedImage) -> None:
    image.config["config"] = {"Labels": {"wideswe.note": image.gold().decode().replace("\n", "\\n")}}
    assert kinds_at(image, "config.config.Labels.wideswe.note", NO_LAYER) == {LeakKind.GOLD_NAME, LeakKind.GOLD_TEXT}


def test_a_future_commit_in_an_annotation_is_found(image: PlantedImage) -> None:
    image.annotations["fixed-by"] = image.future
    assert kinds_at(image, "annotations.fixed-by", NO_LAYER) == {LeakKind.FUTURE_COMMIT}
    image.annotations["fixed-by"] = image.base
    assert image.audit() == []


def test_gold_in_a_context_repository_is_found(image: PlantedImage) -> None:
    image.put(CONTEXT.decode() + "/copied.py", GOLD_SOURCE.encode())
    assert kinds_at(image, CONTEXT.decode() + "/copied.py") == set(TEXT)


def test_a_context_that_is_younger_than_locked_is_found(image: PlantedImage) -> None:
    image.layers[1] = [
        *image.context.tree_entries(image.context_future, CONTEXT),
        *image.context.canonical_git(image.context_future, "ancestors", CONTEXT),
    ]
    kinds = {finding.kind for finding in image.audit()}
    assert kinds == {LeakKind.FUTURE_COMMIT, LeakKind.UNREACHED, LeakKind.REF}


def test_an_identifier_that_only_gold_adds_is_found(image: PlantedImage) -> None:
    image.put("etc/hints", f"consider calling {NEW_NAME} there\n".encode())
    assert kinds_at(image, "etc/hints") == {LeakKind.GOLD_NAME}
    image.layers[-1] = [file_entry(b"etc/hints", b"consider calling read_options or tidy_option_values there\n")]
    assert image.audit() == []


def test_an_identifier_in_a_file_name_or_a_link_is_found(image: PlantedImage) -> None:
    image.put(f"opt/{NEW_NAME}", b"")
    assert kinds_at(image, f"opt/{NEW_NAME}") == {LeakKind.GOLD_NAME}
    image.layers[-1] = [symlink_entry(b"opt/link", NEW_NAME.encode())]
    assert kinds_at(image, "opt/link") == {LeakKind.GOLD_NAME}


def test_a_hidden_test_is_found_by_name_text_and_content(image: PlantedImage) -> None:
    image.put("workspace/options/tests/test_blanks.py", HIDDEN_TEST.encode())
    assert kinds_at(image, "workspace/options/tests/test_blanks.py") == {
        LeakKind.HIDDEN_FILE,
        LeakKind.HIDDEN_NAME,
        LeakKind.HIDDEN_TEXT,
    }


def test_gold_in_a_pack_outside_the_workspace_and_in_a_bundle_is_found(image: PlantedImage) -> None:
    (pack,) = (
        entry for entry in image.target.canonical_git(image.future, "ancestors") if entry.path.endswith(b".pack")
    )
    content = pack.content.read_bytes() if pack.content is not None and not isinstance(pack.content, bytes) else b""
    for path, data in (
        ("root/vcs/x.pack", content),
        ("root/x.bundle", b"# v2 git bundle\n" + image.future.encode() + b" HEAD\n\n" + content),
    ):
        image.put(path, data)
        assert {LeakKind.FUTURE_COMMIT, LeakKind.GOLD_TEXT, LeakKind.GOLD_FILE, LeakKind.HIDDEN_FILE} <= kinds_at(
            image, path
        )
        image.layers.pop()


def test_a_broken_pack_in_a_locked_repository_is_reported(image: PlantedImage) -> None:
    image.put(f"{GIT}/objects/pack/pack-1.pack", b"PACK\0\0\0\2\0\0\0\1nonsense")
    assert kinds_at(image, f"{GIT}/objects/pack/pack-1.pack") == {LeakKind.UNREAD}


@pytest.mark.parametrize("head", [b"", b"age-encryption.org/v1\n-> X25519 x\n"])
def test_what_stands_in_the_clear_at_the_place_of_the_seal_is_found(image: PlantedImage, head: bytes) -> None:
    image.layers[3][1] = file_entry(b"opt/wideswe/sealed.age", head + image.gold())
    assert kinds_at(image, "opt/wideswe/sealed.age", 3) == {LeakKind.GOLD_NAME, LeakKind.GOLD_TEXT}


def test_words_of_the_base_system_are_public(image: PlantedImage) -> None:
    image.layers[0].append(file_entry(b"usr/lib/python/tidy.py", f"def {NEW_NAME}(): pass\n".encode()))
    image.put("etc/hints", f"consider calling {NEW_NAME} there\n".encode())
    assert image.audit(trusted_layers=1) == []
    assert len(image.audit()) == 2


def test_a_file_that_unpacks_without_end_is_reported(image: PlantedImage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "UNPACKED_LIMIT_BYTES", 1 << 20)
    image.put("bomb.gz", gzip.compress(GOLD_SOURCE.encode() + bytes(8 << 20)))
    assert LeakKind.UNREAD in kinds_at_any(image)


def kinds_at_any(image: PlantedImage) -> set[LeakKind]:
    return {finding.kind for finding in image.audit()}


def test_archives_nested_too_deep_are_reported(image: PlantedImage) -> None:
    data = b"deep"
    for _ in range(audit.DEPTH + 1):
        data = gzip.compress(data)
    image.put("deep.gz", data)
    (finding,) = image.audit()
    assert (finding.kind, finding.detail) == (LeakKind.UNREAD, "nested deeper than 6 archives")


def test_a_leak_across_the_border_of_two_windows_is_found(image: PlantedImage) -> None:
    gold = image.gold()
    image.put("big.log", b"x" * ((4 << 20) - len(gold) // 2) + b"\n" + gold + b"y" * 100)
    assert kinds_at(image, "big.log") == {LeakKind.GOLD_NAME, LeakKind.GOLD_TEXT}
