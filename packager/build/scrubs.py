"""What package managers leave behind that tells one run from another: the commands that even it out, by lock file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PNPM_STATE = r"\( -name .modules.yaml -o -name '.pnpm-workspace-state*.json' \)"
_PNPM_EVEN = (
    r"s/(prunedAt\W+)\w{3}, \d+ \w{3} \d{4} [0-9:]+ GMT/\1Tue, 01 Jan 1980 00:00:00 GMT/;"
    r"s/(lastValidatedTimestamp\W+)\d+/\1315532800000/;"
    r"""s/,\s*"(minimumReleaseAge|trustPolicy)\w*": ("[^"]*"|\d+|true|false)//g"""
).replace(r"\d", "[0-9]")
"""Times become 1980's; policies that were off while recording are not taken for settings of the project."""

_BY_LOCK_FILE: dict[str, tuple[str, ...]] = {
    # Times are set, not taken away with their files: pnpm without them installs again before it runs anything.
    "pnpm-lock.yaml": (
        "rm -rf /root/.cache/pnpm /root/.local/share/pnpm/store /root/.local/state/pnpm",
        f"find . -name .pnpm -prune -o -type f {_PNPM_STATE} -exec sed -z -i -E '{_PNPM_EVEN}' {{}} +",
    ),
    "yarn.lock": ("rm -rf /root/.cache/yarn",),
}


def scrub_commands(manifests: Iterable[str]) -> tuple[str, ...]:
    """Return the commands to run in a checkout behind those that install from these manifests (globs of a recipe)."""
    names = sorted({pattern.rpartition("/")[2] for pattern in manifests})
    return tuple(command for name in names for command in _BY_LOCK_FILE.get(name, ()))
