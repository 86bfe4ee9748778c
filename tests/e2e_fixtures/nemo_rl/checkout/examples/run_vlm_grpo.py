from pathlib import Path

here = Path(__file__)
exec(compile(here.with_name("run_grpo.py").read_text(), str(here), "exec"))
