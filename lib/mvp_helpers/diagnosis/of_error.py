"""The answer to an error that was found: by the rule that knows it, else by its kind, its place, and how far the run was."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ..log_text import code_line
from ..log_text.exceptions import CUT_OFF, Frame, Link
from ..log_text.tracebacks import SYNTAX
from . import gpu_memory, look
from .answer import LAST_ERROR, TWO_RUNS, Diagnosis, filled
from .causes import Finding
from .look import EVIDENCE
from .signature_files import Case, Judgement, Rule, Sentence, pattern
from .signatures import Hit, Signatures, call

WHOLE_LOG = "the log of that process up to the line that names the exception, which is missing here"
SCRIPT = (
    "grep that message in the script that printed it: the condition before it, and the folder, the options and the environment"
    " that the script was started with (a job's script may run as a copy in another folder)"
)
LOGGED = (
    "the file, row or value that the line (and the ones before it) names; grep that message in the code for the condition before"
    " it: a logger's exception(), or exc_info=True, would show where the error was raised"
)
CAUGHT = (
    "grep that message in the code: the handler that prints it hides where the error was raised; traceback.print_exc() in it"
    " shows that"
)
OWN_CODE = "a program"
"""Stands for the unknown file of the program that caught an error itself."""
ABSENT = (
    "ls -l {file} in the folder that the script was started in; the earlier step that writes it (its log, and the folder to which"
    " it writes), or the option that names it"
)
RESUME = "resume from the last checkpoint, if one was saved"
NONE_SAVED = "start it again, or resume if its output folder has a checkpoint"
START_AGAIN = "start it again (resume, if a checkpoint was saved: the log shows no step that this knows)"
UNDER_TEST = frozenset(
    {"provider", "PEFT", "checkpoint", "parallel state", "refit", "metric", "training", "memory", "test", "trainer"}
)
"""Boundaries of the code under test: an error in one of them fails a run that outlived it."""


_OF_PYTHON = re.compile(r"(/[^\s\"']*)(?<!/\.local)/lib(?:64)?/python3(?:\.\d+)?/")
"""A file of a Python installation; the group is the installation's folder."""
_CONFIGURED = frozenset({"config", "cluster size", "parallel state", "rollout engine", "model path", "data", "memory"})
"""Boundaries of errors that values of settings cause."""
_OF_TOOLS = frozenset({"dependency", "container", "harness"})
"""Boundaries of errors that a tool prints, which nobody looks for in its code."""
_OF_CODE = re.compile(r"(?i)(?<![a-z])(?:c10|torch|aten|cuda|tensors?|megatron|verl|nemo_rl)(?![a-z])|N3c10")
"""What a script's own words lack, and an exception of compiled code that a process logs has."""
_FILE = r"[\w./{}~$-]{1,200}\.(?:pth?|ckpt|distcp|safetensors|gguf|onnx|engine|jsonl?|[ct]sv|parquet|arrow|np[yz]|h5|pkl|bin)"
_ABSENT = re.compile(
    rf"(?P<file>{_FILE})['\"`]?:? (?:(?:was |is |file )?(?:not found|missing)|(?:does|did) ?n[o']t exist|no such file)"
    r"|(?:not found|missing|no such file|(?:cannot|could not|can't|couldn't) (?:find|open))\b"
    rf"[^/]{{0,40}}?['\"` ](?P<named>{_FILE})\b",
    re.IGNORECASE,
)
"""A file that a script looked for and did not find."""
_OF_PROGRAM = re.compile(r"(?i)\W*error \w[^:]*: ")
"""How programs, not the shell scripts around them, begin the line of an error that they caught."""
_SLURM_JOB = re.compile(r"\b(?:JOB |STEP |StepId=|[Jj]ob )(\d+)\b")
_ASSERTS = re.compile(r": assert \S")
"""How a cut-off traceback ends in which the line that raised is an assertion, which says enough."""
_OF_TRAINER = re.compile(r"'\w*(?:Actor|Trainer|Worker)' object")
"""A trainer's own class."""
_OF_VERSIONS = re.compile(r"^AssertionError\b|^TypeError: .*\b(?:unexpected keyword|missing \d+ required)|, assertion \(")
"""What a package mostly raises when another version of it, or of its caller, is wanted."""
_OF_NONE = re.compile(r"(?<='NoneType' object) has no attribute .*")


