"""Hooks of a Pod hold its writer still: the cut of a volume that is moved lies between them, whichever action takes the snapshot."""

import pytest

import images
import mover
import moving
import policy
from moving import MIB, MOVE, PHASE_SECONDS_MAX, back_up, busybox, instant, restore_beside, run_busybox

VOLUME_BYTES = 32 * MIB
CUT_LATE = {"method": "CreateSnapshot", "delay_ms": 1500}  # Time enough for a hook that does not wait for the cut.
NO_CUT = {"method": "CreateSnapshot", "code": "UNAVAILABLE"}
CUT_SECONDS_MAX = 5
THAWED_SECONDS_MAX = 60

# A writer that stamps as fast as it can, and stops while there is a lock.
WRITE = """
n=0
while :; do
  if [ -e /tmp/lock ]; then touch /tmp/still; else n=$((n+1)); echo $n >>/data/stamps; fi
  usleep 5000
done"""
# Each notes the time since the machine's start, and what the file holds, where nothing is held still.
FREEZE = "fsfreeze --freeze /data; cp /data/stamps /tmp/held; cat /proc/uptime >/tmp/from"
THAW = "cat /proc/uptime >/tmp/to; fsfreeze --unfreeze /data"
LOCK = ("touch /tmp/lock; until [ -e /tmp/still ]; do usleep 5000; done; cp /data/stamps /tmp/held; sync -f /data/stamps;"
        "cat /proc/uptime >/tmp/from")
UNLOCK = "cat /proc/uptime >/tmp/to; rm /tmp/lock /tmp/still"

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("its file systems are folders, which no device can show")]


def writer(app, before, after, as_root=False):
    """A Pod with its hooks."""
    pod = moving.with_hooks(busybox("writer", app, WRITE), pre=before, post=after)
    if as_root:
        pod["spec"]["securityContext"] = {"runAsUser": 0, "runAsGroup": 0}
        pod["spec"]["containers"][0]["securityContext"] = {"capabilities": {"add": ["SYS_ADMIN"]}}
    return pod


def told(bed, app, command):
    return bed.kubectl("exec", "-n", app, "writer", "--", *images.shell(command)).stdout


def noted(bed, app, name):
    return moving.noted(bed, app, "writer", name)


@pytest.fixture
def app(bed, workspace):
    """A namespace with a file system that a Pod may hold still; it is released whatever becomes of the test."""
    name = workspace.namespace(bed)
    bed.create_claim("data", name, VOLUME_BYTES, mode="Filesystem")
    yield name
    bed.driver.clear_faults()
    bed.kubectl("exec", "-n", name, "writer", "--", *images.shell(THAW), check=False)


def begin_writing(bed, app, *hooks, **kwargs):
    bed.node.start_pod(writer(app, *hooks, **kwargs))
    bed.wait_for(lambda: "42" in told(bed, app, "cat /data/stamps"), PHASE_SECONDS_MAX, "the writer's stamps")


def check_cut_between_hooks(bed, workspace, app, record_property, *flags):
    with bed.driver.faults(CUT_LATE):
        backup, upload = back_up(bed, workspace, app, "held", *flags)
    begun, ended, cut = noted(bed, app, "from"), noted(bed, app, "to"), instant(upload, "cut-at")
    assert begun <= cut <= ended, (begun, cut, ended)
    record_property("held_ms", round(1000 * (ended - begun)))
    print(f"held still for {ended - begun:.2f} s, cut after {cut - begun:.2f} s")
    held = told(bed, app, "cat /tmp/held")
    bed.wait_for(lambda: len(told(bed, app, "cat /data/stamps")) > len(held), PHASE_SECONDS_MAX, "the writer to write on")
    target = restore_beside(bed, workspace, app, backup, "copy")
    assert run_busybox(bed, "reader", target, "cat /data/stamps") == held


@pytest.mark.journey
def test_a_frozen_file_system_is_snapshotted_before_it_thaws(bed, workspace, app, record_property):
    """Our plugin takes the snapshot."""
    begin_writing(bed, app, FREEZE, THAW, as_root=True)
    check_cut_between_hooks(bed, workspace, app, record_property, "--resource-policies-configmap",
                            workspace.policy(bed, policy.rule("move")))


def test_a_writer_with_a_lock_is_snapshotted_before_it_is_released(bed, workspace, app, record_property):
    """Velero takes the snapshot."""
    begin_writing(bed, app, LOCK, UNLOCK)
    check_cut_between_hooks(bed, workspace, app, record_property, *MOVE)


def test_a_snapshot_that_fails_releases_the_file_system(bed, workspace, app):
    begin_writing(bed, app, FREEZE, THAW, as_root=True)
    with bed.driver.faults(NO_CUT):
        workspace.backup(bed, *workspace.by_policy(bed, app, "move"), "--csi-snapshot-timeout", f"{CUT_SECONDS_MAX}s",
                         expect="PartiallyFailed")
        held = told(bed, app, "cat /tmp/held")
        bed.wait_for(lambda: len(told(bed, app, "cat /data/stamps")) > len(held), PHASE_SECONDS_MAX, "the writer to write on")
    assert noted(bed, app, "to") - noted(bed, app, "from") < THAWED_SECONDS_MAX


def test_a_hook_that_fails_is_reported_and_the_volume_moved_all_the_same(bed, workspace, app):
    begin_writing(bed, app, "exit 3", UNLOCK)
    backup = workspace.backup(bed, "--include-namespaces", app, *MOVE, expect="PartiallyFailed")
    assert backup["status"]["hookStatus"] == {"hooksAttempted": 1, "hooksFailed": 1}
    name = backup["metadata"]["name"]
    errors = bed.error_lines(name)
    assert any("exit code 3" in line for line in errors), errors
    assert mover.upload_of(bed, name)["status"]["phase"] == "Completed"
    target = restore_beside(bed, workspace, app, name, "copy")
    assert run_busybox(bed, "reader", target, "head -n 3 /data/stamps") == "1\n2\n3\n"
