from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from preparing import ITEMS, SETTINGS, edit, made, quiet, tree, truncate

import mvp_helpers
from mvp_helpers.base import files, shared_storage
from mvp_helpers.base.errors import Blocked, Failed, TimedOut
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.shared_storage import locked
from mvp_helpers.prepare import generated, gsm8k, prepare
from mvp_helpers.prepare.prepare import Generated

LIB = str(Path(mvp_helpers.__file__).parents[1])


@pytest.fixture
def shared(template: Path, tmp_path: Path) -> SharedRoot:
    return SharedRoot(Path(shutil.copytree(template, tmp_path / "shared", symlinks=True)))


# what is made


def test_rl_rows_have_the_schema_that_verl_reads(shared: SharedRoot) -> None:
    table = pq.read_table(shared.datasets / "gsm8k" / "train.parquet")
    message = "list<element: struct<role: string, content: string>>"
    assert {field.name: str(field.type) for field in table.schema} == {
        "data_source": "string",
        "prompt": message,
        "ability": "string",
        "reward_model": "struct<style: string, ground_truth: string>",
        "extra_info": "struct<split: string, index: int64, answer: string, question: string>",
    }
    row = table.to_pylist()[3]
    assert row["extra_info"]["index"] == 3 and row["extra_info"]["split"] == "train"
    assert row["prompt"] == [{"role": "user", "content": f"{row['extra_info']['question']} {gsm8k.INSTRUCTION}"}]
    assert row["extra_info"]["answer"].endswith(f"#### {row['reward_model']['ground_truth']}")


def test_sft_rows_are_a_question_and_its_answer(shared: SharedRoot) -> None:
    rl = pq.read_table(shared.datasets / "gsm8k" / "test.parquet").to_pylist()
    sft = pq.read_table(shared.datasets / "gsm8k_sft" / "val.parquet").to_pylist()
    assert len(sft) == len(rl) == 8
    for row, other in zip(sft, rl, strict=True):
        assert row["messages"] == [*other["prompt"], {"role": "assistant", "content": other["extra_info"]["answer"]}]


def test_generated_answers_are_right_and_no_test_question_is_trained_on() -> None:
    train, test = generated.splits(Generated(train_rows=300, test_rows=100))
    assert not {problem.question for problem in train} & {problem.question for problem in test}
    for problem in train + test:
        sum_ = problem.answer.partition(" = ")[0]
        assert eval(sum_) == int(problem.result), problem


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(shared: SharedRoot, tmp_path: Path) -> None:
    other = SharedRoot(tmp_path / "other")
    made(other)
    keep = lambda found: {name: digest for name, digest in found.items() if "manifest" not in name}  # noqa: E731
    assert keep(tree(other.root)) == keep(tree(shared.root))
    seeded = msgspec.structs.replace(SETTINGS, generated=msgspec.structs.replace(SETTINGS.generated, seed=1))
    assert made(other, seeded) == dict.fromkeys(ITEMS, "the settings changed: seed")
    assert keep(tree(other.root)) != keep(tree(shared.root))


def test_the_tokenizer_renders_turns_alone_as_in_a_conversation_and_loses_nothing(shared: SharedRoot) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(shared.models / "default")
    model = AutoModelForCausalLM.from_pretrained(shared.models / "default")
    assert tokenizer.pad_token_id != tokenizer.eos_token_id and len(tokenizer) <= model.config.vocab_size
    assert 100_000 < model.num_parameters() < 150_000
    for problem in generated.problems(50, seed=7):
        turns = [problem.prompt, {"role": "assistant", "content": problem.answer}]
        alone = [tokenizer.apply_chat_template([turn], tokenize=False) for turn in turns]
        assert "".join(alone) == tokenizer.apply_chat_template(turns, tokenize=False)
        prompt, answer = (
            tokenizer(text)["input_ids"] for text in (alone[0] + "<|im_start|>assistant\n", problem.answer + "<|im_end|>")
        )
        assert tokenizer.decode(answer) == problem.answer + "<|im_end|>"
        assert len(prompt) <= 128 and len(answer) <= 32, "longer than the workloads' smallest limits"


def test_an_answer_without_a_final_number_is_refused() -> None:
    assert gsm8k.Problem("", "so\n#### 1,234").result == "1234"
    for answer in ("42", "so ####", ""):
        with pytest.raises(Failed, match="no final number"):
            _ = gsm8k.Problem("", answer).result


