"""The helper's command line: which verb is in which module, and what becomes of wrong input."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mvp_helpers import cli, verbs
from mvp_helpers.base.errors import Blocked, MvpError
from mvp_helpers.cluster import packages
from mvp_helpers.verbs import group

LIB = str(Path(str(verbs.__file__)).parents[2])
ALL = [verb for known in group.MODULES.values() for verb in known]
NO_COMMANDS = {"group", "values"}


def python(*argv: str, code: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the helper, or ``code``, in a process of its own without a cluster."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MVP_")}
    command = [sys.executable, *(["-c", code] if code else ["-m", "mvp_helpers"]), *argv]
    return subprocess.run(command, env=own | {"PYTHONPATH": LIB} | environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", group.MODULES)
def test_a_module_contains_exactly_the_verbs_of_the_table(name: str) -> None:
    members = vars(importlib.import_module(f"mvp_helpers.verbs.{name}")).values()
    assert sorted(member.name or "" for member in members if isinstance(member, click.Command)) == sorted(group.MODULES[name])


def test_every_module_of_verbs_is_in_the_table() -> None:
    modules = {path.stem for path in Path(str(verbs.__file__)).parent.glob("[a-z]*.py")}
    assert modules - NO_COMMANDS == set(group.MODULES)


@pytest.mark.parametrize("verb", ALL)
def test_every_verb_has_help_that_describes_its_options(verb: str) -> None:
    shown = CliRunner().invoke(group.VERBS, [verb, "--help"])
    assert shown.exit_code == 0, shown.output
    command = group.VERBS.get_command(click.Context(group.VERBS), verb)
    assert command and command.help and command.help.split()[0][0].isupper()
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_help_lists_all_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out.split()
    assert [verb for verb in ALL if verb not in shown] == []


def test_one_verb_loads_one_module_and_nothing_heavy() -> None:
    code = (
        "import sys; from mvp_helpers import cli; bare = set(sys.modules); cli.main(['stop', '--help'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    loaded = python(code=code).stderr.split()
    assert [name for name in loaded if name.startswith("mvp_helpers.verbs.")] == [
        "mvp_helpers.verbs.group",
        "mvp_helpers.verbs.values",
        "mvp_helpers.verbs.jobs",
    ]
    rooms = {name.split(".")[1] for name in loaded if name.startswith("mvp_helpers.")}
    assert rooms == {"cli", "base", "verbs"}
    assert not {"msgspec", "yaml", "ray", "argparse", "urllib.request", "subprocess", "difflib", "hashlib"} & set(loaded)


WRONG = {
    "no verb": ([], "missing verb"),
    "unknown verb": (["sumbit"], "unknown verb 'sumbit' (did you mean 'submit'?)"),
    "unknown verb like none": (["xyzzy"], "unknown verb 'xyzzy'"),
    "unknown option": (["status", "--limt", "3"], "unknown option '--limt' (did you mean '--limit'?)"),
    "unknown option like none": (["tool-files", "--zzz"], "unknown option '--zzz'"),
    "unknown option of the group": (["--wait", "submit"], "unknown option '--wait'"),
    "unknown short option": (["logs", "x", "-q"], "unknown option '-q'"),
    "an abbreviation": (["status", "--lim", "3"], "unknown option '--lim' (did you mean '--limit'?)"),
    "missing argument": (["stop"], "missing argument ID..."),
    "one argument of two": (["verify-versions", "a"], "missing argument ID"),
    "missing option": (["submit"], "missing option --spec-name"),
    "extra argument": (["logs", "a", "b"], "got unexpected extra argument (b)"),
    "an option without its value": (["status", "--limit"], "option '--limit' requires an argument"),
    "a value for a flag": (["status", "--json=3"], "option '--json' does not take a value"),
    "a choice": (["submit", "--spec-name", "x", "--via", "ssh"], "--via: 'ssh' is not one of 'cli', 'sdk'"),
    "a new line": (["logs", "a", "b\nc"], "got unexpected extra argument (b\\nc)"),
    "steps": (["e2e", "--steps", "abc"], "--steps 'abc' is not a whole number of at least 10"),
    "one step": (["e2e", "--steps", "1"], "--steps '1' is not a whole number of at least 10"),
    "half a step": (["e2e", "--steps", "2.5"], "--steps '2.5' is not a whole number of at least 10"),
    "timeout": (["e2e", "--timeout", "x"], "--timeout 'x' is not a number of seconds greater than 0 and at most 1,000,000"),
    "no time": (["e2e", "--stall", "0"], "--stall '0' is not a number of seconds greater than 0 and at most 1,000,000"),
    "nan": (
        ["submit", "--spec-name", "x", "--pending-timeout", "nan"],
        "--pending-timeout 'nan' is not a number of seconds greater than 0 and at most 1,000,000",
    ),
    "infinity": (
        ["submit", "--spec-name", "x", "--timeout", "inf"],
        "--timeout 'inf' is not a number of seconds greater than 0 and at most 1,000,000",
    ),
    "an empty value": (
        ["all-reduce", "w", "--timeout="],
        "--timeout '' is not a number of seconds greater than 0 and at most 1,000,000",
    ),
    "more than poll can wait": (
        ["all-reduce", "w", "--timeout", "1e9"],
        "--timeout '1e9' is not a number of seconds greater than 0 and at most 1,000,000",
    ),
    "limit": (["status", "--limit", "-3"], "--limit '-3' is not a whole number of at least 0"),
    "limit of list": (["list", "--limit=many"], "--limit 'many' is not a whole number of at least 0"),
    "digits of another script": (["list", "--limit", "٣"], "--limit '٣' is not a whole number of at least 0"),
    "a number too long for int()": (
        ["list", "--limit", "9" * 5000],
        f"--limit '{'9' * 1991}…{'9' * 1963}' is not a whole number of at least 0",
    ),
    "port": (["all-reduce", "w", "--port", "70000"], "--port '70000' is not a whole number from 0 to 65535"),
    "since": (
        ["logs", "x", "--since", "yesterday"],
        "--since 'yesterday' is not a duration (10m) or a UTC time (2026-01-31T23:59)",
    ),
    "an address": (["cluster", "local", "--at", "head"], "--at 'head' is not of the form HOST=IP"),
    "an address without host": (["cluster", "local", "--at", "=1.2.3.4"], "--at '=1.2.3.4' is not of the form HOST=IP"),
    "exit code": (["e2e-summary", "--exit-code", "256"], "--exit-code '256' is not a whole number from 0 to 255"),
    "both sources": (["snapshot", "--list", "--prune"], "--prune cannot be combined with --list"),
    "an id that is a path": (["logs", "../x"], "'../x' is not a submission_id"),
    "resume with a level": (
        ["e2e", "--resume", "x", "--level", "0"],
        "--level with --resume: a resumed run keeps the level of its start",
    ),
}


@pytest.mark.parametrize(("argv", "message"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_line_with_the_value_and_what_to_try(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    first, hint = shown.err.splitlines()
    assert first == f"bad input: {message}"
    assert hint.startswith("  try: ") and len(hint) > 10


def test_the_hint_of_an_unknown_option_is_the_verbs_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["status", "--limt", "3"])
    assert capsys.readouterr().err.endswith("\n  try: python3 -m mvp_helpers status --help\n")


@pytest.mark.parametrize(
    "argv", [["e2e", "--steps", "abc"], ["sumbit"], ["status", "--limit", b"\xff".decode(errors="surrogateescape")]]
)
def test_as_a_process_wrong_input_ends_with_exit_code_2_and_no_traceback(argv: list[str]) -> None:
    ended = python(*argv)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("bad input: ") and len(ended.stderr.splitlines()) == 2


def test_right_values_arrive_as_given() -> None:
    seen: list[object] = []
    for argv, values in {
        ("list", "--limit", "0"): {"limit": 0},
        ("list",): {"limit": 20},
        ("submit", "--spec-name", "a b", "--wait", "--timeout", "1e3"): {"spec_name": "a b", "wait": True, "timeout": 1000.0},
        ("submit", "--spec-name", "x", "--wait", "--no-wait"): {
            "wait": False,
            "timeout": None,
            "pending_timeout": 120.0,
            "via": "cli",
        },
        ("logs", "x", "-f"): {"submission_id": "x", "follow": True, "since": None},
        ("logs", "-f", "--", "-x"): {"submission_id": "-x"},
        ("stop-here", "w", "a", "b"): {"host": "w", "ids": ("a", "b")},
        ("cluster", "local", "--at", "a=1", "--at", "b=2"): {"at": (("a", "1"), ("b", "2"))},
        ("e2e", "--override=-x=1", "--override", "y=2"): {"override": ("-x=1", "y=2"), "timeout": 7200.0, "as_json": False},
    }.items():
        context = click.Context(group.VERBS)
        command = group.VERBS.get_command(context, argv[0])
        assert command
        params = command.make_context(argv[0], list(argv[1:]), parent=context).params
        assert {name: params[name] for name in values} == values
        seen.append(params)
    assert len(seen) == 9


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (Blocked("no disk", hint="df"), 3, "blocked: no disk\n  try: df\n"),
        (MvpError("it broke"), 1, "failed: it broke\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            ModuleNotFoundError("No module named 'msgspec'", name="msgspec"),
            3,
            f"blocked: {sys.executable} has no module 'msgspec'\n  try: ./scripts/12_install_py_deps.sh\n",
        ),
    ],
)
def test_what_a_verb_raises_becomes_a_message_and_an_exit_code(
    raised: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(argv: list[str]) -> int:
        raise raised

    monkeypatch.setattr(group, "run", fail)
    assert cli.main(["list"]) == code
    assert capsys.readouterr().err == message


def test_a_module_of_our_own_that_is_missing_is_our_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(argv: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'mvp_helpers.gone'", name="mvp_helpers.gone")

    monkeypatch.setattr(group, "run", fail)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["list"])


def test_a_host_that_lacks_packages_is_named_with_all_of_them_and_the_command_that_adds_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(argv: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'click'", name="click")

    monkeypatch.setattr(group, "run", fail)
    monkeypatch.setattr(packages, "missing", lambda: ["click", "backports.zstd", "PyYAML"])
    monkeypatch.setattr(packages, "requirements", lambda: {"click": "click==8.5.1", "PyYAML": "PyYAML==6.0.3"})
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setenv("MVP_HOST", "worker-0")
    assert cli.main(["list"]) == 3
    assert capsys.readouterr().err == (
        f"blocked: worker-0: {sys.executable} lacks click, PyYAML, which the helper needs\n"
        f"  try: on worker-0, or in its image: {sys.executable} -m pip install click==8.5.1 PyYAML==6.0.3\n"
    )


def test_every_dependency_of_the_helper_is_pinned_as_in_the_lock_and_names_its_module() -> None:
    pins = packages.requirements()
    assert pins.keys() == packages.MODULES.keys()
    for name in ("requirements.lock", "requirements-helper.lock"):
        lock = re.findall(r"^\S+==\S+", (packages.PROJECT / name).read_text(), re.MULTILINE)
        assert {canonical(pin) for pin in pins.values()} <= set(lock)
    assert packages.missing() == []


def canonical(pin: str) -> str:
    name, _, version = pin.partition("==")
    return f"{re.sub('[-_.]+', '-', name).lower()}=={version}"


def test_without_click_it_is_blocked_and_names_the_script_that_installs_it() -> None:
    code = "import sys; sys.modules['click'] = None; from mvp_helpers.cli import main; sys.exit(main(['list']))"
    ended = python(code=code)
    assert ended.returncode == 3
    assert "has no module 'click'\n  try: ./scripts/12_install_py_deps.sh" in ended.stderr


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_goes_away_is_no_error(lines: int) -> None:
    code = (
        "import sys, time; from mvp_helpers import cli; from mvp_helpers.verbs import group\n"
        f"group.run = lambda argv: (time.sleep(0.3), print('x\\n' * {lines}))[1] or 1\n"
        "sys.exit(cli.main(['list']))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | {"PYTHONPATH": LIB}
    writer = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout and writer.stderr
    writer.stdout.close()
    assert writer.stderr.read() == b""
    assert writer.wait() == (1 if lines == 1 else 0), "the exit code of a verb that has ended is kept"
