"""The command line: words to calls, errors to exit codes.

Exit codes: 0 done, the answer is yes; 1 done, the answer is no; 2 usage; 3 bad recipe, lock, patch or task file;
4 bytes are not what their digest says; 5 trust; 6 network, registry, engine or disk; 70 our own fault; 130 stopped.
"""

from __future__ import annotations

import importlib
import os
import select
import sys
from pathlib import Path
from typing import NoReturn

import click

from packager import __version__
from packager.base.errors import PackError, UsageError, WorldError
from packager.cli.place import Options
from packager.cli.screen import printable

_VERBS = {
    "import": "importing",
    "list": "author",
    "lock": "author",
    "fetch": "author",
    "render": "author",
    "build": "author",
    "validate": "author",
    "reproduce": "rebuild",
    "diff": "rebuild",
    "explain": "rebuild",
    "keygen": "ship",
    "sign": "ship",
    "verify": "ship",
    "push": "carry",
    "index": "carry",
    "pull": "carry",
    "mirror": "carry",
    "bundle": "bundle",
    "load": "bundle",
    "attest": "trust",
    "grant": "trust",
    "open": "trust",
    "trust": "trust",
    "secret": "trust",
    "suite": "suite",
    "evaluate": "judge",
    "run": "agents",
    "capture": "agents",
    "report": "report",
    "export": "export",
    "inspect": "judge",
    "audit": "judge",
    "demo": "judge",
    "doctor": "machine",
    "ecosystems": "machine",
    "gc": "upkeep",
    "store": "upkeep",
    "completion": "machine",
}
EXIT_INTERRUPTED = 130
EXIT_BUG = 70


class _Verbs(click.Group):
    """Loads a verb's module only when that verb is called, so that a build with nothing to do starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(f"packager.cli.{_VERBS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        command.short_help = str(command.help).partition("\n")[0]
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            if not _reader_is_gone():
                raise
            _write_no_more()
            return 0


def _folder(name: str, default: str) -> Path:
    return Path(os.environ.get(name) or Path("~").expanduser() / default)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="wideswe-pack")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    envvar="WIDESWE_ROOT",
    help="Folder with recipes/, lockfiles/ and images/ (default: here, or where wideswe-pack is installed).",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    envvar="WIDESWE_STORE",
    help="The store (default: $XDG_DATA_HOME/wideswe-pack).",
)
@click.option(
    "--keys",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    envvar="WIDESWE_KEYS",
    help="Folder with keys (default: $XDG_CONFIG_HOME/wideswe-pack/keys).",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    envvar="WIDESWE_CONFIG",
    help="Settings file with mirrors (default: $XDG_CONFIG_HOME/wideswe-pack/config.yaml).",
)
@click.option(
    "--inputs",
    type=click.Path(path_type=Path, file_okay=False),
    multiple=True,
    envvar="WIDESWE_INPUTS",
    help="Folder of locked inputs to read before the network; repeats.",
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    envvar="WIDESWE_PASSWORD_FILE",
    help="File whose first line protects the signing keys (default: WIDESWE_PASSWORD).",
)
@click.option(
    "--engine",
    default="native",
    show_default=True,
    help="What runs commands: native, docker, buildah or podman; all give the same image.",
)
@click.option("--json", "as_json", is_flag=True, help="Results on standard output as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@click.pass_context
def cli(ctx: click.Context, /, **given: object) -> None:
    """Package cross-repository coding tasks as reproducible, signed images, and judge patches against them.

    Example: wideswe-pack build --task hello-wide-001
    """
    ctx.obj = Options.from_command_line(given)


def _told(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _reader_is_gone() -> bool:
    """Tell whether standard output is a pipe that nobody reads, as of `wideswe-pack list | head -1`."""
    watch = select.poll()
    watch.register(sys.stdout.fileno(), 0)
    return bool(watch.poll(0))


def _write_no_more() -> None:
    """Send what is still to be written nowhere: else Python complains when it ends, with an exit code of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> NoReturn:
    """Run the command line and end the process with the documented exit code."""
    try:
        code = cli.main(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.stderr.write("stopped; the same command continues where this one was\n")
        code = EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = UsageError.exit_code
    except PackError as error:
        sys.stderr.write(printable(f"error: {error}\n"))
        code = error.exit_code
    except OSError as error:
        sys.stderr.write(printable(f"error: {_told(error)}\n"))
        _write_no_more()
        code = WorldError.exit_code
    except Exception:  # noqa: BLE001 - the last place where anything can be reported
        import traceback

        traceback.print_exc()
        sys.stderr.write("error: this is a fault of wideswe-pack itself; please report the lines above\n")
        code = EXIT_BUG
    sys.exit(code if isinstance(code, int) else 0)
