"""Groups of volumes by upstream's controllers and the bed's driver: one instant, and nothing left of them.

If this file fails, no scenario of groups means anything.
"""

import contextlib
import fcntl
import json
import os

import pytest

import bed as bed_module
import groups
import objects
import processes
import stamps
from cluster_api import GROUP_SNAPSHOT as GROUP
from groups import CLAIMS, MIB

FIFREEZE = 0xC0045877  # linux/fs.h
LABELS = {"app": "database"}

pytestmark = [pytest.mark.bed, pytest.mark.group, pytest.mark.own_driver("it copies the members of a group one after the other")]


@pytest.fixture
def database(stock_bed, workspace):
    """A namespace with three labelled claims; afterwards the bed has what it had before."""
    before = stock_bed.inventory()
    app = workspace.namespace(stock_bed)
    stock_bed.create_claims(CLAIMS, app, 8 * MIB, labels=LABELS)
    yield app
    workspace.clear()
    stock_bed.wait_gone(lambda: stock_bed.inventory() == before, groups.MEMBERS_SECONDS_MAX,
                        lambda: f"what was there before, {before}, not {stock_bed.inventory()}")


def volume_paths(bed, app):
    return [bed.volume_path(claim, app) for claim in CLAIMS]


def test_group_is_one_instant(stock_bed, database):
    bed = stock_bed
    with stamps.Writer(bed, volume_paths(bed, database)):
        group = groups.create(bed, "cut", database, LABELS)
        found = groups.members(bed, group, len(CLAIMS))
    copies = [bed.driver.snapshot_path(groups.handle_of(bed, found[claim])) for claim in CLAIMS]
    assert stamps.spread(copies) <= 1
    assert min(map(stamps.read, copies)) > 0
    told = bed.driver.control({"op": "groups"})["groups"]
    assert [len(g["members"]) for g in told] == [len(CLAIMS)]
    assert told[0]["frozen_ns"] > 0
    groups.delete(bed, group)
    assert bed.driver.groups() == []
    assert bed.driver.snapshots() == []


def test_single_snapshots_are_no_instant(stock_bed, database):
    """The check of stamps is worth something: it tells a group from volume snapshots that were taken one by one."""
    bed = stock_bed
    with stamps.Writer(bed, volume_paths(bed, database)):
        copies = [bed.driver.snapshot_path(bed.create_snapshot(claim, database, claim)) for claim in CLAIMS]
    numbers = [stamps.read(copy) for copy in copies]
    assert max(numbers) - min(numbers) > 1
    with pytest.raises(ValueError):
        stamps.spread(copies)  # Later ones are ahead.


@contextlib.contextmanager
def frozen(folder):
    """As a driver leaves its volumes that is killed while it copies them."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, FIFREEZE, 0)
        yield
    finally:
        processes.thaw(folder)
        os.close(fd)


def test_volumes_of_a_killed_driver_can_be_written_again_when_it_is_back(stock_bed, database):
    bed = stock_bed
    paths = volume_paths(bed, database)
    with stamps.Writer(bed, paths), frozen(bed.driver.volumes_dir):
        before = stamps.read(paths[0])
        bed.restart("csi-driver", kill=True)
        bed.wait_for(lambda: stamps.read(paths[0]) > before + 1, 60, "another stamp")


def test_bed_whose_volumes_are_frozen_goes_away():
    with bed_module.Bed.up(bed_module.Settings(groups=True)) as bed:
        bed.create_namespace("app")
        bed.create_claim("data", "app", MIB)
        stamps.Writer(bed, [bed.volume_path("data", "app")])  # It ends with the bed.
        fd = os.open(bed.driver.volumes_dir, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.ioctl(fd, FIFREEZE, 0)
        os.close(fd)
        name, state = bed.name, bed.state
    assert processes.traces(name, [state]) == []


def test_driver_that_wants_whole_groups_loses_none(stock_bed, database):
    """Upstream's controllers delete a group by the group call, also when a person deletes its members first."""
    bed = stock_bed
    bed.configure_driver("--groups-whole")
    group = groups.create(bed, "cut", database, LABELS)
    found = groups.members(bed, group, len(CLAIMS))
    bed.api.delete("volumesnapshots", found["log"]["metadata"]["name"], database)
    groups.delete(bed, group)
    assert bed.driver.snapshots() == []
    assert bed.driver.calls("DeleteSnapshot")["started"] == 0


@pytest.mark.parametrize("version", [pytest.param(v, marks=pytest.mark.cluster(groups=True, group_version=v))
                                     for v in ("v1beta1", "none")])
def test_velero_sees_one_version_of_groups(bed, workspace, version):
    config = f"--kubeconfig={bed.pki}/velero.conf"
    listed = bed.kubectl(config, "api-versions").stdout.split()
    shown = [f"{GROUP}/{version}"] if version != "none" else []
    assert [v for v in listed if v.startswith(f"{GROUP}/")] == shown
    assert "snapshot.storage.k8s.io/v1" in listed
    hidden = bed.kubectl(config, "get", "--raw", f"/apis/{GROUP}/v1/volumegroupsnapshots", check=False)
    assert hidden.returncode != 0
    assert "could not find the requested resource" in hidden.stderr

    position = bed.audit_position()
    app = workspace.namespace(bed)
    bed.create_claims(CLAIMS, app, MIB, labels=LABELS)
    workspace.backup(bed, "--include-namespaces", app)
    for user in ("velero-server", bed.plugin_user):
        assert bed.audit_events(user, position)

    if shown:
        made = {**objects.volume_group_snapshot("cut", app, LABELS), "apiVersion": shown[0]}
        bed.kubectl(config, "create", "-f", "-", stdin=json.dumps(made))
        group = groups.wait_ready(bed, "cut", app)
        found = groups.members(bed, group, len(CLAIMS))
        for snapshot in found.values():
            assert [o["apiVersion"] for o in snapshot["metadata"]["ownerReferences"]] == [f"{GROUP}/v1"]
        groups.delete(bed, group)
