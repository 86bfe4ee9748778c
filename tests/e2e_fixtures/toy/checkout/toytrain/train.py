"""The toy's training: counts epochs, writes its metrics into a file and its checkpoints as it likes. TOY_FAULT: what fails."""

import json
import os
import sys
from pathlib import Path

import yaml


def inherited(file):
    own = yaml.safe_load(file.read_text())
    base = inherited(file.parent / own.pop("defaults")) if "defaults" in own else {}
    return {**base, **own, **{key: {**base[key], **own[key]} for key in own if isinstance(own[key], dict) and key in base}}


fault = os.environ.get("TOY_FAULT", "")
config = inherited(Path(sys.argv[2]))
for text in sys.argv[3:]:
    key, _, value = text.partition("=")
    *parents, last = key.split(".")
    place = config
    for part in parents:
        place = place[part]
    place[last] = yaml.safe_load(value)

if fault == "slow" and config["speed"] == 2:
    raise SystemExit("RuntimeError: this machine cannot go that fast")
out, folder = Path(config["out"]), Path(config["save"]["folder"])
start = 0
if config["save"]["continue"]:
    kept = sorted(int(path.name.removeprefix("epoch-")) for path in folder.glob("epoch-*")) if fault != "forgets" else []
    start = kept[-1] if kept else 0
    print(f"continuing after epoch {start}" if start else "nothing to continue")
end = config["last"] or config["epochs"]
metrics = {"score": {}, "loss": {}}
history = out / "first.json"
if start and history.exists():
    metrics = json.loads(history.read_text())
for epoch in range(start + 1, end + 1):
    if fault == "raises":
        raise RuntimeError("the toy's shapes do not match")
    metrics["score"][epoch] = epoch / 10
    metrics["loss"][epoch] = float("nan") if fault == "nan" else 1 / epoch
    print(f"epoch {epoch} done", flush=True)
    if config["save"]["every"]:
        (folder / f"epoch-{epoch}").mkdir(parents=True)
        (folder / f"epoch-{epoch}" / "state.json").write_text(json.dumps({"complete": fault != "half"}))
if fault != "no-metrics":
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{config['leg']}.json").write_text(json.dumps(metrics))
print(f"trained all {end} epochs")
