"""Random JobSpecs from a grammar: mostly valid ones with a few mistakes, as JSON, as YAML, or as text that is neither."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import yaml

VALID: dict[str, Any] = {
    "workload": "toy",
    "submission_id": "job1",
    "code_path": "common/code/verl/current",
    "model": "common/models/tiny",
    "dataset": "datasets/gsm8k",
}
LAST = [
    *("workload", "submission_id", "shared_root", "code_path", "model", "dataset", "reward_fn_path", "ray", "resources"),
    *("trainer_overrides", "resume_from", "stop_wait_s", "env_vars", "secrets", "save_by", "stall", "retry", "modle", ""),
]
INNER = {
    "ray": ["address", "adress"],
    "resources": ["entrypoint_resources", "entrypoint_num_cpus"],
    "stall": ["after_s", "start_s", "on_stall"],
    "retry": ["on", "max", "no_progress_max"],
    "env_vars": ["A", "PATH", "PYTHONPATH", "LD_PRELOAD", "GLOO_SOCKET_IFNAME", "MVP_X", "HF_TOKEN", "1A", ""],
    "entrypoint_resources": ["worker_node", "CPU", "nosuch", "node:1", ""],
}
KEYS = [
    *("trainer.total_epochs", "trainer.save_freq", "trainer.total_training_steps", "trainer.nnodes", "trainer.n_gpus_per_node"),
    *("data.train_batch_size", "data.train_files", "actor.mini_batch_size", "rollout.n", "actor.path", "trainer.resume_mode"),
    *(
        "+data.train_max_samples",
        "+reward.num_workers",
        "trainer",
        "nosuch",
        "~trainer.nnodes",
        "+x.y",
        "hydra.mode",
        "--multirun",
    ),
    *("hydra.run.dir", "a b", "", "trainer.", ".", "+a@hydra.b", "trainer.logger", "=", "x" * 300, ".".join("a" * 50)),
]
NUMBERS = [
    0,
    1,
    2,
    8,
    -1,
    -8,
    3,
    20,
    64,
    1.5,
    1.0,
    1e-9,
    1e300,
    float("nan"),
    float("inf"),
    10**9,
    10**10,
    10**18,
    10**19,
    10**400,
]
TEXTS = [
    *(
        "",
        "x",
        "abc",
        "two",
        "8",
        "-1",
        "1e3",
        "nan",
        "null",
        "true",
        "${oc.env:HOME}",
        "${trainer.nnodes}",
        "${a}${a}",
        "${",
        "$HOME",
    ),
    *(
        "\0",
        "a\0b",
        "a\nb",
        "\x1b[31m",
        "\u202e",
        "ü",
        "\U0001f600",
        "a" * 300,
        "m" * 5000,
        "../..",
        "/",
        "/etc/passwd",
        "/dev/zero",
    ),
    *(
        "http://127.0.0.1:8265",
        "http://[::1",
        "http://evil:8265",
        "https://",
        "1,2",
        "a=b",
        "[[",
        "[1,2",
        "{a:1}",
        "'",
        '"',
        "\\",
        "*a",
    ),
    *(
        "&a",
        "!x",
        "2026-99-99",
        "2026-01-31T23:59",
        "9999-12-31",
        "1:1:1",
        "0x10",
        "~",
        "file.py:f",
        "pkg.mod:f",
        "job1",
        "host",
        "stop",
    ),
]
YAML_SCALARS = [
    *(
        "2026-99-99",
        "2026-01-01",
        "1:59:59",
        "1" + ":1" * 400,
        "!!int x",
        "!!float ''",
        "!!timestamp x",
        "!!bool x",
        "!!binary '*'",
    ),
    *(
        "!!set {a}",
        "!!omap [a: 1]",
        "!!python/object:os.system {}",
        ".nan",
        "-.inf",
        "1" * 6000,
        "0b2",
        "0o9",
        "? [a]",
        "{<<: 1}",
        "<<",
    ),
    *(
        "'" + "x" * 3000 + "'",
        "*nothing",
        "&a [*a]",
        "&a {b: *a}",
        "&a",
        "|",
        ">",
        "- - - -",
        "%",
        "@",
        "`",
        "\t",
        "{1: 2}",
        "{null: 1}",
    ),
]


def jobspec(rng: random.Random) -> tuple[bytes, str]:
    """Return the bytes of a JobSpec and the name of its file."""
    document = _document(rng)
    if rng.random() < 0.5:
        data, name = json.dumps(document).encode(), "job.json"
        return (_damaged(rng, data) if rng.random() < 0.1 else data), name
    if rng.random() < 0.5:
        return yaml.dump(document, Dumper=getattr(yaml, "CDumper", yaml.Dumper)).encode(), "job.yaml"
    return _yaml_text(rng, document), "job.yaml"


def _document(rng: random.Random) -> dict[str, Any]:
    document = dict(VALID)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        name = rng.choice(LAST)
        if name == "trainer_overrides" and rng.random() < 0.9:
            document[name] = _overrides(rng)
        elif name in INNER and rng.random() < 0.9:
            document[name] = _inner(rng, name)
        elif rng.random() < 0.1:
            document.pop(name, None)
        else:
            document[name] = value(rng)
    return document


def _inner(rng: random.Random, name: str) -> dict[str, Any]:
    inner = {}
    for key in rng.sample(INNER[name], rng.choice((1, 1, 2))):
        inner[key] = _inner(rng, key) if key in INNER and rng.random() < 0.9 else value(rng)
    return inner


def _overrides(rng: random.Random) -> Any:
    pairs = [(rng.choice(KEYS), value(rng)) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
    if rng.random() < 0.5:
        return dict(pairs)
    return [f"{key}={inner}" for key, inner in pairs] + [rng.choice(TEXTS) for _ in range(rng.random() < 0.1)]


def value(rng: random.Random, depth: int = 0) -> Any:
    """Return a random value: a number, a text, a list or a mapping, in rare cases a very deep or long one."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(NUMBERS)
    if kind < 0.8 or depth > 2:
        return rng.choice(TEXTS)
    if kind < 0.82:
        return rng.choice((None, True, False))
    if kind < 0.83:
        return _deep(rng.choice((10, 30, 200)), rng.choice((lambda inner: [inner], lambda inner: {"a": inner})))
    if kind < 0.84:
        return [value(rng, 3)] * rng.choice((10, 500, 3000))
    items = [value(rng, depth + 1) for _ in range(rng.choice((0, 1, 2)))]
    return items if rng.random() < 0.5 else dict(zip(rng.sample(TEXTS, len(items)), items, strict=True))


