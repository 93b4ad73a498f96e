"""`csi-delta snapshot list` in a cluster with very many VolumeSnapshots: what it costs."""

import collections
import json
import time

import cgroups
import components
import many
import people
import promises

MIB = 1 << 20
SNAPSHOTS, OTHERS = 2000, 20000
MEMORY_BYTES = 64 * MIB
SECONDS_MAX = 2
ROUNDS = 3 if promises.QUIET else 1
REVIEWER, READER = "csi-delta-snapshot-viewer", "csi-delta-snapshot-reader"


def _measured(command):
    """Runs a program whose memory is limited; returns its answer, seconds and most memory."""
    start = time.monotonic()
    with cgroups.running(command, "csi-delta-list", MEMORY_BYTES) as (run, peak):
        out, error = run.communicate(timeout=promises.BUSY_SECONDS)
        seconds = time.monotonic() - start
    assert run.returncode == 0, error[-2000:]
    return out, seconds, peak.bytes()


def _lists(events):
    """How many LISTs there were of each kind, and how many pages: a page that goes on with another one says so.

    Beside these a driver is asked for once: whether it copies before a PVC is bound stands on its CSIDriver.
    """
    lists, pages, drivers = collections.Counter(), collections.Counter(), []
    for event in events:
        plural = event["objectRef"]["resource"]
        if event["verb"] == "get" and plural == "csidrivers":
            drivers.append(event["objectRef"]["name"])
            continue
        assert event["verb"] == "list", event["requestURI"]
        pages[plural] += 1
        lists[plural] += "continue=" not in event["requestURI"]
    assert len(drivers) == len(set(drivers))
    return lists, pages


def test_a_list_costs_one_list_of_each_kind(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    people.run(bed, app, "create", "data", "--name", "template", "--wait", "ready")
    with people.roles(bed):
        person = people.Person(bed, workspace.name("viewer"), app, [(app, REVIEWER), ("", READER)])
        with many.copies(bed, "template", app, SNAPSHOTS, OTHERS):
            command = bed.inside([components.program_path(), "snapshot", "list", "-n", app, "-o", "json",
                                  "--kubeconfig", person.config])
            took = []
            for _ in range(ROUNDS):
                start = bed.audit_position()
                out, seconds, peak_bytes = _measured(command)
                listed = json.loads(out)
                assert len(listed) == SNAPSHOTS + 1
                assert {one["state"] for one in listed} == {"Ready"}
                assert all(one["handle"] and one["content"] for one in listed)
                lists, pages = _lists(bed.audit_events(person.user, start))
                assert set(lists.values()) == {1}, lists
                took.append(seconds)
            print(f"{len(listed)} VolumeSnapshots beside {OTHERS} contents: {min(took):.2f} to {max(took):.2f} s, "
                  f"VmHWM {peak_bytes / MIB:.0f} MiB, pages {dict(pages)}")
            limit = promises.within(SECONDS_MAX, "a list of 2,000 VolumeSnapshots beside 20,000 contents")
            assert sorted(took)[ROUNDS // 2] <= limit, took
    people.run(bed, app, "delete", "template", "--last-too", "--wait")
