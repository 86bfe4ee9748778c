"""``python3 -m mvp_helpers <verb>``: see ``cli.py``."""

from .cli import main

raise SystemExit(main())
