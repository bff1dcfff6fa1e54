"""The recipe reader: what it accepts, and the whole text of what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.recipe.model import SharedHistory, plain_recipe, recipe_digest
from packager.recipe.reader import cutoff_problems, read_recipe, recipe_problems
from tests.support.recipe_texts import GOOD, A, B, C, D, E, place_recipe

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return place_recipe(tmp_path)


def said(place: Path, text: str) -> str:
    """What the reader says about `text`, without the folder, which differs from run to run."""
    place.write_text(text)
    with pytest.raises(InputError) as caught:
        read_recipe(place)
    assert caught.value.exit_code == 3
    return str(caught.value).replace(f"{place.parent}/hello-wide-001.yaml", "r.yaml")


def one(place: Path, old: str, new: str) -> str:
    """What the reader says after one replacement; there must be exactly one problem."""
    assert GOOD.count(old) >= 1, old
    head, _, rest = said(place, GOOD.replace(old, new, 1)).partition("\n")
    assert head == "1 problem", rest
    return rest


def test_a_good_recipe_becomes_a_frozen_value_with_units_and_defaults(place: Path) -> None:
    recipe = read_recipe(place)
    assert [target.name for target in recipe.targets] == ["Caller", "greet"]
    greet, caller = recipe.target("greet"), recipe.target("Caller")
    assert greet.test.timeout_s == 1200
    assert greet.test.env == (("K", "V"),)
    assert (greet.test.reads_stdout, caller.test.reads_stdout) == (True, False)
    assert greet.manifests == ("go.mod", "go.sum")
    assert (greet.history, caller.history, recipe.contexts[0].history) == ("ancestors", "none", "none")
    assert recipe.base.packages == ("ca-certificates", "git", "python3")
    assert recipe.limits.memory_bytes == 4 << 30
    assert recipe.cutoff_s == 1764601566
    assert recipe.file(recipe.prompt) == place.parent / "hello-wide-001" / "prompt.md"
    assert recipe.target("greet").gold.from_commit is None
    assert isinstance(hash(recipe), int)


def test_a_shared_history_names_one_commit(place: Path) -> None:
    place.write_text(GOOD.replace("    history: none\n", f"    history: {{shared: {E}}}\n"))
    recipe = read_recipe(place)
    assert recipe.target("Caller").history == SharedHistory(shared=E)
    [plain] = [one for one in plain_recipe(recipe)["targets"] if one["name"] == "Caller"]
    assert plain["history"] == {"shared": E}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("some", "expected 'none', 'ancestors' or a shared commit, found 'some' (hint: such as {shared: COMMIT})"),
        ("{from: x}", "expected 'none', 'ancestors' or a shared commit, found something else"),
        ("{shared: [x]}", "expected 'none', 'ancestors' or a shared commit, found something else"),
        ("{shared: abcdef1}", "expected the 40 digits of a commit, found 7: 'abcdef1'"),
    ],
)
def test_any_other_history_is_refused(place: Path, text: str, expected: str) -> None:
    assert one(place, "    history: none\n", f"    history: {text}\n").startswith(
        f"r.yaml:28: targets[1].history: {expected}"
    )


def test_the_digest_ignores_place_and_order_but_no_value(place: Path) -> None:
    first = recipe_digest(read_recipe(place))
    place.write_text(GOOD.replace("[python3, git, ca-certificates]", "[git, python3, ca-certificates, git]"))
    assert first == recipe_digest(read_recipe(place))
    place.write_text(GOOD.replace("20m", "1200s").replace("15:06:06Z", "16:06:06+01:00").replace("4G", "4096MiB"))
    assert first == recipe_digest(read_recipe(place))
    place.write_text(GOOD.replace("20m", "21m"))
    assert first != recipe_digest(read_recipe(place))


def test_plain_values_of_a_recipe_read_back_as_the_same_recipe(place: Path) -> None:
    recipe = read_recipe(place)
    assert type(recipe).model_validate(plain_recipe(recipe)).placed(place.parent) == recipe


ONE_FAULT = {
    "unknown key": ("ecosystem: hello", "ecosystem: hello\nplatfroms: []", "r.yaml:6: platfroms: unknown key (hint: did you mean platforms?)"),
    "unknown inner key": ("exclude:", "excludes:", "r.yaml:15: targets[0].gold.excludes: unknown key (hint: did you mean exclude?)"),
    "duplicate key": ("kind: feature", "kind: feature\nkind: bugfix", "r.yaml:4: kind: duplicate key, first at line 3 (hint: keep one of them)"),
    "bare no": ("ecosystem: hello", "ecosystem: no", 'r.yaml:5: ecosystem: the value no reads as true or false in YAML 1.1 (hint: quote it to keep the text: "no")'),
    "bare version": ('go: "1.26.0"', "go: 1.10", 'r.yaml:17: targets[0].toolchain.go: the value 1.10 is a number in YAML: 1.10 becomes 1.1 (hint: quote it to keep the text: "1.10")'),
    "integer version": ('go: "1.26.0"', "node: 22", 'r.yaml:17: targets[0].toolchain.node: expected a version as text, found the number 22 (hint: quote it: "22")'),
    "bare date": ('"2025-12-01T15:06:06Z"', "2025-12-01T15:06:06Z", 'r.yaml:6: cutoff: the value 2025-12-01T15:06:06Z is a date in YAML, not text (hint: quote it to keep the text: "2025-12-01T15:06:06Z")'),
    "base 60": ("K: V", "K: 1:30", 'r.yaml:21: targets[0].test.env.K: the value 1:30 is a number of base 60 in YAML 1.1 (hint: quote it to keep the text: "1:30")'),
    "octal": ("K: V", "K: 0644", 'r.yaml:21: targets[0].test.env.K: the value 0644 is an octal number in YAML 1.1 (hint: quote it to keep the text: "0644")'),
    "key on": ("K: V", "on: V", 'r.yaml:21: targets[0].test.env.on: the key on reads as true or false in YAML 1.1 (hint: quote it to keep the text: "on")'),
    "number as text": ("K: V", "K: 7", 'r.yaml:21: targets[0].test.env.K: expected text, found the number 7 (hint: quote it: "7")'),
    "truth as text": ("K: V", "K: true", 'r.yaml:21: targets[0].test.env.K: expected text, found true (hint: quote it: "true")'),
    "null": ("services: []", "services:", "r.yaml:36: services: the value is empty: YAML reads null (hint: remove the key, or give it a value)"),
    "short commit": (A, A[:12], "r.yaml:14: targets[0].commit: expected the 40 digits of a commit, found 12: 'aaaaaaaaaaaa' (hint: git rev-parse prints all 40)"),
    "upper commit": (A, A.upper(), f"r.yaml:14: targets[0].commit: expected a lower-case commit, found '{A.upper()}' (hint: write {A})"),
    "branch": (A, "main", "r.yaml:14: targets[0].commit: expected a commit of 40 hexadecimal digits, found 'main' (hint: branches and tags move)"),
    "sha256 commit": (A, "a" * 64, "r.yaml:14: targets[0].commit: expected a SHA-1 commit of 40 digits, found 64: SHA-256 repositories are not supported"),
    "base is gold": (f"gold: {{commit: {B}", f"gold: {{commit: {A}", "r.yaml:15: targets[0].gold.commit: the same commit as the base (hint: the base is what the agent sees; gold must be something else)"),
    "empty change": (f"gold: {{commit: {B},", f"gold: {{commit: {B}, from: {B},", "r.yaml:15: targets[0].gold.from: the same commit as the gold commit: the change is empty"),
    "context holds gold": (D, B, "r.yaml:33: contexts[0].commit: this commit is the answer at targets[0].hidden (hint: a checkout must not hold gold)"),
    "left out with history": ("    commit: " + A, "    leave_out: [big.gif]\n    commit: " + A, "r.yaml:14: targets[0].leave_out: files can be left out only where history is none (hint: write history: none; older commits would hold the files)"),
    "same name": ("name: docs", "name: greet", "r.yaml:33: contexts[0].name: the folder /workspace/greet is taken by targets[0] (hint: give every target and context a name of its own)"),
    "name by case": ("name: docs", "name: GREET", "r.yaml:33: contexts[0].name: the folder /workspace/GREET is different from 'greet' only by case, at targets[0] (hint: give every target and context a name of its own)"),
    "same repository": ("hello/docs,", "Hello/caller,", "r.yaml:33: contexts[0].repo: the same repository as targets[1] (hint: a second checkout could show what the first must hide)"),
    "name with slash": ("name: docs", "name: ../docs", "r.yaml:33: contexts[0].name: expected a folder name of letters, digits, . _ -, found '../docs'"),
    "no source": ("    bundle: hello-wide-001/greet.bundle\n", "", "r.yaml:12: targets[0]: expected repo or bundle, found neither (hint: name where the commit can be had)"),
    "password": ("https://example.org/hello/docs", "https://me:pw@example.org/docs", "r.yaml:33: contexts[0].repo: expected an address without user and password (hint: credentials belong in git's configuration)"),
    "plain http": ("https://example.org/hello/docs", "http://example.org/docs", "r.yaml:33: contexts[0].repo: expected https://host/path, found 'http://example.org/docs' (hint: mirrors belong in the configuration)"),
    "no test": ('    test: {run: "go test -json -count=1 .", results: gotest-json, timeout: 20m, env: {K: V}}\n', "", "r.yaml:12: targets[0]: missing key test: a target without tests"),
    "no hidden": (f'    hidden: {{commit: {B}, paths: ["*_test.go"]}}\n', "", "r.yaml:12: targets[0]: missing key hidden: a target without hidden tests"),
    "hidden without paths": (', paths: ["*_test.go"]', "", "r.yaml:16: targets[0].hidden: expected paths of a commit, or files, found neither (hint: the hidden tests judge)"),
    "paths without commit": (f"hidden: {{commit: {B}, ", "hidden: {", "r.yaml:16: targets[0].hidden.paths: paths without a commit to take them from (hint: add hidden.commit)"),
    "gold both": ("gold: {patch:", f"gold: {{commit: {E}, patch:", "r.yaml:26: targets[1].gold: expected commit or patch, found both (hint: keep the one that solves the task)"),
    "gold neither": (f"gold: {{commit: {B}, ", "gold: {", "r.yaml:15: targets[0].gold: expected commit or patch, found neither"),
    "patch with include": ("gold: {patch: hello-wide-001/caller.patch}", "gold: {patch: hello-wide-001/caller.patch, include: [src/**]}", "r.yaml:26: targets[1].gold.include: include selects from a commit, but gold is a patch file"),
    "missing prompt": ("001/prompt.md", "001/prompts.md", "r.yaml:7: prompt: no such file beside the recipe: hello-wide-001/prompts.md"),
    "missing bundle": ("greet.bundle", "greeter.bundle", "r.yaml:13: targets[0].bundle: no such file beside the recipe: hello-wide-001/greeter.bundle"),
    "escaping prompt": ("hello-wide-001/prompt.md", "../prompt.md", "r.yaml:7: prompt: expected a plain path inside the tree, found '../prompt.md'"),
    "files is a file": ("hidden/caller}", "prompt.md}", "r.yaml:27: targets[1].hidden.files: expected a folder, found a file: hello-wide-001/prompt.md"),
    "prompt is a folder": ("001/prompt.md", "001/hidden", "r.yaml:7: prompt: expected a file, found something else: hello-wide-001/hidden"),
    "absolute protect": ("protect: [go.mod]", "protect: [/go.mod]", "r.yaml:22: targets[0].protect[0]: expected a glob relative to the checkout, found '/go.mod' (hint: drop the /)"),
    "escaping glob": ('paths: ["*_test.go"]', 'paths: ["a/../../x"]', "r.yaml:16: targets[0].hidden.paths[0]: expected a glob without empty, . and .. parts, found 'a/../../x'"),
    "unknown link": ("producer: greet", "producer: great", "r.yaml:35: links[0].producer: expected the name of a target, found 'great' (hint: targets: Caller, greet)"),
    "link to itself": ("producer: greet", "producer: Caller", "r.yaml:35: links[0]: Caller is linked to itself"),
    "link without environment": ("environment: /opt/env/caller, ", "", "r.yaml:35: links[0]: missing key environment: where the consumer's Python is (hint: such as /opt/env/Caller)"),
    "link how": ("how: pip-editable", "how: symlink", "r.yaml:35: links[0].how: expected 'pip-editable', 'go-replace', 'node-modules' or 'checkout', found 'symlink'"),
    "memory": ("memory: 4G", "memory: 4GG", "r.yaml:37: limits.memory: expected a size with a unit, found '4GG' (hint: write 512M or 4G; K, M, G and T are powers of 1024)"),
    "memory without unit": ("memory: 4G", "memory: 4", "r.yaml:37: limits.memory: expected a size with a unit, found the number 4 (hint: write 512M or 4G; K, M, G and T are powers of 1024)"),
    "small memory": ("memory: 4G", "memory: 1M", "r.yaml:37: limits.memory: expected between 64M and 1T, found '1M'"),
    "no cpu": ("cpus: 2", "cpus: 0", "r.yaml:37: limits.cpus: Input should be greater than or equal to 1, found the number 0"),
    "half cpu": ("cpus: 2", "cpus: 1.5", 'r.yaml:37: limits.cpus: the value 1.5 is a number in YAML: 1.10 becomes 1.1 (hint: quote it to keep the text: "1.5")'),
    "timeout without unit": ("timeout: 20m", "timeout: 20", "r.yaml:21: targets[0].test.timeout: expected a duration with a unit, found the number 20 (hint: write 90s, 20m, 2h or 1h30m)"),
    "long timeout": ("timeout: 20m", "timeout: 3h", "r.yaml:21: targets[0].test.timeout: expected a timeout between 1s and 2h, found '3h'"),
    "no timeout": ("timeout: 20m", "timeout: 0s", "r.yaml:21: targets[0].test.timeout: expected a timeout between 1s and 2h, found '0s'"),
    "platform": ("[linux/amd64]", "[windows/amd64]", "r.yaml:8: platforms[0]: expected 'linux/amd64' or 'linux/arm64', found 'windows/amd64'"),
    "no platform": ("[linux/amd64]", "[]", "r.yaml:8: platforms: expected at least one platform (hint: such as linux/amd64)"),
    "all digits commit": (A, "1" * 40, f'r.yaml:14: targets[0].commit: the value {"1" * 40} is a number in YAML (hint: quote it to keep the text: "{"1" * 40}")'),
    "platform as text": ("[linux/amd64]", "linux/amd64", "r.yaml:8: platforms: expected a list, found 'linux/amd64' (hint: write [linux/amd64])"),
    "base both": ("debian: bookworm, packages: [python3, git, ca-certificates]", f"debian: bookworm, image: a.b/c@sha256:{'0' * 64}", "r.yaml:9: base: expected debian or image, found both (hint: keep the one that the task is built on)"),
    "base neither": ("debian: bookworm, packages: [python3, git, ca-certificates]", "", "r.yaml:9: base: expected debian or image, found neither (hint: such as debian: bookworm)"),
    "image by tag": ("debian: bookworm, packages: [python3, git, ca-certificates]", "image: 'a.b/c:latest'", "r.yaml:9: base.image: expected registry/repository@sha256: and 64 hexadecimal digits, found 'a.b/c:latest' (hint: a tag can move; take the digest that the registry shows)"),
    "template": ("task.Dockerfile.j2", "tusk.Dockerfile.j2", "r.yaml:10: template: no template 'tusk.Dockerfile.j2' in images/ (hint: templates there: task.Dockerfile.j2)"),
    "cutoff": ("2025-12-01T15:06:06Z", "2025-12-01 15:06", "r.yaml:6: cutoff: expected an RFC 3339 time, found '2025-12-01 15:06' (hint: write \"2025-12-01T15:06:06Z\")"),
    "cutoff day": ("2025-12-01T15:06:06Z", "2025-02-30T15:06:06Z", "r.yaml:6: cutoff: expected an RFC 3339 time, found '2025-02-30T15:06:06Z': day is out of range for month"),
    "results": ("results: gotest-json", "results: xunit", "r.yaml:21: targets[0].test.results: expected 'junit-xml', 'gotest-json', 'tap', 'cargo-text', 'dart-json', 'django-text', 'exit-status', 'jest-json', 'libtest-json', 'prove', 'trx', 'unittest-text' or 'vitest-json', found 'xunit'"),
    "id": ("id: hello-wide-001", "id: Hello_wide", "r.yaml:2: id: expected lower-case words joined by -, found 'Hello_wide' (hint: such as hello-wide-001)"),
    "schema": ("wideswe-recipe/1", "wideswe-recipe/2", "r.yaml:1: schema: expected 'wideswe-recipe/1', found 'wideswe-recipe/2'"),
    "own variable": ("K: V", "WIDESWE_REPORT: x", "r.yaml:21: targets[0].test.env.WIDESWE_REPORT: expected a variable name that does not begin with WIDESWE_, found 'WIDESWE_REPORT'"),
    "empty command": ("go mod download", '" "', "r.yaml:19: targets[0].dependencies[0]: expected a command of 1 to 8000 characters"),
    "python tag": ("ecosystem: hello", "ecosystem: !!python/name:os.system x", "r.yaml:5: ecosystem: tags are not part of a recipe: tag:yaml.org,2002:python/name:os.system (hint: remove it)"),
    "surrogate": ("ecosystem: hello", 'ecosystem: "he\\ud800llo"', "r.yaml:5: ecosystem: a surrogate escape is no character"),
    "merge key": ("{K: V}", "{K: V, <<: {L: W}}", "r.yaml:21: targets[0].test.env.<<: merge keys are not part of a recipe (hint: write the values out)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_FAULT)
def test_each_fault_is_named_with_its_line_and_a_hint(place: Path, name: str) -> None:
    old, new, expected = ONE_FAULT[name]
    assert expected == one(place, old, new)


def test_all_faults_of_a_file_come_in_one_run_sorted_by_line(place: Path) -> None:
    text = (
        GOOD.replace(A, "abc1234")
        .replace("kind: feature", "kind: fix")
        .replace('go: "1.26.0"', "go: 1.10")
        .replace("001/prompt.md", "001/none.md")
        .replace("producer: greet", "producer: gret")
        .replace("20m", "20")
    )
    expected = [
        "6 problems",
        "r.yaml:3: kind: expected 'feature' or 'bugfix', found 'fix'",
        "r.yaml:7: prompt: no such file beside the recipe: hello-wide-001/none.md",
        "r.yaml:14: targets[0].commit: expected the 40 digits of a commit, found 7: 'abc1234' (hint: git rev-parse prints all 40)",
        'r.yaml:17: targets[0].toolchain.go: the value 1.10 is a number in YAML: 1.10 becomes 1.1 (hint: quote it to keep the text: "1.10")',
        "r.yaml:21: targets[0].test.timeout: expected a duration with a unit, found the number 20 (hint: write 90s, 20m, 2h or 1h30m)",
        "r.yaml:35: links[0].producer: expected the name of a target, found 'gret' (hint: targets: Caller, greet)",
    ]
    assert expected == said(place, text).splitlines()


def test_more_than_twenty_contexts_and_more_than_three_targets_are_refused(place: Path) -> None:
    contexts = "".join(f"  - {{name: c{n}, repo: https://e.org/c{n}, commit: {n:039x}f}}\n" for n in range(20))
    assert (
        one(place, "contexts:\n", f"contexts:\n{contexts}")
        == "r.yaml:32: contexts: expected at most 20 contexts, found 21"
    )
    start, end = GOOD.index("  - name: Caller"), GOOD.index("contexts:")
    more = "".join(
        GOOD[start:end].replace("Caller", f"T{n}").replace("caller.git", f"t{n}").replace(C, f"e{n}" * 20)
        for n in (1, 2)
    )
    assert one(place, "contexts:\n", f"{more}contexts:\n") == "r.yaml:11: targets: expected 1 to 3 targets, found 4"


def test_a_producer_and_consumer_without_links_are_refused(place: Path) -> None:
    start, end = GOOD.index("links:"), GOOD.index("services:")
    assert one(place, GOOD[start:end], "") == (
        "r.yaml:4: relation: producer-consumer without links"
        " (hint: say how the consumer is tested against the producer's checkout, or relation: parallel)"
    )


def test_links_in_a_circle_are_refused(place: Path) -> None:
    more = "  - {consumer: greet, producer: Caller, how: go-replace, check: go list}\nservices:"
    assert one(place, "services:", more) == "r.yaml:36: links[1]: links go in a circle: Caller already consumes greet"


def test_missing_keys_are_all_named(place: Path) -> None:
    lines = said(place, "schema: wideswe-recipe/1\n").splitlines()
    assert lines[0] == "7 problems"
    assert [line.rsplit(" ", 1)[1] for line in lines[1:]] == sorted(
        ["base", "ecosystem", "id", "kind", "prompt", "relation", "targets"]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1 problem\nr.yaml: the file is empty"),
        ("# nothing\n", "1 problem\nr.yaml: the file is empty"),
        ("- a\n", "1 problem\nr.yaml:1: expected keys and values, found something else"),
        ("a: 1\n---\nb: 2\n", "1 problem\nr.yaml:2: not YAML: expected a single document in the stream, but found another document"),
        ("a: [1\n", "1 problem\nr.yaml:2: not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"),
        ("a:\n\tb: 1\n", "1 problem\nr.yaml:2: a tab in the indentation (hint: indent with blanks)"),
        ("a: *x\n", "1 problem\nr.yaml:1: not YAML: found undefined alias 'x'"),
        ("a: &x [*x]\n", "1 problem\nr.yaml:1: nested deeper than 24, or an alias that contains itself (hint: write the values out, without anchors)"),
        ('a: "\\U99999999"\n', "1 problem\nr.yaml: not YAML: an escape that is no character"),
        ("a: \x07\n", "1 problem\nr.yaml: not YAML: unacceptable character #x0007: special characters are not allowed"),
    ],
)  # fmt: skip
def test_what_is_not_a_document_is_refused_by_name(place: Path, text: str, expected: str) -> None:
    assert expected == said(place, text)


def test_an_alias_bomb_is_refused_before_it_grows(place: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
    assert said(place, "a0: &a0 [x, x, x]\n" + levels) == (
        "1 problem\nr.yaml:1: more than 20000 values (hint: write the values out, without anchors)"
    )


def test_deep_nesting_is_refused(place: Path) -> None:
    assert "r.yaml:1: nested deeper than 24" in said(place, "a: " + "[" * 60 + "]" * 60)
    assert said(place, "a: " + "[" * 200_000) == "1 problem\nr.yaml: nested too deeply to be read"


def test_bytes_that_are_not_text_are_refused_with_their_line(place: Path) -> None:
    place.write_bytes(b"schema: x\nid: \xff\n")
    assert [str(problem).rpartition("/")[2] for problem in recipe_problems(place)] == [
        "hello-wide-001.yaml:2: not UTF-8 (hint: save the file as UTF-8)"
    ]


def test_a_huge_file_is_refused_unread(place: Path) -> None:
    assert said(place, "#" * (1 << 21)) == f"1 problem\nr.yaml: expected at most {1 << 20} bytes, found {1 << 21}"


def test_a_prompt_that_is_a_link_out_of_the_folder_is_refused(place: Path) -> None:
    secret = place.parents[1] / "secret"
    secret.write_text("x\n")
    prompt = place.parent / "hello-wide-001" / "prompt.md"
    prompt.unlink()
    prompt.symlink_to(secret)
    assert said(place, GOOD) == (
        "1 problem\nr.yaml:7: prompt: hello-wide-001/prompt.md leads out of the recipe's folder"
        " (hint: put the file there instead of a link)"
    )


def test_a_link_among_hidden_files_is_refused(place: Path) -> None:
    (place.parent / "hello-wide-001" / "hidden" / "caller" / "x").symlink_to("/etc/passwd")
    assert said(place, GOOD) == (
        "1 problem\nr.yaml:27: targets[1].hidden.files: expected files and folders only,"
        " found hello-wide-001/hidden/caller/x (hint: no links in there)"
    )


def test_an_empty_prompt_and_an_empty_hidden_folder_are_refused(place: Path) -> None:
    (place.parent / "hello-wide-001" / "hidden" / "caller" / "test_x.py").unlink()
    (place.parent / "hello-wide-001" / "prompt.md").write_text("")
    assert said(place, GOOD) == (
        "2 problems\nr.yaml:7: prompt: the file is empty: hello-wide-001/prompt.md\n"
        "r.yaml:27: targets[1].hidden.files: the folder is empty: hello-wide-001/hidden/caller"
    )


def test_a_folder_may_be_written_with_a_final_slash(place: Path) -> None:
    place.write_text(GOOD.replace("hidden/caller}", "hidden/caller/}"))
    assert read_recipe(place).target("Caller").hidden.files == "hello-wide-001/hidden/caller"


def test_a_missing_recipe_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_recipe(tmp_path / "none.yaml")
    assert str(caught.value) == f"{tmp_path}/none.yaml: cannot be read: No such file or directory"


def test_a_bounded_alias_is_followed(place: Path) -> None:
    place.write_text(
        GOOD.replace("[go.mod, go.sum]", "&m [go.mod, go.sum]").replace("protect: [go.mod]", "protect: *m")
    )
    assert read_recipe(place).target("greet").protect == ("go.mod", "go.sum")


def test_a_context_younger_than_the_cutoff_is_a_problem(place: Path) -> None:
    recipe = read_recipe(place)
    assert cutoff_problems(recipe, {"docs": 1764601566}, file="r.yaml") == []
    assert [str(one) for one in cutoff_problems(recipe, {"docs": 1764601567}, file="r.yaml")] == [
        (
            "r.yaml: contexts.docs.commit: the commit is 1 s younger than the cutoff 2025-12-01T15:06:06Z"
            " (hint: take the last commit before the cutoff)"
        )
    ]
