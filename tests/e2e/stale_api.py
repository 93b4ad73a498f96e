"""An API server that is behind: its events come some seconds after the change, and its lists lack the newest change of what they list."""

import contextlib
import datetime
import http.client
import json
import queue
import threading
import time
import urllib.parse

import group_proxy

EVENT_LAG_SECONDS = 5


def changed_at(event):
    """When the change that an event of a watch tells of was made, to a second; none for a bookmark."""
    meta = event["object"]["metadata"]
    times = [meta.get("creationTimestamp"), meta.get("deletionTimestamp"),
             *(entry.get("time") for entry in meta.get("managedFields", ()))]
    return max((datetime.datetime.fromisoformat(time.rstrip("Z")).replace(tzinfo=datetime.timezone.utc).timestamp()
                for time in times if time), default=None)


class _Passage(group_proxy.Passage):
    """One connection of a client that is told of everything late."""

    def pieces(self, answer):
        if "watch=true" not in self.path:
            yield from super().pieces(answer)
            return
        arrived = queue.SimpleQueue()

        def read():
            rest = b""
            # The client may go first: its connection is closed then, in the middle of whatever this is.
            with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
                for piece in super(_Passage, self).pieces(answer):
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        arrived.put((self._due(line), line + b"\n"))
            arrived.put((0, b""))
        threading.Thread(target=read, daemon=True).start()
        while True:
            due, line = arrived.get()
            time.sleep(max(0.0, due - time.time()))
            if not line:
                return
            yield line

    def _due(self, line):
        # Times of changes are cut to seconds: the next one has begun for sure.
        at = changed_at(json.loads(line))
        return (time.time() if at is None else at + 1) + self.server.event_lag_seconds

    def path_behind(self):
        """A list is asked for as it was before the newest change of its objects, unless the client wants a certain one."""
        path, _, text = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(text))
        kind = path.rpartition("/")[2]
        if self.command != "GET" or kind not in self.server.kinds or {"watch", "continue", "resourceVersion"} & query.keys():
            return self.path
        newest = self._newest()
        if newest is None:
            return self.path
        self.server.lists_made_old += 1
        query |= {"resourceVersion": str(newest - 1), "resourceVersionMatch": "Exact"}
        return f"{path}?{urllib.parse.urlencode(query)}"

    def _newest(self):
        """The revision of the newest change that a list shows; none for an empty one, and where it is refused."""
        with contextlib.closing(self.server.connect_behind()) as behind:
            behind.request("GET", self.path, headers={"Authorization": self.headers.get("Authorization", "")})
            items = json.loads(behind.getresponse().read()).get("items")
            return max((int(item["metadata"]["resourceVersion"]) for item in items or ()), default=None)


class StaleApi(group_proxy.BedProxy):
    """Serves while the body of `with` runs, for clients with a token. `kinds`: plural names of what is listed too old."""

    def __init__(self, bed, kinds, event_lag_seconds=EVENT_LAG_SECONDS):
        self.kinds, self.event_lag_seconds = kinds, event_lag_seconds
        self.lists_made_old = 0
        super().__init__(bed, _Passage)
