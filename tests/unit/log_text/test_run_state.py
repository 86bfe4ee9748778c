"""What a run did before it ended: its last progress line, the last checkpoint, and how to continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.diagnosis import diagnose, signatures
from mvp_helpers.diagnosis.scan import Scan
from mvp_helpers.log_text import run_state

STEPS = "step:1 - actor/loss:0.5\nTraining Progress:  20%|██        | 2/10 [00:10<00:40,  5.00s/it]\n"
WORK = {
    "a bar": ("Epoch 0:  31%|███       | 1225/3999 [1:07:35<2:33:02,  3.31s/it]", True),
    "a bar drawn over another": ("\r  1%| | 1/10 [00:01<00:09]\r 20%|██ | 2/10 [00:02<00:08]", True),
    "a step": ("[2024-03-30 06:11:04] iteration index: 200, batch loss: 82.6", True),
    "a line of a traceback": ('  File "train.py", line 5, in step', False),
    "its code": ("    loss = model.step(batch[0])", False),
    "an evaluation": ("2026-01-01 10:49:25,252 [INFO] Evaluating on val.", True),
    "a loss": ("Averaged stats: lr: 0.0000  loss: 0.2004", True),
    "a launcher": ("[launch.py:319] Killing subprocess 2606460", False),
    "Slurm": ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", False),
    "a tracker": ("wandb: Run data is saved locally in /tmp/wandb/run-20250811", False),
    "a printed configuration": ("(TaskRunner pid=1)              'save_freq': -1,", False),
    "a request": ("Make sure to double-check that they contain no code. To avoid downloading 2 new versions, pin one.", False),
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
    "verl, before it saves": ("(TaskRunner pid=1) local_global_step_folder: checkpoints/a/b/global_step_4", True),
    "what is under way": ("Saving model state...", False),
    "a beginning": ("Start saving model checkpoint with running states", False),
    "in Chinese": ("已保存检查点到 checkpoints/checkpoint-step-50 (Step 51, Epoch 3, Batch 8)", True),
    "other files": ("Saving generated samples to data/1.json", False),
}


@pytest.mark.parametrize("what", WORK)
def test_the_last_line_at_work(what: str) -> None:
    line, works = WORK[what]
    found = run_state.before(f"{line}\n^C\n".encode(), 1, 2, "^C").get("last", "")
    assert (found == line.rpartition("\r")[2].lstrip()) if works else not found


@pytest.mark.parametrize("what", SAVED)
def test_the_last_checkpoint(what: str) -> None:
    line, saved = SAVED[what]
    found = run_state.before(f"{line}\n^C\nSaved checkpoint later.pt\n".encode(), 1, 2, "^C").get("saved", "")
    assert found == (line if saved else "")


@pytest.mark.parametrize(
    ("work", "end", "idle"),
    [
        ("10:00:01 step 5", "10:01:02 SIGTERM", {"moved": "yes"}),
        ("10:00:01 step 5", "10:04:50 SIGTERM", {"moved": "yes"}),
        ("2026-01-01 23:59:01 step 5", "2026-01-02T00:09:08 SIGTERM", {"idle": "10 minutes"}),
        ("10:00:01 step 4\n10:30:01 step 5", "10:50:00 SIGTERM", {"moved": "yes"}),  # half an hour for a step
        ("10:00:01 step 4\n10:10:01 step 5", "10:30:00 SIGTERM", {"idle": "19 minutes"}),
        ("10:00:01 started\n20%|██        | 2/10 [00:00:10<00:00:40]", "10:30:00 SIGTERM", {"idle": "29 minutes"}),
        ("10:00:01 step 5", "14:00:10 SIGTERM", {"undated": "yes"}),  # in another time zone
        ("10:00:01 step 5", "SIGTERM", {"undated": "yes"}),
        ("step 5", "10:00:01 SIGTERM", {"undated": "yes"}),
    ],
)
def test_how_long_a_run_was_idle_before_its_end(work: str, end: str, idle: dict[str, str]) -> None:
    found = run_state.before(f"{work}\n{end}\n".encode(), 1, work.count("\n") + 2, end)
    assert {key: value for key, value in found.items() if key != "last"} == idle


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
    assert run_state.before(b"Epoch 0 begins\n", 1, None, f"{bar}[rank: 2] Received SIGTERM")["last"].startswith(bar)
    older = "\r  0%|          | 1/3999 [00:01<1:00:00,  1.01it/s]"
    log = f"Epoch 0 begins\n{older}\n{older * 90}\r{bar}slurmstepd: error: *** JOB 7 ON a CANCELLED\n".encode()
    assert run_state.before(log, 1, 3, "slurmstepd: error: *** JOB 7 ON a CANCELLED") == {"last": bar, "moved": "yes"}


def test_the_memory_that_weights_take_is_what_the_engine_said_last() -> None:
    log = b"INFO Model loading took 9.1 GiB memory\nINFO Model loading took 14.9888 GiB and 5.1 seconds\nwork\n"
    assert run_state.before(log, 1, 3, "work")["weights"] == "14.9888 GiB"


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (STEPS, "start it again, or resume if its output folder has a checkpoint"),
        (
            f"{STEPS}Saving model checkpoint to out/checkpoint-2\n",
            'names ("Saving model checkpoint to out/checkpoint-2"), if it is complete',
        ),
        ("x" * 80 + "\n" + "the log is long\n" * 300_000 + STEPS, "resume from the last checkpoint, if one was saved"),
    ],
)
def test_how_a_run_goes_on(before: str, says: str, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text(f"{before}Received 15 death signal, shutting down workers\n")
    assert says in diagnose.of_log(log).next


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("2026-01-07 10:29:01 step 5 of 9\n", 'it made progress until then ("2026-01-07 10:29:01 step 5 of 9")'),
        (
            "2026-01-07 08:40:01 step 5 of 9\n",
            'its last progress line ("2026-01-07 08:40:01 step 5 of 9") is 109 minutes older',
        ),
        ("INFO:     Application startup complete.\n", "a server ends with its allocation"),
        (STEPS, 'its last progress line ("Training Progress:  20%'),
        ("Welcome\n", "this log has no progress line"),
    ],
)
def test_a_time_limit(before: str, says: str, tmp_path: Path) -> None:
    end = "slurmstepd: error: *** JOB 67 ON gpu04 CANCELLED AT 2026-01-07T10:29:37 DUE TO TIME LIMIT ***\n"
    (log := tmp_path / "log").write_text(before + end)
    assert says in diagnose.of_log(log).next


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("10:00:01 step 5 of 9\n10:00:09 ", 'it made progress until then ("10:00:01 step 5 of 9")'),
        ("10:00:01 step 5 of 9\n10:20:09 ", "is 20 minutes older than the end: if it hung, py-spy dump"),
        ("step 5 of 9\n", 'its last progress line is "step 5 of 9"'),
        ("", "where no terminal reaches it"),
    ],
)
def test_a_stop_names_what_the_run_did(before: str, says: str, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text(f"{before}Received SIGINT\n")
    answer = diagnose.of_log(log)
    assert answer.rule == "interrupted" and says in answer.next


def test_a_checkpoint_of_an_earlier_run_in_the_log_is_not_named(tmp_path: Path) -> None:
    earlier = f"{STEPS}Saved checkpoint to old/step_1.pt\nTraceback (most recent call last):\nValueError: odd\n"
    (log := tmp_path / "log").write_text(f"{earlier}{STEPS}^C\n")
    answer = diagnose.of_log(log)
    assert "2 runs" in answer.advice and "has a checkpoint" in answer.next and "old/step_1" not in answer.next, answer


@pytest.mark.parametrize(("job", "says"), [({}, "/tmp/ray/session_latest/logs"), ({"id": "j7"}, "53_debug_bundle.sh j7 gathers")])
def test_where_rays_logs_are_depends_on_who_started_ray(job: dict[str, str], says: str, tmp_path: Path) -> None:
    (log := tmp_path / "log").write_text("A worker died or was killed while executing task 5d1777e4.\n")
    known = signatures.load()
    answer = diagnose.diagnose([Scan(known, str(log)).read_file(log)], known, {"log": str(log), **job})
    assert answer.rule == "worker-process-died" and says in answer.next
    assert ("/tmp/ray" in answer.next) is not bool(job)
