"""Hooks surround the cut of a group: those of all Pods that use one of its claims."""

import json
import time

import pytest

import images
import objects
from groups import CLAIMS, Database

CUT_LATE = {"method": "CreateVolumeGroupSnapshot", "delay_ms": 1500}  # Time enough for a hook that does not wait for the cut.
PODS = {"first": CLAIMS[:1], "second": CLAIMS[1:]}
NOTE = "cat /proc/uptime >/tmp/"

pytestmark = [pytest.mark.group, pytest.mark.own_driver("says when it cut, and can be made slow")]


def pod(name, app, claims):
    """A Pod that has claims and does nothing; its hooks note when they ran."""
    made = objects.pod(name, app, images.BUSYBOX, images.shell("sleep 3600"), devices={c: f"/dev/{c}" for c in claims})
    made["metadata"]["annotations"] = {
        f"{moment}.hook.backup.velero.io/{key}": value for moment in ("pre", "post")
        for key, value in (("command", json.dumps(images.shell(NOTE + moment))), ("container", "main"), ("on-error", "Fail"))}
    made["spec"]["volumes"].append({"name": "scratch", "emptyDir": {}})
    made["spec"]["containers"][0]["volumeMounts"].append({"name": "scratch", "mountPath": "/tmp"})
    return made


def noted(bed, app, name, moment):
    """When a hook ran, as the machine's clock has it."""
    told = bed.kubectl("exec", "-n", app, name, "--", *images.shell(f"cat /tmp/{moment}")).stdout
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + float(told.split()[0])


@pytest.mark.cluster(node=True)
def test_a_group_snapshot_is_taken_between_the_hooks_of_all_its_pods(bed, workspace, record_property):
    database = Database(bed, workspace)
    for name, claims in PODS.items():
        bed.node.start_pod(pod(name, database.app, claims))
    with bed.driver.faults(CUT_LATE):
        backup = workspace.backup(bed, *database.flags)
    assert backup["status"]["hookStatus"] == {"hooksAttempted": 2 * len(PODS)}
    group, = bed.driver.control({"op": "groups"})["groups"]
    assert len(group["members"]) == len(CLAIMS)
    cut = group["created_at_ns"] / 1e9
    pre, post = ({name: noted(bed, database.app, name, moment) for name in PODS} for moment in ("pre", "post"))
    assert max(pre.values()) <= cut <= min(post.values()), (pre, cut, post)
    record_property("held_ms", round(1000 * (max(post.values()) - min(pre.values()))))