# what is found, and what is never used


def test_whole_folders_are_skipped_and_said_to_exist(shared: SharedRoot) -> None:
    before, said = tree(shared.root), list[str]()
    items = prepare.prepare(SETTINGS, shared, said.append)
    assert [item.made for item in items] == [False, False, False] and tree(shared.root) == before
    assert said[:2] == ["skip: exists datasets/gsm8k (2 files, 32 rows)", "skip: exists datasets/gsm8k_sft (2 files, 32 rows)"]


@pytest.mark.parametrize(
    ("harm", "name", "reason"),
    [
        (truncate, "datasets/gsm8k/train.parquet", r"train\.parquet has \d+ bytes instead of \d+"),
        (edit, "datasets/gsm8k_sft/val.parquet", r"val\.parquet was edited"),
        (edit, "common/models/tiny-qwen2/model.safetensors", r"model\.safetensors was edited"),
        (Path.unlink, "datasets/gsm8k/test.parquet", r"test\.parquet is missing"),
        (Path.unlink, "datasets/gsm8k.manifest.json", "no readable manifest"),
        (truncate, "datasets/gsm8k.manifest.json", "no readable manifest"),
        (lambda path: path.with_name("extra.json").write_text("{}"), "common/models/tiny-qwen2/x", "is not in its manifest"),
        (lambda path: shutil.rmtree(path), "datasets/gsm8k", "missing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_folder_is_made_anew(shared: SharedRoot, template: Path, harm: object, name: str, reason: str) -> None:
    item = next(item for item in ITEMS if name == item or name.startswith((f"{item}/", f"{item}.")))
    harm(shared.root / name)  # type: ignore[operator]
    found = made(shared)
    assert list(found) == [item] and re.search(reason, found[item]), found
    good = {key: value for key, value in tree(template).items() if "manifest" not in key}
    assert {key: value for key, value in tree(shared.root).items() if key in good} == good
    assert made(shared) == {}


def test_another_recipe_makes_only_what_depends_on_it(shared: SharedRoot) -> None:
    more = msgspec.structs.replace(SETTINGS, generated=msgspec.structs.replace(SETTINGS.generated, train_rows=25))
    items = prepare.prepare(more, shared, quiet)
    assert [(item.name, item.reason) for item in items] == [
        *((name, "the settings changed: train_rows") for name in ITEMS[:2]),
        (ITEMS[2], ""),
    ]


def test_a_half_written_folder_stays_hidden_and_the_next_run_removes_it(
    shared: SharedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(shared.datasets / "gsm8k")
    leftover = shared.datasets / ".gsm8k.tmp-killed"
    leftover.mkdir()
    (leftover / "train.parquet").write_text("half")
    real = gsm8k.write_rl

    def full(folder: Path, splits: dict[str, list[gsm8k.Problem]]) -> dict[str, int]:
        (folder / "train.parquet").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gsm8k, "write_rl", full)
    with pytest.raises(Blocked, match=r"cannot write .*datasets/gsm8k: No space left on device"):
        made(shared)
    assert not (shared.datasets / "gsm8k").exists() and not list(shared.datasets.glob(".gsm8k.tmp-*"))
    monkeypatch.setattr(gsm8k, "write_rl", real)
    assert list(made(shared)) == ["datasets/gsm8k"]


def test_a_shared_root_that_cannot_be_written_blocks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Blocked, match="cannot write"):
        made(SharedRoot(tmp_path / "file"))


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    items = prepare.prepare(SETTINGS, SharedRoot(tmp_path / "new"), said.append, dry_run=True)
    assert all(item.made for item in items) and not (tmp_path / "new").exists()
    assert said == [f"would make {name} from generated: missing" for name in ITEMS]


def test_default_points_to_the_chosen_model(shared: SharedRoot) -> None:
    assert os.readlink(shared.models / "default") == "tiny-qwen2"
    (shared.models / "default").unlink()
    (shared.models / "default").symlink_to("elsewhere")
    assert made(shared) == {} and os.readlink(shared.models / "default") == "tiny-qwen2"


# several hosts


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], env=os.environ | {"PYTHONPATH": LIB}, stdin=pipe, stdout=pipe, text=True
    )


