"""The one answer to "why did this end so": verdict, boundary, phase, rule, evidence line, confidence, advice, next command.

Blocked: something else stopped the run before the code under test could show anything; Fail: the code under test did. A log is
Pass only if it proves its success (see ``success.proven``) and the run outlived no error. Of several runs in a log the last one
counts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..base import redact
from ..learning import learning_signal
from ..log_text import collectives, log_lines, run_state, settings, wrapped
from ..success.proven import NOT_FINITE
from ..trainers import metric_names
from ..trainers.patterns.of_trainers import OF_RL_TRAINERS
from . import doubted, of_error, signatures
from .answer import AGAIN, COMPLETE_LOG, LAST_ERROR, TWO_RUNS, Diagnosis, filled
from .causes import Finding, first_cause
from .look import EVIDENCE
from .phases import Progress, later
from .scan import CHUNK, Scan, pieces
from .signature_files import pattern
from .signatures import Signatures

ENDED_BADLY = "Not a pass: the run reached its end, but then a process ended badly, and the log does not explain why."
NOTHING_SHOWN = "The log may be an excerpt, or the run may still be running, hang, or have been killed without a message."
HEALTHY_SO_FAR = "Nothing in it speaks against the run; how that ended, the log does not show."
STACKS = "py-spy dump of its processes{job? (./scripts/53_debug_bundle.sh {id} --py-spy)}, while it runs"
RAY_LOGS = "by default in /tmp/ray/session_latest/logs"
GATHERED = "./scripts/53_debug_bundle.sh {id} gathers them"
"""Where Ray's logs of a node are; those of a job's cluster."""
SAID = "The log says itself that a part of its work failed."
OF_PART = (
    "what that line names, if it says why (a program or file that is missing); else the output of that part alone: the file to"
    " which its command writes, or the same command once more in a terminal"
)
OF_CHECK = (
    "the lines above it: which values were compared, and which of them differ by how much; then the code that made the first of"
    " these, once with the inputs of the check alone, or the tolerance, if the difference is one of rounding"
)
_CHECKED = re.compile(
    r"(?i)\b(?:comparison|(?:diff\w*|parity|equality|accuracy|precision|numeric\w*|results?) (?:check|test|verification))s?"
    r" failed\W*$"
)
"""That something was compared, and differs."""
ODD = "The log shows no error that ended the run, and not its end, but the line in the evidence speaks against it."
OF_ODD = (
    "grep that message in the code that printed it: what the code leaves out or goes on without there, and how often the log has"
    " the line (grep -c); a run of which much was left out proves nothing, even if it ends"
)
_OF_STEPS = re.compile(r"(?i)\b(?:loss|losses|gradients?|batch|batches|optimi[sz]er|update)\b")
NO_NUMBER = "A metric in the log is not a number; the log shows no error and no end of a run."
OF_METRIC = (
    "what computes that metric, with the samples behind it: a mean of nothing (no sample, no candidate, an empty answer) or a"
    " division by 0 is not a number although each sample is right; else one batch of it by hand, with its labels and predictions"
)
BLOCKED = "No evidence against the code under test."
SERVED = "A server in this log became ready for requests. No line says that it failed, or what its clients did."
STOPPED_SERVER = (
    "A server in this log became ready for requests and later got a signal to stop. No line says that it failed before."
)
CLIENT = "the log of the program that sent the requests; if the server was not to end, the exit status of its command"
REFUSED = "A server answered a request with this error. That did not end the server, and no other line says that it failed."
REQUEST = "what the client sent, beside the limits of the server (max_model_len, max_tokens) and its version"
WARNINGS = "The log has warnings, which healthy runs print too, and neither an error nor the end of a run."
WORK_DONE = "The log shows no training: its own words report the end of the work, and nothing in it says that something failed."
THROWN = re.compile(r"^terminate called after throwing an instance of '(?:std::\S*basic_string<|char const).*'$")
"""What C++ prints of an exception without ``what()``, before its text."""
SAYS_ERROR = re.compile(r"(?i)(?:\S+\.(?:sh|pl): )?\W*(fatal )?error\b|\[[\w-]+\] fail(ed|ure)?: ")
SAYS_WORK = re.compile(r"(?i)\W*(?:(?:start|beginn|load|train|runn|sav|creat|us)ing|done|finished|loaded|saved)\b")
"""How a report of work begins; that a logger calls it critical may be a habit of the program."""
EARLIER = 200
"""Characters of an error that are quoted beside another."""
_CAUSED = re.compile(r"Caused by: ")
"""uv's and cargo's lines below an error."""
MORE_LINES = 3
"""So many lines below an error may say what it announces."""
LAST_LINES = 3
"""An error among this many last lines of a log ended the program."""
OWN_NAMES = frozenset({"own-name-missing", "own-module-without-name"})
"""Rules of a name that a module of the checkout lacks: where tests ran and failed, the code that they test."""
_FAILED_TEST = re.compile(
    r"(?m)^FAILED (?:\[[\d.]+s\] )?(\S+::\S+)|^_{3,} (?:\w+\.)*(test_\w+)\S* _{3,}$"
    r"|^To execute this test, run the following\b.*\n\s*(python \S+\.py .+)|^(?:FAIL|ERROR): (test_\w+) \("
)
"""A test that failed, in the summary of pytest or unittest, or the command that repeats one of PyTorch's own."""
_TEST_AT = re.compile(r"\b(test_\w+) at (\S+\.py):\d+")
"""A test in whose code something was raised, as ``look.at`` names the place."""
OF_A_TEST = frozenset({"config", "data", "launcher", "tracker", "user code", "test", "unknown"})
"""Boundaries that say of a failed test only how it failed: what it gave to the code is its own."""


