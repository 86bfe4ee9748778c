"""Scripts, options, make targets, variables, exit codes and JobSpec fields: the same in the documentation and in the code."""

from __future__ import annotations

import re
from collections.abc import Iterable

import doc_pages
import msgspec
import pytest
import yaml
from doc_pages import COMMON_OPTIONS, Page

from mvp_helpers.base import errors
from mvp_helpers.base.project import PROJECT
from mvp_helpers.cluster import cluster_file
from mvp_helpers.plan import jobspec

SCRIPT = re.compile(r"^(?:\./)?(?:scripts/)?(\w+\.sh)$")
END_OF_COMMAND = re.compile(r"^(\||\|\||&&|;|\))$|[;)]$")
REFERENCE = "docs/reference.md"


def reference(title: str) -> list[str]:
    """Return the names in the first column of all tables below that heading of the reference."""
    page = Page(REFERENCE, (PROJECT / REFERENCE).read_text())
    return [name for table in page.section(title).split("\n\n") for name in doc_pages.first_column(table)]


def unknown_commands(page: Page, scripts: Iterable[str], targets: set[str]) -> list[str]:
    """Return every script, option of a script and make target that ``page`` names and that does not exist."""
    numbers = {name[:2]: name for name in scripts if name[:2].isdigit()}
    unknown = []
    for line, text in page.commands:
        words = text.split()
        script = numbers.get(words[0], "") if words else ""
        if words and re.fullmatch(r"\d\d", words[0]) and not script:
            unknown.append(f"no script {words[0]}")
        for at, word in enumerate(words):
            if match := SCRIPT.match(word):
                script = match[1] if match[1] in scripts else ""
                if not script and (word.startswith(("./scripts/", "scripts/")) or word[:2].isdigit()):
                    unknown.append(f"no script {word}")
            elif script and word.startswith("-") and word != "-h":
                option = word.partition("=")[0].rstrip(",;)")
                if option not in doc_pages.parsed_options(script) | COMMON_OPTIONS:
                    unknown.append(f"{script} has no option {option}")
            elif word == "make" and at + 1 < len(words) and (target := words[at + 1]) not in targets and target.islower():
                unknown.append(f"no target: make {target}")
            if END_OF_COMMAND.search(word):
                script = ""
        unknown = [message if message.startswith(page.name) else f"{page.name}:{line}: {message}" for message in unknown]
    return unknown


@pytest.mark.parametrize("page", doc_pages.pages(), ids=lambda page: page.name)
def test_every_script_option_and_target_that_a_page_names_exists(page: Page) -> None:
    assert unknown_commands(page, doc_pages.scripts(), doc_pages.targets((PROJECT / "Makefile").read_text())) == []


