"""Chromium without a window, told what to do over a pipe by its DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONGEST_S = 60.0
LOADED = "Page.loadEventFired"
SAID = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page at a time. said: what the console of the page was told. asked: the addresses that it asked for."""

    def __init__(self, to: int, from_: int) -> None:
        self._to, self._from, self._number = to, from_, 0
        self._rest = b""
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters} | session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != self._number:
            self._note(found)
        assert "error" not in found, found
        return found["result"]

    def open(self, path: Path, width: int, scheme: str) -> None:
        """Until it has loaded."""
        self.said, self.asked = [], []
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=path.as_uri())
        while (found := self._next()).get("method") != LOADED:
            self._note(found)

    def value(self, script: str) -> Any:
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 2**20)
            assert more, "Chromium has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") in SAID:
            self.said.append(json.dumps(event["params"]))
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked.append(event["params"]["request"]["url"])


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """folder: for what it keeps."""
    name = program()
    assert name
    theirs, to = os.pipe()
    from_, others = os.pipe()

    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}"]
    as_3_and_4 = f'exec "$@" 3<&{theirs} 4>&{others}'  # where it looks for the pipe
    process = subprocess.Popen(
        ["bash", "-c", as_3_and_4, "bash", name, *arguments, "--remote-debugging-pipe", "about:blank"],
        pass_fds=(theirs, others),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Browser(to, from_)
    finally:
        process.kill()
        process.wait(LONGEST_S)
        for each in (theirs, to, from_, others):
            os.close(each)
