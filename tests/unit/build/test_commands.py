from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import InputError
from packager.base.processes import Surroundings, run
from packager.build.commands import dependency_command, in_build_order, prepare_command, wiring_commands
from packager.recipe.model import Link, Toolchain
from tests.support.small_suite import TASK, SmallSuite, make_suite

if TYPE_CHECKING:
    from pathlib import Path

    from packager.recipe.model import Recipe, Target

PIP_OPTIONS = "--quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check"


@pytest.fixture
def suite(tmp_path: Path) -> SmallSuite:
    return make_suite(tmp_path)


def changed(target: Target, **values: Any) -> Target:
    return target.model_copy(update=values)


def linked(recipe: Recipe, *links: tuple[str, str]) -> Recipe:
    found = tuple(
        Link(consumer=consumer, producer=producer, how="checkout", check="true") for consumer, producer in links
    )
    return recipe.model_copy(update={"links": found})


def test_dependencies_run_where_the_checkout_will_be(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    maker = recipe.target("maker")
    assert dependency_command(maker) == "mkdir -p /workspace/maker && cd /workspace/maker && install deps.txt"
    assert dependency_command(changed(maker, dependencies=("a; b", "c"))) == (
        "mkdir -p /workspace/maker && cd /workspace/maker && { a; b; } && c"
    )
    assert dependency_command(changed(maker, manifests=("web/yarn.lock",))).endswith(
        "&& install deps.txt && rm -rf /root/.cache/yarn"
    )
    assert dependency_command(recipe.target("user")) == ""
    assert dependency_command(changed(recipe.target("user"), manifests=("yarn.lock",))) == ""


def test_prepare_wires_then_prepares_then_proves_that_the_checkout_is_loaded(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    assert prepare_command(recipe, recipe.target("user")) == "cd /workspace/user && make all && sh loads-maker"
    assert prepare_command(recipe, recipe.target("maker")) == ""


def test_a_command_of_several_lines_is_refused_by_target(suite: SmallSuite) -> None:
    maker = changed(suite.recipe().target("maker"), dependencies=("one\ntwo",))
    with pytest.raises(InputError) as caught:
        dependency_command(maker)
    assert str(caught.value) == (
        "maker: a command spans lines: 'one\\ntwo'\n"
        "hint: write one command per list item, or put a script beside the recipe"
    )


@pytest.mark.parametrize(
    ("how", "commands"),
    [
        ("checkout", ()),
        (
            "pip-editable",
            (f"/opt/env/user/bin/python -m pip install {PIP_OPTIONS} --editable /workspace/maker",),
        ),
        (
            "go-replace",
            (
                "mkdir -p /opt/env/user",
                "cp /workspace/user/go.mod /workspace/user/go.sum /opt/env/user/",
                'XDG_CONFIG_HOME=/tmp/config go mod edit -replace="$(sed -n "s/^module //p" /workspace/maker/go.mod)=/workspace/maker" /opt/env/user/go.mod',
            ),
        ),
        (
            "node-modules",
            (
                "mkdir -p $(dirname /workspace/user/node_modules/maker)",
                "ln -sfn /workspace/maker /workspace/user/node_modules/maker",
            ),
        ),
    ],
)
def test_each_way_of_wiring_is_its_own_commands(how: Any, commands: tuple[str, ...]) -> None:
    assert wiring_commands(Link(consumer="user", producer="maker", how=how, check="true")) == commands


def test_an_environment_that_the_recipe_names_is_used() -> None:
    link = Link(consumer="user", producer="maker", how="pip-editable", environment="/opt/other", check="true")
    assert wiring_commands(link)[0].startswith("/opt/other/bin/python -m pip ")


def test_producers_are_built_before_their_consumers(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    for links, order in (((("user", "maker"),), ["maker", "user"]), ((("maker", "user"),), ["user", "maker"])):
        assert [target.name for target in in_build_order(linked(recipe, *links))] == order


def test_links_in_a_circle_are_refused(suite: SmallSuite) -> None:
    with pytest.raises(InputError) as caught:
        in_build_order(linked(suite.recipe(), ("user", "maker"), ("maker", "user")))
    assert str(caught.value) == f"{TASK}: links: links run in a circle: maker, user"


def test_what_cargo_keeps_of_time_and_disk_is_taken_away_after_its_dependencies(
    suite: SmallSuite, tmp_path: Path
) -> None:
    rust = changed(suite.recipe().target("maker"), toolchain=Toolchain(rust="1.94.1"), dependencies=("true",))
    command = dependency_command(rust)
    assert command.startswith("mkdir -p /workspace/maker && cd /workspace/maker && true && { cargo_home=")
    kept = ("registry/index/x/.cache/a", "git/db/x/HEAD", "git/checkouts/x/1/src/index", "git/checkouts/x/1/.git/HEAD")
    gone = (".global-cache", "git/db/x/FETCH_HEAD", "git/checkouts/x/1/.git/index", "git/checkouts/x/1/.git/logs/HEAD")
    for name in (*kept, *gone):
        path = tmp_path / ".cargo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    tidy = command.partition(" && true && ")[2]
    done = run(["/bin/sh", "-ec", tidy], Surroundings(env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}))
    assert (done.exit_code, done.stderr) == (0, b"")
    left = {str(path.relative_to(tmp_path / ".cargo")) for path in (tmp_path / ".cargo").rglob("*") if path.is_file()}
    assert left == set(kept)
    empty = run(["/bin/sh", "-ec", tidy], Surroundings(env={"HOME": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}))
    assert (empty.exit_code, empty.stderr) == (0, b"")
