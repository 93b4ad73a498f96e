"""Trouble while volumes are moved: each ends as it should, says why, and leaves nothing behind."""

import signal

import pytest

import mover
import policy
from bed import ENDED
from moving import (CANCELED_GONE_SECONDS_MAX, PHASE_SECONDS_MAX, UPLOADS, await_completed, await_nothing_left, await_phase,
                    back_up, begin, cancel, check_canceled, controllers,
                    held_in_progress, outlast_absence, phase, upload, worker, workers)
from promises import within

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("needs injected faults")]


@pytest.mark.journey
def test_an_upload_in_progress_is_cancelled_within_seconds(bed, workspace, moving_app):
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        cancel(bed, name)
        check_canceled(bed, name)
        await_nothing_left(bed, UPLOADS, within(CANCELED_GONE_SECONDS_MAX, "what an upload made that is called off is gone"))
    assert bed.wait_phase("backups", backup, ENDED)["status"]["phase"] == "PartiallyFailed"


@pytest.mark.journey
def test_the_second_upload_of_a_volume_waits_for_the_first_and_says_so(bed, workspace, moving_app):
    with held_in_progress(bed, workspace, moving_app) as (first_backup, first):
        second_backup, second = begin(bed, workspace, moving_app, "second")
        await_phase(bed, second, "Accepted")
        bed.wait_for(lambda: first in upload(bed, second)["status"].get("message", ""), PHASE_SECONDS_MAX,
                     lambda: f"what it waits for: {upload(bed, second)['status']}")
        bed.driver.clear_faults()
        for backup in (first_backup, second_backup):
            await_completed(bed, backup)
    annotations = upload(bed, second)["metadata"]["annotations"]
    assert annotations["mover.csi-delta.io/mode"] == "incremental", annotations


@pytest.mark.journey
def test_a_worker_that_is_killed_has_a_successor(bed, workspace, moving_app):
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        first = worker(bed, name)["metadata"]["uid"]
        for process in workers(bed):
            process.signal(signal.SIGKILL)
        bed.wait_for(lambda: (worker(bed, name) or {"metadata": {"uid": first}})["metadata"]["uid"] != first, PHASE_SECONDS_MAX,
                     "another Pod")
        bed.driver.clear_faults()
        await_completed(bed, backup)


@pytest.mark.journey
def test_a_controller_that_is_killed_carries_on(bed, workspace, moving_app):
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        for process in controllers(bed):
            process.signal(signal.SIGKILL)
        bed.driver.clear_faults()
        await_completed(bed, backup)
    assert phase(bed, name) == "Completed"


def leader(bed):
    """The Pod of the controller that does the work."""
    lease, = bed.api.list("leases", mover.NAMESPACE)
    found = [pod for pod in mover.pods(bed) if pod["metadata"]["name"] in lease["spec"]["holderIdentity"]]
    return found[0] if found else None


@pytest.mark.sweep
def test_a_velero_that_is_restarted_finds_its_upload_done(bed, workspace, moving_app):
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        bed.wait_phase("backups", backup, ("WaitingForPluginOperations",))
        bed.stop("velero", kill=True)
        outlast_absence(bed, name)
        bed.driver.clear_faults()
        await_phase(bed, name, "Completed")
        bed.start("velero")
        await_completed(bed, backup)


def test_an_api_server_that_is_gone_for_a_while_costs_nothing(bed, workspace, moving_app):
    """By a policy, as Velero's own action takes a question that the API server does not answer for a failure."""
    before = controllers(bed)
    by_policy = ("--resource-policies-configmap", workspace.policy(bed, policy.rule("move")))
    with held_in_progress(bed, workspace, moving_app, *by_policy) as (backup, name):
        bed.wait_phase("backups", backup, ("WaitingForPluginOperations",))  # Before that Velero itself fails items.
        bed.stop("kube-apiserver", kill=True)
        bed.driver.clear_faults()
        bed.start("kube-apiserver")
        await_completed(bed, backup)
    assert phase(bed, name) == "Completed"  # Velero may forget, of what it knew before, that something failed.
    back_up(bed, workspace, moving_app, "afterwards")
    assert controllers(bed) == before


def test_a_device_of_roots_alone_fails_at_once_with_both_remediations(bed, workspace, moving_app):
    with bed.node.loops_of_root():
        backup, name = begin(bed, workspace, moving_app)
        await_phase(bed, name, "Failed")
    message = upload(bed, name)["status"]["message"]
    assert f"{moving_app}/data" in message
    assert "supplementalGroups" in message and "device_ownership_from_security_context" in message, message
    assert bed.wait_phase("backups", backup, ENDED)["status"]["phase"] == "PartiallyFailed"
