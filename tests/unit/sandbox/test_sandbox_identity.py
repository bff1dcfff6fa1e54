from __future__ import annotations

from packager.base.canonical import format_canonical
from packager.base.digests import digest_of
from packager.sandbox import identity, launcher
from packager.sandbox.syscall_filter import program_for


def test_the_sandbox_id_changes_with_what_a_command_can_see() -> None:
    seen = {
        "capabilities": sorted(launcher.CAPABILITIES),
        "devices": list(launcher._DEVICES),
        "environment": identity.base_environment(),
        "files": identity.FIXED_FILES,
        "host": identity.HOSTNAME,
        "proc": [*launcher._PROC_READ_ONLY, *launcher._PROC_HIDDEN],
        "refused calls": [(program_for(machine) or b"").hex() for machine in ("x86_64", "aarch64")],
        "proxy": identity.proxy_environment(),
    }
    assert (identity.SANDBOX_ID, digest_of(format_canonical(seen))) == (
        "s1",
        "sha256:c3860c33fc98c01f5cc325681bc0363354feab293de2076b59b072c85bdaf77a",
    )


def test_nothing_in_the_environment_names_a_host_but_loopback() -> None:
    values = {**identity.base_environment(), **identity.proxy_environment()}
    assert {value for value in values.values() if "://" in value} == {"http://127.0.0.1:3128"}
    assert values["SSL_CERT_FILE"] == values["npm_config_cafile"] == "/run/wideswe/ca.pem"
    assert values["no_proxy"] == "localhost,127.0.0.1,::1"
