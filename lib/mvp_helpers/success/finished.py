"""What proves that a program which trains nothing has done its work: a benchmark, an evaluation, an installation, a batch job.

The report with which a known program ends, its own last words, or the exit status that a scheduler or the shell reports. Whether
a training is proven is a question for ``success``. Words of an unknown program count only in a log that neither speaks of a
training nor has any word for something that went wrong.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ..log_text import log_lines
from . import counted

LONGEST = 4 << 20
"""Bytes of a log that can be read as a whole."""
LAST_LINES = 3
"""Of the log, those in which the program's own words count; rows of tables, items, values and files are not counted."""
SHORT = 10
"""Of fewer lines, one that reports its only file may be the first of a part."""
MOST_LINES = 20
"""With those."""


def _any(words: str) -> re.Pattern[bytes]:
    before = r"(?:(?<![a-z-])|(?<=[\s:=(|]-)(?=nan|inf))"
    return re.compile(rf"(?i){before}(?:{'|'.join(words.split())})(?![a-z])".encode())


_OF_DATA = (
    r"(?![-_]\d|[-_\s]?(?:splits?|sets?|size|(?:and\s\w+\s)?data\b)|/|\[[\d:%]*\]|_\w+\.(?:json|parquet)\b"
    r"|\.(?:csv|jsonl?|tsv|txt|parquet|arrow|bin|npy)\b|\sin\s[~.]{0,2}/"
    r"|\s?[:=]\s{0,3}\d+(?:%\||(?![\d./%])))"
)
_NO_TOKENIZER = r"(?<!\btokenizer\s)(?!training\s(?:the\s|a\s)?(?:\w+\s)?tokenizer\b)"
_TRAINS = _any(
    rf"(?<!\ba\s)(?<!split':\s')train{_OF_DATA} {_NO_TOKENIZER}train(?:ing|ers?|s){_OF_DATA} fine-?_?tun\w* epochs?"
    r" optimi[sz]ers? learning[_\s]rate (?<!\b0\s)grad(?:ients?|[_\s]norm)? backward loss(?:es)?"
)
"""Words of a training; a part of the data and a tokenizer are none."""
_WRONG = _any(
    r"errors? exceptions? fail\w* traceback fatal panic\w* kill(?:ed|ing) abort\w* cancel\w* interrupt\w*"
    r" time\s?-?outs? timed\sout unable cannot can't could\s?n[o']t refused denied rejected missing retry\w*"
    r" skipp(?:ed|ing) incomplete nans? inf(?:inity)? lost segmentation segfault core\sdumped oom out\sof\smemory"
    r" no\ssuch not\sfound undefined assertion\w* unsupported invalid corrupt\w* faulty crash\w* hang\w* stuck died"
    r" walltime by\ssignal by\suser unsuccessful\w* prematurely quota"
    r" (?:finish|end|complet|exit)ed\swith\s[1-9]\d*(?![.\d%]|\s\w)"
    r" dead blocked preempt\w* evict\w* below exceed\w* mismatch\w* wrong 错误 失败 异常 中断 エラー 失敗 오류 실패 σφάλμα Σφάλμα"
    r" unparsable unreadable unreachable malformed g[ai]ves?\sup giving\sup reset\sby\speer 429\stoo\smany dry[-\s]run"
    r" unexpected\send returned\snone differs"
    r" nothing\sto\s(?:do|evaluate) not\soverwriting no\sspace\sleft allclose\W{1,3}false ❌ ✗ ✘"
    r" 无法 未找到 跳过 报错 出错 できません 見つかりません 例外 예외 없습니다"
    r" خطأ błąd hata impossibile mislukt misslyckad\w* no\sse\spudo"
    r" αποτυχ\w* ошибк\w* Ошибк\w* fehler\w* fehlgeschlagen erreurs? échec\w* erro falh\w* fall[óo]s?"
)
_RAISED = re.compile(rb"(?<![\w.\"'])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")
"""An exception, without its traceback."""
_NONE = re.compile(
    rb"(?im)\b(?:no|0|without) (?:\w+ )?(?:errors?|exceptions?|fail(?:ed|ures?)|skipped)\b"
    rb"|\[skipped, [^\]\n]*\]|\bskipping (?:override|duplicate\w*|upload)\b|\b(?:can|may|might|could) cause (?:\w+ ){0,3}\w+"
    rb"|--- Logging error ---(?s:.*?)\nArguments: [^\n]*"
    rb"|\bfailed for 0$|^Traffic request rate: +inf\s*$|^Namespace\([^\n]*\)\s*$"
    rb"|\b(?:remov|dropp|handl|clean|filter)(?:ed|ing) [^\n.]{0,30}\bmissing values\b|\w(?<!_on)_timeout\b(?! \w)"
    rb"|\bHTTP/\d\.\d\"? \d{3}[^\n]*|\bRetrying request to \S+ in [^\n]*|^warning: Failed to hardlink files; falling back[^\n]*"
    rb"|\bpackage not found, consider installing\b|\bwill raise (?:an )?error (?:from|in) v[^\n]*"
    rb"|^\S+:\d+: (?!Runtime)\w*Warning: [^\n]*(?:\n  \S[^\n]*)?"
    rb"|(?<![a-z])(?:errors?|exceptions?|fail(?:ed|ures?)|skipped|missing|nans?|timeout|unsupported|unreachable|malformed|unparsable|unreadable)"
    rb"(?:\w|(?<!:) (?=\w)){0,40}[\"']?\s*[:=|]\s*"
    rb"(?:0(?:\.0+)?%?|none|false|\[\])(?!\w|\.\w)"
)
"""Words that say that nothing went wrong, or that a program goes on as if nothing had."""
_WORK = (
    r"(?:run|jobs?|tests?|script|pipeline|experiments?|eval(?:uations?)?|inference|generation|(?:pre|post)processing|benchmark(?:s|ing)?|analys[ei]s|conversion"
    r"|pass|sweep|execution|downloads|uploads|exports?|set-?up(?!\.py)|installation|validation"
    r"|tokenizer training)"
)
_RESULT = r"(?:results?|benchmark|summar(?:y|ies)|predictions?|metrics|scores?|reports?)"
_END = re.compile(
    rf"(?i)^\W*(?:all |everything |processing )?(?:done|finished|completed?)\W*$"
    rf"|\b{_WORK}\b.{{0,80}}(?<!/)\b(?:finished|completed?|done|processed|ended|successful(?:ly)?)\b"
    rf"|\b(?:finished|completed|done with)\b.{{0,30}}\b{_WORK}\b"
    r"|\b(?:done|finished|completed?):? (?P<whole>[1-9]\d{0,8}) ?/ ?(?P=whole)\W*$"
    rf"|\b{_RESULT}\b.{{0,60}}\b(?:saved|written|exported|stored)\b"
    rf"|\b(?:saved|wrote|written|exported|stored)\b.{{0,80}}(?:\b|_){_RESULT}(?:\b|_)"
    rf"|^\W*(?:overall|{_RESULT})\b.{{0,60}}\b(?:pass(?:ed)?|ok)\b"
    r"|^\W*status\W+success\b|^Time for inference: [\d.]+ sec total\b"
    r"|^\W*done[!.:\]] (?:\(in [\d.]+ ?\w|\w.*(?:\d|\b(?:saved|written|exported) (?:to|in|at)\b))"
    r"|^\W*successfully (?:saved|restored|exported|imported|converted|uploaded|downloaded|merged|written|created|processed"
    r"|completed)\b|\bthe exported model was saved at: |^(?:the )?model is quanti[sz]ed and saved (?:at|to|in) \S"
    r"|\b(?:completad[oa]s?|finalizad[oa]s?|conclu[ií]d[oa]s?|terminée?s?|abgeschlossen|ολοκληρώθηκ\w+|заверш[её]н\w*)\b"
    r"|(?:结果|摘要|报告|指标|预测).{0,20}(?:已保存|保存至|写入完成)|^(?!.*(?:初始化|载入|导入|加载|下载|连接)).*完成\W*$"
    r"|(?:результат|отчёт)\w*.{0,20} сохранен"
)
_LAST = re.compile(
    r"(?i)^\W*(?:(?:data(?:set)? )?split(?:ting)?|filtering|merg(?:e|ing)|convert|quanti[sz](?:e|ation|ing)"
    r"|tokeni[sz](?:ation|ing)|extraction) (?:done|finished|completed?)\W*$"
)
"""Of such a part of a work a program says so in its last line if that is all of it."""
_DAEMON = re.compile(rb"(?m)^\[[^\]\n]+ [IWEF] \d+ \d+\] \((?:gcs_server|raylet|\w*agent|core_worker)\) ")
"""Ray's own processes: what they finish ends nothing."""
_NOT_YET = re.compile(
    r"(?i)\b(?:não|nicht|pas|не|δεν|no (?:se|completad[oa]s?|finalizad[oa]s?)|load\w*"
    r"|not|will|would|when|once|until|if|wait\w*|to (?:complete|finish)|start\w*(?!=)|begin\w*|next|\d+ ?/ ?\d+|\d+ of \d+)\b"
)
"""A line that is about a part of the work, or about what comes."""
_STATUS = re.compile(
    r"(?i)^\W*(?:\w+\.py:\d+} INFO - )?(?:\w+[ _])?(?:exit(?:ed)?|return|finish(?:ed)?)"
    r"(?:[ _-](?:with|return|code|status|value))*\W{1,3}0\W*$"
    r"|^(?:\w+_)?(?:DONE|ENDED|FINISHED)\b\W*(?:rc|ret|exit_?code|status)\W{1,3}0\W*$"
    r"|^# Ended \(code 0\) at .*"
)
_BATCH = re.compile(r"(?m)^Subject: Job \d+: .* in cluster .*? (?P<end>Done|Exited)\s*$")
"""LSF's report of a job, which its output follows."""
_REPORTS = re.compile(
    r"^(?:Successfully (?:installed(?! UNKNOWN-)|tagged) \S|Finished processing dependencies for \S|\[100%\] Built target \S"
    r"|Model successfully exported to \S|\+ \S+==\S|Audited (?:\d+ packages? )?in \S+$|# Collective test concluded: "
    r"|# Avg bus bandwidth +: \d"
    r"|Wrote preprocessed data to \S|Status: (?:Downloaded newer image|Image is up to date) for \S|# +\$ conda deactivate$"
    r"|(?:llama_quantize|main): +total time = |(?:-- )?Build files have been written to: \S)"
    r"|^build: [0-9a-f]{7,40} \(\d+\)$|^Uploading the dataset shards: 100%\|[^|]*\| *(?P<shards>\d+)/(?P=shards) "
    r"|^(?:[\d: -]+)?\([^)]*/s\) - .* saved \[(?P<bytes>\d+)/(?P=bytes)\]$"
)
"""With what pip, setuptools, CMake, uv, Docker, nccl-tests, fairseq, conda, wget, datasets, and llama.cpp's tools end."""
_TESTS_RUN, _TESTS_OK = re.compile(r"^Ran [1-9]\d* tests? in [\d.]+ ?s"), re.compile(r"^OK(?: \([\w =,]+\))?$")
"""What unittest ends with."""
_FETCHED = re.compile(r"\bFetching (?P<files>\d+) files: 100%\|[^|]*\| *(?P=files)/(?P=files) ")
"""What `hf download` shows before the folder, its last line."""
_BUILT = re.compile(r"^Successfully built \S|^#\d+ DONE \d")
_AFTER_BUILT = re.compile(r"(?i)^removed build|^#\d+ (?:naming to|writing image)")
"""What a build without more to do prints after the one, and before the other; parts of others end with the same words."""
_CONFLICTS = re.compile(rb"(?im)^ *(?:\x1b\[\d+m)?ERROR: pip's dependency resolver does not currently take into account .*$")
"""pip's notice about other packages, after which it goes on."""
_CHECKS = (
    re.compile(rb"(?m) ERROR \d{3}: "),
    re.compile(rb"(?m)^# Out of bounds values : (?!0 OK)"),
    re.compile(rb"(?im)^(?:#\d+ )?(?:ERROR|FAILED)\b(?! requests: +0 *$)"),
)
"""Lines in which these programs say that it went wrong."""
_NOTICE = re.compile(
    r"(?i)^\W*(?:notice\b|\d+ warnings? found\b|view build details: |warning: running pip as"
    r"|you should consider upgrading via|note: you may need to restart"
    r"|writing image|naming to|removed build)"
    # how PowerShell shows what a program printed on stderr
    r"|^pip\S* :\s*$|^(?:At line:|所在位置 行:)\d+"
    r"|^\+ +(?:\.\.\. |~+$|CategoryInfo +: NotSpecified: \(:String\)|FullyQualifiedErrorId : NativeCommandError$)"
    r"|NCCL INFO|^#?$|^[\w-]+(?:\.[\w-]+)+/\S+:\S+$"
)
"""Lines that may follow such a report."""
_BENCHED = re.compile(r"=+ Serving Benchmark Result =+$")
_CLOSED = re.compile(rb"(?m)^=+\s*$")
_ANSWERED = re.compile(r"Successful requests: +(?P<count>\d{1,12})$")
_UNANSWERED = re.compile(r"Failed requests: +(?P<count>\S.*)$")
_NOTHING = re.compile(r"Total generated tokens: +0$")
_ASKED = re.compile(r"\bnum[-_]prompts[= ](?P<count>\d{1,12})|\b(?P<all>\d{1,12})/(?P=all) \[")
"""The table of vLLM's and SGLang's serving benchmark, the rule below it, and what says how many requests there were to be."""
_TRIALS = re.compile(rb"(?m)^Trial status: (?P<states>.*\S)\s*$")
_NO_BEST = re.compile(rb"(?i)\bbest trial: \S+ with \w+=[-+]?(?:nan|inf|none|null)\b")
"""What Ray Tune says of its trials, again and again, and of the best one if its metric is not a number."""
_EVALUATED = re.compile(r"^(?!.*\b(?i:nan|inf)\b)\|?[\w -]*\|.*\|±? *\|? *[\d.N/A]+ *\|$")
_ZERO = re.compile(r"\| *0(?:\.0+)? *\|(?:± *\||[^|]*\|)? *[\d.N/A]* *\|$")
_EVALUATION = re.compile(r"^\|? *(?:Tasks?|Groups?) *\|.*\| *Value *\|")
"""A row of the table of lm-eval, one with a score of 0 (where all are, no answer may have been parsed), and the table's head."""
_SELECTED = re.compile(r"Selected Tasks: \[([^\]]{1,2000})\]")
"""The tasks that lm-eval was to evaluate."""
_BURNT, _TESTED = re.compile(r"^GPU \d+: OK$"), re.compile(r"^Tested (?P<gpus>\d{1,6}) GPUs:$")
"""What gpu-burn says of each GPU, and the line before."""
_FINAL = re.compile(
    r"(?i)^(?:.* (?:I|INFO - \S+ -) +|\W*)(?:final|overall|test accuracy|(?:test(?:ing)? )?success (?:rate|ratio))\b"
    r"[\w @:()-]{0,40}[:=]\s*[\d.]+(?![\w.])"
    r"(?! ?(?:/|of) ?\d+(?!.*%))"
    r"|\b(?:done|ok|success(?:ful)?|succeeded|passed)[=:] ?[1-9]\d*\b.*\b(?:failed|errors?)[=:] ?0\b"
    r"|\b(?P<all>[1-9]\d*) ?/ ?(?P=all) (?:done|ok|success(?:ful)?|succeeded|passed)\b.{0,9}\b0 (?:failed|errors?)\b"
)
"""A result of everything."""
_RESULTS = re.compile(r"(?i)^\W{0,99}(?:[\w./+-]+ ){0,5}(?:results?|scores?|summary|metrics|accuracy)\W*$")
"""The heading of results."""
_COLUMNS = re.compile(r"^[^\d|]+(?:\|[^\d|]+){2,}$")
"""The heads of a table's columns."""
_NUMBER = r"~?[-+]?\d[\d.,]*(?: ?[\w%/×]{1,12})?"
_VALUE = re.compile(rf"^\W{{0,99}}(?:\S+\s|\w[^,;!?]*?[:=|])\s*{_NUMBER}(?:,\s*{_NUMBER})*\W*$|^\W*$")
"""A name and its numbers."""
_SCORE = re.compile(
    r"(?i)\b(?:accuracy|acc|f1|em|exact[ _-]match|scores?|success(?:[ _-]rate)?|pass@\d{1,4}|recall|precision|bleu|rouge\S{0,4}"
    r"|(?:mean[ _])?rewards?)\b[\"']?\W{1,4}(?P<score>\d{1,6}(?:\.\d{1,20})?)(?![\d.]|/|:\d)"
)
"""A score; where all are 0, no answer may have been understood."""
_SENTENCES = re.compile(r"[.!?] +[A-Z]")
_CELLS = re.compile(r"^[^|]+(?:\|[^|]*\d[^|]*){2,}$")
_SUBJECT = re.compile(r"^(?:[A-Z]\w* )?(?:Model|Backend|Device|GPU|Data ?set|Engine|Framework|Precision|Dtype): \S.{0,79}$")
_RULED = re.compile(r"^(?P<rule>[-=*#]{2,}) \w[\w ]*(?P=rule)$")
"""Below the heading of results: a row of cells with numbers, what was measured, or the heading of a part of them."""
_ROWS_STATED = re.compile(
    r"(?i)^\W*(?:total|number of) (?:evaluations|experiments|trials|checkpoints|models|configurations|configs|rows|entries)"
    r"\W{1,3}(?P<rows>\d{1,6})\W*$"
)
_RANGE_STATED = re.compile(r"(?i)^\W*(?P<column>[a-z]\w*) range\W{1,3}(?P<ends>[\d.]{1,20} ?(?:-|–|to) ?[\d.]{1,20})\W*$")
"""What is said above a table: how many rows it has, or from where to where the numbers of a column go."""
_NO_END = re.compile(
    r"(?i)\b(?:partial|intermediate|running|previous|baseline|expected|config\w*|settings?|hardware|system|data ?set|parameters?"
    r"|queue|allocation|engine|cache|server|model summary|nvidia-smi|initial|current|interim)\b"
)
"""Headings of partial results, settings, servers and data."""
_SERVES = re.compile(r"(?i)\bserver (?:is |has )?(?:ready|started|listening|running)\b|\bUvicorn running on ")
"""A server prints this, and its statistics again and again."""
_TOTAL, _DONE = (
    re.compile(rf"(?i)\b(?:{word})\b[^\d\n]{{0,30}}[:=]\s*(\d{{1,12}})\b")
    for word in ("total", r"success\w*|succeeded|passed|answered")
)
_STILL = re.compile(
    r"(?i)^\W*\w+ing\b|^\W*(?:item|step|batch|epoch|iter\w*|sample|task|case|request|row)\W{0,3}\d+ *\|"
    r"|(?<!\d)(?!100)\d{1,2}%\||^\W*(?:passed|answered|requests|successful|succeeded|ok|good)\W{1,3}0\b"
    r"|\b(?:regress\w*|non-2xx\b.*|HTTP [45]\d\d|KO|bad|not ok)\W{1,3}[1-9]|^[^|]*\b(\d+) ?/ ?(?!\1\b)\d+ *\|"
)
"""A row of work that goes on, or that went wrong."""
_BENCH_ROW = re.compile(rf"{_VALUE.pattern}|^---|^(?:Backend|Max request concurrency|Traffic request rate): ")
"""A row of a serving benchmark's table."""
_ROW = re.compile(r"^\W*$|^.*(?: {2}|\||\t)[-+\d.,%]+\S{0,3}(?: {2}|\||\t).*\d\D{0,3}$|^[A-Z][\w ]+:$")
"""A row of a table, a rule, or the head of a list."""
_FILE = re.compile(r"^\W{0,99}[\w./-]+\.\w{1,5}(?: \([\w ]+\))?$|^\W*[^\W\d][\w ]*[:\uff1a](?: ?[~.]?/[\w./-]+)?$")
"""A file that was written, or the heading of several."""
_SAVES = re.compile(
    r"(?i)\b(?:saved?|saving|wrote|written|exported|salvat[oi]|guardad[oa]s?|gespeichert|сохранен\w*|保存)[^.;]{0,60}?"
    r"[~.\w/\\-]*\w\.(?:json[lc]?|csv|tsv|txt|md|html|pdf|parquet|arrow|h5|npz?|pkl|zip|log|png)\b"
)
"""A program saves something in a file."""
_ITEM = re.compile(r"\s+[-*] ")
"""An item of a list, indented: what a logger prints may begin with a dash, too."""
_ALL = re.compile(r"\b(\d+) ?(?:/|of) ?\1\b")
_NOTHING_DONE = re.compile(
    r"(?i)(?<![\d.:,=+-])\b(?<!\d )0 (?:\w+ )?(?:files|samples|examples|sents|sentences|prompts|questions"
    r"|checkpoints|tensors|items|rows|records)\b(?!\(s\))|^usage: \S+"
)
"""Nothing was there to work on, or the program only says how it is used."""
_PART = re.compile(r"\[(?P<part>\d{1,9})/(?P<total>\d{1,9})\] \S")
_REFUSED = re.compile(r"(?i)(?:status|code|http(?:/[\d.]+)?|[-=]>)\W{0,4}[45]\d\d\b")
_COUNTS = re.compile(r": .*\d")


