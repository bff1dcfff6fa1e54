"""One good recipe, with every file that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

A, B, C, D, E = (letter * 40 for letter in "abcde")

GOOD = f"""\
schema: wideswe-recipe/1
id: hello-wide-001
kind: feature
relation: producer-consumer
ecosystem: hello
cutoff: "2025-12-01T15:06:06Z"
prompt: hello-wide-001/prompt.md
platforms: [linux/amd64]
base: {{debian: bookworm, packages: [python3, git, ca-certificates]}}
template: task.Dockerfile.j2
targets:
  - name: greet
    bundle: hello-wide-001/greet.bundle
    commit: {A}
    gold: {{commit: {B}, exclude: ["**/*_test.go"]}}
    hidden: {{commit: {B}, paths: ["*_test.go"]}}
    toolchain: {{go: "1.26.0"}}
    manifests: [go.mod, go.sum]
    dependencies: [go mod download]
    prepare: [go vet ./...]
    test: {{run: "go test -json -count=1 .", results: gotest-json, timeout: 20m, env: {{K: V}}}}
    protect: [go.mod]
  - name: Caller
    repo: https://example.org/hello/caller.git
    commit: {C}
    gold: {{patch: hello-wide-001/caller.patch}}
    hidden: {{files: hello-wide-001/hidden/caller}}
    history: none
    test:
      run: pytest --junitxml "$WIDESWE_REPORT"
      results: junit-xml
contexts:
  - {{name: docs, repo: https://example.org/hello/docs, commit: {D}}}
links:
  - {{consumer: Caller, producer: greet, how: pip-editable, environment: /opt/env/caller, check: python -c 1}}
services: []
limits: {{cpus: 2, memory: 4G, pids: 4096}}
"""


def place_recipe(root: Path) -> Path:
    """Write GOOD and every file that it names below `root`; return the path of the recipe."""
    task = root / "recipes" / "hello-wide-001"
    (task / "hidden" / "caller").mkdir(parents=True)
    (task / "hidden" / "caller" / "test_x.py").write_text("def test_x(): pass\n")
    for name in ("prompt.md", "greet.bundle", "caller.patch"):
        (task / name).write_text("something\n")
    (root / "images").mkdir()
    (root / "images" / "task.Dockerfile.j2").write_text("FROM scratch\n")
    recipe = root / "recipes" / "hello-wide-001.yaml"
    recipe.write_text(GOOD)
    return recipe
