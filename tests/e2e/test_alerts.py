"""From an alert to its remediation: the state that it is about, whether it fires, the runbook's commands, and that it ends."""

import pytest
import yaml

import data
import moving
import mover
import objects
import runbook
from runbook import IN_A_DAY, IN_FOUR_DAYS, IN_TWO_HOURS, SOON, later

pytestmark = pytest.mark.moves

# Alerts whose state is not made here, each with the tests that show state, metric and remedy.
ELSEWHERE = {
    "CsiDeltaVerificationFinding": "tests/e2e/test_mover_checks.py damages a pack, and follows the runbook",
    "CsiDeltaLocksNotRenewed": "tests/datamover/check_reconciler_test.cc and mover_metrics_test.cc: the bed's bucket has no object lock",
    "CsiDeltaLockRenewalLate": "tests/datamover/check_reconciler_test.cc and mover_metrics_test.cc: the bed's bucket has no object lock",
    "CsiDeltaBackupTooOld": "tests/datamover/mover_metrics_test.cc, and CsiDeltaVolumeNeverBackedUp has the same remedy",
    "CsiDeltaVolumeLostData": "tests/datamover/volume_records_test.cc and mover_metrics_test.cc: no driver of the bed reports health",
    "CsiDeltaKeptSnapshotGone": "tests/datamover/kept_reconciler_test.cc and mover_metrics_test.cc: the storage is asked once a day",
    "CsiDeltaTransfersWaitLong": "tests/datamover/mover_metrics_test.cc and transfer_scheduler_test.cc",
    "CsiDeltaNotVerified": "tests/datamover/mover_metrics_test.cc and check_reconciler_test.cc",
    "CsiDeltaApplicationsFrozenLong": "tests/e2e/test_mover_groups.py has a driver that takes 11 seconds, in a bed with groups",
}
HERE = ("CsiDeltaMoverNotLeading", "CsiDeltaVolumeNeverBackedUp", "CsiDeltaUploadsFail", "CsiDeltaKeyUnconfirmed",
        "CsiDeltaVolumeGone", "CsiDeltaDriverListsWrongChanges", "CsiDeltaFullBackups", "CsiDeltaDeletionsStuck",
        "CsiDeltaDeletionsGivenUp", "CsiDeltaBaseTooOld", "CsiDeltaRestoreNotTried", "CsiDeltaLeftoverTasks")
DAY_SECONDS = 86400
AGE = "csi_delta_mover_recovery_point_age_seconds"
# Commands that look at kinds which only a bed with volume groups has, or that end with 1 where a bed is not as a cluster should be.
MAY_FAIL = ("kubectl get volumegroupsnapshotcontents", "csi-delta doctor")
CONFIRMED = "mover.csi-delta.io/confirmed"


@pytest.fixture
def remediation(bed, workspace, tmp_path):
    """Runs the curing commands of an alert's runbook; backups that they make are deleted in the end."""
    def remediation(alert, **variables):
        for command in runbook.commands(alert)[1]:
            before = {b["metadata"]["name"] for b in bed.api.list("backups", bed.namespace)}
            runbook.run(bed, tmp_path, command, **variables)
            for name in {b["metadata"]["name"] for b in bed.api.list("backups", bed.namespace)} - before:
                workspace.expect_backup(bed, name)
    return remediation


def test_each_alert_is_shown_here_or_elsewhere():
    alerts = [rule["alert"] for group in yaml.safe_load(runbook.RULES.read_text())["groups"] for rule in group["rules"]]
    assert sorted((*HERE, *ELSEWHERE)) == sorted(alerts)


@pytest.mark.parametrize("alert", sorted((*HERE, *ELSEWHERE)))
def test_each_query_of_a_runbook_can_be_made(bed, workspace, tmp_path, alert):
    app = workspace.namespace(bed)
    for command in runbook.commands(alert)[0]:
        if not command.startswith("kubectl get secrets"):  # The key is there once there was a backup.
            runbook.run(bed, tmp_path, command, check=not command.startswith(MAY_FAIL), NS=app)


def test_no_controller(bed, remediation, tmp_path):
    alert = "CsiDeltaMoverNotLeading"
    page = mover.metrics(bed)
    with mover.stopped(bed):
        runbook.expect(tmp_path, {}, {}, alert, SOON, fires=True)
        remediation(alert)
        bed.wait_for(lambda: mover.metrics(bed).get("csi_delta_mover_leader") == 1, mover.READY_SECONDS_MAX, "a controller that leads")
        runbook.expect(tmp_path, page, mover.metrics(bed), alert, SOON, fires=False)


