"""Other circumstances under which tests must say the same: order, hash seed, zone, day, user, number of CPUs.

Each is a change of the test command alone, so that evaluation itself knows nothing of it. What an image cannot vary is
said with the reason. A sandbox has the kernel's clock: the time of day is moved by its zone, the day and the year only
where the image has libfaketime, and not for programs without libc (such as those of Go).
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packager.sandbox.engine import Command, Streams
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.evaluate.profile import TargetProfile
    from packager.evaluate.run import Session

SEED = "4711"
_USER = "4711"
_ZONE = "Pacific/Kiritimati"
_CAPABILITIES = "+dac_override,+fowner,+chown,+fsetid,+kill"
_AS_USER = (
    f"setpriv --reuid={_USER} --regid={_USER} --clear-groups --inh-caps={_CAPABILITIES} --ambient-caps={_CAPABILITIES}"
)
_OTHERS_CHECKOUTS = (("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*"))
_PLUGIN = f"""\
import random
def pytest_collection_modifyitems(items): random.Random({SEED}).shuffle(items)"""
_PLUGIN_FOLDER = "/tmp/wideswe-order"  # noqa: S108 - in the sandbox
_START = r"(?:^|(?<=[\s;&|(=]))((?:[^\s;&|()='\"]*/)?"
_SHUFFLES = tuple(
    (re.compile(pattern + r")(?=[\s;&|)]|$)"), options)
    for pattern, options in (
        (_START + r"go test", f"-shuffle={SEED}"),
        (_START + r"vitest(?:\.mjs)?(?: run)?", f"--sequence.shuffle --sequence.seed={SEED}"),
        (_START + r"jest(?:\.js)?", f"--randomize --seed={SEED}"),
        (_START + r"rspec", f"--order rand:{SEED}"),
        (_START + r"phpunit", f"--order-by=random --random-order-seed={SEED}"),
        (_START + r"ctest", "--schedule-random"),
        (_START + r"prove", "--shuffle"),
        (_START + r"(?:dart|flutter) test", f"--test-randomize-ordering-seed={SEED}"),
        (_START + r"(?:mvnw?|mvn) [^;&|]*?\b(?:test|verify)", "-Dsurefire.runOrder=random"),
        (r"((?:manage\.py|django) test", f"--shuffle {SEED}"),
    )
)
_PYTEST = re.compile(_START + r"(?:py\.test|pytest))(?=[\s;&|)]|$)")
_PROBE = f"""\
for library in /usr/lib/*/faketime/libfaketime.so.1 /usr/lib/faketime/libfaketime.so.1; do
  [ -e "$library" ] && echo "day=$library" && break
done
[ -e /usr/share/zoneinfo/{_ZONE} ] && echo zones=yes
{_AS_USER} true 2>/dev/null && echo user=yes
taskset -c {{cpu}} true 2>/dev/null && echo cpus=yes
true
"""


@dataclass(frozen=True)
class Variation:
    """One other circumstance: commands by target, variables, and words before the command."""

    name: str
    what: str
    commands: Mapping[str, str] = field(default_factory=dict)
    env: tuple[tuple[str, str], ...] = ()
    before: str = ""
    cpus: int | None = None


def shuffled_command(run: str) -> str | None:
    """Return a test command that runs its tests in another order, or None where no way is known."""
    for pattern, options in _SHUFFLES:
        if pattern.search(run):
            return pattern.sub(lambda match: f"{match[1]} {options}", run)  # noqa: B023 - called at once
    if _PYTEST.search(run):
        written = f"mkdir -p {_PLUGIN_FOLDER} && echo {shlex.quote(_PLUGIN)} > {_PLUGIN_FOLDER}/wideswe_order.py"
        path = f'PYTHONPATH="{_PLUGIN_FOLDER}${{PYTHONPATH:+:$PYTHONPATH}}"'
        return f"{written} && export PYTEST_PLUGINS=wideswe_order {path} && {run}"
    return None


def variations_of(session: Session, declared: Mapping[str, str | None]) -> tuple[tuple[Variation, ...], dict[str, str]]:
    """Return what can be varied over an image, and why the rest cannot; `declared` are commands that shuffle."""
    here = sorted(os.sched_getaffinity(0))
    found = _probe(session, here[0])
    missing: dict[str, str] = {}
    variations = [*_orders(session, declared, missing)]
    seeds = tuple((name, SEED) for name in ("PYTHONHASHSEED", "PERL_HASH_SEED"))
    variations.append(Variation("hash seed", f"PYTHONHASHSEED and PERL_HASH_SEED are {SEED}", env=seeds))
    zone = _ZONE if "zones" in found else "<+14>-14"
    variations.append(Variation("time of day", f"TZ is {zone}, 14 hours ahead", env=(("TZ", zone),)))
    if library := found.get("day"):
        moved = (("LD_PRELOAD", library), ("FAKETIME", "+217d"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"))
        variations.append(Variation("day", "217 days later, by libfaketime", env=moved))
    else:
        missing["day"] = "the image has no libfaketime (Debian: faketime), and a sandbox has the kernel's clock"
    if "user" in found:
        what = f"user and group {_USER} with the rights of root over files"
        variations.append(Variation("user", what, before=_AS_USER, env=_OTHERS_CHECKOUTS))
    else:
        missing["user"] = "the image has no setpriv (util-linux), or it may not change the user"
    if "cpus" in found and len(here) > 1:
        variations.append(Variation("cpus", f"1 CPU of {len(here)}", before=f"taskset -c {here[0]}", cpus=1))
    else:
        missing["cpus"] = "this machine has one CPU, or the image no taskset (util-linux)"
    return tuple(variations), missing


def _orders(session: Session, declared: Mapping[str, str | None], missing: dict[str, str]) -> list[Variation]:
    commands: dict[str, str] = {}
    for target in session.profile.targets:
        command = declared.get(target.name) or shuffled_command(target.run)
        if command is None:
            missing[f"order of {target.name}"] = "no way to shuffle its tests is known: say test.shuffle"
        else:
            commands[target.name] = command
    what = f"tests of {', '.join(commands)} in another order (seed {SEED})"
    return [Variation("order", what, commands=commands)] if commands else []


def _probe(session: Session, cpu: int) -> dict[str, str]:
    said = bytearray()
    with (
        scratch_folder(session.store_root) as scratch,
        session.engine.open_tree(session.layers, scratch=scratch) as tree,
    ):
        script = _PROBE.replace("{cpu}", str(cpu))
        command = Command(
            ("/bin/sh", "-c", script), env=dict(session.env), timeout_s=60.0, limits=session.profile.limits
        )
        tree.run(command, Streams(said.extend))
    lines = said.decode("utf-8", errors="replace").splitlines()
    return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


def vary(session: Session, variations: Sequence[Variation]) -> Session:
    """Return the session under other circumstances."""
    profile = session.profile
    limits = profile.limits
    for variation in variations:
        if variation.cpus is not None:
            limits = replace(limits, cpus=variation.cpus)
    targets = tuple(_vary_target(target, variations) for target in profile.targets)
    return replace(session, profile=replace(profile, targets=targets, limits=limits))


def _vary_target(target: TargetProfile, variations: Sequence[Variation]) -> TargetProfile:
    run = target.run
    for variation in variations:
        run = variation.commands.get(target.name, run)
    env = dict(target.env)
    for variation in variations:
        env.update(variation.env)
    before = " ".join(variation.before for variation in variations if variation.before)
    if before:
        run = f"{before} /bin/sh -c {shlex.quote(run)}"
    return replace(target, run=run, env=tuple(sorted(env.items())))
