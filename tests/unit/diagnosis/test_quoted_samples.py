"""Prompts and answers that a reward manager prints say nothing about the run, and no error of the run hides among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mvp_helpers.diagnosis import scan, views
from mvp_helpers.log_text.log_lines import Samples

HEALTHY = (Path(__file__).parent / "healthy" / "verl_ppo.log").read_text()
RUNNER = "\x1b[36m(TaskRunnerV1 pid=23599, ip=127.0.0.11)\x1b[0m "
WORKER = "\x1b[36m(WorkerDict pid=23815, ip=127.0.0.11)\x1b[0m "
OUT_OF_MEMORY = """Traceback (most recent call last):
  File "/private/common/code/verl/codeA/verl/workers/actor/dp_actor.py", line 300, in update_policy
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."""
ANSWERS = {
    "a traceback": OUT_OF_MEMORY,
    "a line of a library": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "a metric": "step:99 - actor/pg_loss:nan - training/global_step:99",
}


@pytest.fixture(params=["read in pieces", "searched"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of reading a log: small ones in pieces, large ones with a search program."""
    if request.param == "searched":
        monkeypatch.setattr(scan, "LARGE", 0)


def printed(text: str, prefix: str = RUNNER) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.split("\n"))


def sample(answer: str, prefix: str = RUNNER) -> str:
    return printed(f"[prompt] system\nSolve it.\n[response] {answer}\n[ground_truth] 42\n[score] 0.0", prefix)


def seen(tmp_path: Path, *parts: str) -> tuple[str, str]:
    log = tmp_path / "driver.log"
    log.write_text("".join(parts))
    found = views.triage_log(log)
    return found.verdict, found.rule


def halves() -> tuple[str, str]:
    """The log of a run that passed, before and after its tenth step."""
    lines = HEALTHY.splitlines(keepends=True)
    tenth = next(at for at, line in enumerate(lines) if "step:10 " in line)
    return "".join(lines[: tenth + 1]), "".join(lines[tenth + 1 :])


@pytest.mark.parametrize("prefix", [RUNNER, ""], ids=["of a Ray worker", "of the driver"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_the_model_said_is_no_cause(tmp_path: Path, answer: str, prefix: str) -> None:
    begin, end = halves()
    healthy = seen(tmp_path, begin, end)
    assert healthy[0] == "Pass"
    assert seen(tmp_path, begin, sample(answer, prefix), end) == healthy
    assert seen(tmp_path, begin, sample(answer, prefix), sample(answer, prefix), end) == healthy


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_same_lines_outside_of_a_sample_are_judged(tmp_path: Path, answer: str) -> None:
    begin, end = halves()
    assert seen(tmp_path, begin, printed(answer), end if "nan" in answer else "")[0] != "Pass"


ERROR = printed(OUT_OF_MEMORY, WORKER)
OWN_ERROR = printed(OUT_OF_MEMORY)
HIDING = {
    "a beginning without an end": printed("[prompt] x") + OWN_ERROR,
    "a sample that the end of the log cuts off": printed("[prompt] x\n[response] y") + OWN_ERROR,
    "no answer between": printed("[prompt] x") + OWN_ERROR + printed("[ground_truth] 42"),
    "another source": printed("[prompt] x\n[response] y") + ERROR + printed("[ground_truth] 42"),
    "an end of another source": printed("[prompt] x\n[response] y") + OWN_ERROR + printed("[ground_truth] 42", WORKER),
    "after a sample": sample("four") + OWN_ERROR,
    "before the next sample": printed("[prompt] x\n[response] y") + OWN_ERROR + sample("four"),
    "a sample that is too long": printed("[prompt] x\n[response] y")
    + OWN_ERROR
    + printed("\n".join(["word"] * Samples.MOST_LINES) + "\n[ground_truth] 42"),
    "a sample of too many bytes": printed("[prompt] x\n[response] y")
    + OWN_ERROR
    + printed("\n".join(["word" * 250_000] * 5) + "\n[ground_truth] 42"),
}


@pytest.mark.parametrize("lines", HIDING.values(), ids=HIDING)
def test_an_error_does_not_hide_in_what_looks_like_a_sample(tmp_path: Path, lines: str) -> None:
    begin, _ = halves()
    wanted = seen(tmp_path, begin, OWN_ERROR)
    assert wanted[0] == "Fail" and wanted[1]
    assert seen(tmp_path, begin, lines) == wanted
