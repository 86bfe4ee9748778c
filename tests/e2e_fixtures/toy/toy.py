"""A trainer that this project does not know: its own launch, YAML inheritance, checkpoints, log lines and metrics file.

With ``toy.yaml`` beside it, it is everything that the end-to-end engine needs to drive ``checkout/``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import yaml

from mvp_helpers.base.errors import BadInput
from mvp_helpers.trainers.launch_preview import Launch
from mvp_helpers.trainers.metric_names import MetricNames
from mvp_helpers.trainers.patterns.lines import LineKind, LogPatterns
from mvp_helpers.trainers.trainer import Composed, Gpus, Metrics, Outputs, Role, Trainer

NEVER = "^$"


class Toy(Trainer):
    name = "toy"
    lines = LogPatterns(
        stepped=(LineKind(("epoch ",), r"^epoch (?P<step>\d+) done"),),
        finished=(LineKind(("trained all",), r"^trained all \d+ epochs"),),
        resumed=r"^continuing after epoch (\d+)",
        from_scratch=r"^nothing to continue",
    )
    metrics = MetricNames(
        finite="loss|score", gradients=NEVER, logprobs=NEVER, rewards="^score$", values=NEVER, lengths=NEVER, trend=["^score$"]
    )
    deliverables: ClassVar = {"imports": "Local import of the toy", "run": "Toy run"}

    def is_launch(self, argv: Sequence[str]) -> bool:
        return any(word.endswith("train.py") for word in argv)

    def interpreter(self, launch: Launch) -> list[str]:
        return launch.argv[:1]

    def output_arguments(self, outputs: Outputs) -> list[str]:
        return [f"save.folder={outputs.checkpoints}", f"out={outputs.scratch}"]

    def compose(self, launch: Launch, checkout: Path) -> Composed:
        config = inherited(launch.cwd / launch.argv[launch.argv.index("--config") + 1])
        problems = []
        for text in launch.argv[launch.argv.index("--config") + 2 :]:
            key, value = self.setting(text)
            *parents, last = key.split(".")
            place: Any = config
            for part in parents:
                place = place.get(part, {})
            if last not in place:
                below = [f"{parent}.{name}" for parent, value in config.items() if isinstance(value, dict) for name in value]
                near = difflib.get_close_matches(key, [*config, *below])
                problems.append(f"unknown key '{key}'" + (f" (did you mean '{near[0]}'?)" if near else ""))
            place[last] = yaml.safe_load(value)
        return Composed({} if problems else config, problems)

    def gpus(self, config: Mapping[str, Any]) -> Gpus:
        for name, count in config["gpus"].items():
            if not isinstance(count, int):
                raise BadInput(f"gpus.{name}={count} is not a number of GPUs")
        return Gpus([Role(name, config["gpus"][name], {}) for name in ("policy", "generation")], colocated=False)

    def checkpoint_problem(self, folder: Path, step: int, config: Mapping[str, Any]) -> str:
        try:
            state = json.loads((folder / f"epoch-{step}" / "state.json").read_text())
        except (OSError, ValueError) as error:
            return f"{folder}/epoch-{step}/state.json: {error}"
        return "" if state.get("complete") else f"{folder}/epoch-{step} is not complete"

    def metrics_file(self, launch: Launch, config: Mapping[str, Any]) -> Path | None:
        return Path(config["out"]) / f"{config['leg']}.json"

    def read_metrics(self, file: Path) -> Metrics:
        try:
            columns = json.loads(file.read_text())
            steps: Metrics = {}
            for name, series in columns.items():
                for step, value in series.items():
                    steps.setdefault(int(step), {})[name] = float(value)
        except (OSError, ValueError, AttributeError) as error:
            raise BadInput(f"{file} is not a file of metrics: {error}") from None
        return steps


def inherited(file: Path) -> dict[str, Any]:
    """Return a config over the one that its ``defaults`` names."""
    own = yaml.safe_load(file.read_text())
    base = inherited(file.parent / own.pop("defaults")) if "defaults" in own else {}
    merged = {**base, **own}
    return merged | {key: {**base[key], **own[key]} for key in own if isinstance(own[key], dict) and key in base}


TRAINER = Toy()
