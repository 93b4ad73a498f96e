"""Least privilege: what deploy/ lists for plugin and data mover is enough, and nothing in it is unused.

Runs last, and judges everything that was asked for in the whole run.
"""

import collections
import json
import os

import pytest

import groups
import mover
import objects
import policy
import rights
import test_transfers

MIB = 1 << 20
OTHER = "another-client"
# Who may get a DifferentialSnapshot may read its list: the service that has the list asks the API server about its reader.
ASKED_ABOUT = {rights.Right("get", "diffsnap.csi-delta.io", "differentialsnapshots")}
# Asked for snapshots of drivers that may copy late; the bed's says that it does not. Shown by content_deletion_test.cc.
OF_OTHER_DRIVERS = {rights.Right("list", "", "persistentvolumes")}
# Of the data mover, once, when it starts: is Longhorn there? The right is in deploy/longhorn-rbac.yaml, for clusters that have it.
ASKED_OF_LONGHORN = {rights.Right("list", "longhorn.io", "snapshots")}


def _back_up_restore_delete(bed, workspace):
    """The everyday road, for a managed claim and one that says of itself that a data mover took it."""
    app = workspace.namespace(bed, "everyday")
    bed.create_claim("ours", app, MIB, labels={"for": "us"})
    bed.create_claim("moved", app, MIB, annotations={"velero.io/data-upload-name": "velero/old"})
    chosen = workspace.policy(bed, policy.rule("snapshot", pvcLabels={"for": "us"}))
    backup = workspace.backup(bed, "--include-namespaces", app,
                              "--resource-policies-configmap", chosen)["metadata"]["name"]
    bed.restore(workspace.name("without-data"), "--from-backup", backup)  # The PVCs exist, which the Restore is told.
    bed.delete_namespace(app)
    bed.restore(workspace.name("restore"), "--from-backup", backup)
    for name in ("ours", "moved"):
        bed.wait_bound(name, app)
    bed.delete_backup(backup)


def _restore_what_is_gone(bed, workspace):
    """A restore that fails, with an event that says so."""
    before = set(bed.driver.snapshots())
    app = workspace.namespace(bed, "gone")
    bed.create_claim("data", app, MIB)
    backup = workspace.backup(bed, *workspace.by_policy(bed, app), stem="gone")["metadata"]["name"]
    handle, = set(bed.driver.snapshots()) - before
    bed.delete_namespace(app)
    bed.driver.remove_snapshot(handle)
    bed.restore(workspace.name("gone"), "--from-backup", backup, expect="PartiallyFailed")


def _delete_a_group(bed, workspace):
    """The snapshots of a volume group, by a content of the whole group that the sidecar cannot tell of."""
    database = groups.Database(bed, workspace)
    backup = database.back_up("grouped")
    with bed.driver.faults({"method": "GetVolumeGroupSnapshot", "code": "INTERNAL"}):
        bed.delete_backup(backup)
    groups.await_driver_empty(bed)


def _delete_what_cannot_be_deleted(bed, workspace):
    """The API server refuses a DataDeletion of what csi-delta cannot have written: the backup goes, a record says what stays."""
    app = workspace.namespace(bed, "stays")
    bed.create_claim("data", app, MIB)
    flags = workspace.by_policy(bed, app, "move")
    with test_transfers.played(bed, test_transfers.SNAPSHOT_ID + "0" * 1024):
        backup = workspace.backup(bed, *flags, stem="stays")["metadata"]["name"]
    test_transfers.drop_snapshots(bed, app)
    bed.delete_backup(backup)
    record = bed.api.get("configmaps", "csi-delta-undeleted", bed.namespace)
    assert [text for text in record["data"].values() if f" backup {backup}: " in text], record
    bed.api.delete("configmaps", "csi-delta-undeleted", bed.namespace)