def of_finding(cause: Finding, known: Signatures, target: Mapping[str, str]) -> Diagnosis:
    hit, rule = cause.hit, cause.rule
    links = cause.chain.causes() if cause.chain else []
    link = hit.link if hit else links[0] if links else None
    frames = _frames(link, links, known)
    culprit = known.culprit(frames)
    place = Diagnosis(
        verdict="Unknown",
        log=cause.log,
        line=cause.number,
        evidence=cause.evidence[:EVIDENCE],
        recorded=cause.line is not None and cause.line.recorded,
        caught=cause.line.caught if cause.line and not cause.chain else "",
        phase=cause.phase,
        step=cause.progress.step,
        code_file=culprit.file if culprit else hit.groups.get("file", "") if hit else "",
        code_line=culprit.line if culprit else None,
        raised=f"{call(frames[-1])}\n{culprit.code}" if culprit else "",
        values=code_line.shows(cause.evidence, culprit.code, _below(frames, culprit)) if culprit else "",
    )
    if rule and hit:
        if module := hit.groups.get("module"):
            target = {**target, **_package(module, known)}
        return _of_rule(place, rule, hit, target, known.boundary(frames) if rule.placed else "unknown")
    # Without a frame that shows it, the line of code that raised, or what carried the exception, may say what it worked on.
    carriers = " ".join(each.text for each in cause.chain.links if each.wrapper) if cause.chain else ""
    importing = cause.chain is not None and any(known.of_import(each.frames) for each in cause.chain.links)
    # What a value that is None lacks says nothing about the operation that returned it.
    says = (
        f"{cause.source} {_OF_NONE.sub('', cause.evidence)} {link.code if link and not _OF_NONE.search(cause.evidence) else ''}"
    )
    boundary = "dependency" if importing or _between_packages(cause, link) else known.boundary(frames, says, carriers)
    if boundary not in UNDER_TEST - {"trainer", "training", "memory"} and "in DataLoader worker process" in carriers:
        boundary = "data"
    return msgspec.structs.replace(
        place,
        boundary=boundary,
        whose="user" if boundary == "user code" else "unknown",
        advice="No signature matches this error; it is the last distinct one, and not proven to be the cause.",
        next=look.at(cause, link, culprit, target),
    )


def _between_packages(cause: Finding, link: Link | None) -> bool:
    """Return whether a package asks another one for what that does not have: versions that do not fit."""
    raised = link.frames[-1].file if link and link.frames else ""
    asks = cause.evidence.startswith("AttributeError: module '") and "-packages/" in raised
    return asks and not look.CHECKED_OUT.search(raised)


def answered(cause: Finding, known: Signatures, target: Mapping[str, str]) -> Diagnosis:
    """Return the answer to an error by the rule that knows it, else by its kind."""
    answer = of_finding(cause, known, target)
    return judged(answer, known) if answer.verdict == "Unknown" else answer


def _frames(link: Link | None, links: Sequence[Link], known: Signatures) -> Sequence[Frame]:
    """Return the frames that show where an exception was raised, the innermost last.

    If it has none (a lone line), those of one that was raised from it; if all of its own are of packages, as where one of these
    caught it, the frames that called them are in the next one.
    """
    frames: Sequence[Frame] = next((each.frames for each in [link, *links] if each and each.frames), ())
    if frames and not known.outside(frames):
        later = (each.frames for each in links if each.frames is not frames and known.outside(each.frames))
        return [*next(later, ()), *frames]
    return frames


def _below(frames: Sequence[Frame], culprit: Frame) -> int:
    """Return how many calls below ``culprit`` the exception was raised; a class's own search for an attribute is none."""
    called = [frame for frame in frames if not frame.name.startswith("__getattr")]
    return len(called) - 1 - called.index(culprit) if culprit in called else 0


