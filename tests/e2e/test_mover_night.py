"""A night of many small volumes on one node, with what goes wrong in nights: all are Completed, and nothing is left."""

import contextlib
import json
import signal

import pytest

import cluster_api
import data
import mover
from bed import ENDED
from moving import (MIB, MOVE, MOVED_SECONDS_MAX, annotation, await_nothing_left, controllers, exported_keys,
                    restored_from_bucket)

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("not so many volumes at once")]

VOLUMES, AT_ONCE = 60, 6
VOLUME_BYTES, WRITTEN_BYTES = 4 * MIB, 64 << 10
ALLOWED_PODS = 3  # By the quota, of workers.
NIGHT_SECONDS_MAX = 1500
COMPARED = (0, 31, 59)


def running(bed):
    """The Pods of workers that run."""
    return [pod for pod in bed.api.list("pods", mover.NAMESPACE, labelSelector="mover.csi-delta.io/task")
            if pod["status"].get("phase") == "Running"]


def completed(bed, backup):
    return [one for one in mover.uploads_of(bed, backup) if one.get("status", {}).get("phase") == "Completed"]


def told(bed, backup):
    """Phase and message of each upload that is not Completed, for a failure."""
    return [(one["metadata"]["name"], one.get("status", {}).get("phase"), one.get("status", {}).get("message"))
            for one in mover.uploads_of(bed, backup) if one.get("status", {}).get("phase") != "Completed"]


@contextlib.contextmanager
def full_quota(bed):
    """While the body runs, the API server's own admission refuses all Pods but a few; here nothing counts those that end."""
    used = len(bed.api.list("pods", mover.NAMESPACE))
    hard = used + ALLOWED_PODS
    bed.kubectl("create", "quota", "night", f"--hard=pods={hard}", "-n", mover.NAMESPACE)
    status = {"status": {"hard": {"pods": str(hard)}, "used": {"pods": str(used)}}}
    bed.kubectl("patch", "resourcequota", "night", "-n", mover.NAMESPACE, "--subresource=status", "--type=merge",
                "-p", json.dumps(status))
    try:
        yield
    finally:
        bed.kubectl("delete", "quota", "night", "-n", mover.NAMESPACE)


def empty_node(bed):
    """Evicts workers and the controller from a node that takes no Pods meanwhile."""
    with bed.node.cordoned():
        for pod in [*running(bed), *mover.pods(bed)]:
            with contextlib.suppress(cluster_api.ApiError):  # It has ended since.
                mover.evict(bed, pod)
        bed.wait_for(lambda: not running(bed), MOVED_SECONDS_MAX, "an empty node")


def test_sixty_volumes_through_a_quota_a_drain_and_a_killed_controller(bed, workspace):
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    claims = [f"data-{number:02}" for number in range(VOLUMES)]
    bed.create_claims(claims, app, VOLUME_BYTES, timeout_seconds=MOVED_SECONDS_MAX)
    for seed, claim in enumerate(claims):
        data.fill(bed.volume_path(claim, app), seed, WRITTEN_BYTES)
    written = {claims[number]: data.checksum(bed.volume_path(claims[number], app)) for number in COMPARED}
    backup = workspace.name("night")
    workspace.expect_backup(bed, backup)
    with mover.configured(bed, {"limits": {"total": AT_ONCE, "perNode": AT_ONCE}}):
        with full_quota(bed):
            bed.velero("backup", "create", backup, "--include-namespaces", app, *MOVE)
            bed.wait_for(lambda: any("exceeded quota" in (one["status"].get("message") or "")
                                     for one in mover.uploads_of(bed, backup) if "status" in one), MOVED_SECONDS_MAX,
                         lambda: f"a refusal that is told: {told(bed, backup)}")
        bed.wait_for(lambda: running(bed) and len(completed(bed, backup)) >= ALLOWED_PODS, MOVED_SECONDS_MAX,
                     lambda: f"workers after the quota: {told(bed, backup)}")
        empty_node(bed)
        done = len(completed(bed, backup))
        bed.wait_for(lambda: running(bed) and len(completed(bed, backup)) > done, MOVED_SECONDS_MAX,
                     lambda: f"workers after the drain: {told(bed, backup)}\n{mover.tell(bed)}")
        for process in controllers(bed):
            process.signal(signal.SIGKILL)
        ended = bed.wait_phase("backups", backup, ENDED, timeout_seconds=NIGHT_SECONDS_MAX)
    assert ended["status"]["phase"] == "Completed", (ended["status"], told(bed, backup))
    made = mover.uploads_of(bed, backup)
    assert len(made) == VOLUMES and not told(bed, backup)
    await_nothing_left(bed)
    ring = exported_keys(bed, bed.scratch / "night.keys")
    for one in made:
        claim = one["spec"]["sourcePVC"]
        assert annotation(one, "mode") == "full"
        if claim in written:
            image = bed.state / f"{claim}.img"
            data.same(restored_from_bucket(bed, one, ring, image), written[claim], claim)
            image.unlink()
