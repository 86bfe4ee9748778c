"""Script 30 with ``source: hub``: the real hub library against a hub on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fake_hub
import msgspec
import pyarrow.parquet as pq
import pytest
from preparing import COMMIT, HUB, HUB_ITEMS, edit, made, truncate

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.prepare import hub, manifest, prepare
from mvp_helpers.prepare.prepare import DataSettings


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


def hub_settings(**changes: object) -> DataSettings:
    return msgspec.structs.replace(HUB, hub=msgspec.structs.replace(HUB.hub, **changes))


# revisions


def commits(shared: SharedRoot) -> set[str]:
    """The commits in the manifests of everything that was made."""
    return {about.commit for name in HUB_ITEMS if (about := manifest.read(shared.root / name))}


@pytest.mark.parametrize("revision", ["main", "v1.0", COMMIT])
def test_a_branch_a_tag_or_a_commit_is_recorded_as_its_commit(server: fake_hub.FakeHub, empty: SharedRoot, revision: str) -> None:
    server.refs["v1.0"] = COMMIT
    made(empty, hub_settings(dataset_revision=revision, model_revision=revision))
    assert commits(empty) == {COMMIT}


def test_a_branch_is_resolved_once(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    made(empty, HUB)
    server.refs["main"], server.asked = "d" * 40, []
    assert made(empty, HUB) == {} and server.asked == [], "the hub was asked although everything is there"
    truncate(empty.datasets / "gsm8k" / "train.parquet")
    (empty.models / "tiny" / "config.json").unlink()
    assert list(made(empty, HUB)) == ["datasets/gsm8k", "common/models/tiny"]
    assert commits(empty) == {COMMIT}, "a repair followed the branch"
    assert made(empty, hub_settings(dataset_revision=COMMIT, model_revision=COMMIT)) == {}, "the commit is what the branch was"


def test_removed_folders_follow_their_branch(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    made(empty, HUB)
    server.refs["main"] = "d" * 40
    shutil.rmtree(empty.models / "tiny")
    manifest.place(empty.models / "tiny").unlink()
    made(empty, HUB)
    assert commits(empty) == {COMMIT, "d" * 40}


def test_the_plan_names_what_it_would_fetch_and_asks_no_hub(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    said: list[str] = []
    assert prepare.plan(HUB, empty, said.append) == [empty.root / name for name in HUB_ITEMS]
    assert said[2] == f"would make common/models/tiny from org/tiny at main ({server.url})"
    assert server.asked == [] and not empty.root.exists()


# refusals: one line each, nothing half-made, and a second try continues


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "org/none"}, r"http://127\S+ has no model org/none, or it is private \(404\)"),
        ({"model_revision": "v9"}, r"org/tiny has no branch, tag or commit 'v9' on http://127"),
        ({"model_revision": "d" * 40}, r"org/tiny has no branch, tag or commit 'd{40}' on http://127"),
        ({"dataset": "org/-bad-.."}, r"data\.hub\.dataset: not the name of a repository: 'org/-bad-\.\.'"),
    ],
)
def test_what_the_hub_does_not_have_is_bad_input(
    server: fake_hub.FakeHub, empty: SharedRoot, change: dict[str, str], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        made(empty, hub_settings(**change))
    assert not (empty.models / "tiny").exists() and not (empty.models / "default").exists()


def test_without_its_token_a_private_repository_is_bad_input(
    server: fake_hub.FakeHub, empty: SharedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.token = "hf_right"
    with pytest.raises(BadInput, match=r"has no dataset openai/gsm8k, or it is private \(401\)") as caught:
        made(empty, HUB)
    assert "HF_TOKEN" in caught.value.hint
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert list(made(empty, HUB)) == HUB_ITEMS
    assert "hf_right" not in "".join(path.read_text() for path in empty.root.rglob("*.json"))


def test_a_token_that_the_hub_does_not_accept_is_bad_input_and_not_shown(
    server: fake_hub.FakeHub, empty: SharedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.token = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(BadInput, match=r"does not accept the token \(401\)") as caught:
        made(empty, HUB)
    assert "hf_wrong" not in caught.value.show()


def test_a_gated_repository_is_bad_input(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    server.gated.add("models/org/tiny")
    with pytest.raises(BadInput, match=r"does not allow org/tiny \(403\)") as caught:
        made(empty, HUB)
    assert "accept its terms" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "message"), [(429, r"too many requests \(429\)"), (503, r"cannot send openai/gsm8k now \(503\)")]
)
def test_a_hub_that_refuses_for_now_blocks_and_a_second_try_continues(
    server: fake_hub.FakeHub, empty: SharedRoot, status: int, message: str
) -> None:
    server.refusals = [status]
    with pytest.raises(Blocked, match=message):
        made(empty, HUB)
    assert not empty.datasets.exists() or not list(empty.datasets.iterdir())
    assert list(made(empty, HUB)) == HUB_ITEMS


def test_a_proxy_is_named_when_nothing_comes_through_it(empty: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(Blocked, match=r"from http://hub\.invalid through the proxy http://127\.0\.0\.1:9: "):
        made(empty, HUB)


def test_a_hub_that_only_a_proxy_reaches_gives_what_it_has_to_those_with_its_login(
    server: fake_hub.FakeHub, empty: SharedRoot, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from huggingface_hub import close_session  # whose next request reads the environment again

    request.addfinalizer(close_session)
    server.login = "me:secret"
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.PROXIED)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.delenv("no_proxy", raising=False)
    proxy = server.url.removeprefix("http://")
    monkeypatch.setenv("HTTP_PROXY", f"http://me:wrong@{proxy}")
    close_session()
    with pytest.raises(BadInput, match=rf"^cannot reach http://hub\.invalid through the proxy http://{proxy}: .* login \(407\)"):
        made(empty, HUB)
    monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@{proxy}")
    close_session()
    assert list(made(empty, HUB)) == HUB_ITEMS


def test_an_endpoint_that_is_not_a_url_is_bad_input(empty: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "localhost:8080")
    with pytest.raises(BadInput, match="HF_ENDPOINT is not a URL: 'localhost:8080'"):
        made(empty, HUB)


# without a network


OFFLINE = """if True:
    import sys; from pathlib import Path
    from mvp_helpers.base.errors import MvpError; from mvp_helpers.base.paths import SharedRoot
    from mvp_helpers.prepare.prepare import *
    settings = DataSettings(source="hub", hub=Hub(model="org/tiny"))
    try:
        prepare(settings, SharedRoot(Path(sys.argv[1])), print)
    except MvpError as error:
        print(error.show()); sys.exit(error.exit_code)"""


def offline(shared: SharedRoot) -> tuple[int, str]:
    """Prepare in a process of its own, because the hub library reads HF_HUB_OFFLINE when it is imported."""
    lib = str(Path(hub.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": lib, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", OFFLINE, str(shared.root)], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_offline_takes_what_the_cache_has_and_refuses_the_rest(server: fake_hub.FakeHub, empty: SharedRoot) -> None:
    code, said = offline(empty)
    assert code == 3 and "HF_HUB_OFFLINE is set, and openai/gsm8k at main is not whole in" in said, said
    made(empty, HUB)
    for folder in (empty.datasets, empty.root / "common"):
        shutil.rmtree(folder)
    server.asked = []
    code, said = offline(empty)
    assert code == 0 and commits(empty) == {COMMIT} and server.asked == [], said
    shutil.rmtree(empty.models)
    weights = next((empty.hf_cache / "hub" / "models--org--tiny" / "snapshots").rglob("model.safetensors"))
    edit(weights.resolve())
    code, said = offline(empty)
    assert code == 3 and "model.safetensors of org/tiny in the cache is damaged" in said, said


# a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KB, too small for the model."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_blocks_with_what_is_free_and_a_second_try_continues(server: fake_hub.FakeHub, small_disk: Path) -> None:
    shared = SharedRoot(small_disk / "shared")
    with pytest.raises(Blocked, match=r"no space for org/tiny in .*/hf \(0 MB free\): No space left on device"):
        made(shared, HUB)
    assert (shared.datasets / "gsm8k").is_dir() and not list(shared.models.glob("[!.]*"))
    fetched, server.fetched = {name for name, _ in server.fetched}, []
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert list(made(shared, HUB)) == ["common/models/tiny"] and made(shared, HUB) == {}
    again = {name for name, _ in server.fetched}
    assert again and fetched - again, "everything was fetched again"
