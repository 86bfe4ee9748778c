"""A headless Chromium, driven through its own protocol over two pipes: no driver, no port, no package.

Source: https://chromedevtools.github.io/devtools-protocol/ and Chromium's ``--remote-debugging-pipe``: it reads messages from
descriptor 3 and writes them to 4, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60.0


def program() -> str:
    """Return the browser's path, or "" where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


class Browser:
    """One page of a headless browser, and everything that it reported."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        requests, self._write = os.pipe()
        self._read, answers = os.pipe()
        # It expects descriptors 3 and 4: the shell puts them there, from numbers that are neither.
        to_read, to_write = (fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (requests, answers))
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write} {to_read}<&- {to_write}>&-'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        flags += ["--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={home}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, program(), *flags],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home)},
        )
        for descriptor in (requests, answers, to_read, to_write):
            os.close(descriptor)
        self._numbers, self._rest, self._session = itertools.count(1), b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call one method of the protocol and return its result; events that come meanwhile are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        os.write(self._write, json.dumps({**message, **({"sessionId": self._session} if self._session else {})}).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def _message(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0], "the browser does not answer"
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path, width: int, theme: str = "light") -> None:
        """Show a file at this width (CSS pixels) and theme, until its script has run."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url=page.as_uri())
        end = time.monotonic() + PATIENCE_S
        while self.run("document.readyState") != "complete" or self.run("location.href") != page.as_uri():
            assert time.monotonic() < end, f"{page} was not loaded"
            time.sleep(0.05)

    def run(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release one key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Write a PNG of the page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def problems(self) -> list[str]:
        """Return what the page reported: errors of scripts, and whatever its policy blocked."""
        found = []
        for event in self.events:
            given = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(given["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                found.append(str(given["args"]))
            elif event["method"] == "Log.entryAdded":
                found.append(str(given["entry"]["text"]))
        return found

    def requests(self) -> list[str]:
        """Return the address of everything that the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
