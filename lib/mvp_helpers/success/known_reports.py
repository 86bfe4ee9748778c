"""With what known programs report that they have done all of their work, as the last lines of a whole log.

Each report is one that its program prints only at its end, and with numbers that show that no part is missing, where it has
such numbers. It counts only in a log that speaks of no training and has no word for something that went wrong, except where the
program itself prints that word in a log of a run without faults.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..log_text import log_lines
from . import counted, finished

LAST_LINES = 300
"""A report has at most this many lines."""
_NUMBER = r"[-\d.,]+"
_RULE = r"[-=]{10,}"
_ROW = r"[|+].*\n"


class Report(NamedTuple):
    """The last lines of a program."""

    end: str
    """What they match, all of them; lines of text have neither colours nor the prefixes of loggers."""
    own: str = ""
    """Words of a log without faults that would tell of a training or a failure in another program's."""
    not_in_it: str = ""
    """What the report of a run with a fault has."""


_TABLE = (
    # TensorRT-LLM
    Report(r"Total time of (?:building all engines|converting checkpoints): \d\d:\d\d:\d\d"),
    Report(
        rf"= PERFORMANCE OVERVIEW\s*\n{_RULE}\n(?:[^\n:]+: +{_NUMBER}\n)+(?:.*\n)*?"
        rf"(?:= DATASET DETAILS\n{_RULE}\n(?:[^\n:]+: .*\n)+)?{_RULE}"
        r"(?:\n(?:Thread \w+ stopped\.|.*Refreshed the MPI local session|.*thread exiting|Executor shutdown\.))*",
        own=r"Cancelling all 0 tasks to complete|All tasks cancelled|Guaranteed No Evict",
    ),
    # vLLM's and SGLang's benchmarks without a server
    Report(
        rf".*(?<!\d)(?P<all>[1-9]\d*)/(?P=all) \[.*\n"
        rf"Throughput: {_NUMBER} requests/s, {_NUMBER} total tokens/s, {_NUMBER} output tokens/s"
        r"(?:\nTotal num (?:prompt|output) tokens: +\d+)*"
    ),
    Report(
        rf"Avg latency: {_NUMBER} seconds\n"
        + "\n".join(rf"{n}% percentile latency: {_NUMBER} seconds" for n in (10, 25, 50, 75, 90, 99))
    ),
    Report(
        r"=+ Offline Throughput Benchmark Result =+\nBackend: +\w+\nSuccessful requests: +[1-9]\d*\n"
        rf"(?:[^\n:]+: +{_NUMBER}\n)+={{10,}}"
    ),
    # Triton's
    Report(
        rf"Inferences/Second vs\. Client .*\n(?:Concurrency: \d+, throughput: {_NUMBER} infer/sec, latency \d+ usec\n)*"
        rf"Concurrency: \d+, throughput: {_NUMBER} infer/sec, latency \d+ usec"
    ),
    Report(r".*Request [tT]hroughput \(per sec\).*\n(?:.*\n)*?.*Generating \S+\.json\n.*Generating \S+\.csv"),
    # MLPerf's load generator
    Report(
        r"Result is : VALID\n(?:.*\n)+(?:No|\d+) warnings? encountered during test\.\nNo errors encountered during test\.",
        not_in_it=r"satisfied *: NO\b",
    ),
    Report(  # its trainings
        r":::MLLOG \{.*\"key\": \"run_stop\".*\"status\": \"success\".*",
        own=r"(?m)^:::MLLOG .*$",
        not_in_it=r'"value": -?(?i:nan|inf)|"status": "(?!success)',
    ),
    # evaluations
    Report(
        rf"(?P<set>\w+) \(base tests\)\n(?:pass@\d+:\s+{_NUMBER}\n)+(?P=set)\+ \(base \+ extra tests\)"
        rf"(?:\npass@\d+:\s+{_NUMBER})+"
    ),
    Report(
        rf"Evaluating generations\.\.\.\n(?:.*\n)*?"
        rf"\{{\n(?:\"[\w-]+\": \{{\n(?:\"[\w@-]+\": {_NUMBER}\n)+\}},\n)+\"config\": \{{\n"
        r"(?:\".*\n)+\}\n\}"
    ),
    Report(rf"(?:Average accuracy {_NUMBER} - \w+\n){{2,}}Average accuracy: {_NUMBER}"),
    Report(
        r"The markdown format results is as below:\n(?:.*\|\n)+.*write markdown summary to \S+\.md",
        own=r"results is as below:",
        not_in_it=r"\| - \|",
    ),
    Report(rf".*Translated {_NUMBER} sentences .*\nGenerate \S+ with beam=\d+: .*{_NUMBER}.*"),
    # benchmarks of hardware
    Report(
        r".*\w (?:BW|Latency|Bidirectional BW) Test\n(?:.*\n)*?"
        r"#bytes .*\n(?:Conflicting CPU frequency .*\n|\d[\d.\s]+\n)+-{30,}"
    ),
    Report(
        rf"Successfully ran diagnostic for group\.\n(?:.*\|\n|{_ROW})+\+-{{10,}}\+-{{10,}}\+",
        not_in_it=r"\| *(?:Warn|Not Run|Retry)\b|\A(?![\s\S]*\| *Pass\b)",
    ),
    Report(
        r"Run status group \d+ \(all jobs\):\n(?:(?:READ|WRITE|TRIM): bw=.*\n|Run status group .*\n)*(?:READ|WRITE|TRIM): bw=.*"
        r"(?:\nDisk stats \(read/write\):(?:\n[\w.-]+: ios=.*)+)?",
        not_in_it=r"\berr= *[1-9]|^fio: ",
    ),
    Report(
        r"Finished +(?P<tests>[1-9]\d*) tests with the following results:\n"
        r"(?P=tests) tests completed and passed residual checks,\n"
        rf"0 tests completed and failed residual checks,\n0 tests skipped because of illegal input values\.\n{_RULE}\n"
        rf"End of Tests\.\n{_RULE}",
        own=r"(?m)^ *0 tests (?:completed and failed|skipped because) .*$",
    ),
    Report(
        rf"Solution Validates: avg error less than {_NUMBER}(?:e[-+]?\d+)? on all three arrays\n{_RULE}",
        own=r"avg error less than",
    ),
    # models
    Report(
        rf"Progress: 100\.0% +words/sec/thread: +\d+ +lr: +{_NUMBER} +avg\.loss: +{_NUMBER} +ETA: +0h 0m 0s",
        own=rf"avg\.loss: +{_NUMBER} ",
    ),
    Report(r"Ollama modelfile saved in \S+", own=r"llamafactory\.train\.tuner"),
    Report(r".*End time of running main: [\d-]+ [\d:.]+", own=r"(?m)^.* args: (?:Export|Infer|Eval)Arguments\(.*$"),  # ms-swift
    # pipelines and their data
    Report(
        r"(?P<steps>[1-9]\d*) of (?P=steps) steps \(100%\) done\nComplete log(?:\(s\))?: \S.*",
        own=r"(?m)^ *reason: Missing output files: .*$",
    ),
    Report(
        r"Completed at: .*\nDuration +: .*\nCPU hours +: [\d.,]+(?: \([\d.]+% cached\))?\n"
        r"Succeeded +: [1-9]\d*(?:\nCached +: \d+)?"
    ),
    Report(r".*Stats: All [1-9]\d* tasks\b.*\nTotal Runtime: .*(?:\n\W*- .*: .*|\nRuntime: .*|\n(?:Time )?[Ss]tats: .*)+"),
    Report(
        r"Use `dvc push` to send your updates to remote storage\.",
        own=r"(?m)^(?:Stage )?'[^'\n]*' didn't change, skipping$",
    ),
    Report(r"[1-9]\d* files? pushed"),
    Report(r"Successfully downloaded model repo and wrote to the following locations:(?:\n/\S+)+"),  # torchtune's
    Report(r".*=== Run \(ID '\w+'\) succeeded ==="),  # MLflow's
    # copies
    Report(
        r"sent [\d,.]+[KMGT]? bytes +received [\d,.]+[KMGT]? bytes +[\d,.]+[KMGT]? bytes/sec\n"
        r"total size is [\d,.]+[KMGT]? +speedup is [\d,.]+",
        not_in_it=r"^rsync\b.*: |^IO error|^file has vanished",
    ),
    Report(r".*\[(?P<files>[1-9][\d.,kK]*)(?:/(?P=files))? files\]\[.*\nOperation completed over [\d.,]+k? objects/.*"),
    Report(r"[\w.-]+: digest: sha256:[0-9a-f]{64} size: \d+"),
    Report(
        r".*\((?P<files>[1-9]\d*) / (?P=files)\) *: 100%.*\n(?:.*100%.*\n)*https://huggingface\.co/\S+/(?:tree|blob|commit)/\S+",
    ),
    # clusters
    Report(r"(?:deployment|daemon set|statefulset) .*\b(?:successfully rolled out|roll(?:ing|out) .* complete\S*.*)"),
    Report(
        r"(?:Release \"\S+\" has been upgraded\. .*\n)?"
        r"NAME: .*\nLAST DEPLOYED: .*\nNAMESPACE: .*\nSTATUS: deployed\nREVISION: \d+(?:\nTEST SUITE: None)?"
    ),
    Report(
        r"(?:Apply complete! Resources: (?:\d+ imported, )?\d+ added, \d+ changed, \d+ destroyed\."
        r"|Destroy complete! Resources: \d+ destroyed\.)(?:\nOutputs:(?:\n[\w-]+ = \S.*)*)?"
    ),
    Report(
        r"PLAY RECAP \*+(?:\n[^\s:]+ +: ok=\d+ +changed=\d+ +unreachable=0 +failed=0 .*)+",
        own=r"(?m)^skipping: \[[^\]\n]+\].*$|\bskipped=\d+",
        not_in_it=r"(?:rescued|ignored)=[1-9]|^fatal: ",
    ),
    # builds and tests
    Report(r"Finished `?[\w-]+`? (?:profile )?\[[^\]\n]+\] target\(s\) in .*\d+(?:\.\d+)?s"),
    Report(
        r"(?:added|changed|removed|up to date)\b.* in \d+m?s"
        r"(?:\n\d+ packages? (?:is|are) looking for funding\nrun `npm fund` for details)?"
        r"(?:\nfound 0 vulnerabilities)?",
        own=r"(?m)^npm (?:warn|WARN) .*$",
    ),
    Report(
        r"100% tests passed, 0 tests failed out of [1-9]\d*\n(?:.*\n)*?Total Test time \(real\) = +[\d.]+ sec",
        own=r"(?m)^ *\d+/\d+ Test +#\d+: .* Passed .*$|^ *Start +\d+: .*$|, 0 tests failed out of",
    ),
    Report(
        r"\[=+\] (?P<tests>[1-9]\d*) tests? from \d+ test (?:suite|case)s? ran\. \(\d+ ms total\)\n"
        r"\[ +PASSED +\] (?P=tests) tests?\.",
        own=r"(?m)^\[ +(?:RUN|OK) +\] .*$",
    ),
    Report(
        r"Test Suites: (?P<suites>[1-9]\d*) passed, (?P=suites) total\nTests: +(?P<tests>[1-9]\d*) passed, (?P=tests) total\n"
        r"Snapshots: .*\nTime: .*(?:\nRan all test suites.*)?",
        own=r"(?m)^ *(?:PASS|✓) .*$",
    ),
    Report(r"\[(?P<all>[1-9]\d*)/(?P=all)\] (?:Linking|Building) .*", not_in_it=r"\r|^ninja: "),
    Report(r"Build complete: \S+\.(?:sif|img)"),
)
_KNOWN = [
    (re.compile(rf"(?m)^(?:{report.end})\Z"), re.compile(report.own or r"\Z.").sub, re.compile(report.not_in_it or r"\Z.", re.M))
    for report in _TABLE
]
_DECIMAL = re.compile(r"(?<![\w.])\d{1,12}\.\d{1,12}(?![\w.])")
"""A result; where all are 0, nothing was done, or no answer understood."""
_HOST, _RECAP = re.compile(r"(?m)^(?:ok|changed|skipping): \[([^\]\s]+)"), re.compile(r"(?m)^(\S+) +: ok=\d")
"""A host of Ansible in a task, and in the recap."""


def report(log: bytes) -> str:
    """Return the first line of the report with which a known program ends a whole log; "" without one, or if it shows a fault."""
    lines = [line.text.strip() for raw in log.splitlines() if (line := log_lines.clean(raw, 0)).text.strip()]
    while lines and finished.after_report(lines[-1]):
        lines.pop()
    tail = "\n".join(lines[-LAST_LINES:])
    for end, without, fault in _KNOWN:
        if not (match := end.search(tail)):
            continue
        text = log.decode(errors="replace")
        rest = without("", text).encode()
        hosts = set(_HOST.findall(text)) - set(_RECAP.findall(text)) if match[0].startswith("PLAY RECAP") else set()
        results = [float(number) for number in _DECIMAL.findall(match[0])]
        if results and not any(results):
            continue
        if not (fault.search(text) or hosts or finished.wrong(rest) or finished.trains(rest) or counted.short(lines)):
            return match[0].partition("\n")[0]
    return ""