def wrong(text: bytes) -> bool:
    """Return whether ``text`` contains a word for something that went wrong."""
    text = _NONE.sub(b"", text)
    return bool(_WRONG.search(text) or _RAISED.search(text))


def trains(text: bytes) -> bool:
    """Return whether ``text`` speaks of a training, or is of Ray's own processes."""
    return bool(_TRAINS.search(text) or _DAEMON.search(text))


def after_report(text: str) -> bool:
    """Return whether a line may follow the report of a program's end."""
    return bool(_NOTICE.search(text) or _STATUS.search(text))


def _nothing_right(lines: Sequence[str]) -> bool:
    """Return whether all scores are 0."""
    scores = [float(match["score"]) for text in lines for match in _SCORE.finditer(text)]
    return bool(scores) and not any(scores)


def words(log: bytes) -> str:
    """Return the line of a whole log that reports the end of its work; "" without one, or where anything speaks against it."""
    if trains(log) or wrong(log):
        return ""
    if batch := list(_BATCH.finditer(log.decode(errors="replace"))):
        if any(map(_NOTHING_DONE.search, _texts(log))):
            return ""
        return batch[-1][0].strip() if all(job["end"] == "Done" for job in batch) else ""
    own = _texts(log)
    if counted.short(own) or counted.parts_left(own) or _nothing_right(own) or any(map(_NOTHING_DONE.search, own)):
        return ""
    if any(map(_BENCHED.search, own)):  # how many requests it should have had is a question for its report
        return ""
    shapes = [counted.shape(text) for text in own]
    others = 0
    for text in reversed([text for text in _texts(log, items=False) if not _ROW.search(text)][-MOST_LINES:]):
        # What a program says more than once is about a part of its work.
        said_once = shapes.count(counted.shape(text)) == 1
        ends = _FINAL.search(text) or (_END.search(text) and not _NOT_YET.search(_ALL.sub("", text)))
        if _STATUS.search(text) or (said_once and ends):
            return text
        others += bool(_NOT_YET.search(text)) or not (_VALUE.search(text) or _FILE.search(text))
        if others == LAST_LINES:
            break
    saves = [text for text in own if _SAVES.search(text)]
    if len(own) >= SHORT and saves == own[-1:] and not _NOT_YET.search(own[-1]):
        return own[-1]
    if own and _LAST.search(own[-1]):
        return own[-1]
    return _results(own) or _all_parts(own)


