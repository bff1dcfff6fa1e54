"""cosign, skopeo and others as a lab without us would call them: loopback only, an empty home, keys in one folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.processes import Surroundings, run
from tests.support.debian_tools import obtain_command, obtain_program

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.processes import Finished

SKOPEO_LIBRARIES = ("libgpgme11t64", "libassuan9", "libgpg-error0", "libsqlite3-0")


@dataclass(frozen=True)
class StockTools:
    """Calls tools in a folder that holds public keys (NAME.pub), policies (NAME.json) and `registries.d`."""

    folder: Path

    def call(self, argv: list[str], **env: str) -> Finished:
        """Run a tool that can reach loopback only, with an empty home."""
        nowhere = "http://127.0.0.1:9"
        proxies = {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1,localhost"}
        around = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(self.folder), **proxies}
        return run(argv, Surroundings(env={**around, **env}, cwd=self.folder, timeout_s=120))

    def cosign(self, suite: str, *words: str) -> Finished:
        """Run cosign of a Debian suite, offline."""
        offline = ("--insecure-ignore-tlog=true", "--allow-http-registry")
        return self.call([str(obtain_program("cosign", suite)), words[0], *offline, *words[1:]])

    def skopeo(self, policy: str, source: str, *more: str) -> Finished:
        """Copy an image under a policy into the folder `copied`."""
        places = ["--policy", f"{policy}.json", "--registries.d", "registries.d"]
        words = ["copy", "-q", *more, "--src-tls-verify=false", f"docker://{source}"]
        target = f"dir:{self.folder / 'copied'}"
        return self.call([*obtain_command("skopeo", "trixie", *SKOPEO_LIBRARIES), *places, *words, target])

    def crane(self, *words: str) -> Finished:
        """Run crane of sid."""
        return self.call([str(obtain_program("crane", "sid")), *words])