def of_log(path: Path) -> Diagnosis:
    """Return the diagnosis of a log of any size.

    Raises:
        BadInput: the log cannot be read, is empty, or is not text.
    """
    known = signatures.load()
    target = {"log": str(path)}
    answer = diagnose([Scan(known, str(path)).read_file(path)], known, target)
    found_nothing = answer.line is None and answer.advice == NOTHING_SHOWN
    text = _text(path) if path.stat().st_size < CHUNK else ""
    broken = wrapped.of_powershell(text)
    whole = broken or (wrapped.lines(text) if found_nothing else [])
    if not whole:
        return answer
    unwrapped = "\n".join(line for _, line in whole).encode()
    again = diagnose([Scan(known, str(path)).read([unwrapped])], known, target)
    guessed = not broken and again.rule in ("", NOT_FINITE)  # numbers of lines of their own may have become one
    if again.line is None or guessed:
        return answer
    return msgspec.structs.replace(again, line=whole[again.line - 1][0])


def _text(path: Path) -> str:
    return b"".join(pieces(path)).decode(errors="replace")


def of_metrics(path: Path) -> Diagnosis:
    """Return the diagnosis of a metrics file as a learning signal. Raises BadInput if it contains no metrics."""
    signal = learning_signal.judge(learning_signal.read_jsonl(path), metric_names.VERL)
    return Diagnosis(
        log=str(path),
        verdict=signal.verdict,
        boundary="training" if signal.wrong else "",
        phase="train",
        rule="learning-signal",
        evidence=signal.reason(),
        confidence="high" if signal.verdict == "Fail" else "medium",
        advice="; ".join([*signal.wrong[1:], *signal.notes]) or "Nothing in the metrics contradicts learning.",
        next=AGAIN if signal.wrong else "nothing",
        learning=signal.sentences,
    )


