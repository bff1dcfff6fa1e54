"""What artifacts declare becomes an SPDX expression, or nothing: never a guess, never an error."""

from __future__ import annotations

import gzip
import random
from typing import TYPE_CHECKING

import pytest

from packager.lock.licences import licence_of, read_dep5
from packager.lock.spdx import every_of, parse_expression
from tests.support.artifacts import make_deb, make_tar, make_tgz, make_zip

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MIT", "MIT"),
        ("mit", "MIT"),
        ("MIT OR Apache-2.0", "MIT OR Apache-2.0"),
        ("(MIT or Apache-2.0) and BSD-3-Clause", "(MIT OR Apache-2.0) AND BSD-3-Clause"),
        ("GPL-2.0+", "GPL-2.0-or-later"),
        ("LGPL-2.1", "LGPL-2.1-only"),
        ("Apache-2.0 WITH LLVM-exception", "Apache-2.0 WITH LLVM-exception"),
        ("", None),
        ("MIT License", None),
        ("MIT OR", None),
        ("OR MIT", None),
        ("(MIT", None),
        ("MIT)", None),
        ("MIT AND My-Own", None),
        ("MIT WITH My-exception", None),
        ("MIT WITH", None),
        ("MIT, Apache-2.0", None),
        ("SEE LICENSE IN LICENSE.txt", None),
        ("UNLICENSED", None),
        ("(" * 300 + "MIT" + ")" * 300, None),
    ],
)
def test_an_expression_is_known_as_a_whole_or_not_at_all(text: str, expected: str | None) -> None:
    assert parse_expression(text) == expected


def test_several_licences_apply_together_in_one_order() -> None:
    assert every_of({"MIT OR ISC", "GPL-2.0-only"}) == "GPL-2.0-only AND (MIT OR ISC)"
    assert every_of({"MIT OR ISC"}) == "MIT OR ISC"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Files: *\nCopyright: me\nLicense: Expat\n text\n", "MIT"),
        ("Files: *\nLicense: GPL-2+\n\nFiles: debian/*\nLicense: GPL-3\n", "GPL-2.0-or-later AND GPL-3.0-only"),
        ("Files: *\nLicense: GPL-1+ or Artistic-1.0-Perl\n", "GPL-1.0-or-later OR Artistic-1.0-Perl"),
        ("Files: *\nLicense: LGPL-2.1+ and BSD-3-clause\n", "LGPL-2.1-or-later AND BSD-3-Clause"),
        ("Files: *\nLicense: Expat, and ISC\n", None),
        ("Files: *\nLicense: Expat\n\nFiles: x\nLicense: public-domain\n", None),
        ("Files: *\nLicense: GPL\n", None),
        ("Files: *\nLicense: GPL-2+ with OpenSSL exception\n", None),
        ("Files: *\nCopyright: me\n", None),
        ("License: Expat\n text of the licence\n", None),
    ],
)
def test_a_debian_copyright_file_counts_if_every_part_of_it_is_known(text: str, expected: str | None) -> None:
    assert read_dep5(FORMAT + text) == expected
    assert read_dep5("This package is under the GPL.\n\n" + text) is None


def metadata(*lines: str) -> bytes:
    return make_zip(
        {"one-1.dist-info/METADATA": "\n".join(["Metadata-Version: 2.4", "Name: one", *lines, "", "Text"]).encode()}
    )