def _of_rule(place: Diagnosis, rule: Rule, hit: Hit, target: Mapping[str, str], raised_in: str) -> Diagnosis:
    where = f"{place.code_file}:{place.code_line}: " if place.code_file and place.code_line else ""
    python = _python(hit.link.frames if hit.link else ())
    values = {
        **target,
        "line": str(place.line),
        "slurm_job": job[1] if (job := _SLURM_JOB.search(hit.evidence)) else "JOB",
        **({} if target.get("grew") else step_values(_next_step(place))),
        "place": where,
        "go_on": _going_on(place.phase, target),
        "worked": _worked(target),
        "python": python,
        "anywhere": "yes" if python == "python" else "",
        **gpu_memory.held(hit.evidence),
        **hit.groups,
    }
    calls = [call(frame) for frame in hit.link.frames] if hit.link else []
    said = "\n".join([hit.evidence, *([hit.link.text, *(line.text for line in hit.link.rest)] if hit.link else [])])
    case = next(
        (each for each in rule.cases if each.fits(said, place.phase or "start", f"{place.code_file}\n{place.raised}", calls)),
        Case(run=rule.next, limitation=rule.limitation),
    )
    if matched := pattern(case.evidence).search(said):
        values.update({name: text for name, text in matched.groupdict().items() if text})
    advice, todo, limitation = filled(case.advice or rule.advice, values), filled(case.run, values), case.limitation
    if memory := gpu_memory.shortage(hit.evidence):
        advice, limitation = memory[0], ""
        todo = f"{memory[1]}; then {todo}" if memory[1] == gpu_memory.PIECES else memory[1]
    if target.get("has") and rule.boundary in _CONFIGURED:
        todo += f"; see {target['has']}"
    return msgspec.structs.replace(
        place,
        verdict=case.verdict or rule.verdict_in(place.phase or "start"),
        rule=rule.id,
        boundary=case.boundary or (rule.boundary if raised_in == "unknown" else raised_in),
        whose=rule.whose,
        confidence="low" if rule.secondary else "medium" if rule.kind else "high",
        advice=advice,
        next=todo,
        limitation=limitation,
    )


def _package(module: str, known: Signatures) -> dict[str, str]:
    """Return what pip installs to provide ``module``; if that is not known, it may be the run's ``own``."""
    reading, top = known.reading, module.partition(".")[0]
    name = reading.packages.get(module) or reading.packages.get(top) or (top if top in reading.named_alike else "")
    return {"package": name} if name else {"package": f"what provides {module}", "own": "yes"}


def _next_step(place: Diagnosis) -> int | None:
    """Return the step in which the error occurred: that of its line, or the one after the last; None if only epochs are known.

    A bar with metrics is of the step that was the last one.
    """
    if re.search(r"(?i)\bepoch\b", place.evidence) and not re.search(r"(?i)\b(?:step|iter)", place.evidence):
        return None
    if place.step is None or re.search(rf"\b0*{place.step}\b|\d/\d+ \[[=>.]*\] - ", place.evidence):
        return place.step
    return place.step + 1


def step_values(step: int | None) -> dict[str, str]:
    """Return the placeholder that says whether ``step`` is the ``first``, a ``later`` one, or ``unknown``."""
    return {"unknown" if step is None else "first" if step <= 1 else "later": str(step)}


def _going_on(phase: str, target: Mapping[str, str]) -> str:
    """Return how to continue the run once its cause is removed, by the checkpoints that the log names."""
    trained, saved = phase in ("train", "done"), target.get("saved")
    if trained and saved:
        return f'resume from the last checkpoint that the log names ("{saved}"), if it is complete'
    if target.get("whole") and not saved:
        return NONE_SAVED
    return RESUME if trained else START_AGAIN


def _worked(target: Mapping[str, str]) -> str:
    """Return the run's last progress as the rest of a sentence; "" if its log shows none."""
    if not (last := target.get("last")):
        return ""
    if idle := target.get("idle"):
        return (
            f'; its last progress line ("{last}") is {idle} older than the end: if it hung,'
            " py-spy dump of its processes shows where in the next try"
        )
    return f'; it made progress until then ("{last}")' if target.get("moved") else f'; its last progress line is "{last}"'


def _python(frames: Sequence[Frame]) -> str:
    """Return the Python that ran the code of ``frames``; "python" if they do not show which."""
    found = (match for frame in frames if (match := _OF_PYTHON.match(frame.file)))
    return next((f"{match[1]}/bin/python3" for match in found), "python")


