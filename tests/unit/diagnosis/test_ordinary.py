"""Lines that are taken many at once change no answer: they say the same as when each is looked at by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mvp_helpers.base import word_search
from mvp_helpers.diagnosis import diagnose, scan, signatures
from mvp_helpers.diagnosis.scan import Scan
from mvp_helpers.log_text import ordinary

REAL = (Path(__file__).parent / "healthy" / "verl_ppo.log").read_text()
STEP_9 = re.compile(r"(?m)^.*step:9 - .*\n")
SAVED = "(WorkerDict pid=7) INFO:[Rank 1] Saved model to /jobs/x/checkpoints/global_step_{}/actor/model_rank_1.pt\n"
INSERTED = (
    "(A pid=7) step:9 - actor/loss:nan\n",
    "(A pid=7) step:8 - actor/loss:0.5\n",
    "(A pid=7) step:9 - actor/loss:1e999\n",
    "Training Progress: 100%|##| 20/20 [00:48<00:00,  1.73s/it]\n",
    "Training Progress:  45%|##| 900/20000 [00:29<00:25,  2.36s/it]\n",
    "Training Progress:   0%|  | 0/20 [00:00<?, ?it/s]\n",
    "Update weights:  45%|##  | 9/20 [00:29<00:25,  2.36s/it]\n",
    SAVED.format(9),
    SAVED.format(900),
    "(WorkerDict pid=7) Saving checkpoint 9: 0 failed\n",
    "(WorkerDict pid=7) Saving checkpoint 9: 1 failed\n",
    "(WorkerDict pid=7) Could not save the checkpoint\n",
    "Setting global step to 8\n",
    "ValueError: odd\n",
    "[prompt] step:7 - actor/loss:nan\n[response] x\n[ground_truth] 7\n",
    "Metric Checks\n+---- /global_step_9\n",
)


@pytest.mark.parametrize("inserted", INSERTED)
@pytest.mark.parametrize("large", [True, False])
def test_an_inserted_line_says_the_same_among_lines_taken_together(
    inserted: str, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LARGE", 0 if large else 1 << 40)
    log = tmp_path / "x.log"
    log.write_text(STEP_9.sub(lambda line: line[0] + inserted, REAL))
    answers = []
    for read in (1 << 16, 700):
        monkeypatch.setattr(word_search, "READ", read)
        answers.append(diagnose.of_log(log))
    monkeypatch.setattr(ordinary, "take", lambda *_: None)
    assert answers == [diagnose.of_log(log)] * 2


@pytest.mark.parametrize("zero", ["0.0", "-0.0", "0e+00", "0E+00", "1e-45", "1E-45"])
@pytest.mark.parametrize("large", [True, False])
def test_gradients_of_zero_are_counted_in_any_spelling(
    zero: str, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LARGE", 0 if large else 1 << 40)
    log = tmp_path / "x.log"
    log.write_text(re.sub(r"actor/grad_norm:\S+", f"actor/grad_norm:{zero}", REAL))
    assert diagnose.of_log(log).evidence == "actor/grad_norm is zero in 20 of 20 steps: nothing was updated"


def test_most_lines_of_a_training_are_taken_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LARGE", 0)
    log = tmp_path / "x.log"
    log.write_text(REAL)
    seen: list[bytes] = []
    monkeypatch.setattr(Scan, "_one", lambda self, raw, *rest, one=Scan._one: (seen.append(raw), one(self, raw, *rest)))
    diagnose.of_log(log)
    assert sum(b"step:" in raw or b"/global_step_" in raw for raw in seen) < 5


def test_a_checkpoint_that_may_not_be_saved_needs_a_look_of_its_own() -> None:
    shapes = ordinary.Shapes(Scan(signatures.load(), "").words())
    good = [b"1:2:Saved model to /x/checkpoints/global_step_5", b"1:2:INFO Saving checkpoint to /y", b"1:2:shard 3"]
    bad = [
        "saving shard {}: 1 failed",
        "Checkpoint {} not written",
        "checkpoint {} TIMED OUT",
        "save of {}: error",
        "shard {} died",
    ]
    assert all(shapes.of(good))
    assert not any(shapes.of([f"1:2:{text.format(5)}".encode() for text in bad]))