def _results(own: Sequence[str]) -> str:
    """Return the heading of results if nothing but these follow, the last of which is a number; "" otherwise."""
    if not own or not (_VALUE.search(own[-1]) or _CELLS.search(own[-1])):
        return ""
    values = list(itertools.takewhile(_of_results, reversed(own)))[::-1]
    above = own[: len(own) - len(values)]
    above = above[:-1] if above and _COLUMNS.search(above[-1]) else above
    heading = above[-1] if above and sum(any(map(str.isdigit, text)) for text in values) > 1 else ""
    parts = [match for text in own if (match := _PART.match(text))]
    if parts and int(parts[-1]["part"]) < int(parts[-1]["total"]):
        return ""
    if not _RESULTS.search(heading) or _NO_END.search(heading) or any(map(_STILL.search, values)):
        return ""
    if sum(map(bool, map(_RESULTS.search, own))) > 1 or any(map(_SERVES.search, own)):
        return ""  # of a part, or from time to time
    total, done = (max((int(match[1]) for row in values if (match := kind.search(row))), default=0) for kind in (_TOTAL, _DONE))
    if done < total and any(map(_DONE.search, values)):
        return ""
    if _rows_missing(own, values):
        return ""
    rows = itertools.dropwhile(_SUBJECT.search, values)  # further down it is that of the next part
    return "" if any(map(_SUBJECT.search, rows)) else heading


