"""From an alert to its cure: the state that it is about, whether it fires, the runbook's commands, and that it ends."""

import pytest
import yaml

import moving
import mover
import objects
import runbook
from runbook import IN_A_DAY, SOON

pytestmark = pytest.mark.moves

# Alerts whose state is not made here, each with the tests that show state, metric and cure.
ELSEWHERE = {
    "CsiDeltaBackupTooOld": "takes two days: the metric is MoverMetrics', the cure that of CsiDeltaVolumeNeverBackedUp",
    "CsiDeltaVolumeGone": "the controller looks once an hour: a record whose PVC is gone has no samples, in unit tests",
    "CsiDeltaTransfersWaitLong": "takes three hours: tests/e2e/test_transfers.py has the queue, MoverMetrics the metric",
    "CsiDeltaDriverListsWrongChanges": "tests/e2e/test_mover_faults.py has a driver that omits changes, MoverMetrics the metric",
    "CsiDeltaFullBackups": "tests/e2e/test_mover_faults.py has a base that is gone, MoverMetrics the metric",
    "CsiDeltaDeletionsStuck": "takes a day: unit tests of the deletion reconciler, with a clock of their own",
    "CsiDeltaDeletionsGivenUp": "takes a week: unit tests of the deletion reconciler, with a clock of their own",
    "CsiDeltaBaseTooOld": "takes weeks: unit tests of the base reconciler, with a clock of their own",
    "CsiDeltaVerificationFinding": "unit tests of the check reconciler damage a repository",
    "CsiDeltaNotVerified": "takes weeks: unit tests of the check reconciler, with a clock of their own",
    "CsiDeltaRestoreNotTried": "takes days: tests/e2e/test_mover.py has restores, MoverMetrics the metric",
    "CsiDeltaApplicationsFrozenLong": "tests/e2e/test_mover_groups.py has the freeze window of a slow driver",
    "CsiDeltaLeftoverTasks": "takes an hour: unit tests of the task reconciler",
}
HERE = ("CsiDeltaMoverNotLeading", "CsiDeltaVolumeNeverBackedUp", "CsiDeltaUploadsFail", "CsiDeltaKeyUnconfirmed")
# Commands that look at kinds which only a bed with volume groups has, or that end with 1 where a bed is not as a cluster should be.
MAY_FAIL = ("kubectl get volumegroupsnapshotcontents", "csi-delta doctor")
CONFIRMED = "mover.csi-delta.io/confirmed"


@pytest.fixture
def cure(bed, workspace, tmp_path):
    """Runs the curing commands of an alert's runbook; backups that they make are deleted in the end."""
    def cure(alert, **variables):
        for command in runbook.commands(alert)[1]:
            before = {b["metadata"]["name"] for b in bed.api.list("backups", bed.namespace)}
            runbook.run(bed, tmp_path, command, **variables)
            for name in {b["metadata"]["name"] for b in bed.api.list("backups", bed.namespace)} - before:
                workspace.expect_backup(bed, name)
    return cure


def test_each_alert_is_shown_here_or_elsewhere():
    alerts = [rule["alert"] for group in yaml.safe_load(runbook.RULES.read_text())["groups"] for rule in group["rules"]]
    assert sorted((*HERE, *ELSEWHERE)) == sorted(alerts)


@pytest.mark.parametrize("alert", sorted((*HERE, *ELSEWHERE)))
def test_what_a_runbook_looks_at_can_be_looked_at(bed, workspace, tmp_path, alert):
    app = workspace.namespace(bed)
    for command in runbook.commands(alert)[0]:
        if not command.startswith("kubectl get secrets"):  # The key is there once there was a backup.
            runbook.run(bed, tmp_path, command, check=not command.startswith(MAY_FAIL), NS=app)


def test_no_controller(bed, cure, tmp_path):
    alert = "CsiDeltaMoverNotLeading"
    page = mover.metrics(bed)
    with mover.stopped(bed):
        runbook.expect(tmp_path, {}, {}, alert, SOON, fires=True)
        cure(alert)
        bed.wait_for(lambda: mover.metrics(bed).get("csi_delta_mover_leader") == 1, mover.READY_SECONDS_MAX, "a controller that leads")
        runbook.expect(tmp_path, page, mover.metrics(bed), alert, SOON, fires=False)


def test_uploads_that_fail(bed, workspace, moving_app, cure, tmp_path):
    with mover.configured(bed, {"storageClasses": {objects.CLASS_IMMEDIATE: {"intermediateClass": "no-such-class"}}}):
        before = mover.metrics(bed)
        backup = workspace.backup(bed, "--include-namespaces", moving_app, *moving.MOVE, expect="PartiallyFailed",
                                  timeout_seconds=moving.MOVED_SECONDS_MAX)
        upload = mover.upload_of(bed, backup["metadata"]["name"])
        assert upload["status"]["phase"] == "Failed" and "no-such-class" in upload["status"]["message"]
        after = mover.metrics(bed)
    runbook.expect(tmp_path, before, after, "CsiDeltaUploadsFail", SOON, fires=True, phase="Failed")
    runbook.expect(tmp_path, before, after, "CsiDeltaVolumeNeverBackedUp", IN_A_DAY, fires=True, namespace=moving_app)
    # What the message names is mended: the setting is what it was.
    before = mover.metrics(bed)
    cure("CsiDeltaVolumeNeverBackedUp", NS=moving_app)
    after = mover.metrics(bed)
    runbook.expect(tmp_path, before, after, "CsiDeltaUploadsFail", SOON, fires=False)
    runbook.expect(tmp_path, before, after, "CsiDeltaVolumeNeverBackedUp", IN_A_DAY, fires=False, namespace=moving_app)


def test_a_key_without_a_copy(bed, workspace, moving_app, cure, tmp_path):
    alert, secret = "CsiDeltaKeyUnconfirmed", f"csi-delta-keys-{bed.namespace}.default"
    moving.back_up(bed, workspace, moving_app, "first")
    bed.api.patch("secrets", secret, {"metadata": {"annotations": {CONFIRMED: None}}}, mover.NAMESPACE)
    moving.back_up(bed, workspace, moving_app, "unconfirmed")
    page = mover.metrics(bed)
    runbook.expect(tmp_path, page, page, alert, IN_A_DAY, fires=True, location="default")
    cure(alert)
    assert (tmp_path / "location.keys").read_text().strip()
    moving.back_up(bed, workspace, moving_app, "confirmed")
    page = mover.metrics(bed)
    runbook.expect(tmp_path, page, page, alert, IN_A_DAY, fires=False, location="default")
