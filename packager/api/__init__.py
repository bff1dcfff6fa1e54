"""The Python API: one short function per verb, each the stages in order.

Functions take a Place (where things are) and raise PackError; they print nothing. The native engine gives the calling
process a mount namespace of its own (for a plain user, a user namespace): call from a process with one thread.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packager.api.author import build, check_lock, fetch, list_tasks, lock, render, validate
    from packager.api.judge import Audited, EvaluationRequest, audit, demo, evaluate, exit_code, inspect
    from packager.api.machine import can_build, doctor, ecosystems
    from packager.api.place import Place
    from packager.api.sharing import inspect_suite
    from packager.api.ship import Keys, Shipped, keygen, pull, push, sign, verify
    from packager.api.upkeep import Checked, check_store, collect_garbage, images_in

__all__ = [
    "Audited",
    "Checked",
    "EvaluationRequest",
    "Keys",
    "Place",
    "Shipped",
    "audit",
    "build",
    "can_build",
    "check_lock",
    "check_store",
    "collect_garbage",
    "demo",
    "doctor",
    "ecosystems",
    "evaluate",
    "exit_code",
    "fetch",
    "images_in",
    "inspect",
    "inspect_suite",
    "keygen",
    "list_tasks",
    "lock",
    "pull",
    "push",
    "render",
    "sign",
    "validate",
    "verify",
]

_HOMES = {
    "author": ("build", "check_lock", "fetch", "list_tasks", "lock", "render", "validate"),
    "judge": ("Audited", "EvaluationRequest", "audit", "demo", "evaluate", "exit_code", "inspect"),
    "machine": ("can_build", "doctor", "ecosystems"),
    "place": ("Place",),
    "sharing": ("inspect_suite",),
    "ship": ("Keys", "Shipped", "keygen", "pull", "push", "sign", "verify"),
    "upkeep": ("Checked", "check_store", "collect_garbage", "images_in"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a verb when it is first used, so that each one starts fast."""
        for home, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(f"packager.api.{home}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