def _rows_missing(own: Sequence[str], values: Sequence[str]) -> bool:
    """Return whether a table has fewer rows, or other first and last numbers in a column, than the log states."""
    rows = [[cell.strip() for cell in text.split("|")] for text in values if _CELLS.search(text)]
    stated = max((int(match["rows"]) for text in own if (match := _ROWS_STATED.search(text))), default=0)
    heads = [cell.strip().lower() for text in own if _COLUMNS.search(text) for cell in text.split("|")]
    ranges = {match["column"].lower(): match["ends"] for text in own if (match := _RANGE_STATED.search(text))}
    column = next((name for name in heads if name in ranges), "")
    cells = {row[heads.index(column)] for row in rows if column and len(row) > heads.index(column)}
    return bool(rows) and (len(rows) < stated or (bool(cells) and not cells.issuperset(re.findall(r"\d[\d.]*", ranges[column]))))


def _of_results(text: str) -> bool:
    """Return whether a line may be one of results, below their heading."""
    kinds = (_VALUE, _CELLS, _ROW, _SUBJECT, _RULED)
    return not (_RESULTS.search(text) or _SENTENCES.search(text)) and any(kind.search(text) for kind in kinds)


def _all_parts(own: Sequence[str]) -> str:
    """Return the heading of the last of n parts that a program counts (``[3/3] name``), if it logs each like the one before."""
    heads = [(at, match) for at, text in enumerate(own) if (match := _PART.match(text))]
    total = int(heads[-1][1]["total"]) if heads else 0
    if (
        total < 3
        or any(map(_REFUSED.search, own))
        or [(int(head["part"]), int(head["total"])) for _, head in heads] != [(n, total) for n in range(1, total + 1)]
    ):
        return ""
    (before, _), (last, _) = heads[-2:]
    shapes = [counted.shape(text) for text in own]
    return own[last] if last + 1 < len(own) and shapes[last + 1 :] == shapes[before + 1 : last] else ""


