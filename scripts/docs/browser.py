"""A headless Chromium that a test drives by the DevTools protocol, over pipes: no port, no other program.

It renders pages of this checkout alone, so that it may run as root without its sandbox; names of hosts resolve to nothing.
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess

PROGRAM = "/usr/bin/chromium-headless-shell"
WIDTH, HEIGHT = 1280, 800
ANSWER_SECONDS_MAX = 60
FLAGS = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
         "--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe")


class BrowserError(Exception):
    """What a page or the browser answered instead of a result."""


class Browser:
    """One page. `send` is a file, `receive` a descriptor. Not thread-safe."""

    def __init__(self, send, receive):
        self._send, self._receive = send, receive
        self._number, self._session, self._pending = 0, "", b""
        self.requests = []  # Addresses that the page asked for.
        self.errors = []  # Exceptions and messages of error level in the page.
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(WIDTH, HEIGHT)

    def _message(self):
        while b"\0" not in self._pending:
            if not select.select([self._receive], [], [], ANSWER_SECONDS_MAX)[0]:
                raise BrowserError(f"the browser did not answer within {ANSWER_SECONDS_MAX} s")
            data = os.read(self._receive, 1 << 16)
            if not data:
                raise BrowserError("the browser ended")
            self._pending += data
        text, _, self._pending = self._pending.partition(b"\0")
        return json.loads(text)

    def _note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}".strip())

    def call(self, method, **parameters):
        """The result of a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._send.write(json.dumps(message).encode() + b"\0")
        self._send.flush()
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _wait_for(self, method):
        while True:
            message = self._message()
            self._note(message)
            if message.get("method") == method:
                return

    def open(self, address):
        """Goes to a page and waits until it is loaded."""
        answer = self.call("Page.navigate", url=address)
        if "errorText" in answer:
            raise BrowserError(f"{address}: {answer['errorText']}")
        self._wait_for("Page.loadEventFired")

    def evaluate(self, script):
        """The value of an expression, of what it promises if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"]["exception"].get("description", "exception"))
        return answer["result"].get("value")

    def type(self, text):
        """Types into what has the focus."""
        self.call("Input.insertText", text=text)

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", format="png")
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))


@contextlib.contextmanager
def launch(folder):
    """A browser with a profile of its own below `folder`; it has ended when this has."""
    to_browser, from_browser = os.pipe(), os.pipe()

    def wire():  # Chromium reads commands from 3 and writes answers to 4.
        read, write = os.dup(to_browser[0]), os.dup(from_browser[1])
        os.dup2(read, 3)
        os.dup2(write, 4)
    command = [PROGRAM, *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"]
    with open(f"{folder}/browser.log", "wb") as log, subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False, preexec_fn=wire, start_new_session=True) as process:
        os.close(to_browser[0])
        os.close(from_browser[1])
        with os.fdopen(to_browser[1], "wb") as send, os.fdopen(from_browser[0], "rb", buffering=0) as receive:
            try:
                yield Browser(send, receive.fileno())
            finally:
                with contextlib.suppress(OSError):
                    send.write(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
                    send.flush()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
