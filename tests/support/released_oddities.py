"""Some thirty made-up cases, each odd in one way that the released benchmark is odd in."""

from __future__ import annotations

from tests.support.released_cases import MadeCase, commit, odd

FEATURE = "kind feature, as nothing says bug fix"
M2P = tuple(f"{name}: 1 of FAIL_TO_PASS do not exist at base" for name in ("lib", "app"))
MANIFEST = "oracles/scoring_manifest.json"
DEPENDENCIES = "commands that install its dependencies, with exact versions"


@odd("complete", notes=M2P)
def plain() -> MadeCase:
    return MadeCase("acme_lib_app_000000000001")


@odd("complete", notes=M2P)
def anchors_and_merges() -> MadeCase:
    case = MadeCase("acme_anchors_000000000002")
    text = "x: &id001\n  base_commit: {}\n".format(case.row("lib")["base_commit"])
    text += "id: acme_anchors_000000000002\ntask_type: &f feature\necosystem: acme\nrepositories:\n"
    text += "- <<: *id001\n  name: lib\n  path: repos/acme/lib\n- name: app\n  path: repos/acme/app\n"
    text += f"  base_commit: {case.row('app')['base_commit']}\n"
    case.raw["task.yaml"] = text.encode()
    return case


@odd("complete", notes=(*M2P, f"validation.yaml is stale: 617/43 there, 6/6 in {MANIFEST}"))
def stale_validation() -> MadeCase:
    case = MadeCase("acme_stale_000000000003")
    case.raw["validation.yaml"] = b"matrix:\n  oracle_totals: {fail_to_pass: 617, pass_to_pass: 43}\n"
    return case


@odd("complete", notes=(*M2P, "validation.yaml cannot be read; it is not needed"))
def broken_validation() -> MadeCase:
    case = MadeCase("acme_broken_validation_000000000004")
    case.raw["validation.yaml"] = b"matrix: [\n"
    return case


@odd("complete", notes=("lib: judged by exit status alone (profile-level oracle)", M2P[1]))
def profile_level_oracle() -> MadeCase:
    case = MadeCase("acme_profile_level_000000000005")
    row = case.scored("lib", 1, 0, 1)
    row["test_ids"]["native_fail_to_pass"] = row["test_ids"]["fail_to_pass"] = [{"id": "profile::lib-hidden"}]
    case.manifest["repos"][0] = row
    return case


@odd("incomplete", todo=("lib: one test command for 2 profiles (lib-hidden, lib-hidden-more)",), notes=M2P)
def two_profiles_on_one_repository() -> MadeCase:
    case = MadeCase("acme_two_profiles_000000000006")
    row = case.harness["hidden_test_patches"][0]
    case.harness["hidden_test_patches"].append({**row, "test_profile": "lib-hidden-more"})
    return case


@odd("complete", notes=tuple(f"{n}: 1 of FAIL_TO_PASS do not exist at base" for n in ("update.Acme.org", "PaThing.js")))
def dots_and_capitals_in_names() -> MadeCase:
    return MadeCase("acme_dots_000000000007", targets=("update.Acme.org", "PaThing.js"))


@odd("complete", notes=M2P)
def stray_runners() -> MadeCase:
    case = MadeCase("acme_stray_000000000008")
    case.raw["environment/case_env/runners/phpunit.sh"] = b"vendor/bin/phpunit --log-junit x\n"
    return case


@odd("complete", notes=M2P)
def two_organisations() -> MadeCase:
    case = MadeCase("acme_orgs_000000000009")
    case.repos["repos"]["app"]["url"] = "https://github.com/acme-community/app.git"
    return case


@odd("complete", notes=M2P)
def merged_candidates() -> MadeCase:
    case = MadeCase("acme_merged_000000000010")
    case.task["source_provenance"] = {"merged_candidates": ["acme_first_aaaa", "acme_second_bbbb"]}
    return case


@odd("complete", notes=("lib: PASS_TO_PASS is empty and would pass vacuously", *M2P))
def empty_pass_to_pass() -> MadeCase:
    case = MadeCase("acme_empty_p2p_000000000011")
    case.manifest["repos"][0] = case.scored("lib", 2, 1, 0)
    return case