def report(log: bytes) -> str:
    """Return the line with which a known program reports the end of its work, at the end of a whole log; "" without one."""
    own = _texts(log)
    last = len(own)
    while last and after_report(own[last - 1]):
        last -= 1
    own, notices = own[:last], own[last:]
    if not own or counted.short(own) or any(check.search(_CONFLICTS.sub(b"", log)) for check in _CHECKS):
        return ""
    whole = any(_AFTER_BUILT.search(text) or _STATUS.search(text) for text in (*own[-4:-1], *notices))
    fetched = len(own) > 1 and re.fullmatch(r"[~/]\S*", own[-1]) and _FETCHED.search(own[-2])
    if fetched or _REPORTS.search(own[-1]) or (whole and _BUILT.search(own[-1])):
        return own[-1]
    if len(own) > 1 and _TESTS_OK.search(own[-1]) and _TESTS_RUN.search(own[-2]):
        skipped = re.search(r"skipped=(\d+)", own[-1])
        return "" if skipped and f"Ran {skipped[1]} test" in own[-2] else own[-2]
    burnt = list(itertools.takewhile(_BURNT.search, reversed(own)))
    if (tested := _TESTED.search(" ".join(own[: len(own) - len(burnt)][-1:]))) and int(tested["gpus"]) == len(burnt):
        return tested[0]
    trials = list(_TRIALS.finditer(log))
    if (
        trials
        and re.fullmatch(rb"\d+ TERMINATED", trials[-1]["states"])
        and not wrong(log[trials[-1].end() :])
        and not _NO_BEST.search(log)
    ):
        return trials[-1][0].decode().strip()
    if benched := _benchmark(log, own):
        return benched
    rows = list(itertools.takewhile(_EVALUATED.search, reversed(own)))
    heads = own[: len(own) - len(rows)][-2:]
    scored = rows and not all(map(_ZERO.search, rows))
    selected = [
        name for text in own if (match := _SELECTED.search(text)) for name in re.findall(r"['\"]([\w.-]+)['\"]", match[1])
    ]
    if any(not any(name in row for row in rows) for name in selected):
        return ""
    return rows[0] if scored and any(map(_EVALUATION.search, heads)) else ""


