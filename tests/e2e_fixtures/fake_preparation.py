"""Stands for verl's GSM8K script, which needs the hub: writes the two parquet files, or fails as without a network."""

import os
import sys
from pathlib import Path

if os.environ.get("FAKE_FAULT") == "no-hub":
    print("Traceback (most recent call last):")
    print('  File "/opt/datasets/load.py", line 77, in load_dataset')
    raise SystemExit("ConnectionError: Couldn't reach 'openai/gsm8k' on the Hub (ConnectionError)")
import pyarrow
from pyarrow import parquet

folder = Path(sys.argv[sys.argv.index("--local_save_dir") + 1])
table = pyarrow.table({name: ["1", "2"] for name in ("data_source", "prompt", "reward_model")})
for name in ("train", "test"):
    parquet.write_table(table, folder / f"{name}.parquet")
