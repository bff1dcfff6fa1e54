"""What the whole run needs before its first test."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from packager.sandbox.namespaces import may_mount, prepare_process

if may_mount():
    prepare_process()  # now, while this process has one thread: what tests mount then ends with the run

settings.register_profile(
    "wideswe",
    deadline=None,  # a busy machine is no fault of the code
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="WIDESWE_RANDOM_EXAMPLES" not in os.environ,  # a run says the same twice; set it to search further
)
settings.load_profile("wideswe")
