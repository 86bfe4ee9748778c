"""What a script would start is recorded, and nothing that it calls is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.base.errors import Blocked
from mvp_helpers.trainers import launch_preview

BASH = {"PATH": "/usr/bin:/bin", "HOME": "/home/ada"}


def write(folder: Path, text: str) -> Path:
    script = folder / "scripts" / "run.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(text)
    return script


def starts(script: Path, *arguments: str, device: str = "cuda", **env: str) -> list[list[str]]:
    recording = launch_preview.record(script, script.parents[1], BASH | env, arguments, device)
    return [command.argv for command in recording.commands]


def test_no_command_is_run_and_no_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    script = write(
        tmp_path,
        'rm -rf "$PWD/kept"\nray stop\necho gone >"$PWD/kept"\necho more >> ./new\n{ echo x; } > "$PWD/block"\n/bin/rm kept\n'
        'python3 -m my.trainer a=1 "b=${B:-x y}" $@\n',
    )
    commands = starts(script, "c=3", B="two words")
    assert commands[-1] == ["python3", "-m", "my.trainer", "a=1", "b=two words", "c=3"]
    assert ["ray", "stop"] in commands and (tmp_path / "kept").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "scripts"]


def test_a_script_that_begins_with_cd_and_sources_a_file_starts_each_training_where_it_would(tmp_path: Path) -> None:
    write(tmp_path, "").with_name("common.env").write_text('CONFIG=$(basename "${BASH_SOURCE[0]}")\n')
    script = write(
        tmp_path,
        'SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd)\nset -eou pipefail\n'
        "cd $SCRIPT_DIR/..\nsource $SCRIPT_DIR/common.env\nexport PYTHONPATH=$PWD\nEXP=$SCRIPT_DIR/$(basename $0 .sh)\n"
        "for x in 1 2; do uv run train.py --config $CONFIG x=$x $@ 2>&1 | tee $EXP/run.log; done\n"
        'pushd scripts >/dev/null; uv run check.py; popd; cd "$OLDPWD"; uv run last.py 2>/dev/null\n',
    )
    recording = launch_preview.record(script, Path("/"), BASH, ["k=v"], "cuda")
    trainings = [command for command in recording.commands if "train.py" in command.argv]
    assert [command.argv[-2:] for command in trainings] == [["x=1", "k=v"], ["x=2", "k=v"]]
    assert trainings[0].argv[:5] == ["uv", "run", "train.py", "--config", "common.env"]
    assert trainings[0].cwd == tmp_path and trainings[0].env == {**BASH, "PYTHONPATH": str(tmp_path)}
    others = {command.argv[2]: command.cwd for command in recording.commands if command.argv[:2] == ["uv", "run"]}
    assert others["check.py"] == tmp_path / "scripts" and others["last.py"] == tmp_path / "scripts"
    assert recording.exit_code == 0


def test_reading_tools_see_the_folder_that_the_script_changed_to(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "value").write_text("7\n")
    script = write(tmp_path, 'cd sub\npython3 train.py x=$(cat value) where=$(pwd)\ncd /no/such || echo "not there"\n')
    assert starts(script) == [["python3", "train.py", "x=7", f"where={tmp_path}/sub"]]


def test_a_comparison_is_not_taken_for_a_redirection(tmp_path: Path) -> None:
    script = write(tmp_path, 'a=b\nif [[ "$a" > "a" ]] && (( 2 > 1 )); then python3 yes.py; fi\npython3 "x -> y" \'1 > 0.5\'\n')
    assert starts(script) == [["python3", "yes.py"], ["python3", "x -> y", "1 > 0.5"]]


def test_a_script_is_told_the_device_that_it_asks_python_for(tmp_path: Path) -> None:
    script = write(
        tmp_path, 'case $(python3 - <<<x) in cpu) python3 -m my.trainer ;; *) echo "Unknown device" && exit 1 ;; esac\n'
    )
    assert ["python3", "-m", "my.trainer"] in starts(script, device="cpu")
    recording = launch_preview.record(script, tmp_path, BASH, [], "cuda")
    assert (recording.exit_code, recording.last_line) == (1, "Unknown device")


def test_what_a_training_would_have_left_is_not_judged_and_any_other_exit_ends_the_script(tmp_path: Path) -> None:
    judge = 'assert_grep() { grep -q "$1" "$2" || { echo FAIL; exit 1; }; }\nset -e\n'
    script = write(tmp_path, f"{judge}python3 -m one\nassert_grep done /no/such/log\npython3 -m two\nexit 3\npython3 -m three\n")
    recording = launch_preview.record(script, tmp_path, BASH, [], "cuda")
    assert [command.argv[-1] for command in recording.commands] == ["one", "two"] and recording.exit_code == 3


def test_why_a_script_ends_early_is_its_own_last_line(tmp_path: Path) -> None:
    recording = launch_preview.record(write(tmp_path, "set -eu\necho $MISSING\npython3 -m t\n"), tmp_path, BASH, [], "cuda")
    assert recording.commands == [] and "MISSING: unbound variable" in recording.last_line


def test_a_script_that_does_not_end_is_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_preview, "TIMEOUT_S", 0.3)
    with pytest.raises(Blocked, match=r"timed out after 0.3 s"):
        launch_preview.record(write(tmp_path, "while :; do :; done\n"), tmp_path, BASH, [], "cuda")


def test_odd_bytes_in_arguments_and_variables_arrive_as_they_are(tmp_path: Path) -> None:
    script = write(tmp_path, 'export ODD=$\'a\\nb\\xff\'\npython3 "$ODD" "" \'*\' "$@"\n')
    recording = launch_preview.record(script, tmp_path, BASH, ["ä=ö"], "cuda")
    assert recording.commands[0].argv == ["python3", "a\nb\udcff", "", "*", "ä=ö"]
    assert recording.commands[0].env["ODD"] == "a\nb\udcff"


def test_variables_that_a_script_reads_are_those_that_it_expands(tmp_path: Path) -> None:
    script = write(tmp_path, "X=1\necho $A ${B:-x} ${C,,} ${!D} $lower E\n")
    assert launch_preview.variables(script) == {"A", "B", "C", "D"}
    with pytest.raises(Blocked, match="cannot read"):
        launch_preview.variables(tmp_path / "none.sh")
