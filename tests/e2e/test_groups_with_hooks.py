"""Hooks surround the cut of a group: those of all Pods that use one of its claims."""

import pytest

import images
import objects
from groups import CLAIMS, Database
from moving import noted, with_hooks

CUT_LATE = {"method": "CreateVolumeGroupSnapshot", "delay_ms": 1500}  # Time enough for a hook that does not wait for the cut.
PODS = {"first": CLAIMS[:1], "second": CLAIMS[1:]}
NOTE = "cat /proc/uptime >/tmp/"

pytestmark = [pytest.mark.group, pytest.mark.own_driver("says when it cut, and can be made slow")]


def pod(name, app, claims):
    """A Pod that has claims and does nothing; its hooks note when they ran."""
    made = objects.pod(name, app, images.BUSYBOX, images.shell("sleep 3600"), devices={c: f"/dev/{c}" for c in claims})
    return with_hooks(made, pre=f"{NOTE}pre", post=f"{NOTE}post")


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
