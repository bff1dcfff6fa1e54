from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from packager.base.digests import digest_of
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.base.processes import Surroundings, find_program, run
from packager.lock.bootstrap import CONFIGURE_SCRIPT, Deb, bootstrap_entries
from packager.lock.clients import Clients
from packager.lock.deb import open_member, read_control
from packager.lock.debian import check_names, parse_uris, resolve
from packager.lock.ecosystems.apt import DebianPackages, format_packages, format_release, release_text, verify_release
from packager.lock.ecosystems.asked import Asked, Held, Sort
from packager.oci.entries import Entry, Kind, sort_key
from packager.sandbox.fetches import Request
from tests.support.artifacts import folder, link, make_deb, make_tar

KEY = "pool/main/h/hello/hello_1.0-1_amd64.deb"


if TYPE_CHECKING:
    from collections.abc import Callable


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def lay_out(tmp_path: Path, *debs: tuple[str, bytes]) -> dict[bytes, Entry]:
    files = [Deb(name, write(tmp_path / name, data)) for name, data in debs]
    entries = list(bootstrap_entries(files, suite="bookworm", scratch=tmp_path))
    assert entries == sorted(entries, key=sort_key)
    return {entry.path: entry for entry in entries}


def content(entry: Entry) -> bytes:
    assert entry.content is not None
    data = entry.content if isinstance(entry.content, bytes) else entry.content.read_bytes()
    assert len(data) == entry.size
    return data


def test_the_output_of_apt_becomes_pool_paths() -> None:
    archive = "http://deb.example/debian"
    listing = (
        "Reading package lists...\n"
        f"'{archive}/pool/main/g/gcc-12/libstdc%2b%2b6_12.2.0-14%7ebpo_amd64.deb' libstdc++6_12.2.0-14_amd64.deb 613020 SHA256:{'b' * 64}\n"
        f"'{archive}/pool/main/a/apt/apt_2.6.1_amd64.deb' apt_2.6.1_amd64.deb 1372852 SHA256:{'a' * 64}\n"
    )
    assert [(blob.key, blob.size) for blob in parse_uris(listing, archive)] == [
        ("pool/main/a/apt/apt_2.6.1_amd64.deb", 1372852),
        ("pool/main/g/gcc-12/libstdc++6_12.2.0-14~bpo_amd64.deb", 613020),
    ]


def test_a_package_without_sha256_is_refused() -> None:
    listing = "'http://d.example/x/a_1_all.deb' a_1_all.deb 12 MD5Sum:0123\n"
    with pytest.raises(WorldError) as caught:
        parse_uris(listing, "http://d.example/x")
    assert str(caught.value) == "apt: expected a size and a SHA-256 for each of 1 packages, found 0"


@pytest.mark.parametrize("name", ["-o", "--yes", "Foo", "a b", "a;b", "", "x/../y", "a"])
def test_names_that_are_options_or_worse_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"^base\.packages: expected the name of a Debian package"):
        check_names([name])


def test_usual_names_are_accepted() -> None:
    check_names(["g++", "libstdc++6", "python3.11", "git=1:2.39.5-0+deb12u2"])


@pytest.mark.parametrize("suffix", ["xz", "gz", "bz2", "zst", ""])
def test_packages_of_any_compression_are_read(tmp_path: Path, suffix: str) -> None:
    packers: dict[str, Callable[[bytes], bytes]] = {
        "xz": lzma.compress,
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "zst": zstandard.compress,
        "": bytes,
    }
    name = f"data.tar.{suffix}".rstrip(".")
    data = packers[suffix](make_tar({"./usr/bin/x": b"x"}))
    raw = b"!<arch>\n" + f"{'debian-binary/':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{4:<10}`\n2.0\n".encode()
    raw += f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data
    with open_member(write(tmp_path / "x.deb", raw), "data.tar") as archive:
        assert [member.name for member in archive] == ["./usr/bin/x"]


