"""From a recipe to the text of its Dockerfile, and the shell commands in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from packager.base.errors import InputError
from packager.build.commands import dependency_command, in_build_order, prepare_command, wiring_commands
from packager.build.render import render_dockerfile, template_path, toolchain_kinds
from packager.recipe.model import Link, Recipe

IMAGES = Path(__file__).parents[3] / "images"
TEMPLATE = (IMAGES / "task.Dockerfile.j2").read_text()
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def target(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "repo": f"https://git.invalid/{name}",
        "commit": "a" * 40,
        "gold": {"commit": "b" * 40},
        "hidden": {"files": f"t/{name}"},
        "test": {"run": "make", "results": "tap"},
        **more,
    }


def recipe(*targets: dict[str, Any], **more: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "schema": "wideswe-recipe/1",
            "id": "t-001",
            "kind": "feature",
            "relation": "parallel",
            "ecosystem": "made-up",
            "prompt": "t/prompt.md",
            "base": {"debian": "bookworm"},
            "targets": list(targets),
            **more,
        }
    )


def render(one: Recipe, **more: Any) -> str:
    text = render_dockerfile(one, template=TEMPLATE, platform="linux/amd64", **{"sealed": False, **more})
    return "\n".join(
        line for line in text.splitlines() if line and not line.startswith(("# t-001", "# Every", "# named"))
    )


BOOTSTRAP = """\
FROM scratch AS bootstrap
ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TZ=UTC DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true SOURCE_DATE_EPOCH=315532800
ADD inputs/bootstrap.tar /
# step: bootstrap
RUN sh /.debs/configure
"""
ENVIRONMENT = "HOME=/root LANG=C.UTF-8 LC_ALL=C.UTF-8 TZ=UTC SOURCE_DATE_EPOCH=315532800 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1"
END = """\
# The repositories: contexts first, since other tasks share them
ADD inputs/history-one.tar /
ADD inputs/target-one.tar /
ADD inputs/task.tar /
WORKDIR /workspace
CMD ["/bin/sh"]"""
MOUNT_POINTS = (
    "# Empty files for engines to mount their own on: no name resolution, and nothing of the machine in a layer\n"
    "ADD inputs/mountpoints.tar /\n"
)
ONE = target("one", toolchain={"go": "1.26.0"}, manifests=["go.mod"], dependencies=["go mod download"])


def test_a_task_whose_gold_keeps_its_dependencies() -> None:
    assert render(recipe(ONE)) == (
        f"{BOOTSTRAP}FROM scratch\nCOPY --from=bootstrap / /\n"
        f"{MOUNT_POINTS}"
        f"ENV PATH=/opt/toolchains/go/bin:{PATH} {ENVIRONMENT}\n"
        "ADD inputs/toolchain-go.tar /\n"
        "# one: what its lock files ask for\n"
        "ADD inputs/manifests-one.tar /\n"
        "# step: one/dependencies\n"
        "RUN mkdir -p /workspace/one && cd /workspace/one && go mod download\n"
        f"{END}"
    )


def test_a_task_whose_gold_changes_its_dependencies_gets_both_from_a_stage_of_its_own() -> None:
    assert render(recipe(ONE), gold={"one"}) == (
        f"{BOOTSTRAP}FROM scratch AS environment\nCOPY --from=bootstrap / /\n"
        f"{MOUNT_POINTS}"
        f"ENV PATH=/opt/toolchains/go/bin:{PATH} {ENVIRONMENT}\n"
        "ADD inputs/toolchain-go.tar /\n"
        "# What gold's lock files ask for, then what base's do, so that both can be tested without network. It happens in a stage\n"
        "# of its own, since the image takes what was installed, and neither gold's files nor what base's commands took away again.\n"
        "FROM environment AS dependencies\n"
        "ADD inputs/gold-manifests-one.tar /\n"
        "# step: one/gold/dependencies\n"
        "RUN mkdir -p /workspace/one && cd /workspace/one && go mod download\n"
        "RUN rm -rf /workspace/one\n"
        "# one: what its lock files ask for\n"
        "ADD inputs/manifests-one.tar /\n"
        "# step: one/dependencies\n"
        "RUN mkdir -p /workspace/one && cd /workspace/one && go mod download\n"
        "FROM environment\n"
        "COPY --from=dependencies / /\n"
        f"{END}"
    )


def test_a_base_image_replaces_the_bootstrap() -> None:
    image = f"registry.invalid/base@sha256:{'0' * 64}"
    text = render(recipe(target("one"), base={"image": image}), sealed=True)
    assert text == f"FROM {image}\nENTRYPOINT []\nENV PATH={PATH} {ENVIRONMENT}\n" + END.replace(
        "ADD inputs/task.tar /", "ADD inputs/task.tar /\nADD inputs/seal.tar /"
    )
    assert f"FROM {image} AS environment\n" in render(recipe(ONE, base={"image": image}), gold={"one"})


def test_a_template_that_does_not_render_is_named() -> None:
    with pytest.raises(InputError) as caught:
        render_dockerfile(recipe(ONE), template="FROM {{ nothing }}\n", platform="linux/amd64", sealed=False)
    assert str(caught.value) == "task.Dockerfile.j2: template does not render: 'nothing' is undefined"


def test_a_template_that_is_not_there_is_named_with_those_that_are() -> None:
    assert template_path(IMAGES, recipe(ONE)) == IMAGES / "task.Dockerfile.j2"
    with pytest.raises(InputError) as caught:
        template_path(IMAGES, recipe(ONE, template="other.j2"))
    assert str(caught.value) == "t-001: template 'other.j2' does not exist\nhint: templates: task.Dockerfile.j2"


def test_toolchains_of_all_targets_in_a_fixed_order() -> None:
    assert toolchain_kinds(
        recipe(target("b", toolchain={"node": "24.1.0"}), target("a", toolchain={"go": "1.26.0"}))
    ) == (
        "go",
        "node",
    )


def test_commands_with_shell_operators_are_grouped() -> None:
    one = recipe(target("one", dependencies=["a || b", "c"])).target("one")
    assert dependency_command(one) == "mkdir -p /workspace/one && cd /workspace/one && { a || b; } && c"
    assert dependency_command(recipe(target("one")).target("one")) == ""


def test_a_command_of_several_lines_is_refused() -> None:
    one = recipe(target("one", dependencies=["a\nb"])).target("one")
    with pytest.raises(InputError) as caught:
        dependency_command(one)
    assert str(caught.value) == (
        "one: a command spans lines: 'a\\nb'\nhint: write one command per list item, or put a script beside the recipe"
    )


def link(how: str, **more: str) -> Link:
    return Link.model_validate({"consumer": "use", "producer": "make", "how": how, "check": "true", **more})


def test_each_way_of_wiring_a_consumer_to_its_producer() -> None:
    assert wiring_commands(link("checkout")) == ()
    options = "--quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check"
    assert wiring_commands(link("pip-editable")) == (
        f"/opt/env/use/bin/python -m pip install {options} --editable /workspace/make",
    )
    assert wiring_commands(link("go-replace", environment="/opt/work")) == (
        "mkdir -p /opt/work",
        "cp /workspace/use/go.mod /workspace/use/go.sum /opt/work/",
        'XDG_CONFIG_HOME=/tmp/config go mod edit -replace="$(sed -n "s/^module //p" /workspace/make/go.mod)=/workspace/make" /opt/work/go.mod',
    )
    assert wiring_commands(link("node-modules")) == (
        "mkdir -p $(dirname /workspace/use/node_modules/make)",
        "ln -sfn /workspace/make /workspace/use/node_modules/make",
    )


def test_a_producer_is_built_before_its_consumer_and_the_consumer_proves_it() -> None:
    linked = recipe(
        target("a", prepare=["build"]),
        target("b"),
        relation="producer-consumer",
        links=[{"consumer": "a", "producer": "b", "how": "checkout", "check": "prove"}],
    )
    assert [one.name for one in in_build_order(linked)] == ["b", "a"]
    assert prepare_command(linked, linked.target("a")) == "cd /workspace/a && build && prove"
    assert prepare_command(linked, linked.target("b")) == ""
