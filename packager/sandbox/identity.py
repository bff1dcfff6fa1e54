"""What a command can see of its sandbox, whatever the engine: names, files, ports and variables that never vary."""

from __future__ import annotations

SANDBOX_ID = "s1"
"""Goes into the key of every derivation that runs a command; bump it when what a command can see changes."""

HOSTNAME = "build"
PROXY_PORT = 3128
ROOM_IN_TREE = "/run/wideswe"
"""A read-only directory in memory; whatever is bound below it needs no mount point in the tree."""
CA_PATH = f"{ROOM_IN_TREE}/ca.pem"
JAVA_TRUST_PATH = f"{ROOM_IN_TREE}/ca.p12"
JAVA_PASSWORD = "wideswe"  # noqa: S105 - of a file that holds no secret; Java wants one

FIXED_FILES = {
    "etc/hostname": f"{HOSTNAME}\n",
    "etc/hosts": (
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        f"127.0.1.1\t{HOSTNAME}\n"  # as Debian writes it: Java and sudo look their own name up
    ),
    "etc/resolv.conf": "",
}
"""Laid over the tree's own files while a command runs; empty name servers make a look-up fail at once."""

_CA_VARIABLES = (
    "SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "YARN_HTTPS_CA_FILE_PATH",
    "BUNDLE_SSL_CA_CERT",
)


def base_environment() -> dict[str, str]:
    """Return the variables of every command and of the image, before anything that a recipe adds."""
    return {
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PATH": "/opt/toolchains/go/bin:/opt/toolchains/node/bin:"
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": "315532800",  # oci/entries.py has the same number; a layer's times never exceed it
        "TZ": "UTC",
    }


def proxy_environment() -> dict[str, str]:
    """Return the variables that lead package clients through the loopback proxy and let them trust its certificates."""
    address = f"http://127.0.0.1:{PROXY_PORT}"
    loopback = "localhost,127.0.0.1,::1"
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address)
    npm = {"npm_config_proxy": address, "npm_config_https_proxy": address, "npm_config_noproxy": loopback}
    return {
        **proxies,
        **npm,
        "NO_PROXY": loopback,
        "no_proxy": loopback,
        **dict.fromkeys(_CA_VARIABLES, CA_PATH),
    }
