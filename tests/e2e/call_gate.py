"""Stands between our plugin and the API server, lets so many of its calls pass, and holds the next one.

So a test acts between two calls, exactly: what is held never reaches the API server.
"""

import threading
import time

import group_proxy
import processes

LOOK_SECONDS = 0.2


class Gate(group_proxy.BedProxy):
    """Between any client and the API server. Thread-safe."""

    def __init__(self, bed):
        self._calls = []
        self._since = None  # From which call on they are counted,
        self._writes_only = False  # and whether all of them.
        self._limit = None  # How many of those pass; all.
        self._held = False
        self._more = threading.Condition()
        super().__init__(bed)

    def __exit__(self, *failure):
        self.open()
        super().__exit__(*failure)

    def hold_after(self, count, since, writes_only=False):
        """Once `since(method, path)` was true of a call, so many pass, that one included, and no other.

        With `writes_only` what reads always passes.
        """
        with self._more:
            self._calls, self._since, self._limit, self._held = [], since, count, False
            self._writes_only = writes_only

    def await_held(self, ended, timeout_seconds):
        """Waits until a call is held. False if `ended()` says first that there will be none."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            with self._more:
                if self._held or self._more.wait_for(lambda: self._held, LOOK_SECONDS):
                    return True
            if ended():
                return False
            if time.monotonic() > deadline:
                raise processes.BedError(f"not within {timeout_seconds} s: call {self._limit} of {self.calls()}")

    def open(self):
        """Lets all pass from now on. What was held gets no answer."""
        with self._more:
            self._limit = None
            self._more.notify_all()

    def calls(self):
        """Pairs of method and path of those that count, as they came; the last one may be held."""
        with self._more:
            return list(self._calls)

    def admits(self, method, path):
        with self._more:
            if self._limit is None or (self._writes_only and method == "GET"):
                return True
            if not (self._calls or self._since(method, path)):
                return True
            self._calls.append((method, path))
            if len(self._calls) <= self._limit:
                return True
            self._held = True
            self._more.notify_all()
            self._more.wait_for(lambda: self._limit is None)
            return False


class CallGate(Gate):
    """The way of the plugin processes that start while the body of `with` runs."""

    def __enter__(self):
        super().__enter__()
        self._bed.renew_plugin_token(port=self.server_address[1])
        return self

    def __exit__(self, *failure):
        self.open()
        self._bed.renew_plugin_token()
        super().__exit__(*failure)