def test_hosts_that_prepare_at_once_make_everything_once(shared: SharedRoot) -> None:
    script = """if True:
        import sys, pyarrow.parquet; from pathlib import Path
        from mvp_helpers.base.paths import SharedRoot; from mvp_helpers.prepare.prepare import *
        settings = DataSettings(generated=Generated(train_rows=24, test_rows=8))
        print("ready", flush=True); sys.stdin.readline()
        print(sum(item.made for item in prepare(settings, SharedRoot(Path(sys.argv[1])), lambda _: None)))"""
    shutil.rmtree(shared.datasets)
    hosts = [python(script, str(shared.root)) for _ in range(3)]
    for host in hosts:
        assert host.stdout is not None and host.stdout.readline() == "ready\n"
    for host in hosts:
        assert host.stdin is not None
        host.stdin.write("go\n")
        host.stdin.flush()
    counts = [int(host.communicate(timeout=120)[0]) for host in hosts]
    assert sum(counts) == 2 and made(shared) == {}
    assert [str(path) for path in shared.root.rglob(".*")] == [], "locks or temporary folders were left behind"


HOLD = """if True:
    import signal, sys, time; from pathlib import Path
    from mvp_helpers.base.shared_storage import locked
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    with locked(Path(sys.argv[1]), "testing", lambda _: None):
        print("held", flush=True); time.sleep(60)"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    path = tmp_path / ".lock"
    holder = python(HOLD, str(path))
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    yield path, holder
    holder.kill()
    holder.communicate()


def test_whoever_waits_is_told_who_holds_the_lock(held: tuple[Path, subprocess.Popen[str]]) -> None:
    path, holder = held
    said: list[str] = []
    with pytest.raises(TimedOut, match=f"held by .* pid {holder.pid} "), locked(path, "x", said.append, wait_s=0.3, poll_s=0.05):
        pass
    assert len(said) == 1 and f"pid {holder.pid} since 20" in said[0] and said[0].endswith(": testing")


def test_the_lock_of_a_killed_process_is_taken_over_at_once(held: tuple[Path, subprocess.Popen[str]]) -> None:
    path, holder = held
    holder.kill()
    holder.wait()
    began = time.monotonic()
    with locked(path, "x", quiet):
        assert f'"pid": {os.getpid()}' in (path / "holder.json").read_text()
    assert time.monotonic() - began < 2 and not path.exists()


def test_an_interrupted_holder_releases_the_lock(held: tuple[Path, subprocess.Popen[str]]) -> None:
    path, holder = held
    holder.send_signal(signal.SIGINT)
    holder.wait()
    assert not path.exists()


def elsewhere(path: Path) -> None:
    """Make the lock look as if its holder were on another host, where its process cannot be looked at."""
    text = (path / "holder.json").read_text()
    files.write_text(path / "holder.json", text.replace('"pid_space": "', '"pid_space": "other '))


def test_a_holder_on_another_host_loses_the_lock_when_its_heartbeat_stands_still(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    holder = python(HOLD, str(path))
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    elsewhere(path)
    began = time.monotonic()
    with locked(path, "x", quiet, stale_after_s=0.4, poll_s=0.05):
        assert 0.4 < time.monotonic() - began < 3


def test_a_holder_on_another_host_that_still_beats_keeps_the_lock(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with locked(path, "working", quiet, stale_after_s=1):
        elsewhere(path)
        said: list[str] = []
        with pytest.raises(TimedOut), locked(path, "x", said.append, stale_after_s=1, wait_s=1.3, poll_s=0.05):
            pass
        assert len(said) == 1, "a heartbeat is no news"


def test_only_one_of_many_takes_a_dead_lock_over(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    shared_storage._acquire(path, {"pid": 1, "token": "dead"})
    dead = shared_storage._holder(path)[0]
    assert shared_storage._take_over(path, dead, {"token": "first"}, force=False)
    assert not shared_storage._take_over(path, dead, {"token": "second"}, force=False)
    (path / "takeover").mkdir()  # a taker that died on its way
    first = shared_storage._holder(path)[0]
    assert not shared_storage._take_over(path, first, {"token": "third"}, force=True)
    assert shared_storage._take_over(path, first, {"token": "third"}, force=False)


def test_a_lock_without_holder_file_is_taken_over_in_time(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.mkdir()
    with locked(path, "x", quiet, stale_after_s=0.2, poll_s=0.05):
        pass
    assert not path.exists()