def test_the_control_file_is_read_with_its_long_fields(tmp_path: Path) -> None:
    fields = read_control(write(tmp_path / "x.deb", make_deb("hello", "1.0-1", Depends="libc6", Multi_Arch="same")))
    assert fields["package"] == "hello"
    assert fields["multi-arch"] == "same"
    assert fields["description"] == "a test\nmore\n.\nend"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK", "x.deb: expected a Debian package, found no ar archive"),
        (b"!<arch>\n", "x.deb: expected data.tar in the package, found none"),
        (
            b"!<arch>\n" + f"{'data.tar.xz':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{3:<10}`\nxyz".encode(),
            "x.deb: the package cannot be read: Input format not supported by decoder",
        ),
        (
            b"!<arch>\n" + f"{'data.tar.lz4':<16}{0:<12}{0:<6}{0:<6}{100644:<8}{3:<10}`\nxyz".encode(),
            "x.deb: expected xz, gz, bz2, zst or no compression, found '.lz4'",
        ),
    ],
)
def test_broken_packages_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught, open_member(write(tmp_path / "x.deb", data), "data.tar") as archive:
        list(archive)
    assert str(caught.value) == message


def test_a_cut_package_is_refused(tmp_path: Path) -> None:
    data = make_deb("hello", "1.0-1", make_tar({"./usr/share/x": bytes(range(256)) * 400}))
    path = write(tmp_path / "x.deb", data[:-40])
    with (
        pytest.raises(InputError, match=r"^x\.deb: the package cannot be read: "),
        open_member(path, "data.tar") as archive,
    ):
        list(archive)


def test_files_are_merged_below_usr_and_mount_points_are_there(tmp_path: Path) -> None:
    big = bytes(range(256)) * 100
    first = make_tar(
        {"./": folder("./"), "./bin/": folder("./bin/"), "./bin/x": b"x", "./lib/a/y.so": big}, executable=("./bin/x",)
    )
    second = make_tar(
        {"./tmp/": folder("./tmp/", 0o1777), "./usr/share/z": b"z", "./lib64/ld.so": link("./lib64/ld.so", "a/y.so")}
    )
    found = lay_out(
        tmp_path,
        ("b_1_all.deb", make_deb("b", "1", first)),
        ("base-files_1_amd64.deb", make_deb("base-files", "1", second)),
    )
    assert found[b"bin"] == Entry(b"bin", Kind.SYMLINK, 0o777, link=b"usr/bin")
    assert (content(found[b"usr/bin/x"]), found[b"usr/bin/x"].mode) == (b"x", 0o755)
    assert content(found[b"usr/lib/a/y.so"]) == big
    assert found[b"usr/lib64/ld.so"].link == b"a/y.so"
    assert found[b"tmp"].mode == 0o1777
    for path in (b"dev", b"proc", b"sys", b"run", b"usr/lib/a"):
        assert found[path].kind is Kind.DIR
    for path in (b"etc/hostname", b"etc/hosts", b"etc/resolv.conf", b"etc/machine-id", b"var/lib/dpkg/status"):
        assert content(found[path]) == b""
    assert content(found[b"etc/apt/sources.list"]) == b"deb [trusted=yes] http://debian.invalid/debian bookworm main\n"
    assert content(found[b".debs/b_1_all.deb"]) == (tmp_path / "b_1_all.deb").read_bytes()
    assert content(found[b".debs/configure"]) == CONFIGURE_SCRIPT.encode()


def test_base_files_decides_the_modes_of_directories(tmp_path: Path) -> None:
    loose = make_tar({"./root/": folder("./root/", 0o755)})
    strict = make_tar({"./root/": folder("./root/", 0o700)})
    found = lay_out(
        tmp_path,
        ("a_1_all.deb", make_deb("a", "1", loose)),
        ("base-files_1_all.deb", make_deb("base-files", "1", strict)),
    )
    assert found[b"root"].mode == 0o700


def test_hard_links_are_broken(tmp_path: Path) -> None:
    data = make_tar({"./usr/bin/a": b"same", "./usr/bin/b": link("./usr/bin/b", "./usr/bin/a", kind=tarfile.LNKTYPE)})
    found = lay_out(tmp_path, ("a_1_all.deb", make_deb("a", "1", data)))
    assert found[b"usr/bin/b"].kind is Kind.FILE
    assert content(found[b"usr/bin/b"]) == b"same"


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (tarfile.TarInfo("./../etc/x"), "a_1_all.deb: ../etc/x: expected a plain path inside the layer"),
        (tarfile.TarInfo("./usr/.wh.x"), "a name that starts with .wh."),
        (
            link("./usr/dev", "", kind=tarfile.CHRTYPE),
            "a_1_all.deb: expected files, directories and links, found './usr/dev'",
        ),
        (link("./usr/b", "./usr/a", kind=tarfile.LNKTYPE), "a_1_all.deb: a hard link to nothing: './usr/b'"),
    ],
)
def test_hostile_members_are_refused(tmp_path: Path, member: tarfile.TarInfo, message: str) -> None:
    with pytest.raises(InputError) as caught:
        lay_out(tmp_path, ("a_1_all.deb", make_deb("a", "1", make_tar({member.name: member}))))
    assert message in str(caught.value)


