from __future__ import annotations

import errno
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fake_hub
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mvp_helpers
from mvp_helpers.base import files, shared_storage
from mvp_helpers.base.errors import BadInput, Blocked, Failed, TimedOut
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.base.shared_storage import locked
from mvp_helpers.prepare import generated, gsm8k, hub, manifest, prepare
from mvp_helpers.prepare.prepare import DataSettings, Generated, Hub

LIB = str(Path(mvp_helpers.__file__).parents[1])
SETTINGS = DataSettings(generated=Generated(train_rows=24, test_rows=8))
ITEMS = ["datasets/gsm8k", "datasets/gsm8k_sft", "common/models/tiny-qwen2"]


def quiet(_: str) -> None:
    pass


def made(shared: SharedRoot, settings: DataSettings = SETTINGS) -> dict[str, str]:
    """Name and reason of everything that had to be made."""
    return {item.name: item.reason for item in prepare.prepare(settings, shared, quiet) if item.made}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared root prepared once: the model costs seconds."""
    root = tmp_path_factory.mktemp("template") / "shared"
    assert list(made(SharedRoot(root))) == ITEMS
    return root


@pytest.fixture
def shared(template: Path, tmp_path: Path) -> SharedRoot:
    return SharedRoot(Path(shutil.copytree(template, tmp_path / "shared", symlinks=True)))


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): files.sha256(path) for path in root.rglob("*") if path.is_file()}


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


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def edit(path: Path) -> None:
    facts, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


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


def test_a_folder_that_was_not_made_here_is_kept_under_another_name(shared: SharedRoot) -> None:
    mine = shared.datasets / "gsm8k"
    shutil.rmtree(mine)
    manifest.place(mine).unlink()
    mine.mkdir()
    (mine / "train.parquet").write_text("my own data")
    made(shared)
    (kept,) = shared.datasets.glob("gsm8k.replaced-*")
    assert (kept / "train.parquet").read_text() == "my own data"


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
    assert said == [f"would make {name}: missing" for name in ITEMS]


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
    import sys, time; from pathlib import Path
    from mvp_helpers.base.shared_storage import locked
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


# the hub


def gsm8k_parquet(rows: int) -> bytes:
    stream = io.BytesIO()
    answers = [f"so\n#### 1,{index:03d}" for index in range(rows)]
    pq.write_table(pa.table({"question": [f"q{index}" for index in range(rows)], "answer": answers}), stream)
    return stream.getvalue()


COMMIT = fake_hub.COMMIT
HUB = DataSettings(source="hub", hub=Hub(model="org/tiny", dataset_revision=COMMIT, model_revision=COMMIT))
HUB_ITEMS = [*ITEMS[:2], "common/models/tiny"]


@pytest.fixture
def server(template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_hub.FakeHub]:
    model = {path.name: path.read_bytes() for path in (template / "common" / "models" / "tiny-qwen2").iterdir()}
    repos = {
        "datasets/openai/gsm8k": {
            "main/train-00000-of-00001.parquet": gsm8k_parquet(20),
            "main/test-00000-of-00001.parquet": gsm8k_parquet(5),
            "socratic/train-00000-of-00001.parquet": b"not asked for",
        },
        "models/org/tiny": model | {"pytorch_model.bin": b"the same weights again"},
    }
    with fake_hub.running(repos) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


@pytest.fixture
def empty(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path / "empty")


def test_the_hub_fills_the_same_folders(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    from transformers import AutoModelForCausalLM

    assert list(made(empty, HUB)) == HUB_ITEMS
    (row,) = pq.read_table(empty.datasets / "gsm8k" / "train.parquet").slice(7, 1).to_pylist()
    assert row["reward_model"]["ground_truth"] == "1007" and row["extra_info"]["question"] == "q7"
    assert pq.read_table(empty.datasets / "gsm8k_sft" / "val.parquet").num_rows == 5
    AutoModelForCausalLM.from_pretrained(empty.models / "default")
    assert {name for name, _ in server.fetched}.isdisjoint({"pytorch_model.bin", "socratic/train-00000-of-00001.parquet"})
    weights = empty.models / "tiny" / "model.safetensors"
    assert not os.path.isabs(os.readlink(weights)) and weights.resolve().is_relative_to(empty.hf_cache)


def test_what_exists_whole_needs_no_hub(server: fake_hub.FakeHub, empty: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    made(empty, HUB)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert made(empty, HUB) == {}


def test_a_broken_connection_is_resumed_where_it_broke(
    server: fake_hub.FakeHub, empty: SharedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the library pauses a second before each retry
    server.break_after["model.safetensors"] = [50_500]
    made(empty, HUB)
    assert [asked for name, asked in server.fetched if name == "model.safetensors"] == [None, "bytes=50000-"]


def test_a_failed_run_keeps_what_it_fetched_for_the_next_one(
    server: fake_hub.FakeHub, empty: SharedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the library pauses a second before each retry
    server.break_after["model.safetensors"] = [0] * 6
    with pytest.raises(Blocked, match="cannot fetch org/tiny from http://127"):
        made(empty, HUB)
    assert not (empty.models / "tiny").exists() and not (empty.models / "default").exists()
    fetched, server.fetched = {name for name, _ in server.fetched}, []
    assert list(made(empty, HUB)) == ["common/models/tiny"]
    again = [name for name, _ in server.fetched]
    assert again == ["model.safetensors"] or set(again).isdisjoint(fetched - {"model.safetensors"})


def test_a_file_damaged_in_the_cache_is_fetched_again(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    made(empty, HUB)
    server.fetched = []
    edit((empty.models / "tiny" / "model.safetensors").resolve())
    truncate((empty.models / "tiny" / "config.json").resolve())
    assert list(made(empty, HUB)) == ["common/models/tiny"]
    assert sorted(name for name, _ in server.fetched) == ["config.json", "model.safetensors"]
    assert made(empty, HUB) == {}


def test_a_file_that_arrives_altered_is_never_used(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    server.altered.add("config.json")
    with pytest.raises(Blocked, match=r"do not match their hashes, such as config\.json"):
        made(empty, HUB)
    assert not (empty.models / "tiny").exists()


def test_a_download_that_ends_early_blocks_instead_of_blaming_the_disk(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    server.shortened.add("config.json")
    with pytest.raises(Blocked, match="cannot fetch org/tiny from http://127"):
        made(empty, HUB)


@pytest.mark.parametrize("revision", ["", "main", "v1.0", "c" * 39, "C" * 40])
def test_a_revision_that_can_move_is_refused(empty: SharedRoot, revision: str) -> None:
    for field in ("dataset_revision", "model_revision"):
        settings = msgspec.structs.replace(HUB, hub=msgspec.structs.replace(HUB.hub, **{field: revision}))
        with pytest.raises(BadInput, match=rf"data\.hub\.{field} must be a commit"):
            made(empty, settings)
    assert not empty.root.exists()


@pytest.mark.parametrize(
    ("change", "reason"), [({"model": "org/none"}, "RepositoryNotFound"), ({"model_revision": "d" * 40}, "RevisionNotFound")]
)
def test_a_repository_or_commit_that_does_not_exist_is_bad_input(
    server: fake_hub.FakeHub, empty: SharedRoot, change: dict[str, str], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        made(empty, msgspec.structs.replace(HUB, hub=msgspec.structs.replace(HUB.hub, **change)))


def test_a_model_without_safetensors_is_bad_input(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    del server.repos["models/org/tiny"]["model.safetensors"]
    with pytest.raises(BadInput, match=r"no weights as \*\.safetensors"):
        made(empty, HUB)


def test_a_dataset_of_another_layout_is_bad_input(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    server.repos["datasets/openai/gsm8k"]["main/train-00000-of-00001.parquet"] = b"not parquet"
    with pytest.raises(BadInput, match="train split is not parquet"):
        made(empty, HUB)


def test_a_hub_that_cannot_be_reached_blocks_with_a_way_out(empty: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://user:secret@127.0.0.1:9")
    with pytest.raises(Blocked) as caught:
        made(empty, HUB)
    assert "cannot fetch openai/gsm8k from http://127.0.0.1:9: " in caught.value.what and "generated" in caught.value.hint


def test_a_hub_that_never_answers_is_given_up_in_time(empty: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(Blocked, match="timed out"):
            made(empty, HUB)
        assert time.monotonic() - began < 10


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `sead`"):
        msgspec.convert({"generated": {"sead": 1}}, DataSettings)
