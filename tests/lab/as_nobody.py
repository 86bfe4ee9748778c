"""Try, as root on a host, what another user reaches of our Ray nodes there: their sockets, their logs, their folders.

usage: python3 as_nobody.py [FOLDER]     only the node whose folder (ray start --temp-dir) is FOLDER; else all of this project

Prints how many sockets and folders are closed; exit code 1 with what is open, or when there is nothing to try.
"""

import contextlib
import os
import socket
import sys
import tempfile

NOBODY = 65534


def sockets(begins):
    """Return the paths of the sockets of Ray's sessions that begin with one of ``begins``."""
    with open("/proc/net/unix") as table:
        paths = {line.split()[7] for line in table.read().splitlines()[1:] if len(line.split()) > 7}
    return sorted(path for path in paths if path.startswith(begins) and os.path.basename(os.path.dirname(path)) == "sockets")


def reaches(path):
    """Return whether this process can connect to the socket, or list the folder, at ``path``."""
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
                client.connect(path)
    except PermissionError:
        return False
    return True


found = sockets(tuple(sys.argv[1:]) or (f"{os.environ.get('TMPDIR') or '/tmp'}/mvp-", "/tmp/mvp-"))
sessions = {os.path.dirname(os.path.dirname(path)) for path in found}
folders = sorted(sessions | {f"{session}/logs" for session in sessions} | {os.path.dirname(session) for session in sessions})
missing = [path for path in folders if not os.path.isdir(path)]
with tempfile.TemporaryDirectory() as control, socket.socket(socket.AF_UNIX) as server:
    os.chmod(control, 0o755)
    server.bind(f"{control}/open")
    os.chmod(f"{control}/open", 0o777)
    server.listen()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        reached = [path for path in (f"{control}/open", control, *found, *folders) if reaches(path)]
        wrong = [path for path in reached if not path.startswith(control)]
        print(f"nobody reaches: {wrong}" if wrong else f"{len(found)} sockets and {len(folders)} folders are closed")
        sys.stdout.flush()
        os._exit(1 if wrong or missing or len(reached) < 2 or len(found) < 2 else 0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
