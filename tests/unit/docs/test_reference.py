"""Scripts, options, make targets, variables, exit codes and JobSpec fields: the same in the documentation and in the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import doc_pages
import msgspec
import pytest
import yaml
from doc_pages import COMMON_OPTIONS, Page, no_problems

from mvp_helpers.base import errors
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file
from mvp_helpers.diagnosis import signatures
from mvp_helpers.plan import jobspec
from mvp_helpers.retry import cause

SCRIPT = re.compile(r"^(?:\./)?(?:scripts/)?(\w+\.sh)$")
END_OF_COMMAND = re.compile(r"^(\||\|\||&&|;|\))$|[;)]$")
REFERENCE = "docs/reference.md"


def reference(title: str) -> list[str]:
    """Return the names in the first column of all tables below that heading of the reference."""
    page = Page(REFERENCE, (PROJECT / REFERENCE).read_text())
    return [name for table in page.section(title).split("\n\n") for name in doc_pages.first_column(table)]


def unknown_names(command: str, options: Mapping[str, set[str]], targets: set[str]) -> list[str]:
    """Return a message for every script, option of a script and make target in ``command`` that does not exist.

    ``options`` has the options of every script. A script may be named by its number, as in ``43 --wait``.
    """
    numbers = {name[:2]: name for name in options if name[:2].isdigit()}
    unknown, script = [], ""
    words = command.split()
    if words and re.fullmatch(r"\d\d", words[0]):
        script = numbers.get(words[0], "")
        unknown += [] if script else [f"no script {words[0]}"]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if match := SCRIPT.match(word):
            script = match[1] if match[1] in options else ""
            if not script and (word.startswith(("./scripts/", "scripts/")) or word[:2].isdigit()):
                unknown.append(f"no script {word}")
        elif script and word.startswith("-") and (option := word.partition("=")[0].rstrip(",;)")) not in options[script]:
            unknown.append(f"{script} has no option {option}")
        elif word == "make" and following.islower() and following not in targets:
            unknown.append(f"no target: make {following}")
        if END_OF_COMMAND.search(word):
            script = ""
    return unknown


def unknown_commands(page: Page) -> list[str]:
    """Return a message with its place for every script, option and make target that only ``page`` knows."""
    options = {
        script: doc_pages.accepted_options(doc_pages.script_text(script)) | COMMON_OPTIONS for script in doc_pages.scripts()
    }
    targets = doc_pages.targets((PROJECT / "Makefile").read_text())
    return [f"{page.name}:{line}: {unknown}" for line, text in page.commands for unknown in unknown_names(text, options, targets)]


@pytest.mark.parametrize("page", doc_pages.pages(), ids=lambda page: page.name)
def test_every_script_option_and_target_that_a_page_names_exists(page: Page) -> None:
    no_problems(unknown_commands(page))


def test_an_unknown_script_option_or_target_is_found() -> None:
    text = """`43 --wait` `99` `13 --lits` `./scripts/gone.sh` `46_gone.sh` `bench_up.sh` `make up` `make gone` `mine.sh --any`
