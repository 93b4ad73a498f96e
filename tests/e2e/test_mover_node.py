"""A volume is moved on a node that is emptied, short of memory, or without its kubelet or containerd for a while; in parts, too."""

import contextlib
import signal

import pytest

import cgroups
import data
import mover
import node
import objects
import policy
from bed import ENDED
from changes import Changes
from moving import (MIB, MOVED_SECONDS_MAX, await_completed, await_nothing_left, await_phase, back_up, begin, begin_restore,
                    cancel, figure, held_in_progress, outlast_absence, phase, restored_checksum, stored_bytes, upload,
                    worker, workers)

WINDOWS_BYTES = 96 * MIB
LARGE_BYTES = 256 * MIB
READ_AGAIN_BYTES_MAX = 64 * MIB

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("needs injected faults")]


def await_message(bed, name, *words):
    bed.wait_for(lambda: all(word in upload(bed, name)["status"].get("message", "") for word in words), MOVED_SECONDS_MAX,
                 lambda: f"{words}: {upload(bed, name)['status']}\n{mover.tell(bed)}")


def check_completed(bed, backup, name):
    await_completed(bed, backup)
    assert phase(bed, name) == "Completed"


def test_a_node_that_is_drained(bed, workspace, moving_app):
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        with bed.node.cordoned():
            mover.evict(bed, worker(bed, name))
            await_message(bed, name, "nschedulable")
            for pod in mover.pods(bed):
                mover.evict(bed, pod)
            bed.driver.clear_faults()
        check_completed(bed, backup, name)


def test_a_worker_without_memory_says_which_setting_to_raise(bed, workspace):
    # Its buffers are more than what the kernel may still find to give back.
    app, _ = workspace.volume(bed, WINDOWS_BYTES, labels=mover.RESTRICTED)
    with held_in_progress(bed, workspace, app) as (backup, name):
        held = workers(bed)

        def starved():
            for process in held:
                cgroups.starve(bed.name, process.pid)
            return not any(process.alive() for process in held)
        starved()
        bed.driver.clear_faults()
        bed.wait_for(starved, MOVED_SECONDS_MAX, "the worker's end")
        await_message(bed, name, "OOMKilled", "worker.resources.limits.memory")
        check_completed(bed, backup, name)
    await_nothing_left(bed)


@pytest.mark.sweep
def test_a_kubelet_that_is_gone_until_the_end(bed, workspace, moving_app):
    """What runs goes on and is Completed; the Pod goes when its node is back."""
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        bed.stop(node.KUBELET, kill=True)
        outlast_absence(bed, name)
        bed.driver.clear_faults()
        check_completed(bed, backup, name)
        bed.start(node.KUBELET)
    await_nothing_left(bed, (" du-",))


def test_a_containerd_that_is_restarted(bed, workspace, moving_app):
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        before = workers(bed)
        bed.node.restart_containerd()
        assert all(process.alive() for process in before)
        bed.driver.clear_faults()
        check_completed(bed, backup, name)


def test_a_containerd_that_gives_devices_to_users_needs_no_group(bed, workspace, moving_app):
    with bed.node.device_ownership(), mover.configured(bed, {"worker": {"supplementalGroups": []}}):
        backup, name = begin(bed, workspace, moving_app)
        pod = bed.wait_for(lambda: worker(bed, name), MOVED_SECONDS_MAX, "the worker's Pod")
        assert not pod["spec"]["securityContext"].get("supplementalGroups")
        check_completed(bed, backup, name)


def test_an_api_server_that_is_gone_while_a_volume_is_filled(bed, workspace, moving_app):
    """By a policy, as Velero's own action takes a question that the API server does not answer for a failure."""
    written = data.checksum(bed.volume_path("data", moving_app))
    by_policy = ("--resource-policies-configmap", workspace.policy(bed, policy.rule("move")))
    saved, _ = back_up(bed, workspace, moving_app, "saved", *by_policy)
    with bed.driver.faults({"method": "CreateVolume", "hold": True}):
        name, target, download = begin_restore(bed, workspace, saved, moving_app, "away")
        bed.wait_phase("restores", name, ("WaitingForPluginOperations",))  # Before that Velero itself fails items.
        with bed.paused("s3"):
            bed.driver.clear_faults()
            bed.wait_for(lambda: bed.api.get("datadownloads", download, bed.namespace)["status"].get("phase") == "InProgress",
                         MOVED_SECONDS_MAX, "the DataDownload in progress")
            made = bed.api.get("datadownloads", download, bed.namespace)["metadata"]["uid"]
            filled = bed.volume_path(f"dd-{made}", mover.NAMESPACE)
            bed.stop("kube-apiserver", kill=True)
    bed.wait_for(lambda: data.checksum(filled) == written, MOVED_SECONDS_MAX, "the volume filled")
    bed.start("kube-apiserver")
    assert bed.wait_phase("restores", name, ENDED)["status"]["phase"] == "Completed"
    bed.wait_bound("data", target)
    data.expect(bed.volume_path("data", target), written)
    back_up(bed, workspace, moving_app, "afterwards")
    await_nothing_left(bed)


@contextlib.contextmanager
def hanging_after(bed, packs):
    """Yields a wait until so many packs are stored; from then to the end of the body S3 answers no request."""
    def is_pack(change):
        return change.verb == "put" and "/data/" in change.name
    folder = bed.s3_dir / objects.BUCKET / "plugins"
    folder.mkdir(exist_ok=True)
    with Changes(bed, [], folder) as changes, contextlib.ExitStack() as stack:
        def wait():
            bed.wait_for(changes.seen, MOVED_SECONDS_MAX, "the worker's first file")  # Who waits again looks more often.
            bed.wait_for(lambda: sum(map(is_pack, changes.seen())) >= packs, MOVED_SECONDS_MAX, f"{packs} packs")
            stack.enter_context(bed.paused("s3"))
        yield wait


def test_a_volume_that_needs_three_windows(bed, workspace):
    app, written = workspace.volume(bed, WINDOWS_BYTES, labels=mover.RESTRICTED)
    for window in range(2):
        with hanging_after(bed, 3) as await_packs:
            backup, name = begin(bed, workspace, app, f"window{window}")
            await_packs()
            cancel(bed, name)
            await_phase(bed, name, "Canceled")
        assert bed.wait_phase("backups", backup, ENDED)["status"]["phase"] == "PartiallyFailed"
        await_nothing_left(bed)
    backup, made = back_up(bed, workspace, app, "last")
    assert figure(made, "stored-bytes") < 0.6 * WINDOWS_BYTES, made["metadata"]["annotations"]
    data.same(restored_checksum(bed, workspace, app, backup, "windows"), written)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
def test_a_worker_that_has_to_end_leaves_little_to_read_again(bed, workspace, how):
    """Asked to, as on a node that is drained, or not; the next one may be on any other node."""
    app, _ = workspace.volume(bed, LARGE_BYTES, labels=mover.RESTRICTED)
    with hanging_after(bed, 6) as await_packs:
        backup, name = begin(bed, workspace, app, "late")
        await_packs()
        for process in workers(bed):
            process.signal(how)
        stored = sum(stored_bytes(repository) for repository in mover.repositories(bed) if repository.parent.name == app)
    check_completed(bed, backup, name)
    assert figure(upload(bed, name), "read-bytes") <= LARGE_BYTES - stored + READ_AGAIN_BYTES_MAX
