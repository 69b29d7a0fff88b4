"""A headless Chromium that opens a page, runs scripts in it, presses keys and moves the mouse.

It speaks the DevTools protocol over a web socket, so that no driver has to be installed.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import websocket
from tests.eventually import eventually

from localkube.processes import end_process, start_tied

_ANSWER_SECONDS = 120.0
_MARGIN = 14  # pixels around a picture
DRAWN = "performance.getEntriesByName('lagbench:drawn').length > 0"
_PROBLEMS = ("Runtime.exceptionThrown", "Log.entryAdded")


class Page:
    """The tab of a running Chromium."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        """Listen to what the page loads and complains of."""
        self._socket = socket
        self._number = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events on the way are kept."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") != self._number:
                self.events.append(message)
                continue
            assert "error" not in message, message
            found: dict[str, Any] = message["result"]
            return found

    def open(
        self, address: str, *, width: int = 1180, theme: str = "light", drawn: str = DRAWN
    ) -> None:
        """Open a page and wait until its charts are drawn: until ``drawn`` is true there."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send("Emulation.setScrollbarsHidden", hidden=True)  # they would narrow a picture
        scheme = {"name": "prefers-color-scheme", "value": theme}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.send("Page.navigate", url=address)
        eventually(lambda: self.run(drawn), "the charts are drawn")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key, e.g. ``ArrowRight``."""
        for _ in range(times):
            text = {"text": key} if len(key) == 1 else {}
            self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind: str, x: float, y: float, *, clicks: int = 1) -> None:
        """Move, press or release the left button: mouseMoved, mousePressed, mouseReleased."""
        button = "none" if kind == "mouseMoved" else "left"
        self.send(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button=button,
            buttons=1,
            clickCount=clicks,
        )

    def picture(self, first: str, last: str) -> bytes:
        """Return a PNG of the page's whole width, from one element's top to another's bottom."""
        ends = [
            self.run(f"document.querySelector({json.dumps(one)}).getBoundingClientRect().toJSON()")
            for one in (first, last)
        ]
        scrolled, width = self.run("[scrollY, document.documentElement.clientWidth]")
        top = max(ends[0]["top"] + scrolled - _MARGIN, 0)
        height = ends[1]["bottom"] + scrolled + _MARGIN - top
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        found = self.send(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        return base64.b64decode(found["data"])

    @property
    def problems(self) -> list[dict[str, Any]]:
        """What went wrong in the page since it was opened: errors, and what a policy refused."""
        return [event for event in self.events if event.get("method") in _PROBLEMS]

    @property
    def loaded(self) -> list[str]:
        """The addresses that the page asked for, itself included."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]


@contextmanager
def running_chromium(folder: Path) -> Iterator[Page]:
    """Run Debian's Chromium for the time of the block, with its files in ``folder``."""
    port_file = folder / "DevToolsActivePort"
    options = [
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    process = start_tied(["chromium", *options, "about:blank"])
    try:
        port = eventually(lambda: _port(port_file), "Chromium listens")
        socket = websocket.create_connection(
            _tab(port), timeout=_ANSWER_SECONDS, suppress_origin=True
        )
        with closing(socket):
            yield Page(socket)
    finally:
        end_process(process.pid, grace_seconds=5.0)
        process.wait()


def _port(file: Path) -> int | None:
    lines = file.read_text().splitlines() if file.exists() else []
    return int(lines[0]) if lines else None


def _tab(port: int) -> str:
    """Return the web socket of the one tab."""

    def look() -> str | None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as reply:
            tabs = [tab for tab in json.load(reply) if tab["type"] == "page"]
        return tabs[0]["webSocketDebuggerUrl"] if tabs else None

    return eventually(look, "Chromium has a tab")
