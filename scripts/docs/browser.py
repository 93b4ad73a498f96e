"""A headless Chromium that a test drives by the DevTools protocol, over pipes: no port, no other program.

It renders pages of this checkout alone, so that it may run as root without its sandbox; names of hosts resolve to nothing.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading

PROGRAM = "/usr/bin/chromium-headless-shell"
ANSWER_SECONDS_MAX = 60
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-dev-shm-usage", "--window-size=1280,800", "--remote-debugging-pipe",
         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


class BrowserError(Exception):
    """What a page or the browser answered instead of a result."""


class Browser:
    """One page of a browser that runs. Not thread-safe."""

    def __init__(self, process):
        self._process, self._number, self._session = process, 0, {}
        self.requests = []  # Addresses that the page asked for.
        self.errors = []  # Exceptions and messages of error level in the page.
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _message(self):
        limit = threading.Timer(ANSWER_SECONDS_MAX, _kill, [self._process])
        limit.start()
        text = bytearray()
        while (byte := self._process.stdout.read(1)) not in (b"\0", b""):
            text += byte
        limit.cancel()
        if not byte:
            raise BrowserError(f"the browser ended, or did not answer within {ANSWER_SECONDS_MAX} s")
        return json.loads(text)

    def _note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}".strip())
        return message

    def call(self, method, **parameters):
        """The result of a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while (answer := self._note(self._message())).get("id") != self._number:
            pass
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, address):
        """Goes to a page and waits until it is loaded."""
        answer = self.call("Page.navigate", url=address)
        if "errorText" in answer:
            raise BrowserError(f"{address}: {answer['errorText']}")
        while self._note(self._message()).get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script):
        """The value of an expression, of what it promises if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"]["exception"].get("description", "exception"))
        return answer["result"].get("value")


def _kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def launch(folder):
    """A browser with a profile of its own below `folder`; it has ended when this has."""
    wire = 'exec "$@" 3<&0 4>&1 </dev/null >&2'  # Chromium reads commands from 3 and writes answers to 4.
    command = ["sh", "-c", wire, "sh", PROGRAM, *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"]
    with open(f"{folder}/browser.log", "wb") as log, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True) as process:
        try:
            yield Browser(process)
        finally:
            _kill(process)