def diagnose(scans: Sequence[Scan], known: Signatures, target: Mapping[str, str]) -> Diagnosis:
    """Return the one answer from logs that were read. ``target`` fills {id} (of a job) and {log} in the rules' texts."""
    of_verl = "id" in target or any(scan.success.mentions(OF_RL_TRAINERS) for scan in scans)
    job = target.get("id", "")
    whose = {"job": job, "ray_logs": GATHERED.format(id=job)} if job else {"alone": "yes", "ray_logs": RAY_LOGS}
    target = {"steady": "", **target, **whose, **_of_tests(scans), **_shown(scans, known), "verl" if of_verl else "other": "yes"}
    diagnosis = _of_cause(scans, known, target)
    of_a_test = diagnosis.rule in OWN_NAMES or (diagnosis.rule and diagnosis.whose == "user" and diagnosis.boundary in OF_A_TEST)
    if of_a_test and diagnosis.verdict == "Blocked" and _tests_failed(scans):
        diagnosis = msgspec.structs.replace(diagnosis, verdict="Fail", boundary="test")
    says_so = diagnosis.advice in (SAID, NO_NUMBER)
    error = diagnosis.line is not None and not diagnosis.rule and diagnosis.advice != REFUSED and not says_so
    if diagnosis.verdict == "Unknown" and error:
        diagnosis = of_error.judged(diagnosis, known)
        own_mistake = diagnosis.evidence.startswith("AttributeError") and re.search(r"(?:^|/)test_\w+\.py$", diagnosis.code_file)
        said_how = diagnosis.boundary in OF_A_TEST or own_mistake
        how_only = said_how and (diagnosis.verdict == "Blocked" or diagnosis.boundary == "user code")
        if how_only and _tests_failed(scans):
            place = diagnosis.next.partition("; then ")[0]
            advice = f"{known.unknown.meanings['test']} No rule knows this error; it is judged by its kind."
            diagnosis = msgspec.structs.replace(diagnosis, verdict="Fail", boundary="test", next=place, advice=advice)
            diagnosis = of_error.followed_up(diagnosis, known, "test", ".", "")
    if diagnosis.rule and diagnosis.confidence == "low" and diagnosis.phase == "done":
        diagnosis = msgspec.structs.replace(diagnosis, verdict="Unknown", advice=f"{ENDED_BADLY} {diagnosis.advice}")
    unexplained = diagnosis.verdict == "Unknown" and (diagnosis.line is None or says_so)
    if unexplained or diagnosis.verdict in ("Pass", "Noise") or diagnosis.boundary == "outside":
        diagnosis = doubted.doubted(diagnosis, scans, known, target)
    ended = diagnosis.line is not None and diagnosis.verdict in ("Fail", "Blocked") and diagnosis.rule != NOT_FINITE
    if ended and _reported_success(scans):
        diagnosis = doubted.survived(diagnosis, "The launcher reports that the job succeeded")
    if diagnosis.verdict == "Blocked":
        diagnosis = msgspec.structs.replace(diagnosis, advice=f"{diagnosis.advice} {BLOCKED}".strip())
    diagnosis = _of_last_run(diagnosis, scans)
    if not target["test"]:
        test = _TEST_AT.search(diagnosis.next)
        target |= {"test": f"pytest {test[2]} -k {test[1]} -x" if test else "pytest 'FILE::TEST' -x"}
    evidence = redact.text(diagnosis.evidence[:EVIDENCE])
    return msgspec.structs.replace(diagnosis, evidence=evidence, next=redact.text(filled(diagnosis.next, target)))


