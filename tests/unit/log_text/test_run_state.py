"""What a run did before it was ended: the line that shows it at work, the checkpoint, and how it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.diagnosis import diagnose
from mvp_helpers.log_text import run_state

STEPS = "step:1 - actor/loss:0.5\nTraining Progress:  20%|██        | 2/10 [00:10<00:40,  5.00s/it]\n"
WORK = {
    "a bar": ("Epoch 0:  31%|███       | 1225/3999 [1:07:35<2:33:02,  3.31s/it]", True),
    "a bar drawn over another": ("\r  1%| | 1/10 [00:01<00:09]\r 20%|██ | 2/10 [00:02<00:08]", True),
    "a step": ("[2024-03-30 06:11:04] iteration index: 200, batch loss: 82.6", True),
    "a line of a traceback": ('  File "train.py", line 5, in step', False),
    "its code": ("    loss = model.step(batch[0])", False),
    "a launcher": ("[launch.py:319] Killing subprocess 2606460", False),
    "Slurm": ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", False),
    "a tracker": ("wandb: Run data is saved locally in /tmp/wandb/run-20250811", False),
    "words alone": ("All ranks are ready", False),
}
SAVED = {
    "fairseq": ("[INFO] - Saved checkpoint checkpoints/checkpoint_18_14000.pt (epoch 18 @ 14000 updates)", True),
    "Megatron": ("saving checkpoint at iteration     200 to checkpoints/run", True),
    "transformers": ("Saving model checkpoint to out/checkpoint-500", True),
    "in other words": ("Best checkpoint with score 4.41 saved at /models/best.pt", True),
    "an intention": ("Checkpoints will be saved to out", False),
    "an option": ("save_steps=500, saved model every epoch", False),
    "a failure": ("Failed: checkpoint was not saved", False),
    "other files": ("Saving generated samples to data/1.json", False),
}


@pytest.mark.parametrize("what", WORK)
def test_the_last_line_at_work(what: str) -> None:
    line, works = WORK[what]
    found = run_state.before(f"{line}\n^C\n".encode(), 2, "^C").get("last", "")
    assert (found == line.rpartition("\r")[2].lstrip()) if works else not found


@pytest.mark.parametrize("what", SAVED)
def test_the_last_checkpoint(what: str) -> None:
    line, saved = SAVED[what]
    found = run_state.before(f"{line}\n^C\nSaved checkpoint later.pt\n".encode(), 2, "^C").get("saved", "")
    assert found == (line if saved else "")


@pytest.mark.parametrize(
    ("work", "end", "stood"),
    [
        ("10:00:01 step 5", "10:01:02 SIGTERM", "moved"),
        ("2026-01-01 23:59:01 step 5", "2026-01-02T00:09:08 SIGTERM", "idle"),
        ("10:00:01 started\n20%|██        | 2/10 [00:00:10<00:00:40]", "10:30:00 SIGTERM", "idle"),
        ("10:00:01 step 5", "14:00:10 SIGTERM", "undated"),  # in another time zone
        ("10:00:01 step 5", "SIGTERM", "undated"),
        ("step 5", "10:00:01 SIGTERM", "undated"),
    ],
)
def test_how_long_a_run_stood_before_its_end(work: str, end: str, stood: str) -> None:
    found = run_state.before(f"{work}\n{end}\n".encode(), work.count("\n") + 2, end)
    assert found.keys() - {"last"} == {stood}, found
    assert found.get("idle", "10 minutes") in ("10 minutes", "29 minutes")


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ("(pid=4) PC: @                0x0 (unknown)\n(pid=4)     @     0x7f7382cc3e70 redis::Command()\n", "redis::Command()"),
        ("#0  0x00007f in raise () from libc.so.6\n#1  0x00007f in NBC_Progress (handle=0x1) at nbc.c:345\n", "NBC_Progress"),
        (
            "[n1:31] [ 0] /lib/libpthread.so.0(+0x1)[0x2b]\n[n1:31] [ 1] /l/libmpi.so.4(NBC_Go+0x6)[0x2c]\n",
            "libmpi.so.4 (NBC_Go)",
        ),
        ("wandb: done\n", ""),
    ],
)
def test_where_compiled_code_crashed(frames: str, place: str, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text(f"step 5 of 9\n*** SIGSEGV received at time=1 on cpu 3 ***\n{frames}")
    answer = diagnose.of_log(log)
    assert answer.rule == "crash" and (f"begins in {place}:" in answer.next if place else "coredumpctl" in answer.next)


def test_what_ends_a_run_may_stand_behind_its_bar() -> None:
    bar = "Epoch 0:  31%|███       | 1225/3999 [1:07:35<2:33:02,  3.31s/it]"
    assert run_state.before(b"Epoch 0 begins\n", None, f"{bar}[rank: 2] Received SIGTERM")["last"].startswith(bar)


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (STEPS, "start it again (no line of the log tells of a checkpoint that was saved)"),
        (f"{STEPS}Saving model checkpoint to out/checkpoint-2\n", 'told of last ("Saving model checkpoint to out/checkpoint-2")'),
        ("x" * 80 + "\n" + "the log is long\n" * 300_000 + STEPS, "resume from the last checkpoint, if one was saved"),
    ],
)
def test_how_a_run_goes_on(before: str, says: str, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text(f"{before}Received 15 death signal, shutting down workers\n")
    assert says in diagnose.of_log(log).next


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("2026-01-07 10:29:01 step 5 of 9\n", 'it was at work until then ("2026-01-07 10:29:01 step 5 of 9")'),
        (
            "2026-01-07 08:40:01 step 5 of 9\n",
            'its last line at work ("2026-01-07 08:40:01 step 5 of 9") came 109 minutes before',
        ),
        ("INFO:     Application startup complete.\n", "nothing is wrong with a server that its allocation ends"),
        (STEPS, 'its last line at work ("Training Progress:  20%'),
        ("Welcome\n", "this log has no line of its work"),
    ],
)
def test_a_time_limit(before: str, says: str, tmp_path: Path) -> None:
    end = "slurmstepd: error: *** JOB 67 ON gpu04 CANCELLED AT 2026-01-07T10:29:37 DUE TO TIME LIMIT ***\n"
    (log := tmp_path / "log").write_text(before + end)
    assert says in diagnose.of_log(log).next


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("10:00:01 step 5 of 9\n10:00:09 ", 'it was at work until then ("10:00:01 step 5 of 9")'),
        ("10:00:01 step 5 of 9\n10:20:09 ", "came 20 minutes before the end: it may have hung, and py-spy dump"),
        ("step 5 of 9\n", 'its last line at work is "step 5 of 9"'),
        ("", "where no terminal reaches it"),
    ],
)
def test_a_stop_names_what_the_run_did(before: str, says: str, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text(f"{before}Received SIGINT\n")
    answer = diagnose.of_log(log)
    assert answer.rule == "interrupted" and says in answer.next
