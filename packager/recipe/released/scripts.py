"""Reads what a released run_profile.sh does for one profile: by rules, never by running it.

A rule either finds one test command that stands for itself, or says why a person must write it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ARM = r"^[ \t]*(?:[\w.\"'*/-]+[ \t]*\|[ \t]*)*[\"']?{name}[\"']?(?:[ \t]*\|[ \t]*[\w.\"'*/-]+)*\)[ \t]*$(.*?)^[ \t]*;;"
_CONTINUED = re.compile(r"\\\n[ \t]*")
_EXPORT = re.compile(r"-e[ \t]+([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|\S+)")
_IMAGE = re.compile(r"base/([\w.-]*?(?:golang|go|node|python|rust|php|ruby|java[\w-]*|dotnet|dart|flutter)):([\w.-]+)")
_REPLACE = re.compile(r"go mod edit\b[^\n]*?-replace[= ]\"?([\w./-]+)(?:@[\w.-]+)?=\"?([^\s\"']+)")
_REDIRECTION = re.compile(r"(?:[ \t]*\|[ \t]*(?:tee|cat)\b[^|;&]*)+$|[ \t]+(?:1?>>?|&>)[ \t]*(?![&\d])\S+|[ \t]+2>&1")
_GUARDED = re.compile(r"^(?:exec|time|command|timeout[ \t]+\S+)[ \t]+|[ \t]*\|\|[ \t]*(?:true|status=\$\?|:)[ \t]*$")
_FOREIGN = re.compile(r"\$[\w{(]|/opt/ecosync|/cache\b|\.ecosyncbench\b|`")

_RUNNERS: tuple[tuple[str, str, str], ...] = (
    ("gotest-json", r"(?:[A-Z_]+=\S+[ \t]+)*go[ \t]+test\b.*\s-json\b", ""),
    ("junit-xml", r"(?:[\w./-]*python[\d.]*[ \t]+-m[ \t]+)?pytest\b.*--junit-?xml", r"--junit-?xml[= ]\S+"),
    ("junit-xml", r"(?:npx|pnpm|yarn)?[ \t]*(?:exec[ \t]+)?vitest\b.*--outputFile", r"--outputFile(?:\.junit)?[= ]\S+"),
    ("jest-json", r"(?:npx|pnpm|yarn)?[ \t]*(?:exec[ \t]+)?jest\b.*--outputFile", r"--outputFile[= ]\S+"),
    ("junit-xml", r"(?:php[ \t]+)?[\w./-]*phpunit\b.*--log-junit", r"--log-junit[= ]\S+"),
    ("junit-xml", r"(?:bundle[ \t]+exec[ \t]+)?rspec\b.*RspecJunitFormatter", r"(?:--out|-o)[= ]\S+"),
    ("cargo-text", r"cargo[ \t]+test\b", ""),
    ("django-text", r"[\w./-]*python[\d.]*[ \t]+(?:tests/)?runtests\.py\b", ""),
)
_OPTION = {
    "pytest": '--junitxml="$WIDESWE_REPORT"',
    "vitest": '--outputFile="$WIDESWE_REPORT"',
    "jest": '--outputFile="$WIDESWE_REPORT"',
    "phpunit": '--log-junit "$WIDESWE_REPORT"',
    "rspec": '--out "$WIDESWE_REPORT"',
}
_ANY_RUNNER = re.compile(
    r"\b(pytest|vitest|jest|phpunit|rspec|ctest|ginkgo|runtests\.py|prove|(?:go|cargo|dotnet|dart|flutter|npm|yarn|pnpm)"
    r"[ \t]+(?:run[ \t]+)?test|(?:mvn|gradlew?)\b[^\n]*\btest)\b"
)
_CLIENTS: tuple[tuple[str, str], ...] = (
    ("pip", r"\bpip[\d.]*[ \t]+install|\buv[ \t]+(?:pip|sync|run)|\bpoetry[ \t]+install|\btox\b"),
    ("npm", r"\b(?:npm[ \t]+(?:ci|install)|pnpm[ \t]+(?:install|i)|yarn(?:[ \t]+install)?|corepack|npx)\b"),
    ("gomod", r"\bgo[ \t]+(?:test|build|mod|get|install|run)\b"),
    ("cargo", r"\bcargo[ \t]+(?:test|build|fetch|nextest|run)\b"),
    ("maven", r"\b(?:mvnw?|gradlew?)\b"),
    ("composer", r"\bcomposer[ \t]+(?:install|update|require)\b"),
    ("rubygems", r"\b(?:bundle[ \t]+(?:install|exec)|gem[ \t]+install)\b"),
    ("nuget", r"\bdotnet[ \t]+(?:test|restore|build)\b"),
    ("pub", r"\b(?:dart|flutter)[ \t]+(?:pub|test)\b"),
    ("apt", r"\bapt(?:-get)?[ \t]+install\b"),
    ("git", r"git\+https|\bgit[ \t]+clone\b"),
)
_CLIENT_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _CLIENTS)


@dataclass(frozen=True)
class Declared:
    """What a script does for one profile; without a command, `reason` says why no rule found one."""

    command: str = ""
    results: str = ""
    reason: str = ""
    registries: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    replaces: tuple[tuple[str, str], ...] = ()
    images: tuple[tuple[str, str], ...] = ()


def read_profile(script: str, profile: str, moved: dict[str, str]) -> Declared:
    """Return what a script does for one profile; `moved` maps places of checkouts to those in our images."""
    whole = _CONTINUED.sub(" ", script)
    found = re.search(_ARM.format(name=re.escape(profile)), whole, re.MULTILINE | re.DOTALL)
    if found is None:
        return Declared(reason=f"run_profile.sh has no branch for the profile {profile}", images=_images(whole))
    arm = _move(found[1], moved)
    around = _move(whole, moved)
    command, results, reason = _command(arm)
    return Declared(
        command,
        results,
        reason,
        tuple(name for name, pattern in _CLIENT_PATTERNS if pattern.search(arm)),
        tuple(_environment(around)),
        tuple((match[1], match[2]) for match in _REPLACE.finditer(arm)),
        _images(whole),
    )


def read_registries(script: str) -> tuple[str, ...]:
    """Return the kinds of registries that a script asks anywhere."""
    return tuple(name for name, pattern in _CLIENT_PATTERNS if pattern.search(_CONTINUED.sub(" ", script)))


def _move(text: str, moved: dict[str, str]) -> str:
    for old in sorted(moved, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-])(?:\$\{{?workspace\}}?/|/workspace/){re.escape(old)}(?![\w.-])", moved[old], text)
    return text


def _images(script: str) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((match[1], match[2]) for match in _IMAGE.finditer(script)))


def _environment(script: str) -> list[tuple[str, str]]:
    found = {match[1]: match[2].strip("\"'") for match in _EXPORT.finditer(script)}
    return sorted(
        (name, value) for name, value in found.items() if not _FOREIGN.search(value) and not name.startswith("WIDESWE_")
    )


def _command(arm: str) -> tuple[str, str, str]:
    lines = [line.strip().strip("'\"").strip() for line in re.split(r"\n|&&|;(?!;)", arm)]
    tests = [line for line in lines if _ANY_RUNNER.search(line) and not line.startswith(("#", "echo", "printf"))]
    tests = [
        line
        for line in tests
        if not re.match(r"(?:\S+[ \t]+)*?(?:pip|uv|npm|yarn|pnpm)[\d.]*[ \t]+(?:add|install)", line)
    ]
    if not tests:
        return "", "", "no test command that a rule knows"
    if len(tests) > 1:
        return "", "", f"{len(tests)} test commands in one profile"
    for results, runner, report in _RUNNERS:
        match = re.search(rf"^{runner}", _GUARDED.sub("", tests[0]))
        if match is not None:
            return _declared(_GUARDED.sub("", tests[0]), results, report)
    return "", "", "a test command whose results no rule can read"


def _declared(line: str, results: str, report: str) -> tuple[str, str, str]:
    command = line
    if report:
        option = next(option for name, option in _OPTION.items() if re.search(rf"\b{name}\b", line))
        command = re.sub(report, lambda _match: option, command, count=1)
    command = _REDIRECTION.sub("", command).strip()
    if results in ("cargo-text", "django-text"):
        command += " 2>&1"
    foreign = _FOREIGN.search(command.replace("$WIDESWE_REPORT", ""))
    if foreign is not None:
        return "", "", f"its test command needs what only the script knows: {foreign[0]!r}"
    return command, results, ""
