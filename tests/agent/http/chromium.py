"""A headless Chromium, driven by its DevTools protocol over a pipe. Invariant: every wait has a deadline; the process ends with the test.

Source: https://chromedevtools.github.io/devtools-protocol/; messages on the pipe are JSON, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["INSTALL", "Chromium", "executable"]

INSTALL = "needs Chromium: apt-get install --no-install-recommends chromium fonts-dejavu-core"
NAMES = ("chromium", "chromium-browser", "google-chrome")
ANSWER_S = 30.0
LOAD_S = 30.0
BEGIN = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""  # Chromium reads commands from file 3 and writes answers to file 4
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


def executable() -> str | None:
    """The path of Chromium; None: there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One page in a browser of its own."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        reads, self._write_to = os.pipe()
        self._read_from, writes = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(reads), str(writes), program, *OPTIONS, f"--user-data-dir={self._profile.name}"],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []  # of the console, and exceptions
        self.requests: list[str] = []  # URLs
        self._loaded = False
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    # ---------------------------------------------------------------- what tests use

    def open(self, url: str) -> None:
        """Load a page, and wait until it is there."""
        self._loaded = False
        self.call("Page.navigate", url=url)
        self._until(lambda: self._loaded, LOAD_S, f"{url} to load")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, for JSON; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 20.0) -> Any:
        """Wait until a JavaScript expression is true; its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not true within {seconds:g} s: {expression}\n{self.evaluate('document.body.innerText')[:2000]}")
            self._pump(0.05)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def show(self, width: int, height: int, scheme: str = "light") -> None:
        """The size of the window, and the user's colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Write a PNG of the page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, optimizeForSpeed=False)["data"]
        path.write_bytes(base64.b64decode(data))

    # ---------------------------------------------------------------- the protocol

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write_to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_S
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _until(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            self._note(self._next(deadline, what))

    def _pump(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if b"\0" not in self._buffer and not select.select([self._read_from], [], [], left)[0]:
                return
            self._note(self._next(deadline + 1, "an event"))

    def _next(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read_from], [], [], left)[0]:
                raise AssertionError(f"Chromium did not answer in time: {what}")
            part = os.read(self._read_from, 1 << 20)
            if not part:
                raise AssertionError(f"Chromium has ended (code {self._process.poll()}): {what}")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(parameters["exceptionDetails"])[:500])
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning"):
                self.errors.append(json.dumps(parameters["args"])[:500])
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
            case _:
                pass

    # ---------------------------------------------------------------- its end

    def close(self) -> None:
        """End the browser."""
        for end in (self._write_to, self._read_from):
            os.close(end)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._profile.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
