"""Groups come back in other clusters, through other versions of their kinds, and with drivers that want Secrets."""

import base64
import contextlib

import pytest

import groups
import objects
import plugin_settings
from groups import Database, await_driver_empty, await_objects_gone

GUARDED_CLASS = "bed-groups-guarded"
SECRET_USES = ("group-snapshotter-secret", "group-snapshotter-get-secret")

pytestmark = pytest.mark.group


def groups_come_back(bed):
    """While the body runs, groups are restored, and not only their members."""
    return plugin_settings.during(bed, groupRestore="preprovisioned")


def check_comes_back(database, backup, bed):
    """Volumes and group, in another namespace of a cluster that may be another."""
    namespace = database.workspace.name(f"back-{len(bed.api.list('restores', bed.namespace))}")
    database.restore(backup, namespace, bed=bed)
    database.expect_one_instant(namespace, bed=bed)
    group, = bed.api.list("volumegroupsnapshots", namespace)
    ready = groups.wait_ready(bed, group["metadata"]["name"], namespace)
    handles = groups.content_of(bed, ready)["spec"]["source"]["groupSnapshotHandles"]["volumeSnapshotHandles"]
    assert sorted(handles) == sorted(groups.archived_members(bed, backup).values())


@pytest.mark.journey
@pytest.mark.cluster(second=True)
def test_a_group_crosses_clusters_and_versions_and_goes_from_there(bed, second, workspace):
    """The Velero of the second cluster sees v1beta1 of the kinds alone."""
    for origin, target in ((bed, second), (second, bed)):
        database = Database(origin, workspace)
        backup = database.back_up("crossing" if origin is bed else "back-again")
        workspace.expect_backup(target, backup)
        target.sync_backup(backup)
        with groups_come_back(target):
            check_comes_back(database, backup, target)
        target.delete_backup(backup)
        await_driver_empty(bed)
        origin.drop_backup(backup)
        origin.delete_namespace(database.app)
        await_objects_gone(target, "default")


def secret(bed, name, token):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": bed.namespace},
            "data": {"token": base64.b64encode(token.encode()).decode()}}


@contextlib.contextmanager
def guarded(bed, secret_name, token):
    """A driver that wants a token for groups, and the class and Secret that have it."""
    parameters = {f"csi.storage.k8s.io/{use}-{part}": value for use in SECRET_USES
                  for part, value in (("name", secret_name), ("namespace", bed.namespace))}
    made = objects.group_class(GUARDED_CLASS, bed.driver.name, parameters=parameters)
    made["metadata"]["labels"] = {"velero.io/csi-volumegroupsnapshot-class": "true"}
    bed.api.create("secrets", secret(bed, secret_name, token))
    bed.api.create("volumegroupsnapshotclasses", made)
    bed.configure_driver("--group-secret", f"token={token}")
    try:
        yield
    finally:
        bed.api.delete("volumegroupsnapshotclasses", GUARDED_CLASS)
        bed.api.delete("secrets", secret_name, bed.namespace)


@pytest.mark.own_driver("needs a driver that wants a Secret")
def test_a_class_with_secrets_serves_until_its_groups_are_gone(bed, workspace):
    database = Database(bed, workspace)
    with guarded(bed, "first", "of-yore"):
        backup = database.back_up()
        with groups_come_back(bed):
            check_comes_back(database, backup, bed)
    with guarded(bed, "second", "of-today"), groups_come_back(bed):
        check_comes_back(database, backup, bed)
        bed.delete_backup(backup)
        await_driver_empty(bed)
        workspace.clear()
        await_objects_gone(bed, "default")
