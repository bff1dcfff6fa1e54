"""A plugin for age, speaking its protocol over pipes (C2SP age-plugin.md): it wraps file keys by a fixed mask.

Installed as `age-plugin-masked`, it stands for a hardware key: its key is a name, and only the plugin can use it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from packager.seal.bech32 import format_bech32

if TYPE_CHECKING:
    from pathlib import Path

RECIPIENT = format_bech32("age1masked", b"someone in a lab")
IDENTITY = format_bech32("age-plugin-masked-", b"someone in a lab").upper()

PROGRAM = r"""#!{python}
import base64, sys
MASK = bytes(range(16, 32))
def line(): return sys.stdin.readline().rstrip("\n")
def say(*words, body=b""):
    text = base64.b64encode(body).decode().rstrip("=")
    lines = [text[n:n + 64] for n in range(0, len(text), 64)] or [""]
    if len(lines[-1]) == 64: lines.append("")
    print("-> " + " ".join(words), *lines, sep="\n", flush=True)
def hear():
    words = line().split(" ")[1:]
    text = part = line()
    while len(part) == 64:
        part = line(); text += part
    return words, base64.b64decode(text + "=" * (-len(text) % 4))
def mask(key): return bytes(a ^ b for a, b in zip(key, MASK))
def until_done():
    found = []
    while (heard := hear())[0][0] != "done": found.append(heard)
    return found
heard = until_done()
if "--age-plugin=recipient-v1" in sys.argv:
    keys = [body for words, body in heard if words[0] == "wrap-file-key"]
    for number, key in enumerate(keys):
        say("recipient-stanza", str(number), "masked", body=mask(key)); hear()
else:
    for words, body in heard:
        if words[0] == "recipient-stanza" and words[2] == "masked":
            say("file-key", words[1], body=mask(body)); hear()
say("done")
"""


def install_plugin(folder: Path) -> str:
    """Write the plugin into a folder and return a PATH on which it is found."""
    program = folder / "age-plugin-masked"
    program.write_text(PROGRAM.replace("{python}", sys.executable))
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"
