"""The helper's command line: which verb is where."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from mvp_helpers import cli, verbs


@pytest.mark.parametrize("name", cli.MODULES)
def test_a_module_makes_the_parsers_of_exactly_the_verbs_that_are_said_to_be_in_it(name: str) -> None:
    made = argparse.ArgumentParser().add_subparsers()
    importlib.import_module(f"mvp_helpers.verbs.{name}").add(made)
    assert sorted(made.choices) == sorted(cli.MODULES[name])


def test_every_module_of_verbs_is_known() -> None:
    assert {path.stem for path in Path(str(verbs.__file__)).parent.glob("[a-z]*.py")} == set(cli.MODULES)


def test_help_lists_all_verbs_and_an_unknown_one_is_bad_input_that_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, code in (["--help"], 0), (["sumbit"], 2):
        with pytest.raises(SystemExit) as ended:
            cli.main(argv)
        told = "".join(capsys.readouterr())
        assert ended.value.code == code
        assert [name for known in cli.MODULES.values() for name in known if name not in told] == []


def test_one_verb_loads_one_module() -> None:
    script = "\n".join(
        [
            "import sys",
            f"sys.path.insert(0, {str(Path(str(verbs.__file__)).parents[2])!r})",
            "from mvp_helpers import cli",
            "try: cli.main(['stop', '--help'])",
            "finally: print(*sys.modules, file=sys.stderr)",
        ]
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stderr.split()
    assert [name for name in loaded if name.startswith("mvp_helpers.verbs.")] == ["mvp_helpers.verbs.jobs"]