```sh
./scripts/31_snapshot_verl_code.sh --list --prnue && make unit --silent
CODE_ID=a ./scripts/43_submit_jobspec.sh x.json --timeout=3 --follow | grep --color x # --no
```
"""
    assert unknown_commands(Page("x.md", text)) == [
        "x.md:1: no script 99",
        "x.md:1: 13_deploy_tools.sh has no option --lits",
        "x.md:1: no script ./scripts/gone.sh",
        "x.md:1: no script 46_gone.sh",
        "x.md:1: no target: make gone",
        "x.md:2: 31_snapshot_verl_code.sh has no option --prnue",
        "x.md:2: 43_submit_jobspec.sh has no option --follow",
    ]


def differences(what: str, in_code: Iterable[str], in_docs: Iterable[str], where: str) -> list[str]:
    """Return one message for every name that only the code or only the documentation has."""
    code, docs = set(in_code), set(in_docs)
    return [f"add the {what} {name} to {where}" for name in sorted(code - docs)] + [
        f"the {what} {name} in {where} does not exist" for name in sorted(docs - code)
    ]


def test_every_script_is_in_the_reference() -> None:
    no_problems(differences("script", doc_pages.scripts(), reference("Scripts"), f"{REFERENCE}, Scripts"))


def test_every_target_is_in_the_reference() -> None:
    page = Page(REFERENCE, (PROJECT / REFERENCE).read_text())
    named = re.findall(r"`make ([a-z0-9-]+)`", page.section("Make targets"))
    in_code = doc_pages.targets((PROJECT / "Makefile").read_text())
    no_problems(differences("target", in_code, named, f"{REFERENCE}, Make targets"))


def test_every_variable_is_in_the_reference() -> None:
    named = [name.partition("=")[0] for name in reference("Variables") + reference("Internal variables")]
    where = f"{REFERENCE}: Variables, or Internal variables when users never set it"
    in_docs = {name for name in named if name.startswith("MVP_")}
    no_problems(differences("variable", doc_pages.code_variables(), in_docs, where))
    assert len(named) == len(set(named)), "a variable is in two rows"


def test_no_page_names_a_variable_that_does_not_exist() -> None:
    known = doc_pages.code_variables()
    named = [(page.name, name) for page in doc_pages.pages() for name in doc_pages.VARIABLE.findall(page.text)]
    no_problems([f"{page}: no variable {name} in the code" for page, name in named if name not in known])


def exit_codes() -> set[str]:
    """Return every exit code that a script or an error of the helper names."""
    kinds = [errors.MvpError, *errors.MvpError.__subclasses__()]
    scripts = [file.read_text() for file in (PROJECT / "scripts").rglob("*.sh")]
    return {str(cause.EXIT_CODE), *(str(kind.exit_code) for kind in kinds)} | {
        code for text in scripts for code in re.findall(r"\b(?:die|exit) (\d+)\b", text)
    }


def test_every_exit_code_is_in_the_reference() -> None:
    page = Page(REFERENCE, (PROJECT / REFERENCE).read_text())
    rows = re.findall(r"^\| (\d+) \|", page.section("Exit codes"), re.MULTILINE)
    no_problems(differences("exit code", exit_codes(), rows, f"{REFERENCE}, Exit codes"))


def help_problems(script: str, text: str) -> list[str]:
    """Return what the header comment of a script lacks, or names although the script does not accept it."""
    header, accepted = doc_pages.header(text), doc_pages.accepted_options(text)
    described = doc_pages.options_in(header.partition("\n# examples:")[0])
    in_usage = doc_pages.options_in("\n".join(re.findall(r"^# usage: .*(?:\n# {8,}.*)*", header, re.MULTILINE)))
    codes = set(re.findall(r"(?<=[ ,])(\d+) [a-zA-Z]", " ".join(re.findall(r"exit codes: (.*)", header))))
    missing = set() if "for the options" in header else accepted - described  # 40: "see 43's --help for the options"
    return [
        *(f"{script}: describe {option} in the header comment" for option in sorted(missing)),
        *(f"{script}: the usage has {option}, parse_options has not" for option in sorted(in_usage - accepted - COMMON_OPTIONS)),
        *(f"{script}: add exit code {code} to {REFERENCE}" for code in sorted(codes - exit_codes())),
    ]


@pytest.mark.parametrize("script", doc_pages.scripts())
def test_the_help_of_a_script_has_its_options_and_exit_codes(script: str) -> None:
    no_problems(help_problems(script, doc_pages.script_text(script)))


def test_a_help_that_lacks_an_option_is_found() -> None:
    usage = "# Do it.\n#\n# usage: x.sh [--all] [--nothing] [--cluster C]\n#\n"
    header = f"#!/bin/sh\n{usage}# exit codes: 0 success, 9 tired\n#\n# examples:\n#   x --no\n"
    assert help_problems("x.sh", f"{header}source lib\nparse_options '--all -f --some= ID' \"$@\"\n") == [
        "x.sh: describe --some in the header comment",
        "x.sh: describe -f in the header comment",
        "x.sh: the usage has --nothing, parse_options has not",
        f"x.sh: add exit code 9 to {REFERENCE}",
    ]


def test_names_that_only_one_side_has_are_found() -> None:
    assert differences("script", ["a", "b"], ["b", "c"], "x.md") == [
        "add the script a to x.md",
        "the script c in x.md does not exist",
    ]
    page = Page("x.md", "# T\n## Exit codes\n| code | x |\n|---|---|\n| `1`, `2` | `3` |\n## Next\n| `4` |\n")
    assert doc_pages.first_column(page.section("Exit codes")) == ["1", "2"]
    assert doc_pages.targets("up: ## x\ndeps-dev:\n.PHONY: no\nV := a\n\t@no: x\n") == {"up", "deps-dev"}


def test_every_field_of_a_jobspec_is_in_the_docs_and_in_the_schema() -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(jobspec.JobSpec)]
    page = Page("docs/jobs.md", (PROJECT / "docs/jobs.md").read_text())
    table = doc_pages.first_column(page.section("The JobSpec"))
    no_problems(differences("field", fields, table, "the table of docs/jobs.md, The JobSpec"))
    schema = msgspec.json.decode((PROJECT / "templates" / "jobspec.schema.json").read_bytes())["$defs"]["JobSpec"]
    no_problems(differences("field", fields, schema["properties"], "templates/jobspec.schema.json with make schema"))


def test_the_layout_lists_the_folders_that_a_cluster_makes_with_their_modes() -> None:
    (paragraph,) = re.findall(r"^The start of a cluster makes (.*?)\n\n", (PROJECT / "shared-layout.md").read_text(), re.M | re.S)
    lists = re.findall(r"([^()]*)\((?:mode )?(0\d+)", paragraph)
    listed = {Path(name): int(mode, 8) for names, mode in lists for name in re.findall(r"`([^`]+)`", names)}
    assert listed == SharedRoot(Path()).folders


def test_every_workload_level_and_cluster_file_is_in_the_docs() -> None:
    workloads = [file.stem for file in (PROJECT / "templates" / "workloads").glob("*.yaml")]
    table = doc_pages.first_column(Page("", (PROJECT / "docs/jobs.md").read_text()).section("Workloads"))
    no_problems(differences("workload", workloads, table, "docs/jobs.md, Workloads"))
    e2e = Page("docs/e2e.md", (PROJECT / "docs/e2e.md").read_text())
    for description, title in {"verl": "Levels of verl", "nemo-rl": "Levels of NeMo-RL"}.items():
        levels = [str(level) for level in yaml.safe_load((PROJECT / f"templates/e2e/{description}.yaml").read_text())["levels"]]
        rows = re.findall(r"^\| (\d+) \|", e2e.section(title), re.MULTILINE)
        no_problems(differences("level", levels, rows, f"docs/e2e.md, {title}"))
    text = "\n".join(page.text for page in doc_pages.pages())
    unnamed = [file.stem for file in cluster_file.TEMPLATES.glob("*.yaml") if not re.search(rf"--cluster {file.stem}\b", text)]
    assert not set(unnamed) - {"local"}, f"add to the table 'Where to look' of README.md: --cluster {', '.join(unnamed)}"


def test_every_boundary_has_a_meaning_and_the_docs_say_the_same() -> None:
    known = signatures.load()
    used = {part.boundary for part in (*known.rules, *known.reading.boundaries, *known.sentences)}
    used |= {judgement.boundary_is for judgement in known.unknown.judgements}
    used |= {case.boundary for rule in known.rules for case in rule.cases}
    meanings = known.unknown.meanings
    assert used - {""} <= meanings.keys()
    section = Page("docs/e2e.md", (PROJECT / "docs/e2e.md").read_text()).section("Boundaries")
    rows = re.findall(r"^\| (?!boundary|-)(.+?) \| (.+) \|$", section, re.MULTILINE)
    assert dict(rows) == meanings
