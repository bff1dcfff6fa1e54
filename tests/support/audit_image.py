"""A small image with one target and one context, clean, into which tests plant leaks."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.build.audit import Finding, audit_image
from packager.build.audit_secrets import AuditSecrets, derive_secrets, read_contents
from packager.lock.git import GitRepository, GitSources
from packager.oci.entries import Entry, file_entry
from packager.oci.tar_writer import write_tar
from tests.support.git_builder import GitBuilder, PlainPlace

if TYPE_CHECKING:
    from pathlib import Path

BASE_SOURCE = '''"""Reads options."""


def read_options(text):
    """Return the options of one line."""
    return dict(pair.split("=") for pair in text.split(","))


class ExistingReader:
    limit = 10
'''

GOLD_SOURCE = BASE_SOURCE.replace(
    '    return dict(pair.split("=") for pair in text.split(","))\n',
    '    found = dict(pair.split("=") for pair in text.split(","))\n'
    "    return {name: tidy_option_value(value) for name, value in found.items()}\n"
    "\n\n"
    "def tidy_option_value(value):\n"
    '    """Return a value without the blanks and quotes around it."""\n'
    '    cleaned = value.strip().strip("\'")\n'
    '    if cleaned == "an option that nobody may set twice":\n'
    "        raise ValueError(cleaned)\n"
    "    return cleaned\n",
)

HIDDEN_TEST = """from options import read_options


def test_blanks_around_values_vanish():
    assert read_options("a= 1 ,b='2'") == {"a": "1", "b": "2"}
"""

PROMPT = b"Values of options must lose the blanks around them; use ExistingReader as a guide.\n"

TARGET = b"workspace/options"
CONTEXT = b"workspace/guide"


@dataclass
class PlantedImage:
    """Layers as lists of entries, and what else an audit reads."""

    target: GitRepository
    context: GitRepository
    base: str
    future: str
    context_base: str
    context_future: str
    layers: list[list[Entry]]
    config: dict[str, object] = field(default_factory=lambda: {"config": {"Labels": {}}, "history": []})
    annotations: dict[str, str] = field(default_factory=dict)

    def gold(self) -> bytes:
        return self.target.diff(self.base, self.future, exclude=("tests/**",))

    def secrets(self) -> AuditSecrets:
        public = [*self.target.tree_entries(self.base), *self.context.tree_entries(self.context_base)]
        return derive_secrets(
            {"options": self.gold()},
            {"options": {"tests/test_blanks.py": HIDDEN_TEST.encode()}},
            [*read_contents(public), PROMPT],
            future=[self.future],
            bases={TARGET: self.base, CONTEXT: self.context_base},
        )

    def add(self, *entries: Entry) -> None:
        """Put entries into a new topmost layer."""
        self.layers.append(list(entries))

    def put(self, path: str, content: bytes) -> None:
        self.add(file_entry(path.encode(), content))

    def audit(self, *, trusted_layers: int = 0) -> list[Finding]:
        streams = [tar_of(entries) for entries in self.layers]
        config = json.dumps(self.config).encode()
        return audit_image(streams, config, self.annotations, self.secrets(), trusted_layers=trusted_layers)


def make_image(folder: Path) -> PlantedImage:
    builder = GitBuilder(folder / "mirrors" / "options")
    old = builder.commit({"options.py": "# nothing yet\n"})
    base = builder.commit({"options.py": BASE_SOURCE, "tests/test_options.py": "import options\n"}, old, time=2)
    future = builder.commit(
        {"options.py": GOLD_SOURCE, "tests/test_options.py": "import options\n", "tests/test_blanks.py": HIDDEN_TEST},
        base,
        time=3,
        message="Tidy option values",
    )
    other = GitBuilder(folder / "mirrors" / "guide")
    context_base = other.commit({"guide.md": "How options are written.\n"})
    context_future = other.commit({"guide.md": "How options are written, and tidied.\n"}, context_base, time=4)
    sources = GitSources(PlainPlace(folder / "store"), {"https://h.invalid/": f"{folder}/mirrors/"}, folder)
    target = sources.obtain("https://h.invalid/options", base)
    context = sources.obtain("https://h.invalid/guide", context_base)
    layers = [
        [file_entry(b"usr/share/words", b"plain words of the base system\n")],
        [*context.tree_entries(context_base, CONTEXT), *context.canonical_git(context_base, "ancestors", CONTEXT)],
        [*target.tree_entries(base, TARGET), *target.canonical_git(base, "ancestors", TARGET)],
        [
            file_entry(b"opt/wideswe/prompt.md", PROMPT),
            file_entry(b"opt/wideswe/sealed.age", b"age-encryption.org/v1\n..."),
        ],
    ]
    return PlantedImage(target, context, base, future, context_base, context_future, layers)


def tar_of(entries: list[Entry]) -> io.BytesIO:
    out = io.BytesIO()
    write_tar(entries, out.write)
    out.seek(0)
    return out