def _take_turns(bed, workspace):
    """A volume whose lease another process holds, then the plugin for long, and that is touched meanwhile.

    The backup also meets a VolumeSnapshot of an unknown backup.
    """
    app = workspace.namespace(bed, "turns")
    bed.create_claim("data", app, MIB)
    left_over = bed.api.create("volumesnapshots", objects.left_over_snapshot(
        "data", app, bed.namespace, "never-seen"))
    bed.wait_snapshot_ready(left_over["metadata"]["name"], app)
    claim = bed.api.get("persistentvolumeclaims", "data", app)["metadata"]["uid"]
    lease = f"csi-delta-{claim}"
    bed.api.create("leases", {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": lease, "namespace": bed.namespace},
        "spec": {"holderIdentity": OTHER, "leaseDurationSeconds": 20}})
    name = workspace.name("turns")
    workspace.expect_backup(bed, name)
    start, held = bed.audit_position(), bed.driver.calls("CreateSnapshot")["held"]

    def asked(verb):
        requests = rights.requests_of(bed.audit_events(bed.plugin_user, start))
        return any(r.right == rights.Right(verb, "coordination.k8s.io", "leases") for r in requests)
    with bed.driver.faults({"method": "CreateSnapshot", "hold": True}):
        bed.velero("backup", "create", name, *workspace.by_policy(bed, app))
        bed.wait_for(lambda: asked("watch"), 60, "the plugin waiting for its turn")
        bed.api.delete("leases", lease, bed.namespace)
        bed.driver.await_calls("CreateSnapshot", held=held + 1)
        bed.api.patch("leases", lease, {"metadata": {"labels": {"touched": "yes"}}}, bed.namespace)
        bed.wait_for(lambda: asked("update") and asked("get"), 60, "the plugin renewing its turn")
    bed.wait_phase("backups", name, ("Completed",))


def _refused(requests):
    return dict(collections.Counter(r.right for r in requests if not r.is_granted))


@pytest.mark.journey
def test_documented_verbs_are_enough(beds, workspace):
    _back_up_restore_delete(beds.get(), workspace)
    assert not _refused(beds.plugin_requests())


@pytest.mark.own_driver("needs a driver that holds a call, and a snapshot that vanishes")
def test_no_documented_verb_is_unused(beds, workspace):
    bed = beds.get()
    _back_up_restore_delete(bed, workspace)
    _delete_a_group(bed, workspace)
    _restore_what_is_gone(bed, workspace)
    _take_turns(bed, workspace)
    _delete_what_cannot_be_deleted(bed, workspace)
    test_transfers.check_cancelled_upload(bed, workspace)
    test_transfers.check_cancelled_download(bed, workspace)
    assert not _refused(beds.plugin_requests())
    unused = rights.listed() - {r.right for r in beds.plugin_requests()} - OF_OTHER_DRIVERS
    assert not unused, f"listed in deploy/rbac.yaml and never used: {sorted(map(str, unused))}"


@pytest.mark.moves
@pytest.mark.own_driver("not all scenarios run against it")
def test_the_data_mover_uses_each_right_and_needs_no_other(beds, left_out, record_property):
    is_part = os.environ.get("CSI_DELTA_PART") == "1"  # Of a run whose parts are judged together: ./dev test --all.
    if left_out and not is_part:
        pytest.skip(f"only part of the scenarios ran: not {', '.join(sorted(left_out))}")
    documents = mover.render({"veleroNamespaces": ["velero"], "settings": mover.INTO_EXISTING})
    refused, unused = [], []
    for account in (mover.CONTROLLER, mover.WORKER):
        requests = beds.requests(account)
        refused += [f"{account}: {right}" for right in _refused(requests).keys() - ASKED_OF_LONGHORN]
        given = {(namespace, right) for namespace, right in rights.bound(documents, account) if right not in ASKED_ABOUT}
        unused += [f"{account}: {right} in {namespace or 'all namespaces'}"
                   for namespace, right in given - rights.used(given, requests)]
    assert not refused
    record_property("unused_rights", json.dumps(sorted(unused)))
    assert is_part or not unused, f"given by deploy/chart and never used: {sorted(unused)}"
