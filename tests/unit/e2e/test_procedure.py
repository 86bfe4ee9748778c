"""A run as a whole: its steps in order, a resume, an interrupt, and the summary that its verdicts lead to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.e2e import report, run_folders, summary
from mvp_helpers.e2e.context import Context
from mvp_helpers.e2e.procedure import Procedure
from mvp_helpers.e2e.step import Step
from mvp_helpers.e2e.steps import training

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.usefixtures("quick", "no_tests")


def test_the_summary_of_a_pass_has_the_formats_lines_in_order_and_admits_what_was_not_run(world: World) -> None:
    procedure = world.procedure(world.request("0", image="verlai/verl:some-tag"))
    found = procedure.run()
    assert found.result == "Pass", summary.text(found)
    assert Path(procedure.context.base["PYTORCH_KERNEL_CACHE_PATH"]).is_dir(), "torch does not make the folder for its kernels"
    assert [step.name for step in procedure.steps] == [
        "checkouts",
        "bridge-checks",
        "environment",
        "imports",
        "drift",
        "level-0-smoke",
    ]
    text = summary.text(found)
    heads = ["Result: Pass - ", "Requested coverage: Level 0", "Model: Qwen/Qwen2.5-0.5B", "Deliverables:"]
    heads += ["- Bridge-side checks: Pass - ", "- Local Bridge import in verl: Pass - ", "- verl Megatron backend run: Pass - "]
    heads += ["- Requested variants: Not requested - ", "- Log capture: Pass - ", "Evidence:", "- Bridge repo: ", "- verl repo: "]
    heads += ["- Container image, as given: verlai/verl:some-tag", "- Command: ", "- Key lines: + VANILLA_MBRIDGE=False"]
    heads += ["- Resolved config (level-0-smoke): ", "Limitations:", "Follow-ups:"]
    at = [text.index(head) for head in heads]
    assert at == sorted(at), "the format's order"
    assert "converged" not in text
    assert "save/resume not run" in found.limitations and "no convergence claim" in found.limitations
    assert any(text.startswith("all parallel sizes 1") for text in found.limitations)
    assert any(text.startswith("reward model disabled") for text in found.limitations)
    assert any(text.startswith("no reward model at") and "reward_model.enable=False" in text for text in found.limitations)
    stored = json.loads(procedure.folder.summary("json").read_text())
    assert (stored["result"], stored["evidence"]["verl repo"]) == ("Pass", dict(found.evidence)["verl repo"])
    assert {"name", "verdict", "reason", "evidence", "seconds"} <= set(stored["deliverables"][0]) & set(stored["steps"][0])
    assert procedure.folder.summary("md").read_text().startswith("**Result: Pass**")


def test_one_level_that_fails_leaves_the_later_ones_skipped_and_the_earlier_ones_passed(world: World) -> None:
    procedure = world.procedure(world.request("0,2,3"), FAKE_FAULT="finalised-alone")
    found = procedure.run()
    assert [step.verdict for step in procedure.steps[-3:]] == ["Pass", "Fail", "Skipped"]
    verdicts = {one.name: one.verdict for one in found.deliverables}
    assert verdicts["verl Megatron backend run"] == "Pass" and verdicts["Requested variants"] == "Fail"
    assert found.result == "Fail" and "level-2-dense-stress" in found.sentence
    assert found.follow_ups[-1] == f"./scripts/60_e2e_verl.sh --resume {found.run}"


def test_a_level_is_not_trained_after_a_blocked_one_that_it_counts_after(world: World) -> None:
    overrides = ["actor_rollout_ref.actor.megatron.use_megatron_fsdp=True"]
    procedure = world.procedure(world.request("0,3", overrides=overrides))
    found = procedure.run()
    assert found.result == "Blocked" and "an override does not fit this run" in found.sentence
    assert "a new run without that override" in found.follow_ups[-1] and "--resume" not in " ".join(found.follow_ups)
    assert [(step.name, step.verdict) for step in procedure.steps[-3:]] == [
        ("drift", "Blocked"),
        ("level-0-smoke", "Skipped"),
        ("level-3-smoke", "Skipped"),
    ], "level 3 alone would show nothing"
    blocked = Step(name="level-0-smoke", verdict="Blocked", reason="")
    last = procedure.context.planned[-1]
    assert training.unneeded([blocked], last) == "it counts only after level-0-smoke, which is Blocked"


def test_a_blocked_run_is_not_evidence_and_names_the_fix(world: World) -> None:
    shutil.rmtree(world.bridge / "3rdparty/Megatron-LM")
    (world.bridge / "3rdparty/Megatron-LM").mkdir()
    procedure = world.procedure(world.request("0"))
    found = procedure.run()
    assert found.result == "Blocked" and "this is not evidence against the bridge code" in found.sentence
    assert "environment fix: git submodule update --init --recursive" in found.follow_ups
    assert [step.verdict for step in procedure.steps[1:]] == ["Skipped"] * 5, "no later result counts"
    assert "nothing was trained: no claim about any level" in found.limitations


def test_the_key_lines_keep_those_that_decide(world: World) -> None:
    found = world.procedure(world.request("0,1")).run()
    assert found.result == "Pass", summary.text(found)
    lines = dict(found.evidence)["Key lines"]
    assert "Resuming from" in lines and "step:2 … training/global_step:2" in lines and "step:1 … training/global_step:1" in lines
    command = dict(found.evidence)["Command (level-1-resume)"]
    assert command.startswith("(E2E_RUN=${E2E_RUN:-$(mktemp -d)}; ") and "PYTHONPATH=" in command and "HOME=" in command
    assert '"$E2E_RUN"/checkpoints/' in command and command.endswith("command.sh]")
    assert any("switched off here" in text and "level-1-save, level-1-resume" in text for text in found.limitations)


@pytest.mark.parametrize(
    ("image", "moves"),
    [
        ("", False),
        ("verlai/verl:vllm-0.12", False),
        ("verlai/verl@sha256:0123", False),
        ("/images/verl.sqsh", False),
        ("verlai/verl", True),
        ("registry:5000/verlai/verl", True),
        ("verlai/verl:latest", True),
        *(
            (f"verlai/verl:{tag}", True)
            for tag in ("vllm-latest", "LATEST", "nightly-cu12", "main-vllm", "vllm-main", "latest_vllm")
        ),
        *((f"verlai/verl:{tag}", True) for tag in ("dev-cu12", "vllm-nightly", "release", "preview", "0.9.dev")),
        *((f"verlai/verl:{tag}", False) for tag in ("nightly-20260801", "main-1dda039", "vllm012.dev3", "mainline-1")),
    ],
)
def test_an_image_whose_name_can_mean_another_one_tomorrow_is_a_limitation(image: str, moves: bool) -> None:
    assert report.moving_image(image) is moves


def test_levels_of_different_environments_are_named(world: World) -> None:
    first = world.procedure(world.toy_request("0,1"), TOY_FAULT="half")
    first.run()
    place = first.folder.tries("level-0-smoke")[0] / "step.json"
    step = json.loads(place.read_text())
    place.write_text(json.dumps({**step, "where": "gpu-7, Python 3.9"}))
    folder, request = run_folders.find(first.folder.path.parent, first.folder.path.name)
    found = Procedure(Context(folder, request, world.env, world.said.append)).run()
    [limit] = [text for text in found.limitations if text.startswith("levels ran in different environments")]
    assert "gpu-7, Python 3.9" in limit and "gpu-1, Python 3.11.0" in limit


def test_a_failed_save_is_followed_by_the_run_that_separates_it_from_construction(world: World) -> None:
    found = world.procedure(world.request("1"), FAKE_FAULT="no-critic-saved").run()
    assert found.result == "Fail" and "critic/ is missing or empty" in found.sentence, found.sentence
    assert any("SAVE_FREQ=-1" in text for text in found.follow_ups)


def test_a_resume_takes_passed_steps_and_a_changed_checkout_stops_it(world: World) -> None:
    first = world.procedure(world.toy_request("0,1"), TOY_FAULT="half")
    assert first.run().result == "Fail" and first.steps[-1].name == "level-1-pair"

    def resumed() -> Procedure:
        folder, request = run_folders.find(first.folder.path.parent, first.folder.path.name)
        return Procedure(Context(folder, request, world.env, world.said.append))

    again = resumed()
    found = again.run()
    assert found.result == "Pass", summary.text(found)
    assert len(first.folder.tries("level-0-smoke")) == 1, "not run again"
    assert any(text.startswith("level-0-smoke: Pass (earlier)") for text in world.said)
    for name in ("environment", "imports", "drift"):
        assert len(first.folder.tries(name)) == 2, "a resume may be on another machine: what runs there is proven there"
    assert [place.name for place in first.folder.tries("level-1-pair")] == ["try-1", "try-2"], "and nothing overwritten"
    (world.toy / "toytrain/__init__.py").write_text("x = 1\n")
    with pytest.raises(BadInput, match="has changed since"):
        resumed().run()


def test_an_interrupt_leaves_a_summary_in_which_the_rest_is_skipped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "run", interrupted)
    procedure = world.procedure(world.toy_request("0,1"))
    with pytest.raises(KeyboardInterrupt):
        procedure.run()
    assert [(step.verdict, step.reason) for step in procedure.steps[-3:]] == [
        ("Blocked", "interrupted"),
        ("Skipped", "not run: interrupted"),
        ("Skipped", "not run: interrupted"),
    ]
    assert procedure.folder.summary("txt").read_text().startswith("Result: Blocked - level-0-smoke: interrupted")


def test_a_run_is_held_by_one_process_and_a_damaged_request_is_named(world: World) -> None:
    folder = run_folders.new(world.root / "runs", world.toy_request("0"))
    held = run_folders.lock(folder)
    assert held > 0 and folder.path.stat().st_mode & 0o777 == 0o700
    with pytest.raises(BadInput, match="another process runs"):
        run_folders.lock(folder)
    folder.request.write_text("{")
    with pytest.raises(BadInput, match="is damaged"):
        run_folders.find(world.root / "runs", folder.path.name)
    with pytest.raises(BadInput, match="has no run 'x'"):
        run_folders.find(world.root / "runs", "x")
    with pytest.raises(Blocked, match="cannot write the run's folder"):
        run_folders.new(Path("/proc/none"), world.toy_request("0"))


def test_the_summary_is_found_in_a_log_in_both_formats(world: World) -> None:
    found = world.procedure(world.toy_request("0", overrides=["backend=other"])).run()
    noise = "step 1\n{\n not json\n"
    assert summary.in_log(noise + summary.text(found) + "\n") == (summary.text(found), 3)
    as_json, code = summary.in_log(noise + summary.as_json(found).decode() + "job ended\n")
    assert (json.loads(as_json)["result"], code) == ("Blocked", 3)
    with pytest.raises(Blocked, match="contains no summary"):
        summary.in_log(noise)