def _of_cause(scans: Sequence[Scan], known: Signatures, target: Mapping[str, str]) -> Diagnosis:
    """Return the answer of the rules alone."""
    end = Progress()
    for scan in scans:
        if later(scan.progress.phase, end.phase) or (
            scan.progress.phase == end.phase and (scan.progress.step or 0) > (end.step or 0)
        ):
            end = scan.progress
    # Ray's records of what died have no progress of their own: the run was as far as its log says.
    cause = first_cause([scan.findings.at(end) if scan.known_only else scan.findings for scan in scans], end)
    cause = cause or _last_words(scans, end)
    refused = next((scan.refused for scan in scans if scan.refused), None)
    if refused and cause and not (cause.hit or cause.chain):
        cause = None  # a line that only announces the request's error
    if cause and cause.of_profile and _worked_since(scans, cause):
        cause = None
    if cause:
        cause = _whole_message(scans, cause)
        target = {**target, **_run_state(scans, cause)}
    noise = cause.rule if cause and cause.rule and cause.rule.verdict == "Noise" else None
    if noise and noise.boundary == "startup" and not _warning(scans, known):
        cause, noise = None, None  # the log says much more than that
    earlier = min((scan.earlier for scan in scans if scan.earlier), key=lambda finding: finding.order, default=None)
    logged = next((scan.success.known for scan in scans if scan.success.known), "")
    went_on = end.phase != "done" and (logged or (cause and later(end.phase, cause.phase)) or any(scan.served for scan in scans))
    proven = next((scan.success.proven for scan in scans if scan.success.proven), "")
    if not (proven or logged or earlier or refused or (cause and not noise)) and (done := _work_done(scans)):
        passed = Diagnosis(verdict="Pass", evidence=done, confidence="medium", advice=WORK_DONE)
        return msgspec.structs.replace(passed, rule=noise.id if noise else "")
    if cause is None or (noise and (earlier or went_on or proven)):
        broken = next((scan.broken for scan in scans if scan.broken), None) if end.phase == "done" else None
        if proven:
            # Tests that failed before others count as much as those.
            failed = earlier if earlier and not any(scan.success.record.ends for scan in scans) else broken
            if failed is None:
                passed = Diagnosis(verdict="Pass", evidence=proven, phase="done", step=end.step, confidence="high")
                if cause and noise:  # residual text, which the answer names
                    advice = f"{noise.advice} ({cause.evidence[: EVIDENCE // 5]})"
                    return msgspec.structs.replace(passed, rule=noise.id, advice=advice, next=noise.next)
                return passed
            earlier = failed
        served = any(scan.served for scan in scans)
        again = any(scan.runs > 1 and not scan.known_only for scan in scans) and end.phase != "done"
        if earlier is None or logged or served or again:  # the last run shows what it did
            if refused and not logged:
                answer = of_error.of_finding(refused, known, target)
                todo = answer.next if answer.rule else REQUEST
                return msgspec.structs.replace(
                    answer, verdict="Unknown", rule="", boundary="rollout engine", confidence="low", advice=REFUSED, next=todo
                )
            if served and not logged:
                stopped = any(scan.findings.stopped for scan in scans)
                return msgspec.structs.replace(
                    _without_error(end, logged, target), advice=STOPPED_SERVER if stopped else SERVED, next=CLIENT
                )
            if end.phase == "start" and not logged and (warning := _warning(scans, known)):
                return _of_warnings(warning)
            said = next((said for scan in scans if (said := scan.success.said_to_fail)), "")
            records = [scan.success.record for scan in scans if not scan.known_only]
            odd = next(
                filter(None, (record.no_number or record.by_step.repeated or record.doubtful[:EARLIER] for record in records)), ""
            )
            answer = _without_error(end, logged, target, odd)
            if earlier and not logged:  # which the note about the other runs names
                return msgspec.structs.replace(
                    answer, next=f"{COMPLETE_LOG}; if it failed as before: {of_error.answered(earlier, known, target).next}"
                )
            if spoilt := next((record.no_number for record in records if record.no_number), ""):
                return _of_metric(answer, spoilt, scans)
            if said and not logged:
                return _of_part(answer, said, scans, known)
            return _of_odd(answer, odd, known) if odd else answer
        of_earlier = of_error.of_finding(earlier, known, target)
        return msgspec.structs.replace(of_earlier, verdict="Unknown", rule="", confidence="low", advice=TWO_RUNS)
    stages = [scan.stage for scan in scans if scan.stage and later(scan.stage, cause.phase)]
    # Tracebacks after the cause may show that the run was further than the log's lines do.
    answer = of_error.of_finding(cause.seen_in(stages[0], known) if stages and cause.phase == "start" else cause, known, target)
    engine = cause.program == "engine" or (not cause.frames and any(scan.served for scan in scans))
    if engine and answer.phase == "start" and answer.boundary in ("training", "memory"):
        return msgspec.structs.replace(answer, boundary="rollout engine", verdict="Blocked")  # nothing is trained here
    loud = cause.line is not None and cause.line.loud and not SAYS_WORK.match(cause.evidence)
    says_error = not (answer.rule or cause.frames) and (loud or SAYS_ERROR.match(cause.evidence))
    said = cause.line.text.strip() if cause.line else cause.chain.causes()[0].text if cause.chain else cause.evidence
    if says_error and answer.phase == "start" and any(scan.success.ends_with(said, LAST_LINES) for scan in scans):
        hint = of_error.CAUGHT if answer.caught else of_error.LOGGED if loud else of_error.SCRIPT
        look = hint if answer.boundary == "unknown" else answer.next
        return msgspec.structs.replace(answer, advice=LAST_ERROR, next=look)
    return answer


def _of_metric(answer: Diagnosis, spoilt: str, scans: Sequence[Scan]) -> Diagnosis:
    """Return the answer to a log in which a metric that stops no training is not a number."""
    line = next(filter(None, (scan.success.line_of(spoilt.split(" is ")[0]) for scan in scans if not scan.known_only)), None)
    boundary = "training" if "loss" in spoilt.lower() else "metric"
    return msgspec.structs.replace(answer, boundary=boundary, line=line, advice=NO_NUMBER, next=OF_METRIC)


def _of_part(answer: Diagnosis, said: str, scans: Sequence[Scan], known: Signatures) -> Diagnosis:
    """Return the answer to a log that says of a part of its work that it failed; the last of it in a check is a failed test."""
    line = next(filter(None, (scan.success.line_of(said) for scan in scans if not scan.known_only)), None)
    answer = msgspec.structs.replace(answer, evidence=said, line=line, advice=SAID, next=OF_PART)
    if _CHECKED.search(said) and any(scan.success.ends_with(said, LAST_LINES) for scan in scans):
        return msgspec.structs.replace(answer, verdict="Fail", boundary="test", next=OF_CHECK)
    boundary = known.boundary((), said)
    return answer if boundary == "unknown" else msgspec.structs.replace(answer, boundary=boundary)


