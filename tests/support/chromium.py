"""A headless Chromium, driven through the DevTools protocol over a pair of pipes: no library, no port.

`Browser` is the process, `Tab` a page in it. What a page writes to its console as an error, and what it throws, is kept
in `Tab.errors`.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_FLAGS = (
    "--headless",
    "--no-sandbox",  # what we open is our own file, and containers have no user namespaces
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class BrowserError(Exception):
    """The browser said no, or nothing at all in time, or a script in the page threw."""


class Browser:
    """A Chromium of one's own, with an empty profile; as a context manager it ends the process and removes the profile.

    Requires: `executable` to be a Chromium; `libraries`, where given, a folder with what the system may not have.
    Errors: `BrowserError` where it does not start within `patience` seconds.
    """

    def __init__(self, executable: Path, libraries: Path | None = None, *, patience: float = 30.0) -> None:
        self.patience = patience
        self._profile = Path(tempfile.mkdtemp(prefix="cuesta-browser-"))
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        environment = dict(os.environ)
        if libraries is not None:
            # After the system's own: these are for machines that have none.
            paths = [environment.get("LD_LIBRARY_PATH", ""), str(libraries)]
            environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
        # The protocol's pipes are the file descriptors 3 and 4, by definition.
        command = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"'
        arguments = [*_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        with (self._profile / "stderr.txt").open("w") as stderr:
            self._process = subprocess.Popen(
                ["/bin/bash", "-c", command, str(executable), *arguments],
                pass_fds=(to_browser, from_browser),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        os.close(to_browser)
        os.close(from_browser)
        self._received = b""
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._tabs: dict[str, Tab] = {}
        try:
            self.version: str = self.call("Browser.getVersion")["product"]
        except BrowserError:
            said = (self._profile / "stderr.txt").read_text(errors="replace")[-2000:]
            self.close()
            raise BrowserError(f"{executable} does not start: {said}") from None

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to one request of the protocol."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            os.write(self._write, json.dumps(message).encode() + b"\0")
        except OSError as error:
            raise BrowserError(f"{method}: the browser is gone ({error})") from error
        deadline = time.monotonic() + self.patience
        while number not in self._answers:
            if not self._receive(deadline):
                raise BrowserError(f"{method}: no answer within {self.patience:g} s")
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def tab(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> Tab:
        """A new, empty tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, target)
        self._tabs[session] = tab
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        tab.dark(dark)
        return tab

    def pump(self, seconds: float) -> None:
        """Takes in what the browser tells for so long."""
        deadline = time.monotonic() + seconds
        while self._receive(deadline):
            pass

    def close(self) -> None:
        """Ends the process, and removes its profile. May be called again."""
        for descriptor in (self._write, self._read):
            if descriptor >= 0:
                os.close(descriptor)
        self._write = self._read = -1
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def _receive(self, deadline: float) -> bool:
        """Takes in what has come, or comes before the deadline; False where nothing does."""
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._read], [], [], left)[0]:
            return False
        read = os.read(self._read, 1 << 20)
        if not read:
            raise BrowserError("the browser has ended")
        *messages, self._received = (self._received + read).split(b"\0")
        for one in messages:
            message = json.loads(one)
            if "id" in message:
                self._answers[message["id"]] = message
            elif (tab := self._tabs.get(message.get("sessionId", ""))) is not None:
                tab.heard(message["method"], message["params"])
        return True

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Tab:
    """A page in a browser, as a person would use it: a pointer, keys, and eyes."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser = browser
        self.errors: list[str] = []
        """What went to the console as an error, or was thrown, in order."""
        self.requested: list[str] = []
        """The addresses that the page asked for, itself left out."""
        self._session = session
        self._target = target
        self._loaded = False

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to one request of the protocol about this tab."""
        return self.browser.call(method, self._session, **parameters)

    def heard(self, method: str, parameters: dict[str, Any]) -> None:
        """Takes in an event of the protocol."""
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert", "warning"):
            self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if parameters.get("type") != "Document" and not url.startswith("data:"):
                self.requested.append(url)

    def open(self, page: Path, fragment: str = "") -> None:
        """Goes to a file, and waits until it has loaded."""
        self._loaded = False
        self.call("Page.navigate", url=page.resolve().as_uri() + fragment)
        deadline = time.monotonic() + self.browser.patience
        while not self._loaded:
            self.browser.pump(0.005)
            if time.monotonic() > deadline:
                raise BrowserError(f"{page} has not loaded within {self.browser.patience:g} s")

    def run(self, script: str) -> Any:
        """What a JavaScript expression is; a promise is waited for. Errors: `BrowserError` where it throws."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 10.0) -> None:
        """Until a JavaScript expression is true. Errors: `BrowserError` where it is not in time."""
        deadline = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {condition}")
            self.browser.pump(0.01)

    def center(self, selector: str) -> tuple[float, float]:
        """Where the first element that matches is on the screen; it is scrolled there."""
        place = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            " const inside = r => r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth;"
            " if (!inside(e.getBoundingClientRect())) e.scrollIntoView({block: 'center', inline: 'center'});"
            " const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        if place is None:
            raise BrowserError(f"there is no {selector}")
        return place[0], place[1]

    def hover(self, selector: str) -> None:
        """Moves the pointer over an element."""
        x, y = self.center(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """Moves there and clicks."""
        x, y = self.center(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, selector: str, by: tuple[float, float]) -> None:
        """Presses in the middle of an element, and lets go elsewhere."""
        x, y = self.center(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        for part in (0.5, 1.0):
            self.call(
                "Input.dispatchMouseEvent", type="mouseMoved", x=x + part * by[0], y=y + part * by[1], button="left"
            )
        x, y = x + by[0], y + by[1]
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def wheel(self, selector: str, by: float) -> None:
        """Turns the wheel over an element."""
        x, y = self.center(selector)
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by)

    def key(self, name: str) -> None:
        """Presses a key: `Tab`, `Enter`, `ArrowRight`, `Escape`, or a letter."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        code = codes.get(name, ord(name[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def dark(self, dark: bool) -> None:
        """What the system prefers."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """A picture of what is on the screen, as a PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Closes the tab."""
        self.browser.call("Target.closeTarget", targetId=self._target)
