"""The Python API: one short function per verb, each the stages in order.

Functions take a Place (where things are) and raise PackError; they print nothing. The native engine gives the calling
process a mount namespace of its own (for a plain user, a user namespace): call from a process with one thread.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packager.api.agent_jobs import AgentJob, run_agents
    from packager.api.agents import AgentRequest, Ran, run_agent
    from packager.api.attest import Attested, ExportRequest, attest, attest_file, export_trust
    from packager.api.author import build, check_lock, fetch, list_tasks, lock, render, render_fetches
    from packager.api.bundle import Cargo, export_bundle, import_bundle, load
    from packager.api.carry import Copied, mirror, mirror_pairs, mirror_suite, pull, push
    from packager.api.compare import diff, explain
    from packager.api.demonstrate import demo
    from packager.api.export import ExportedTasks, HarnessExport, export_tasks
    from packager.api.grants import Granted, grant, join_secret, open_task, rotate_secret, split_secret
    from packager.api.importing import import_released
    from packager.api.judge import EvaluationRequest, evaluate, exit_code
    from packager.api.look import Audited, audit, inspect, recognise
    from packager.api.machine import can_build, doctor, ecosystems
    from packager.api.place import Place
    from packager.api.platforms import Joined, join_platforms
    from packager.api.rebuild import Reproduced, Wish, reproduce
    from packager.api.results import ReportRequest, report
    from packager.api.runs import Campaign, Evaluated, Job, Predicted, evaluate_many, tasks_predicted
    from packager.api.sharing import inspect_suite
    from packager.api.ship import Keys, Shipped, import_key, keygen, sign, verify
    from packager.api.suite import (
        RoleChoice,
        SuiteRequest,
        create_suite,
        revoke_image,
        rotate_root,
        sign_suite,
        update_suite,
    )
    from packager.api.suite_state import SuiteState, pull_suite, push_suite, show_suite, suite_tasks, verify_suite
    from packager.api.trusted import Trust
    from packager.api.upkeep import Checked, check_store, collect_garbage, images_in
    from packager.api.validation import ValidationRequest, validate
    from packager.api.workspaces import Captured, CaptureRequest, capture
    from packager.registry.bundle import BundleForm

__all__ = [
    "AgentJob",
    "AgentRequest",
    "Attested",
    "Audited",
    "BundleForm",
    "Campaign",
    "CaptureRequest",
    "Captured",
    "Cargo",
    "Checked",
    "Copied",
    "Evaluated",
    "EvaluationRequest",
    "ExportRequest",
    "ExportedTasks",
    "Granted",
    "HarnessExport",
    "Job",
    "Joined",
    "Keys",
    "Place",
    "Predicted",
    "Ran",
    "ReportRequest",
    "Reproduced",
    "RoleChoice",
    "Shipped",
    "SuiteRequest",
    "SuiteState",
    "Trust",
    "ValidationRequest",
    "Wish",
    "attest",
    "attest_file",
    "audit",
    "build",
    "can_build",
    "capture",
    "check_lock",
    "check_store",
    "collect_garbage",
    "create_suite",
    "demo",
    "diff",
    "doctor",
    "ecosystems",
    "evaluate",
    "evaluate_many",
    "exit_code",
    "explain",
    "export_bundle",
    "export_tasks",
    "export_trust",
    "fetch",
    "grant",
    "images_in",
    "import_bundle",
    "import_key",
    "import_released",
    "inspect",
    "inspect_suite",
    "join_platforms",
    "join_secret",
    "keygen",
    "list_tasks",
    "load",
    "lock",
    "mirror",
    "mirror_pairs",
    "mirror_suite",
    "open_task",
    "pull",
    "pull_suite",
    "push",
    "push_suite",
    "recognise",
    "render",
    "render_fetches",
    "report",
    "reproduce",
    "revoke_image",
    "rotate_root",
    "rotate_secret",
    "run_agent",
    "run_agents",
    "show_suite",
    "sign",
    "sign_suite",
    "split_secret",
    "suite_tasks",
    "tasks_predicted",
    "update_suite",
    "validate",
    "verify",
    "verify_suite",
]

_HOMES = {
    "agent_jobs": ("AgentJob", "run_agents"),
    "agents": ("AgentRequest", "Ran", "run_agent"),
    "author": ("build", "check_lock", "fetch", "list_tasks", "lock", "render", "render_fetches"),
    "bundle": ("BundleForm", "Cargo", "export_bundle", "import_bundle", "load"),
    "carry": ("Copied", "mirror", "mirror_pairs", "mirror_suite", "pull", "push"),
    "compare": ("diff", "explain"),
    "importing": ("import_released",),
    "demonstrate": ("demo",),
    "judge": ("EvaluationRequest", "evaluate", "exit_code"),
    "look": ("Audited", "audit", "inspect", "recognise"),
    "machine": ("can_build", "doctor", "ecosystems"),
    "place": ("Place",),
    "platforms": ("Joined", "join_platforms"),
    "results": ("ReportRequest", "report"),
    "runs": ("Campaign", "Evaluated", "Job", "Predicted", "evaluate_many", "tasks_predicted"),
    "sharing": ("inspect_suite",),
    "validation": ("ValidationRequest", "validate"),
    "upkeep": ("Checked", "check_store", "collect_garbage", "images_in"),
    "rebuild": ("Reproduced", "Wish", "reproduce"),
    "ship": ("Keys", "Shipped", "import_key", "keygen", "sign", "verify"),
    "attest": ("Attested", "ExportRequest", "attest", "attest_file", "export_trust"),
    "export": ("ExportedTasks", "HarnessExport", "export_tasks"),
    "grants": ("Granted", "grant", "join_secret", "open_task", "rotate_secret", "split_secret"),
    "suite": (
        "RoleChoice",
        "SuiteRequest",
        "create_suite",
        "revoke_image",
        "rotate_root",
        "sign_suite",
        "update_suite",
    ),
    "suite_state": ("SuiteState", "pull_suite", "push_suite", "show_suite", "suite_tasks", "verify_suite"),
    "trusted": ("Trust",),
    "workspaces": ("CaptureRequest", "Captured", "capture"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a verb when it is first used, so that each one starts fast."""
        for home, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(f"packager.api.{home}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