def _of_odd(answer: Diagnosis, odd: str, known: Signatures) -> Diagnosis:
    """Return the answer to a log without an error in which the line ``odd`` speaks against the run."""
    boundary = known.boundary((), odd)
    of_it = boundary if boundary != "unknown" else "training" if _OF_STEPS.search(odd) else ""
    return msgspec.structs.replace(answer, boundary=of_it, advice=ODD, next=f"{OF_ODD}; then {answer.next}")


def _last_words(scans: Sequence[Scan], end: Progress) -> Finding | None:
    """Return an exception that nothing caught in the last lines of a log, or of its program: what follows was printed late."""
    if end.phase == "done":
        return None
    last = ((scan, finding) for scan in scans if not scan.known_only for finding in reversed(scan.findings.every))
    return next((each for scan, each in last if each.uncaught and _last_of_program(scan, each)), None)


def _last_of_program(scan: Scan, error: Finding) -> bool:
    """Return whether ``error`` is in the last lines of a log, or of the driver, below which only its workers print."""
    if scan.success.ends_with(error.evidence, LAST_LINES):
        return True
    log, whole = scan.success.text
    links = error.chain.links if error.chain else []
    last = max((link.number for link in links), default=0)
    below = b"".join(log.split(b"\n", last)[last:]) if whole and not error.source else b""
    return bool(below) and all(log_lines.clean(raw.split(b"\r")[0], 0).source for raw in below.split(b"\n") if raw.strip())


def _whole_message(scans: Sequence[Scan], cause: Finding) -> Finding:
    """Return an error of a line alone with the next ones that explain it: after a colon, below a thrown text or an empty one."""
    thrown = bool(THROWN.search(cause.evidence))
    if cause.chain and not thrown:
        return cause
    log, whole = next((scan.success.text for scan in scans if scan.name == cause.log), (b"", False))
    evidence = cause.evidence
    for raw in log.split(b"\n", cause.number + MORE_LINES)[cause.number : cause.number + MORE_LINES] if whole else []:
        text = log_lines.clean(raw, 0).text.strip()
        if not (thrown or _goes_on(evidence) or _CAUSED.match(text)):
            break
        evidence, thrown = f"{evidence} {text}".strip(), False
    hit = msgspec.structs.replace(cause.hit, evidence=evidence) if cause.hit else None
    return dataclasses.replace(cause, evidence=evidence, hit=hit)


def _worked_since(scans: Sequence[Scan], cause: Finding) -> bool:
    """Return whether a program drew a progress bar after ``cause``, and so had what it needs."""
    log, whole = next((scan.success.text for scan in scans if scan.name == cause.log), (b"", False))
    return whole and "%|" in run_state.before(log, cause.number + 1, None, "").get("last", "")


def _goes_on(text: str) -> bool:
    """Return whether the next line says more of what ``text`` announces."""
    return not text or text.endswith(":")


def _run_state(scans: Sequence[Scan], cause: Finding) -> dict[str, str]:
    """Return what the run did before ``cause``, as its output shows it, for the placeholders of the rules."""
    own = next((scan for scan in scans if scan.name == cause.log and not scan.known_only), None)
    output = own or next((scan for scan in scans if not scan.known_only), None)
    if output is None:
        return {"quiet": "yes", "silent": "yes", **collectives.NOTHING}
    log, whole = output.success.text
    crashed = run_state.crashed_in(log, cause.number) if own and whole else ""
    run = log.split(b"\n", output.success.first_line - 1)[-1] if whole else log
    crash = {**({"crashed": crashed} if crashed else {"silent": "yes"}), **collectives.waiting(run)}
    if output.served:
        return {"server": "yes", **crash}
    first, line = (output.success.first_line if whole else 1), (cause.number if own and whole else None)
    first = min(first, line or first)
    state = run_state.before(log, first, line, cause.evidence)
    state |= run_state.values_before(log, first, line, cause.evidence) if line else {}
    if "last" not in state:
        state["quiet"] = "yes"
    if whole:
        state["whole"] = "yes"
        if known := settings.named_in(cause.evidence, log, first, line):
            state["has"] = f"what the log has before it: {' and '.join(known)}"
        state["folder"] = next(iter(settings.having(settings.OUTPUT, log, first, line)), "")
        state["sizes"] = " and ".join(settings.having(settings.SIZES, log, first, line))
    if outlived := own.findings.outlived_before(cause) if own else None:
        state["outlived"] = f'the error in line {outlived.number}, which came before ("{outlived.evidence[:EARLIER]}")'
    return {**crash, **state}