def _benchmark(log: bytes, own: Sequence[str]) -> str:
    """Return the heading of a serving benchmark's table that ends the log, if every request of all was answered; "" otherwise."""
    heads = [at for at, text in enumerate(own) if _BENCHED.search(text)]
    if not heads or wrong(log) or not _CLOSED.search(log, max(log.rfind(b"Serving Benchmark Result"), 0)):
        return ""
    stated = {int(match["count"]) for text in own for match in _ASKED.finditer(text) if match["count"]}
    for before, at, end in zip([0, *heads], heads, [*heads[1:], len(own)], strict=False):
        table = list(itertools.takewhile(_BENCH_ROW.search, own[at + 1 : end]))
        answered = next((int(match["count"]) for text in table if (match := _ANSWERED.match(text))), 0)
        failed = next((match["count"] for text in table if (match := _UNANSWERED.match(text))), None)
        asked = {int(match["count"] or match["all"]) for text in own[before : at + 1] for match in _ASKED.finditer(text)}
        if (
            not answered
            or (stated and answered not in stated)
            or any(map(_NOTHING.search, table))
            or not (failed == "0" or (failed is None and asked == {answered}))
        ):
            return ""
    rest = own[heads[-1] + 1 + len(table) :]
    return own[heads[-1]][own[heads[-1]].index("=") :] if all(map(_END.search, rest)) else ""


def _texts(log: bytes, items: bool = True) -> list[str]:
    """Return the lines of a log that say anything, without colours and prefixes, except warnings and items of lists.

    ``items``: with the indented lines with numbers below a line that ends with a colon.
    """
    texts, listed = list[str](), False
    for raw in log.splitlines():
        line = log_lines.clean(raw, 0)
        if _ITEM.match(log_lines.plain(raw)) or not line.text.strip(" .=-*#_─═\t"):
            continue
        listed = line.text.rstrip().endswith(":") or (listed and raw.startswith(b"  "))
        below = listed and bool(_COUNTS.search(line.text)) and not _NOT_YET.search(line.text)
        if line.level not in ("WARNING", "WARN") and (items or not below):
            texts.append(line.text.strip())
    return texts