def test_uploads_that_fail(bed, workspace, moving_app, remediation, tmp_path):
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
    remediation("CsiDeltaVolumeNeverBackedUp", NS=moving_app)
    after = mover.metrics(bed)
    runbook.expect(tmp_path, before, after, "CsiDeltaUploadsFail", SOON, fires=False)
    runbook.expect(tmp_path, before, after, "CsiDeltaVolumeNeverBackedUp", IN_A_DAY, fires=False, namespace=moving_app)


def test_a_key_without_a_copy(bed, workspace, moving_app, remediation, tmp_path):
    alert, secret = "CsiDeltaKeyUnconfirmed", f"csi-delta-keys-{bed.namespace}.default"
    moving.back_up(bed, workspace, moving_app, "first")
    bed.api.patch("secrets", secret, {"metadata": {"annotations": {CONFIRMED: None}}}, mover.NAMESPACE)
    moving.back_up(bed, workspace, moving_app, "unconfirmed")
    page = mover.metrics(bed)
    runbook.expect(tmp_path, page, page, alert, IN_A_DAY, fires=True, location="default")
    remediation(alert)
    assert (tmp_path / "location.keys").read_text().strip()
    moving.back_up(bed, workspace, moving_app, "confirmed")
    page = mover.metrics(bed)
    runbook.expect(tmp_path, page, page, alert, IN_A_DAY, fires=False, location="default")


def test_a_volume_that_is_gone(bed, workspace, moving_app, remediation, tmp_path):
    alert = "CsiDeltaVolumeGone"
    backup, _ = moving.back_up(bed, workspace, moving_app, "first")
    before = mover.metrics(bed)
    bed.api.delete("persistentvolumeclaims", "data", moving_app)
    # The controller looks once an hour for the PVC; that it is gone is written as the controller would.
    record = mover.record_of(bed, moving_app)["metadata"]["name"]
    bed.api.patch("protectedvolumes", record, {"status": {"pvcGoneAt": "2026-01-02T03:04:05Z"}}, bed.namespace, "status")
    bed.wait_for(lambda: not _of(AGE, moving_app, mover.metrics(bed)), moving.PHASE_SECONDS_MAX, "no series of a PVC that is gone")
    runbook.expect(tmp_path, before, mover.metrics(bed), alert, IN_TWO_HOURS, fires=True, namespace=moving_app)
    remediation(alert, NS=moving_app, BACKUP=backup)
    bed.wait_bound("data", moving_app)
    moving.back_up(bed, workspace, moving_app, "again")
    runbook.expect(tmp_path, before, mover.metrics(bed), alert, IN_TWO_HOURS, fires=False, namespace=moving_app)


