"""What a deleted backup brought into the bucket goes, and nothing else; the keys that opened it are the operator's."""

import contextlib
import signal

import pytest

import data
import mover
import objects
import rights
from bed import ENDED
from moving import (DELETIONS, MIB, MOVE, PHASE_SECONDS_MAX, TRANSFERS, await_nothing_left, await_phase, back_up, begin,
                    cancel, exported_keys, held_in_progress, repository_of, snapshot_ids, stored_bytes, upload, workers)

VOLUME_BYTES = 16 * MIB
DELETED_SECONDS_MAX = 180

pytestmark = pytest.mark.moves


def moved_volume(bed, workspace):
    """A volume with one backup; returns its namespace, the backup's name, and the repository."""
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    backup, made = back_up(bed, workspace, app, "kept")
    await_nothing_left(bed)
    return app, backup, repository_of(bed, made)


def await_deleted(bed, backup):
    """Waits until the data of a backup is gone, of which something is asked to go."""
    bed.wait_for(lambda: mover.deletions(bed, backup) and all(
        d.get("status", {}).get("phase") == "Completed" for d in mover.deletions(bed, backup)), DELETED_SECONDS_MAX,
                 lambda: f"the data of {backup} deleted: {mover.deletions(bed, backup)}\n{mover.tell(bed)}")


def locks(repository):
    return sorted(lock.name for lock in (repository / "locks").glob("*"))


def test_the_lock_of_a_worker_that_was_killed_holds_up_no_deletion(bed, workspace):
    app, kept, repository = moved_volume(bed, workspace)
    with contextlib.ExitStack() as namespaces:
        with held_in_progress(bed, workspace, app) as (backup, name):
            held = bed.wait_for(lambda: locks(repository), PHASE_SECONDS_MAX, "the worker's lock")
            for process in workers(bed):
                # While it is open, no worker gets a PID namespace of that number, in which it would see who is gone.
                namespaces.enter_context(open(f"/proc/{process.pid}/ns/pid", "rb"))
                process.signal(signal.SIGKILL)
            cancel(bed, name)
            await_phase(bed, name, "Canceled")
        assert set(held) <= set(locks(repository))
        bed.delete_backup(kept)
        await_deleted(bed, kept)
        await_deleted(bed, backup)  # What the killed worker may have stored.
    assert not locks(repository)
    await_nothing_left(bed, (*TRANSFERS, *DELETIONS))


def test_the_data_of_a_failed_backup_goes(bed, workspace):
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    for claim in ("data", "other"):
        bed.create_claim(claim, app, MIB)
        data.fill(bed.volume_path(claim, app), 1, MIB)
    with bed.driver.faults({"method": "CreateSnapshot", "skip": 1, "hold": True}):  # Of the second claim.
        backup, name = begin(bed, workspace, app, "failed")
        await_phase(bed, name, "Completed")
        repository = repository_of(bed, upload(bed, name))
        assert list(repository.glob("snapshots/*"))
        assert not mover.deletions(bed, backup)
        bed.stop("velero", kill=True)
    bed.start("velero")
    assert bed.wait_phase("backups", backup, ENDED)["status"]["phase"] == "Failed"
    await_deleted(bed, backup)
    assert not list(repository.glob("snapshots/*"))
    await_nothing_left(bed, (*TRANSFERS, *DELETIONS))


POLICY = "no-words-on-deletions"


@pytest.fixture
def lift_refusal(bed):
    """Lifts a policy of the cluster that refuses each write of the status of a DataDeletion."""
    kinds = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
    rule = {"apiGroups": ["mover.csi-delta.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["datadeletions/status"]}
    specs = ({"policyName": POLICY, "validationActions": ["Deny"]},
             {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]})
    for kind, kind_name, spec in zip(kinds, ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"), specs):
        bed.api.create(kind, {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind_name,
                              "metadata": {"name": POLICY}, "spec": spec})

    def lift():
        for kind in kinds:
            bed.api.delete(kind, POLICY)
    yield lift
    lift()


def test_a_deletion_whose_status_a_policy_refuses_goes_on_when_it_is_lifted(bed, workspace, lift_refusal):
    _, backup, repository = moved_volume(bed, workspace)
    since = bed.audit_position()
    bed.delete_backup(backup)
    read = rights.Right("get", "mover.csi-delta.io", "datadeletions")  # What a write that failed left of it.
    bed.wait_for(lambda: read in {r.right for r in rights.requests_of(bed.audit_events(mover.user(mover.CONTROLLER), since))},
                 DELETED_SECONDS_MAX, "the controller read again what it could not write")
    assert list(repository.glob("snapshots/*"))
    lift_refusal()
    await_deleted(bed, backup)
    assert not list(repository.glob("snapshots/*"))


def test_the_data_of_a_deleted_backup_goes_and_no_other(bed, workspace):
    app = workspace.namespace(bed, labels=mover.RESTRICTED)
    bed.create_claim("data", app, VOLUME_BYTES)
    ids = []
    backups = []
    for seed in (1, 2):
        data.fill(bed.volume_path("data", app), seed, VOLUME_BYTES)
        backups.append(workspace.backup(bed, "--include-namespaces", app, *MOVE, stem=f"moved{seed}")["metadata"]["name"])
        ids.append(mover.upload_of(bed, backups[-1])["status"]["snapshotID"].split("/"))
    first, second = ids
    repository = bed.s3_dir.joinpath(objects.BUCKET, "plugins", "csi-delta", *first[2:5])
    ring = exported_keys(bed, bed.scratch / "exported.keys")
    assert snapshot_ids(bed, repository, ring) == {first[5], second[5]}
    before = stored_bytes(repository)

    bed.delete_backup(backups[0])
    deletion, = mover.deletions(bed, backups[0])
    await_deleted(bed, backups[0])
    assert snapshot_ids(bed, repository, ring) == {second[5]}
    assert stored_bytes(repository) < 0.6 * before
    await_nothing_left(bed, (*TRANSFERS, *DELETIONS))

    done_long_ago = {"status": {"completionTimestamp": "2001-01-01T00:00:00Z"}}
    bed.api.patch("datadeletions", deletion["metadata"]["name"], done_long_ago, bed.namespace, "status")
    bed.wait_for(lambda: not mover.deletions(bed, backups[0]), DELETED_SECONDS_MAX,
                 lambda: f"a deletion of long ago forgotten: {mover.deletions(bed, backups[0])}")
