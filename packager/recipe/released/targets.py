"""What a released case says about how one target is prepared and tested, as the keys of a recipe's target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import InputError
from packager.recipe.released.access import mapping, mappings, text, texts
from packager.recipe.released.scripts import Declared, read_profile, read_registries

if TYPE_CHECKING:
    from packager.recipe.released.case_files import CaseFiles
    from packager.recipe.released.values import Findings

_EXACT = re.compile(r"\d+\.\d+\.\d+")
_DEBIAN_PYTHON = "3.11"
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|_KEY\b")
_FILE_NAMES = re.compile(r"(?:^|[\s\"'/])((?:run_[\w-]+_inside|run_tap_junit)\.sh)\b")
_DOCKERFILE = re.compile(r"environment/([\w./-]*Dockerfile[\w.-]*|[\w./-]+\.Dockerfile)")
_DEPENDENCIES = {
    "gotest-json": (
        ["GOTOOLCHAIN=local GOFLAGS=-modcacherw XDG_CONFIG_HOME=/tmp/config go mod download"],
        ["go.mod", "go.sum"],
    ),
}
_ENVIRONMENT = {
    "gotest-json": {"GOFLAGS": "-buildvcs=false", "GOPROXY": "off", "GOSUMDB": "off", "GOTOOLCHAIN": "local"},
}


@dataclass(frozen=True)
class Parts:
    """The files of a case that say how targets are tested; `places` maps their checkouts to ours."""

    files: CaseFiles
    found: Findings
    harness: dict[str, Any]
    profiles: dict[str, Any]
    script: str | None
    places: dict[str, str]

    def hidden_patch(self, name: str) -> str:
        """Return where the hidden tests of a target are."""
        rows = [row for row in mappings(self.harness, "hidden_test_patches") if text(row, "repo") == name]
        paths = list(dict.fromkeys(path for row in rows if (path := text(row, "patch"))))
        if len(paths) > 1:
            self.found.need(f"{name}: {len(paths)} hidden patches, of which a recipe takes one")
        return paths[0] if paths else f"hidden/patches/{name}-hidden-tests.patch"

    def profiles_of(self, name: str) -> list[str]:
        """Return the profiles that judge a target, in order: those of its hidden patches, else those that name it."""
        rows = [row for row in mappings(self.harness, "hidden_test_patches") if text(row, "repo") == name]
        named = [one for row in rows if (one := text(row, "test_profile"))]
        known = mapping(self.profiles, "profiles")
        ready = [one for one in known if text(mapping(known, one), "repo") == name]
        hidden = {
            one
            for group in mapping(self.harness, "profile_sets").values()
            if isinstance(group, dict)
            for one in texts(group, "hidden_tests")
        }
        return list(dict.fromkeys([*named, *(one for one in ready if one in hidden or not named)]))


def target_of(name: str, place: str, parts: Parts) -> dict[str, Any]:
    """Return the keys of a target that say how it is tested; keys that begin with _ are for the whole recipe."""
    profiles = parts.profiles_of(name)
    declared = _declared(name, profiles, parts)
    parts.found.registries.update(declared.registries)
    workdir = _workdir(place, profiles, parts)
    target: dict[str, Any] = {"_links": _links(name, declared, parts), "_packages": _packages(declared)}
    target["toolchain"] = toolchain_of(name, declared, parts.found)
    commands, manifests = _DEPENDENCIES.get(declared.results, ([], []))
    target |= {"manifests": manifests, "dependencies": commands}
    if not commands and declared.command:
        parts.found.need(f"{name}: commands that install its dependencies, with exact versions")
    if declared.command:
        environment = dict(_ENVIRONMENT.get(declared.results, {})) | _kept_environment(declared, parts)
        target["test"] = {"run": declared.command, "workdir": workdir, "results": declared.results}
        target["test"] |= {"env": environment} if environment else {}
    _note_files(parts)
    return target


def _declared(name: str, profiles: list[str], parts: Parts) -> Declared:
    if parts.script is None:
        parts.found.need(f"{name}: its test command (environment/run_profile.sh is missing from the case)")
        return Declared()
    if not profiles:
        parts.found.need(f"{name}: its test command (no profile names it)")
        return Declared(registries=read_registries(parts.script))
    read = [read_profile(parts.script, profile, parts.places) for profile in profiles]
    if len(read) > 1:
        parts.found.need(f"{name}: one test command for {len(read)} profiles ({', '.join(profiles)})")
        kinds = tuple(sorted({kind for one in read for kind in one.registries}))
        return Declared(registries=kinds, images=read[0].images)
    if not read[0].command:
        parts.found.need(f"{name}: its test command ({read[0].reason})")
    return read[0]


def _workdir(place: str, profiles: list[str], parts: Parts) -> str:
    known = mapping(parts.profiles, "profiles")
    stated = next((one for profile in profiles if (one := text(mapping(known, profile), "workdir"))), place).strip("/")
    inside = stated.removeprefix(place).strip("/")
    plain = stated.startswith(place) and ".." not in inside.split("/")
    return inside or "." if plain else "."


def _kept_environment(declared: Declared, parts: Parts) -> dict[str, str]:
    kept = {}
    for key, value in declared.environment:
        if _SECRET.search(key):
            parts.found.note(f"the script passes {key} into the tests; left out")
        elif key not in ("HOME", "CI") and "CACHE" not in key:
            kept[key] = value
    return kept


def _links(name: str, declared: Declared, parts: Parts) -> list[dict[str, Any]]:
    links = []
    folders = {folder: folder.rpartition("/")[2] for folder in parts.places.values()}
    for module, folder in declared.replaces:
        producer = folders.get(folder.rstrip("/"))
        if producer is None or producer == name:
            parts.found.need(f"{name}: a Go replacement of {module} by {folder}, which is no target")
            continue
        check = f"test \"$(go list -m -f '{{{{.Dir}}}}' {module})\" = /workspace/{producer}"
        links.append({"consumer": name, "producer": producer, "how": "go-replace", "check": check})
    return links


def _packages(declared: Declared) -> list[str]:
    kinds = {kind for kind, _ in declared.images}
    return ["python3", "python3-venv"] if any("python" in kind for kind in kinds) else []


def toolchain_of(name: str, declared: Declared, found: Findings) -> dict[str, str]:
    """Return the toolchain whose exact version the image's name tells; another one is for a person to pin."""
    wanted = {"gotest-json": "go", "cargo-text": "rust", "jest-json": "node"}.get(declared.results)
    if wanted is None and "npm" in declared.registries:
        wanted = "node"
    if wanted is None:
        pythons = [tag for kind, tag in declared.images if "python" in kind and not tag.startswith(_DEBIAN_PYTHON)]
        for tag in pythons if "pip" in declared.registries else ():
            found.need(f"{name}: Python as in {tag}; Debian's own is {_DEBIAN_PYTHON}")
        return {}
    names = {"go": ("go", "golang"), "rust": ("rust", "base-rust"), "node": ("node",)}[wanted]
    tags = list(dict.fromkeys(tag for kind, tag in declared.images if kind in names))
    exact = [match[0] for tag in tags if (match := _EXACT.match(tag))]
    if len(exact) == 1 and len(tags) == 1:
        return {wanted: exact[0]}
    seen = f" (the script says {', '.join(tags)})" if tags else ""
    found.need(f"{name}: the exact version of {wanted}{seen}")
    return {}


def _note_files(parts: Parts) -> None:
    script = parts.script or ""
    if "/opt/ecosyncbench" in script:
        parts.found.note("run_profile.sh assumes the path /opt/ecosyncbench")
    if re.search(r"(?:\.\./){3,}", script):
        parts.found.note("run_profile.sh climbs out of its case")
    if "--network host" in script or "--network=host" in script:
        parts.found.note("run_profile.sh runs tests in the network of the host")
    for name in dict.fromkeys([*_DOCKERFILE.findall(script), *_FILE_NAMES.findall(script)]):
        try:
            absent = parts.files.read(f"environment/{name}") is None
        except InputError as error:
            parts.found.note(f"environment/{name} {error.reason}")
            continue
        if absent:
            parts.found.note(f"run_profile.sh needs environment/{name}, which is not in the case")
