#!/usr/bin/env python3
"""Serve a Hugging Face hub with the data set and the model that ``source: hub`` asks for by default, both small and generated.

usage: .venv/bin/python tests/lab/hub.py [--listen ADDRESS] [--port N] [--rows N] [--token TEXT] [--login USER:PASSWORD]

The data set openai/gsm8k has the configuration ``main`` with the splits train and test; Qwen/Qwen2.5-0.5B-Instruct is the tiny
Qwen2 of ``source: generated``. Prints ``HF_ENDPOINT=http://ADDRESS:PORT`` when it answers, and serves until it is ended. With
``--login`` only a proxy reaches it, which it is itself: HF_ENDPOINT is then an address that no name server knows, and HTTP_PROXY
is printed too.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "lib"), str(PROJECT / "tests" / "unit")]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from fake_hub import PROXIED, FakeHub  # noqa: E402

from mvp_helpers.prepare import generated, gsm8k  # noqa: E402
from mvp_helpers.prepare.settings import Generated, Hub  # noqa: E402

CARD = b"""---
configs:
- config_name: main
  data_files: [{split: train, path: main/train-*}, {split: test, path: main/test-*}]
---
"""


def repositories(settings: Generated) -> dict[str, dict[str, bytes]]:
    train, test = generated.splits(settings)
    data = {
        "README.md": CARD,
        "main/train-00000-of-00001.parquet": parquet(train),
        "main/test-00000-of-00001.parquet": parquet(test),
    }
    with tempfile.TemporaryDirectory() as folder:
        generated.write_model(Path(folder), settings)
        model = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    return {f"datasets/{Hub().dataset}": data, f"models/{Hub().model}": model}


def parquet(problems: list[gsm8k.Problem]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"question": [p.question for p in problems], "answer": [p.answer for p in problems]}), stream)
    return stream.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", default="127.0.0.1", help="address to listen on, and in the printed URL")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rows", type=int, default=Generated().train_rows, help="rows of the training split")
    parser.add_argument("--token", default="", help="answer 401 without this token")
    parser.add_argument("--login", default="", metavar="USER:PASSWORD", help="answer only as a proxy, with this login")
    options = parser.parse_args()
    hub = FakeHub(repositories(Generated(train_rows=options.rows)), (options.listen, options.port))
    hub.token, hub.login = options.token, options.login
    proxied = f"HF_ENDPOINT={PROXIED}\nHTTP_PROXY=http://{options.login}@{options.listen}:{hub.server_port}"
    print(proxied if options.login else f"HF_ENDPOINT={hub.url}", flush=True)
    hub.serve_forever()


if __name__ == "__main__":
    main()
