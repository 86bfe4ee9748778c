import json
import os
import sys
from pathlib import Path

folder, _, output = sys.argv[1:4]
files = sorted(Path(folder).rglob("*tfevents*"))
if not files:
    sys.exit(f"Error: No TensorBoard event files found under {folder}")
merged = {}
for file in files:
    for name, series in json.loads(file.read_text()).items():
        merged.setdefault(name, {}).update(series)
if os.environ.get("FAKE_FAULT") != "no-dump":
    Path(output).write_text(json.dumps(merged))
if os.environ.get("FAKE_FAULT") == "old-metrics":
    os.utime(output, (1, 1))
