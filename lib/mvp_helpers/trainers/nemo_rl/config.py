"""NeMo-RL's config: composed by the checkout's own ``nemo_rl/utils/config.py``, and read back from what a training prints.

The checkout's module is imported by its path, in a process of its own (this file), because the package ``nemo_rl`` needs torch.
stdin: ``{"module", "config", "overrides"}``; stdout: ``{"config"}``, or ``{"problems"}``.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import Blocked
from ...base.project import PROJECT
from .. import hydra
from ..trainer import Composed

MODULE = "nemo_rl/utils/config.py"
TIMEOUT_S = 60
PRINTED = "Final config:"
LONGEST = 1_000_000
"""A printed config has at most this many characters."""
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def compose(checkout: Path, config: Path, overrides: Sequence[str]) -> Composed:
    """Return the config that a training with these overrides would use. Raises Blocked when it cannot be asked for."""
    answer = _ask({"module": str(checkout / MODULE), "config": str(config), "overrides": list(overrides)})
    return Composed(answer.get("config", {}), answer.get("problems", []))


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    try:
        run = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=os.environ | {"PYTHONPATH": str(PROJECT / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    except subprocess.TimeoutExpired:
        raise Blocked(f"composing {request['config']} took more than {TIMEOUT_S} s") from None
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        raise Blocked(f"cannot compose {request['config']} with {request['module']}: {last}")
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer


def printed(log: Path) -> list[dict[str, Any]]:
    """Return the config that each training printed, in order; ``{}`` for one that cannot be read."""
    return [_read(text) for text in _printed_texts(log)]


def _printed_texts(log: Path) -> Iterator[str]:
    """Yield the text after each ``Final config:``, up to where its brackets are closed."""
    parts: list[str] | None = None
    prefix, depth, quote = "", 0, ""
    with log.open(errors="replace") as stream:
        for line in stream:
            if PRINTED in line and not line.partition(PRINTED)[2].strip():
                if parts is not None:
                    yield ""
                # A script that starts several trainings puts a name before each of their lines.
                prefix = line.partition(PRINTED)[0]
                parts, depth, quote = [], 0, ""
            elif parts is not None:
                text = line.removeprefix(prefix)
                depth, quote = _depth(text, depth, quote)
                parts.append(text)
                if depth <= 0 or sum(map(len, parts)) > LONGEST:
                    yield "".join(parts) if depth == 0 else ""
                    parts = None
    if parts is not None:
        yield ""


def _depth(text: str, depth: int, quote: str) -> tuple[int, str]:
    """Return how many brackets are open after ``text``, and the quote that is, "" outside of a string."""
    escaped = False
    for letter in text:
        if quote:
            if not escaped and letter == quote:
                quote = ""
            escaped = letter == "\\" and not escaped
        elif letter in "'\"":
            quote = letter
        else:
            depth += _BRACKETS.get(letter, 0)
    return depth, quote


def _read(text: str) -> dict[str, Any]:
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return value if isinstance(value, dict) else {}


def _value(node: ast.expr) -> Any:
    """Return the value of a literal, and a dict for ``Name(key=value)``; any other expression is its own text."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Dict):
        return {str(_value(key)): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Call) and node.keywords and not node.args:
        return {word.arg: _value(word.value) for word in node.keywords if word.arg}
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(number := _value(node.operand), (int, float))
    ):
        return -number
    return ast.unparse(node)


def main() -> None:
    """Compose with one override after the other, so that every refused one is named."""
    import importlib.util

    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from ..hydra_compose import first_line, keys_of, resolved

    request = json.load(sys.stdin)
    spec = importlib.util.spec_from_file_location("nemo_rl_config_of_the_checkout", request["module"])
    if spec is None or spec.loader is None or not Path(request["module"]).is_file():
        raise SystemExit(f"module not found: {request['module']}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Older revisions register them in each of their scripts.
    for name, resolver in {"mul": lambda a, b: a * b, "div": lambda a, b: a / b, "add": lambda a, b: a + b, "max": max}.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)
    try:
        config = module.load_config(request["config"])
    except (OSError, AssertionError, OmegaConfBaseException) as error:
        print(json.dumps({"problems": [f"{request['config']}: {first_line(error)}"]}))
        return
    problems = []
    for text in request["overrides"]:
        try:
            config = module.parse_hydra_overrides(config, [text])
        except Exception as error:
            key, known = hydra.key_of(text), keys_of(OmegaConf.to_container(config, resolve=False))
            near = hydra.nearest_key(key, known) if key not in known else ""
            why = f" (did you mean '{near}'?)" if near else f": {first_line(error)}"
            problems.append(f"this revision's config does not accept '{text}'{why}")
    print(json.dumps({"problems": problems} if problems else {"config": resolved(config)}, default=str))


if __name__ == "__main__":
    from ..hydra_compose import bound

    bound()
    main()