@odd("incomplete", todo=("lib: FAIL_TO_PASS is empty, so its tests cannot judge",), notes=(M2P[1],))
def empty_fail_to_pass() -> MadeCase:
    case = MadeCase("acme_empty_f2p_000000000012")
    case.manifest["repos"][0] = case.scored("lib", 0, 0, 2)
    return case


@odd("complete", notes=("lib: the gold commit is the merge commit; gold is taken from its patch", *M2P))
def gold_commit_is_the_merge() -> MadeCase:
    case = MadeCase("acme_gold_merge_000000000013")
    case.row("lib")["gold_commit"] = case.row("lib")["merge_commit"]
    return case


@odd("complete", notes=M2P)
def base_is_no_ancestor_of_gold() -> MadeCase:
    case = MadeCase("acme_no_ancestor_000000000014")
    case.row("lib")["base_commit"] = case.repos["repos"]["lib"]["base_commit"] = commit("elsewhere")
    return case


@odd(
    "complete",
    notes=(*M2P, "run_profile.sh assumes the path /opt/ecosyncbench", "run_profile.sh climbs out of its case"),
)
def paths_of_one_machine() -> MadeCase:
    case = MadeCase("acme_paths_000000000015")
    case.head += "root=/opt/ecosyncbench\nbench=../../../../../../benchmark\n"
    return case


@odd(
    "complete",
    notes=(
        *M2P,
        "run_profile.sh needs environment/app.Dockerfile, which is not in the case",
        "run_profile.sh needs environment/run_lib_inside.sh, which is not in the case",
    ),
)
def named_files_that_are_missing() -> MadeCase:
    case = MadeCase("acme_missing_files_000000000016")
    case.head += 'docker build -f "$task_dir/environment/app.Dockerfile" .\ncp "$task_dir/run_lib_inside.sh" .\n'
    return case


@odd("complete", notes=M2P)
def yaml_traps() -> MadeCase:
    """A base commit of digits and an e, which YAML takes for a number, and versions, dates and words like yes."""
    case = MadeCase("acme_traps_000000000017")
    text = case.files()["task.yaml"].decode().replace(case.row("lib")["base_commit"], "1" * 38 + "e1")
    case.raw["task.yaml"] = f"{text}status: no\nversion: 3.10\nwhen: 2025-01-01\n".encode()
    case.repos["repos"]["lib"]["base_commit"] = "1" * 38 + "e1"
    return case


@odd(
    "incomplete", todo=(f"{MANIFEST} cannot be read: not acceptable JSON: Expecting value: line 1 column 11 (char 10)",)
)
def broken_json() -> MadeCase:
    case = MadeCase("acme_broken_json_000000000018")
    case.raw[MANIFEST] = b'{"valid": '
    return case


@odd("incomplete", todo=("gold/patches/lib.patch leads out of the checkout",), notes=M2P)
def a_link_out_of_the_checkout() -> MadeCase:
    case = MadeCase("acme_link_out_000000000019")
    case.links["gold/patches/lib.patch"] = "/etc/hostname"
    return case


@odd(
    "incomplete",
    todo=("lib: the hidden tests (hidden/patches/lib-hidden-tests.patch is missing from the case)",),
    notes=M2P,
)
def a_hidden_patch_is_missing() -> MadeCase:
    case = MadeCase("acme_no_hidden_000000000020")
    case.raw["hidden/patches/lib-hidden-tests.patch"] = None
    return case


@odd(
    "incomplete",
    todo=(
        "environment/test_profiles.yaml is missing from the case",
        "lib: its test command (environment/run_profile.sh is missing from the case)",
        "app: its test command (environment/run_profile.sh is missing from the case)",
    ),
    notes=M2P,
)
def no_environment_folder() -> MadeCase:
    case = MadeCase("acme_no_environment_000000000021")
    case.raw |= {"environment/run_profile.sh": None, "environment/test_profiles.yaml": None}
    return case