def judged(diagnosis: Diagnosis, known: Signatures) -> Diagnosis:
    """Return the verdict on an error that no rule explains: by its kind, by whose code raised it, by how far the run was."""
    before = diagnosis.boundary
    evidence = diagnosis.caught or diagnosis.evidence
    code = (diagnosis.code_file or (diagnosis.caught and OWN_CODE), diagnosis.raised)
    readings = dict.fromkeys((diagnosis.evidence, evidence))
    judgements = (known.judgement(text, diagnosis.boundary, diagnosis.phase, *code) for text in readings)
    judgement = next(filter(None, judgements), None)
    if judgement is None and diagnosis.advice == LAST_ERROR and not _OF_CODE.search(evidence):
        # Outside of any exception a shell script says so.
        boundary, todo = _of_absent(evidence, diagnosis.recorded, known) if before == "unknown" else (before, "")
        diagnosis = msgspec.structs.replace(diagnosis, verdict="Blocked", boundary=boundary, next=todo or diagnosis.next)
    if judgement:
        reasons = "its kind" if judgement.evidence else "whose code raised it"
        reasons += ", and how far the run was" if judgement.phase else ""
        advice = f"No rule knows this error; it is judged by {reasons}."
        diagnosis = msgspec.structs.replace(
            diagnosis,
            verdict=judgement.verdict,
            confidence="low" if diagnosis.evidence.startswith(CUT_OFF) else judgement.confidence,
            rule="",
            boundary=_boundary(judgement, diagnosis),
            advice=f"{TWO_RUNS} {advice}" if diagnosis.advice == TWO_RUNS else advice,
        )
    # Code that does not parse after a step may be an answer's, which a reward function runs.
    answers = diagnosis.phase != "start" and SYNTAX.match(diagnosis.evidence)
    guessed = before == "unknown" and diagnosis.boundary == "trainer" and not (answers or _OF_TRAINER.search(diagnosis.evidence))
    if guessed:  # no frame is known to be a trainer's
        versions = "-packages/" in diagnosis.code_file and _OF_VERSIONS.search(diagnosis.evidence)
        of = ("dependency", "unknown") if versions else ("user code", "user")
        diagnosis = msgspec.structs.replace(diagnosis, boundary=of[0], whose=of[1])
    if judgement and (meaning := known.unknown.meanings.get(diagnosis.boundary)):
        diagnosis = msgspec.structs.replace(diagnosis, advice=f"{meaning} {diagnosis.advice}")
    if diagnosis.advice == LAST_ERROR and before == "unknown":
        return diagnosis
    boundary = before if guessed else diagnosis.boundary
    return followed_up(diagnosis, known, boundary, evidence, f"{diagnosis.code_file}\n{diagnosis.raised}")


def _of_absent(error: str, recorded: bool, known: Signatures) -> tuple[str, str]:
    """Return the boundary of an error that a script or program ends with, and what to look at if that is a file that it lacks."""
    if not (lacks := _ABSENT.search(error)):
        return "unknown" if recorded or _OF_PROGRAM.match(error) else "launcher", ""
    name = lacks["file"] or lacks["named"]
    alike = known.judgement(f"FileNotFoundError: '{name}'", "unknown", "start", "", "")  # Python's own error about it
    return (alike and alike.boundary_is) or "data", filled(ABSENT, {"file": name})


def _boundary(judgement: Judgement, diagnosis: Diagnosis) -> str:
    """Return the boundary: of an error that is mostly a user's own, the part under test that raised it, if one did."""
    mostly = judgement.verdict == "Fail" and judgement.boundary_is in ("user code", "data")
    raised = diagnosis.boundary in UNDER_TEST and look.CHECKED_OUT.search(diagnosis.code_file)
    return diagnosis.boundary if mostly and raised else judgement.boundary_is or diagnosis.boundary


def followed_up(diagnosis: Diagnosis, known: Signatures, boundary: str, evidence: str, code: str) -> Diagnosis:
    """Return it with what ``boundary`` proposes to run next after such an error; a rule's own ``next`` takes precedence."""
    follow_up = known.follow_up(boundary, evidence, code)
    if diagnosis.rule:
        return diagnosis
    todo = follow_up.about(evidence) if follow_up else ""
    if follow_up and follow_up.general and diagnosis.values:
        todo = diagnosis.values
    if (CUT_OFF in diagnosis.evidence or "(cut off)" in diagnosis.evidence) and not _ASSERTS.search(diagnosis.evidence):
        run = f"; then {todo}" if todo else ""
        limitation = follow_up.limitation if follow_up else ""
        return msgspec.structs.replace(diagnosis, next=f"{WHOLE_LOG}{run}", limitation=limitation)
    if follow_up is None:
        return diagnosis
    own = (
        ""
        if diagnosis.next == look.NO_FRAMES or diagnosis.next.startswith("less +")
        else diagnosis.next.removesuffix(look.UNCHANGED)
    )
    explained = isinstance(follow_up, Sentence)
    if own in (LOGGED, SCRIPT) and (explained or boundary in _OF_TOOLS):
        own = ""
    elif explained:
        own = look.ASKED.sub("", own)
    order = "{1}; see also {0}" if explained else "{0}; then {1}"
    run = order.format(own, todo) if own else todo
    return msgspec.structs.replace(diagnosis, next=run, limitation=follow_up.limitation)