def _shown(scans: Sequence[Scan], known: Signatures) -> dict[str, str]:
    """Return the facts of ``reading.yaml`` that the logs show, not only propose, by ``name``; of the others ``no_name``."""
    logs = [scan.success.text[0].decode(errors="replace") for scan in scans if not scan.known_only]
    reading = known.reading

    def first(name: str, fact: str) -> str:
        found = ((log, match) for log in logs for match in pattern(fact).finditer(log))
        said = (each for log, each in found if name not in reading.set or not settings.proposed(log, each.start()))
        return match.group() if (match := next(said, None)) else ""

    shown = {name: first(name, fact) for name, fact in {**reading.shown, **reading.set}.items()}
    return {name if text else f"no_{name}": text or "yes" for name, text in shown.items()}


def _of_tests(scans: Sequence[Scan]) -> dict[str, str]:
    """Return the command that repeats the first test that the logs name as failed ("" if none), and how many, if several."""
    named = [match for scan in scans for match in _FAILED_TEST.finditer(scan.success.text[0].decode(errors="replace"))]
    listed = [match for match in named if not (match[2] or match[4])]
    command = next((match[3] or f"pytest '{match[1]}' -x" for match in listed), "")
    command = command or next((f"pytest -k {match[2] or match[4]} -x" for match in named), "")
    return {"test": command, "tests": str(len(listed)) if len(listed) > 1 else ""}


def _tests_failed(scans: Sequence[Scan]) -> bool:
    """Return whether a log ends with a summary of tests that failed."""
    return any(finding.rule.summary for scan in scans for finding in scan.findings.known.values() if finding.rule)


def _work_done(scans: Sequence[Scan]) -> str:
    """Return the line that reports the end in the log of a program other than a training; "" without one."""
    own = [scan for scan in scans if not scan.known_only]
    return own[0].success.work_done if len(own) == 1 and not own[0].served and own[0].runs == 1 else ""


def _reported_success(scans: Sequence[Scan]) -> bool:
    return any(scan.success.record.ended_well for scan in scans if not scan.known_only)


def _warning(scans: Sequence[Scan], known: Signatures) -> str:
    """Return the first warning of a log that says little more; "" when none does."""
    own = [scan.success for scan in scans if not scan.known_only]
    warnings = (each.warning(known.notices) for each in own if not (each.record.losses or each.record.doubtful))
    return next(filter(None, warnings), "")


def _of_warnings(warning: str) -> Diagnosis:
    """Return the answer to a log that says little more than warnings."""
    return Diagnosis(
        verdict="Noise",
        boundary="startup",
        evidence=warning,
        phase="start",
        advice=WARNINGS,
        next=COMPLETE_LOG,
    )


def _without_error(end: Progress, logged: str, target: Mapping[str, str], odd: str = "") -> Diagnosis:
    """Return the answer to a log without an error that does not prove a success either.

    ``logged``: the steps that it shows; ``odd``: a line that speaks against the run.
    """
    shown = (
        f"{logged}; the end is not in this log"
        if logged
        else f"no {'exception' if odd else 'error'} was found, and no end of a run"
    )
    return Diagnosis(
        verdict="Unknown",
        evidence=f"{shown}; but: {odd}" if odd else shown,
        phase=end.phase,
        step=end.step,
        advice=HEALTHY_SO_FAR if logged and not odd else NOTHING_SHOWN,
        next=filled(COMPLETE_LOG if logged else f"{COMPLETE_LOG}; {STACKS}", target),
    )


def _of_last_run(diagnosis: Diagnosis, scans: Sequence[Scan]) -> Diagnosis:
    """Return the diagnosis with a note if the log contains other runs."""
    runs = max((scan.runs for scan in scans), default=1)
    if runs < 2 or diagnosis.advice.startswith(TWO_RUNS):
        return diagnosis
    note = f"This is about the last of {runs} runs in the log."
    if earlier := next((scan.earlier for scan in scans if scan.earlier), None):
        note += f" An earlier one failed: {earlier.evidence[:200]}"
    return msgspec.structs.replace(diagnosis, advice=f"{diagnosis.advice} {note}".strip())
