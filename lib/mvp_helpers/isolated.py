"""Start of the job runner: ``python3 -I -S isolated.py run-job FOLDER``, with nothing of the environment in what it imports.

-I ignores every PYTHON* variable, and packages in a home; -S the modules that Python runs by itself at its start (sitecustomize,
usercustomize). What remains is the toolkit, and the packages of this Python.
"""

import site
import sys
from pathlib import Path


def start() -> int:
    """Make the toolkit and this Python's packages importable, as Python itself does without -S; run the verb."""
    sys.path.insert(0, str(Path(__file__).absolute().parents[1]))
    site.addsitepackages(site.venv(set()) or set())
    if sys.prefix == sys.base_prefix:  # in a virtual environment a home's packages count for nothing
        sys.path.append(site.getusersitepackages())
    from mvp_helpers.cli import main

    return main()


if __name__ == "__main__":
    raise SystemExit(start())