def test_a_driver_that_omits_changes(bed, workspace, moving_app, remediation, tmp_path):
    alert = "CsiDeltaDriverListsWrongChanges"
    moving.back_up(bed, workspace, moving_app, "first")
    for chunk in range(moving.MOVING_BYTES // moving.MIB):
        data.fill(bed.volume_path("data", moving_app), 2 + chunk, 1000, chunk * moving.MIB)
    before = mover.metrics(bed)
    with bed.driver.faults({"method": "GetMetadataDelta", "lie": "omit"}):
        moving.back_up(bed, workspace, moving_app, "omitted")
    after = mover.metrics(bed)
    runbook.expect(tmp_path, before, after, alert, SOON, fires=True)
    runbook.expect(tmp_path, before, after, "CsiDeltaFullBackups", SOON, fires=True, reason="audit-mismatch")
    remediation(alert, NS=moving_app)
    base = moving.await_base(bed, moving_app)
    before = mover.metrics(bed)
    _, incremental = moving.back_up(bed, workspace, moving_app, "next")
    assert moving.mode(incremental) == "incremental" and base
    for ended in (alert, "CsiDeltaFullBackups"):
        runbook.expect(tmp_path, before, mover.metrics(bed), ended, SOON, fires=False)


def test_deletions_that_do_not_get_done(bed, workspace, moving_app, remediation, tmp_path):
    stuck, given_up, age = "CsiDeltaDeletionsStuck", "CsiDeltaDeletionsGivenUp", "csi_delta_mover_oldest_deletion_age_seconds"
    backup, _ = moving.back_up(bed, workspace, moving_app, "first")
    with moving.held_in_progress(bed, workspace, moving_app) as (_, held):
        bed.delete_backup(backup)
        deletion = bed.wait_for(lambda: _deletion(bed, backup, "Locked"), moving.MOVED_SECONDS_MAX, "a deletion that meets a lock")
        page = later(mover.metrics(bed), age, 2 * DAY_SECONDS)
        runbook.expect(tmp_path, {}, page, stuck, IN_TWO_HOURS, fires=True)
        # What the controller writes after a week of failures.
        bed.api.patch("datadeletions", deletion["metadata"]["name"],
                      {"status": {"phase": "Failed", "trouble": "Failed", "message": "the location is gone"}}, bed.namespace, "status")
        bed.wait_for(lambda: mover.metrics(bed)['csi_delta_mover_deletions{state="given_up"}'] > 0, moving.PHASE_SECONDS_MAX,
                     "a deletion that is given up")
        runbook.expect(tmp_path, {}, mover.metrics(bed), given_up, IN_TWO_HOURS, fires=True)
        moving.cancel(bed, held)
        moving.await_phase(bed, held, "Canceled")
    remediation(given_up)
    bed.wait_for(lambda: _deletion(bed, backup, None), moving.MOVED_SECONDS_MAX, "the data deleted")
    page = mover.metrics(bed)
    for ended in (stuck, given_up):
        runbook.expect(tmp_path, {}, page, ended, IN_TWO_HOURS, fires=False)


def _deletion(bed, backup, trouble):
    """The DataDeletion of a backup in such trouble; without trouble: one that is completed."""
    def fits(status):
        return status.get("trouble") == trouble if trouble else status.get("phase") == "Completed"
    return next((d for d in mover.deletions(bed, backup) if fits(d.get("status", {}))), None)


def test_a_base_that_is_too_old(bed, workspace, moving_app, remediation, tmp_path):
    alert, age = "CsiDeltaBaseTooOld", "csi_delta_mover_oldest_base_age_seconds"
    moving.back_up(bed, workspace, moving_app, "first")
    moving.await_base(bed, moving_app)
    runbook.expect(tmp_path, {}, later(mover.metrics(bed), age, 22 * DAY_SECONDS), alert, IN_TWO_HOURS, fires=True)
    with mover.stopped(bed):  # Which would drop the base of a PVC that is gone.
        bed.api.delete("persistentvolumeclaims", "data", moving_app)
        bed.wait_gone(lambda: not bed.api.get("persistentvolumeclaims", "data", moving_app), moving.GONE_SECONDS_MAX, "no PVC")
        remediation(alert)
        bed.wait_gone(lambda: not mover.bases(bed, moving_app), moving.GONE_SECONDS_MAX, "no base")
    bed.wait_for(lambda: mover.ready(bed), mover.READY_SECONDS_MAX, "the controller ready")
    bed.wait_for(lambda: mover.metrics(bed).get("csi_delta_mover_leader") == 1, mover.READY_SECONDS_MAX, "a controller that leads")
    runbook.expect(tmp_path, {}, mover.metrics(bed), alert, IN_TWO_HOURS, fires=False)


def test_a_restore_that_was_not_tried(bed, workspace, moving_app, remediation, tmp_path):
    alert = "CsiDeltaRestoreNotTried"
    moving.back_up(bed, workspace, moving_app, "first")
    runbook.expect(tmp_path, {}, mover.metrics(bed), alert, IN_FOUR_DAYS, fires=True, namespace=moving_app)
    remediation(alert, NS=moving_app)
    page = bed.wait_for(lambda: page if any(_of("csi_delta_mover_last_restore_age_seconds", moving_app, page := mover.metrics(bed)))
                        else None, moving.PHASE_SECONDS_MAX, "a restore that is recorded")
    runbook.expect(tmp_path, {}, page, alert, IN_FOUR_DAYS, fires=False, namespace=moving_app)


def _of(gauge, app, page):
    """The series of a gauge for the PVCs of a namespace."""
    return [name for name in page if name.startswith(gauge) and f'namespace="{app}"' in name]


def test_tasks_that_stay(bed, workspace, tmp_path):
    alert, name = "CsiDeltaLeftoverTasks", workspace.name("du-left")
    bed.api.create("volumetasks", {
        "apiVersion": "mover.csi-delta.io/v1alpha1", "kind": "VolumeTask",
        "metadata": {"name": name, "namespace": mover.NAMESPACE, "finalizers": ["example.com/hold"],
                     "labels": {"mover.csi-delta.io/task": name}},
        "spec": {"type": "Upload", "subject": {"kind": "DataUpload", "namespace": bed.namespace, "name": "gone", "uid": name[3:]}}})
    bed.wait_for(lambda: mover.metrics(bed)["csi_delta_mover_leftover_tasks"] > 0, moving.PHASE_SECONDS_MAX, "a task that stays")
    runbook.expect(tmp_path, {}, mover.metrics(bed), alert, IN_TWO_HOURS, fires=True)
    # What refuses is removed; the controller does the rest.
    bed.api.patch("volumetasks", name, {"metadata": {"finalizers": None}}, mover.NAMESPACE)
    bed.wait_for(lambda: mover.metrics(bed)["csi_delta_mover_leftover_tasks"] == 0, moving.PHASE_SECONDS_MAX,
                 lambda: f"no task: {mover.tell(bed)}")
    runbook.expect(tmp_path, {}, mover.metrics(bed), alert, IN_TWO_HOURS, fires=False)