@odd("refused", todo=("acme_no_task_000000000022: there is no task.yaml: no repository and no commit is known",))
def no_task_file() -> MadeCase:
    case = MadeCase("acme_no_task_000000000022")
    case.raw["task.yaml"] = None
    return case


@odd("refused", todo=("acme_alias_bomb_000000000023/task.yaml: not YAML: more than 100000 values",))
def an_alias_bomb() -> MadeCase:
    case = MadeCase("acme_alias_bomb_000000000023")
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    case.raw["task.yaml"] = "\n".join(lines).encode()
    return case


@odd(
    "incomplete",
    todo=(f"the oracle oracles/hidden_test_oracle.json is not the one that {MANIFEST} was made of",),
    notes=M2P,
)
def an_altered_oracle() -> MadeCase:
    case = MadeCase("acme_altered_oracle_000000000024")
    case.raw["oracles/hidden_test_oracle.json"] = b"{}"
    return case


@odd("incomplete", todo=(f"lib: {MANIFEST} states 9 pass_to_pass, its list has 3",), notes=M2P)
def counts_that_are_not_those_of_the_lists() -> MadeCase:
    case = MadeCase("acme_counts_000000000025")
    case.manifest["repos"][0]["pass_to_pass"] = 9
    return case


@odd(
    "incomplete",
    todo=(
        "lib: Python as in 3.13-slim; Debian's own is 3.11",
        f"lib: {DEPENDENCIES}",
        "app: its test command (2 test commands in one profile)",
    ),
    notes=M2P,
)
def python_tests() -> MadeCase:
    case = MadeCase("acme_python_000000000026")
    case.head = "image=ecosyncbench/base/python:3.13-slim\n"
    case.commands["lib"] = (
        "python -m pip install -e .\n      pytest tests/test_x.py --junitxml=/workspace/.ecosyncbench/r.xml"
    )
    case.commands["app"] = "pytest a --junitxml=r.xml\n      pytest b --junitxml=s.xml"
    return case


@odd("complete", notes=M2P)
def joint_by_go_replace() -> MadeCase:
    case = MadeCase("acme_replace_000000000027")
    case.commands["app"] = (
        "go mod edit -replace=example.org/lib=/workspace/repos/acme/lib\n      go test -json ./cmd/... > /tmp/log 2>&1"
    )
    return case


@odd(
    "incomplete",
    todo=(
        "lib: the exact version of go (the script says 1.26-bookworm)",
        "app: its test command (its test command needs what only the script knows: '$T')",
        "how the consumer is tested against the producer's checkout (links, with a check)",
    ),
    notes=(
        *M2P,
        "the script passes GITHUB_TOKEN into the tests; left out",
        "run_profile.sh runs tests in the network of the host",
    ),
)
def tokens_and_variables() -> MadeCase:
    case = MadeCase("acme_tokens_000000000028")
    case.task["task_type"] = "producer_consumer_feature"
    case.head = (
        "image=ecosyncbench/base/golang:1.26-bookworm\nrun='docker run --network host -e GITHUB_TOKEN=abc -e A=b'\n"
    )
    case.commands["app"] = "go test -json $TARGETS"
    return case


@odd("complete", notes=M2P)
def contexts_and_three_targets() -> MadeCase:
    case = MadeCase("acme_contexts_000000000029")
    for name in ("docs", "Site.io"):
        address = f"https://github.com/acme/{name}.git"
        case.repos["repos"][name] = {"url": address, "role": "context", "snapshot_commit": commit(name)}
    return case


@odd("refused", todo=("acme_bad_name_000000000030/task.yaml: no name of a repository: '../../evil'",))
def a_name_that_climbs() -> MadeCase:
    case = MadeCase("acme_bad_name_000000000030")
    case.row("lib")["name"] = "../../evil"
    return case


@odd("complete", notes=("kind bugfix, as all titles of its pull requests say fix", *M2P))
def a_bug_fix_by_its_titles() -> MadeCase:
    case = MadeCase("acme_fix_000000000031")
    case.task["task_type"] = "parallel"
    for row in case.task["source_prs"]:
        row["title"] = "Fixed #12 -- a thing"
    return case
