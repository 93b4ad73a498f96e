"""`csi-delta snapshot` on an API server whose events come five seconds late and whose lists are one change old."""

import contextlib
import json
import subprocess

import pytest

import components
import data
import people
import stale_api

MIB = 1 << 20
AT_ONCE = 4
BUSY = 11
END_SECONDS_MAX = 120
LISTED = ("volumesnapshots", "volumesnapshotcontents", "persistentvolumeclaims")
USER_ROLE, VIEWER_ROLE, READER_ROLE = (f"csi-delta-snapshot-{role}" for role in ("user", "viewer", "reader"))

pytestmark = pytest.mark.own_driver("needs a call that is held")


def _without_leases(bed, workspace, app):
    """A person who may take VolumeSnapshots and may not hold a Lease: the lists alone order what is asked for at once."""
    name = workspace.name("no-leases")
    bed.api.create("clusterroles", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {people.PERSON: name}},
        "rules": [{"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"],
                   "verbs": ["get", "list", "watch", "create", "delete"]}]})
    return people.Person(bed, name, app, [(app, name), (app, VIEWER_ROLE), ("", READER_ROLE)])


def _start(bed, config, app, *words):
    return subprocess.Popen(bed.inside([components.program_path(), "snapshot", *words, "-n", app, "-o", "json",
                                        "--kubeconfig", config]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("leases", [True, False], ids=["with Leases", "without"])
def test_one_of_several_at_once_is_taken_and_can_be_used(bed, workspace, leases):
    app, written = workspace.volume(bed, MIB)
    before = set(bed.driver.snapshots())
    with people.roles(bed), stale_api.StaleApi(bed, LISTED) as stale, contextlib.ExitStack() as running:
        person = people.Person(bed, workspace.name("user"), app, [(app, USER_ROLE), (app, VIEWER_ROLE), ("", READER_ROLE)])
        config = stale.lead((person if leases else _without_leases(bed, workspace, app)).config)
        with bed.driver.faults({"method": "CreateSnapshot", "hold": True}):
            runs = [running.enter_context(_start(bed, config, app, "create", "data", "--name", f"at-once-{number}"))
                    for number in range(AT_ONCE)]
            bed.driver.await_calls("CreateSnapshot", held=bed.driver.calls("CreateSnapshot")["held"] or 1)
            bed.wait_for(lambda: sum(run.poll() is not None for run in runs) == AT_ONCE - 1, END_SECONDS_MAX,
                         lambda: f"all but one to end: {[run.poll() for run in runs]}")
        told = [run.communicate(timeout=END_SECONDS_MAX) for run in runs]
        codes = sorted(run.returncode for run in runs)
        assert codes == [0] + [BUSY] * (AT_ONCE - 1), told
        (out, _), = (answer for answer, run in zip(told, runs) if run.returncode == 0)
        taken, = json.loads(out)
        # Those that were withdrawn go when the snapshot controller takes its finalizers off.
        bed.wait_gone(lambda: [s["metadata"]["name"] for s in bed.api.list("volumesnapshots", app)] == [taken["name"]],
                      END_SECONDS_MAX, lambda: f"only {taken['name']}: {bed.api.list('volumesnapshots', app)}")

        config = stale.lead(person.config)
        promoted = _start(bed, config, app, "promote", taken["name"], "copy", "--wait")
        out, error = promoted.communicate(timeout=END_SECONDS_MAX)
        assert promoted.returncode == 0, error
        data.expect(bed.volume_path("copy", app), written)
        assert stale.lists_made_old, "some lists were too old"
    bed.wait_gone(lambda: set(bed.driver.snapshots()) - before == {taken["handle"]}, END_SECONDS_MAX,
                  lambda: f"one snapshot of the driver: {set(bed.driver.snapshots()) - before}")
    people.run(bed, app, "delete", taken["name"], "--last-too", "--wait")
    assert not bed.api.list("leases", app)