def test_an_unknown_script_option_or_target_is_found() -> None:
    text = """`43 --wait` `99` `13 --lits` `./scripts/gone.sh` `46_gone.sh` `bench_up.sh` `make up` `make gone` `mine.sh --any`
```sh
./scripts/31_snapshot_verl_code.sh --list --prnue && make unit --silent
CODE_ID=a ./scripts/43_submit_jobspec.sh x.json --timeout=3 --follow | grep --color x # --no
```
"""
    page = Page("x.md", text)
    assert unknown_commands(page, doc_pages.scripts(), {"up", "unit"}) == [
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
    assert differences("script", doc_pages.scripts(), reference("Scripts"), f"{REFERENCE}, Scripts") == []


def test_every_target_is_in_the_reference() -> None:
    page = Page(REFERENCE, (PROJECT / REFERENCE).read_text())
    named = re.findall(r"`make ([a-z0-9-]+)`", page.section("Make targets"))
    in_code = doc_pages.targets((PROJECT / "Makefile").read_text())
    assert differences("target", in_code, named, f"{REFERENCE}, Make targets") == []


def test_every_variable_is_in_the_reference() -> None:
    named = [name.partition("=")[0] for name in reference("Variables") + reference("Internal variables")]
    where = f"{REFERENCE}: Variables, or Internal variables when users never set it"
    in_docs = {name for name in named if name.startswith("MVP_")}
    assert differences("variable", doc_pages.code_variables(), in_docs, where) == []
    assert len(named) == len(set(named)), "a variable is in two rows"


def test_no_page_names_a_variable_that_does_not_exist() -> None:
    known = doc_pages.code_variables()
    named = [(page.name, name) for page in doc_pages.pages() for name in doc_pages.VARIABLE.findall(page.text)]
    assert [f"{page}: no variable {name} in the code" for page, name in named if name not in known] == []


def exit_codes() -> set[str]:
    """Return every exit code that a script or an error of the helper names."""
    kinds = [errors.MvpError, *errors.MvpError.__subclasses__()]
    scripts = [file.read_text() for file in (PROJECT / "scripts").rglob("*.sh")]
    return {str(kind.exit_code) for kind in kinds} | {
        code for text in scripts for code in re.findall(r"\b(?:die|exit) (\d+)\b", text)
    }


def test_every_exit_code_is_in_the_reference() -> None:
    page = Page(REFERENCE, (PROJECT / REFERENCE).read_text())
    rows = re.findall(r"^\| (\d+) \|", page.section("Exit codes"), re.MULTILINE)
    assert differences("exit code", exit_codes(), rows, f"{REFERENCE}, Exit codes") == []


@pytest.mark.parametrize("script", doc_pages.scripts())
def test_the_help_of_a_script_names_its_options_and_exit_codes(script: str) -> None:
    help_text = doc_pages.header(script)
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_text.partition("\n# examples:")[0]))
    accepted = doc_pages.parsed_options(script)
    if "for the options" not in help_text:
        assert not accepted - options, f"{script}: add to its header comment: {', '.join(sorted(accepted - options))}"
    usage = "\n".join(re.findall(r"^# usage: .*(?:\n# {8,}.*)*", help_text, re.MULTILINE))
    in_usage = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage))
    assert not in_usage - accepted - COMMON_OPTIONS, f"{script}: its usage names options that it does not accept"
    codes = set(re.findall(r"(?<=[ ,])(\d+) [a-zA-Z]", " ".join(re.findall(r"exit codes: (.*)", help_text))))
    assert codes <= exit_codes(), f"{script}: exit codes {sorted(codes - exit_codes())} are not in {REFERENCE}"


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
    assert differences("field", fields, table, "the table of docs/jobs.md, The JobSpec") == []
    schema = msgspec.json.decode((PROJECT / "templates" / "jobspec.schema.json").read_bytes())["$defs"]["JobSpec"]
    assert differences("field", fields, schema["properties"], "templates/jobspec.schema.json with make schema") == []


def test_every_workload_level_and_cluster_file_is_in_the_docs() -> None:
    workloads = [file.stem for file in (PROJECT / "templates" / "workloads").glob("*.yaml")]
    table = doc_pages.first_column(Page("", (PROJECT / "docs/jobs.md").read_text()).section("Workloads"))
    assert differences("workload", workloads, table, "docs/jobs.md, Workloads") == []
    e2e = Page("docs/e2e.md", (PROJECT / "docs/e2e.md").read_text())
    levels = [str(level) for level in yaml.safe_load((PROJECT / "templates/e2e/verl.yaml").read_text())["levels"]]
    rows = re.findall(r"^\| (\d+) \|", e2e.section("Levels"), re.MULTILINE)
    assert differences("level", levels, rows, "docs/e2e.md, Levels") == []
    text = "\n".join(page.text for page in doc_pages.pages())
    unnamed = [file.stem for file in cluster_file.TEMPLATES.glob("*.yaml") if not re.search(rf"--cluster {file.stem}\b", text)]
    assert not set(unnamed) - {"local"}, f"add to the table 'Where to look' of README.md: --cluster {', '.join(unnamed)}"
