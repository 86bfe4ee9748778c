"""As NeMo-RL's: it evaluates Python."""

import builtins
import json
import sys
from pathlib import Path

data = json.loads(Path(sys.argv[1]).read_text())
names = {"data": data, "min": lambda series: builtins.min(series.values()), "max": lambda series: builtins.max(series.values())}
failed = [check for check in sys.argv[2:] if not eval(check, names)]
for check in sys.argv[2:]:
    print("FAIL" if check in failed else "PASS", check)
sys.exit(bool(failed))