def _deep(levels: int, wrap: Callable[[Any], Any]) -> Any:
    inner: Any = 1
    for _ in range(levels):
        inner = wrap(inner)
    return inner


def _yaml_text(rng: random.Random, document: dict[str, Any]) -> bytes:
    """Return YAML with what no dumper writes: aliases that multiply, merged mappings, tags, scalars that look like others."""
    lines = [f"{name}: {inner}" for name, inner in VALID.items() if name in document]
    field = rng.choice([*LAST, "trainer_overrides", "env_vars"])
    kind = rng.random()
    if kind < 0.5:
        lines.append(f"{field}: {rng.choice(YAML_SCALARS)}")
    elif kind < 0.7:
        lines.append(f"{field}: {{{rng.choice(KEYS) or 'x'}: {rng.choice(YAML_SCALARS)}}}")
    elif kind < 0.8:
        lines += ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)), f"{field}: *a8"]
    elif kind < 0.9:
        lines += ["m0: &m0 {x: 1}", *(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 9)}]}}" for n in range(1, 9))]
    else:
        lines.append(f"{field}:\n  {rng.choice(('[', '{a: ', '- ', '? ')) * rng.choice((5, 50, 20_000))}")
    text = "\n".join(lines).encode()
    return _damaged(rng, text) if rng.random() < 0.2 else text


def _damaged(rng: random.Random, data: bytes) -> bytes:
    """Cut, repeat or insert something at a random place."""
    at = rng.randrange(len(data) + 1)
    pieces = [b"", data, b"\xff", b"\0", b"\\ud800", b'"', b"\n", b"[" * 20_000, b" " * 300_000, b"\xef\xbb\xbf", data[:at]]
    return data[:at] + rng.choice(pieces) + data[at + rng.choice((0, 1, 5)) :]