MIT_CLASS, BSD_CLASS = "License :: OSI Approved :: MIT License", "License :: OSI Approved :: BSD License"
COPYRIGHT = (FORMAT + "Files: *\nLicense: Expat\n").encode()
ARTIFACTS: dict[str, tuple[str, str, bytes, str | None]] = {
    "wheel": ("pypi", "one-1-py3-none-any.whl", metadata("License-Expression: MIT OR Apache-2.0"), "MIT OR Apache-2.0"),
    "wheel, a field": ("pypi", "one-1-py3-none-any.whl", metadata("License: BSD-3-Clause"), "BSD-3-Clause"),
    "wheel, a classifier": ("pypi", "one-1-py3-none-any.whl", metadata(f"Classifier: {MIT_CLASS}"), "MIT"),
    "wheel, they agree": ("pypi", "o.whl", metadata("License: MIT", f"Classifier: {MIT_CLASS}"), "MIT"),
    "wheel, they do not": ("pypi", "o.whl", metadata("License: ISC", f"Classifier: {MIT_CLASS}"), None),
    "wheel, vague": ("pypi", "o.whl", metadata("License: BSD", f"Classifier: {BSD_CLASS}"), None),
    "wheel, two": ("pypi", "o.whl", metadata(f"Classifier: {MIT_CLASS}", f"Classifier: {BSD_CLASS}"), None),
    "wheel, a text": ("pypi", "o.whl", metadata("License: Permission is hereby granted"), None),
    "wheel, damaged": ("pypi", "o.whl", b"PK\x03\x04", None),
    "sdist": ("pypi", "one-1.tar.gz", b"", None),
    "npm": ("npm", "one/-/one-1.tgz", make_tgz("one", "1", license="ISC"), "ISC"),
    "npm, old": ("npm", "one/-/one-1.tgz", make_tgz("one", "1", license={"type": "MIT", "url": "x"}), "MIT"),
    "npm, none": ("npm", "one/-/one-1.tgz", make_tgz("one", "1"), None),
    "npm, a number": ("npm", "one/-/one-1.tgz", make_tgz("one", "1", license=1), None),
    "crate": ("crates", "one-1.crate", b'[package]\nlicense = "MIT OR Apache-2.0"\n', "MIT OR Apache-2.0"),
    "crate, old": ("crates", "one-1.crate", b'[package]\nlicense = "MIT/Apache-2.0"\n', "MIT OR Apache-2.0"),
    "crate, none": ("crates", "one-1.crate", b'[package]\nname = "one"\n', None),
    "crate, no toml": ("crates", "one-1.crate", b"[[[", None),
    "gem": ("rubygems", "gems/one-1.gem", b"licenses:\n- MIT\n", "MIT"),
    "gem, two": ("rubygems", "gems/one-1.gem", b"licenses:\n- MIT\n- Ruby\n", None),
    "gem, none": ("rubygems", "gems/one-1.gem", b"licenses: []\n", None),
    "composer": ("packagist", "a/b/1.zip", make_zip({"b-1/composer.json": b'{"license":["MIT","GPL-2.0+"]}'}), "MIT OR GPL-2.0-or-later"),
    "composer, none": ("packagist", "a/b/1.zip", make_zip({"composer.json": b"{}"}), None),
    "nuget": (
        "nuget",
        "one/1/one.1.nupkg",
        make_zip({"One.nuspec": b'\xef\xbb\xbf<package><license type="expression">MIT</license></package>'}),
        "MIT",
    ),
    "nuget, a file": ("nuget", "one.nupkg", make_zip({"One.nuspec": b'<license type="file">L</license>'}), None),
    "deb": ("debian", "pool/main/o/one/one_1_all.deb", make_deb("one", "1", make_tar({"./usr/share/doc/one/copyright": COPYRIGHT})), "MIT"),
    "deb, another's": ("debian", "one_1_all.deb", make_deb("one", "1", make_tar({"./usr/share/doc/two/copyright": COPYRIGHT})), None),
    "deb, damaged": ("debian", "one_1_all.deb", b"!<arch>\n", None),
    "go": ("goproxy", "one/@v/v1.zip", b"", None),
}  # fmt: skip


@pytest.mark.parametrize("name", ARTIFACTS)
def test_each_ecosystem_says_it_in_its_own_place(name: str, tmp_path: Path) -> None:
    alias, key, data, expected = ARTIFACTS[name]
    if alias == "crates":
        data = gzip.compress(make_tar({"one-1/Cargo.toml": data}))
    if alias == "rubygems":
        data = make_tar({"metadata.gz": gzip.compress(b"--- !ruby/object:Gem::Specification\nname: one\n" + data)})
    (tmp_path / "artifact").write_bytes(data)
    assert licence_of(tmp_path / "artifact", alias, key) == expected


@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_spoiled_artifact_is_none_or_what_it_was(name: str, tmp_path: Path) -> None:
    """Whatever a byte becomes, nothing is raised, and nothing is made up that is no expression."""
    alias, key, data, _ = ARTIFACTS[name]
    chance = random.Random(name)
    for _ in range(40):
        spoiled = bytearray(data or b"-")
        for _ in range(chance.randint(1, 4)):
            spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
        (tmp_path / "artifact").write_bytes(
            spoiled[: chance.randint(1, len(spoiled))] if chance.random() < 0.3 else spoiled
        )
        found = licence_of(tmp_path / "artifact", alias, key)
        assert found is None or parse_expression(found) == found


def test_json_that_never_ends_is_no_licence(tmp_path: Path) -> None:
    deep = make_tar({"package/package.json": b"[" * 100_000})
    (tmp_path / "artifact").write_bytes(gzip.compress(deep))
    assert licence_of(tmp_path / "artifact", "npm", "one.tgz") is None
