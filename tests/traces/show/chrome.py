"""Drives a headless Chromium through its debugging pipe: no port, no library.

    with Chrome() as chrome:
        chrome.open("/tmp/page.html")
        chrome.move(300, 200)
        print(chrome.evaluate("document.title"), chrome.complaints())
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
PATIENCE_S = 60


def program():
    """Path of a browser, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chrome:
    def __init__(self, width=1400, height=850):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The browser reads file 3 and writes file 4.
        command = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        arguments = [
            program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe",
            f"--user-data-dir={self._profile.name}", f"--window-size={width},{height}", "about:blank"
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", *arguments], pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._session = None
        self._last_id = 0
        self._events = []
        page = next(target for target in self.call("Target.getTargets")["targetInfos"]
                    if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"],
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session = None
        self.call("Browser.close")
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._profile.cleanup()

    def _message(self):
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._events.append(answer)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression):
        """Until the expression is true."""
        until = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > until:
                raise RuntimeError(f"waited {PATIENCE_S} s for {expression}")
            time.sleep(0.02)

    def frame(self):
        """Until everything asked for is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def open(self, path):
        self._events.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait_for("!!document.body && document.body.dataset.ready === 'true'")

    def _mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self._mouse("mouseMoved", x, y)
        self.frame()

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", clickCount=1)
        self.frame()

    def drag(self, x0, y0, x1, y1):
        self._mouse("mousePressed", x0, y0, button="left", clickCount=1)
        self._mouse("mouseMoved", x1, y1, button="left", buttons=1)
        self._mouse("mouseReleased", x1, y1, button="left", clickCount=1)
        self.frame()

    def wheel(self, x, y, delta):
        self._mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.frame()

    def screenshot(self):
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def pdf(self):
        return base64.b64decode(
            self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    def complaints(self):
        """Exceptions and everything that was written to the console."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [str(event["params"])[:600] for event in self._events
                if event.get("method") in kinds]

    def requests(self):
        """Addresses of everything that the page has asked for."""
        return [event["params"]["request"]["url"] for event in self._events
                if event.get("method") == "Network.requestWillBeSent"]
