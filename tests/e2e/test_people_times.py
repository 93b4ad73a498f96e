"""How soon `csi-delta snapshot create` says that the application may go on, and whether its times are the driver's."""

import datetime
import json
import statistics
import threading
import time

import pytest

import components
import objects
import people
import promises

MIB = 1 << 20
ROUNDS = 3
LAG_SECONDS_MAX = 0.1
READY_SECONDS = 20
AGREE_SECONDS = 1
WAIT = ("wait", "--timeout=120s")

pytestmark = pytest.mark.own_driver("needs a snapshot that becomes ready late")


def _seconds(text):
    """A time of RFC 3339, with nanoseconds or without, in seconds since the epoch."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    at = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc).timestamp()
    return at + float(f"0.{fraction or 0}")


class Racer:
    """One way to take a snapshot and to be told that it is taken. `seconds` and `lag` are filled as it is run."""

    def __init__(self, bed, app, name, commands):
        self._bed, self._app, self.name = bed, app, name
        self._commands = commands  # Of the name of a VolumeSnapshot.
        self.seconds, self.lag = [], []

    def run(self, snapshot):
        position, start = self._bed.audit_position(), time.time()
        for command in self._commands(snapshot):
            self._bed.run(command)
        ended = time.time()
        self.seconds.append(ended - start)
        bound = self._bed.api.get("volumesnapshots", snapshot, self._app)["status"]["boundVolumeSnapshotContentName"]
        self.lag.append(ended - _handle_seen(self._bed, bound, position))

    def __str__(self):
        def shown(values):
            return f"{statistics.median(values) * 1000:8.0f} ms ({min(values) * 1000:.0f} to {max(values) * 1000:.0f})"
        return f"{self.name:45} {shown(self.seconds)}, {shown(self.lag)} after the handle"


def _handle_seen(bed, content, since):
    """When the API server had the handle of a content: the first status that the sidecar wrote."""
    writes = [event for event in bed.audit_events("csi-snapshotter", since)
              if event["objectRef"].get("name") == content and event["objectRef"].get("subresource") == "status"
              and event["responseStatus"]["code"] == 200]
    return _seconds(writes[0]["stageTimestamp"])


def _racers(bed, app, folder):
    program, kubectl = components.program_path(), bed.program("kube", "kubectl")

    def ours(name):
        return [[program, "snapshot", "create", name, "--name", name, "-n", app]]

    def by_kubectl(condition):
        def commands(name):
            manifest = folder / f"{name}.json"
            manifest.write_text(json.dumps(objects.volume_snapshot(name, app, name)))
            return [[kubectl, "apply", "-f", manifest],
                    [kubectl, *WAIT, f"--for=jsonpath={condition}", f"volumesnapshot/{name}", "-n", app]]
        return commands
    return [Racer(bed, app, "csi-delta snapshot create", ours),
            Racer(bed, app, "kubectl apply; kubectl wait for creationTime", by_kubectl("{.status.creationTime}")),
            Racer(bed, app, "kubectl apply; kubectl wait for readyToUse", by_kubectl("{.status.readyToUse}=true"))]


def test_create_returns_at_the_handle_and_not_when_the_storage_has_all(bed, workspace, tmp_path):
    app = workspace.namespace(bed)
    names = [f"data-{number}-{turn}" for turn in range(ROUNDS) for number in range(3)]
    bed.create_claims(names, app, MIB)
    racers = _racers(bed, app, tmp_path)
    early, late = racers[:2], racers[2]
    for turn in range(ROUNDS):
        with bed.driver.faults({"method": "*", "lie": "not_ready"}):
            ready = threading.Timer(READY_SECONDS, bed.driver.clear_faults)
            ready.start()
            for number, racer in list(enumerate(early))[::-1 if turn % 2 else 1]:
                racer.run(f"data-{number}-{turn}")
            late.run(f"data-2-{turn}")
            ready.join()
    print("\n".join(["", "medians of", *map(str, racers)]))
    ours, best = racers[0], racers[1]
    assert max(ours.seconds) < READY_SECONDS, "it does not wait for the storage"
    limit = promises.within(LAG_SECONDS_MAX, "snapshot create returns after the handle is visible")
    assert statistics.median(ours.lag) <= limit, ours.lag
    assert not promises.QUIET or statistics.median(ours.seconds) < statistics.median(best.seconds), (ours.seconds, best.seconds)
    people.run(bed, app, "delete", *names, "--last-too", "--wait")


def _calls(bed, since):
    """From and to when each CreateSnapshot lasted that the driver's log has after so many bytes."""
    found = []
    for line in bed.log("csi-driver")[since:].splitlines():
        told = json.loads(line)
        if told.get("method") == "CreateSnapshot":
            end = _seconds(told["ended_at"])
            found.append((end - int(told["duration_ms"]) / 1000, end))
    return found


def test_asked_taken_and_ready_are_what_the_driver_logs(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    since = len(bed.log("csi-driver"))
    with bed.driver.faults({"method": "*", "lie": "not_ready"}):
        taken, = people.ask(bed, app, "create", "data", "--name", "monday")
        assert taken["state"] == "Uploading" and taken["ready_at"] is None, taken
        bed.wait_for(lambda: len(_calls(bed, since)) > 2, 60, "the sidecar to ask whether it is ready")
        cleared = time.time()
    bed.wait_snapshot_ready("monday", app)
    shown = people.ask(bed, app, "show", "monday")
    assert [shown[key] for key in ("asked_at", "taken_at")] == [taken[key] for key in ("asked_at", "taken_at")]
    calls = _calls(bed, since)
    logged = {"asked_at": calls[0][0], "taken_at": calls[0][1], "ready_at": next(end for start, end in calls if start > cleared)}
    differ = {key: _seconds(shown[key]) - at for key, at in logged.items()}
    print(f"differs from the driver's log by {differ}")
    within = promises.within(AGREE_SECONDS, "asked, taken and ready are what the driver logs")
    assert all(abs(difference) <= within for difference in differ.values()), differ
    people.run(bed, app, "delete", "monday", "--last-too", "--wait")
