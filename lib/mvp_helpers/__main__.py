"""``python3 -m mvp_helpers <verb>``: see ``cli.py``."""

import gc

from .cli import main

code = main()
gc.freeze()  # at its end Python would search all modules for cycles: a quarter of a short verb's CPU time, to free nothing
raise SystemExit(code)