def test_the_configure_script_is_a_script() -> None:
    done = run(["sh", "-n"], Surroundings(stdin=CONFIGURE_SCRIPT.encode()))
    assert (done.exit_code, done.stderr) == (0, b"")


def held(tmp_path: Path, name: str, **fields: str) -> Held:
    architecture = fields.get("Architecture", "amd64")
    data = make_deb(name, "1.0-1", **fields)
    key = f"pool/main/{name[0]}/{name}/{name}_1.0-1_{architecture}.deb"
    return Held(key, digest_of(data), len(data), write(tmp_path / f"{name}.deb", data))


def test_the_replayed_index_knows_locked_packages_only(tmp_path: Path) -> None:
    rows = [held(tmp_path, "hello", Depends="libhello"), held(tmp_path, "docs", Architecture="all")]
    text = format_packages(rows, "amd64").decode()
    first, second = text.split("\n\n")
    assert first.startswith("Package: docs\n")
    assert second == (
        "Package: hello\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: T <t@example.org>\nDepends: libhello\n"
        "Description: a test\n more\n .\n end\n"
        f"Filename: {KEY}\nSize: {rows[0].size}\nSHA256: {rows[0].digest[7:]}\n"
    )
    release = format_release("bookworm", rows).decode()
    assert "Suite: bookworm\nCodename: bookworm\n" in release
    assert "Architectures: amd64\n" in release
    assert f" {digest_of(text.encode())[7:]} {len(text.encode())} main/binary-amd64/Packages\n" in release


def test_signed_files_and_other_indexes_are_absent_in_replay() -> None:
    request = Request("GET", "http", "debian.invalid", 80, "/")
    for key in ("dists/bookworm/InRelease", "dists/bookworm/Release.gpg", "dists/bookworm/main/i18n/Translation-en"):
        assert DebianPackages().render(Asked(Sort.INDEX, key), request, []).status == 404


def test_the_text_of_a_clear_signed_file_is_taken_out() -> None:
    signed = b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian\n- -dash\n-----BEGIN PGP SIGNATURE-----\nx\n"
    assert release_text(signed, where="x") == b"Origin: Debian\n-dash\n"
    with pytest.raises(InputError) as caught:
        release_text(b"Origin: Debian\n", where="bookworm/InRelease")
    assert str(caught.value) == ("bookworm/InRelease: expected a clear-signed release file, found b'Origin: Debian\\n'")


def test_an_unsigned_release_file_is_refused(tmp_path: Path) -> None:
    if find_program("gpgv") is None:
        pytest.skip("gpgv is not installed")
    keyring = write(tmp_path / "empty.gpg", b"")
    signed = b"-----BEGIN PGP SIGNED MESSAGE-----\n\nOrigin: Evil\n-----BEGIN PGP SIGNATURE-----\n\nxx\n-----END PGP SIGNATURE-----\n"
    with pytest.raises(IntegrityError) as caught:
        verify_release(signed, [keyring], where="bookworm/InRelease")
    assert str(caught.value) == (
        "bookworm/InRelease: the archive's release file is not signed by a key that this machine's apt trusts"
    )


@pytest.mark.network
def test_a_base_is_resolved_without_touching_this_machine() -> None:
    if find_program("apt-get") is None:
        pytest.skip("apt-get is not installed")
    status = Path("/var/lib/dpkg/status")
    before = status.read_bytes() if status.is_file() else b""
    base = resolve("bookworm", ["jq"], clients=Clients())
    names = {blob.key.rpartition("/")[2].partition("_")[0] for blob in base.packages}
    assert {"dpkg", "apt", "libc6", "base-files", "usr-is-merged", "jq", "libjq1"} <= names
    assert not {"usrmerge", "perl"} & names
    assert all(blob.key.startswith("pool/main/") for blob in base.packages)
    assert base == resolve("bookworm", ["jq"], clients=Clients())
    assert (status.read_bytes() if status.is_file() else b"") == before
    with pytest.raises(InputError) as caught:
        resolve("bookworm", ["no-such-package"], clients=Clients())
    assert str(caught.value) == (
        "base.packages: apt cannot install these packages: E: Unable to locate package no-such-package"
    )
