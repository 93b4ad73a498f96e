"""Trouble while a group is made or deleted: each has its end and its reason, and nothing is left once the backup is deleted.

A point is a place between two calls of our plugin to the API server. A run sees a few, drawn by chance.py.
"""

import signal

import pytest

import chance
from bed import ENDED
from call_gate import CallGate
from groups import CLAIMS, Database, archived_members, await_driver_empty, await_objects_gone

HOLD = {"method": "CreateVolumeGroupSnapshot", "hold": True}
NOT_READY = [{"method": f"{verb}VolumeGroupSnapshot", "lie": "not_ready"} for verb in ("Create", "Get")]
POINTS = range(40)
LEAST_POINTS = 28  # That every backup of a group has.
KILLS = {"plugin": (POINTS[:LEAST_POINTS], 2), "velero": (POINTS[:LEAST_POINTS], 1)}  # How many points CI sees, of which.
DELETION_POINTS = range(12)
LEAST_DELETION_POINTS = 6
DELETION_KILLS = {"plugin": (range(3), 1), "velero": (range(3, 6), 1)}  # Nothing stands for the deletion yet; something does.
SECONDS_MAX = 300
SNAPSHOT_NAME = "velero.io/volume-snapshot-name"  # The annotation of a claim.

pytestmark = [pytest.mark.group, pytest.mark.own_driver("needs injected faults")]


@pytest.fixture(scope="module")
def shop(beds, shared_workspace):
    """One group of claims for all faults."""
    return Database(beds.get(), shared_workspace)


@pytest.fixture
def database(beds, shop):
    """Nothing is there before, and nothing after the backups of the test are deleted."""
    beds.get()
    await_driver_empty(shop.bed)
    yield shop


def our_group(bed, database):
    """The VolumeGroupSnapshot that a backup makes."""
    group, = bed.api.list("volumegroupsnapshots", database.app)
    return group["metadata"]["name"]


def check_kept(bed, backup):
    """What the archive of a backup names is there, whatever was swept since."""
    snapshots = {snapshot["metadata"]["name"] for snapshot in bed.archived(backup, "volumesnapshots")}
    claims = bed.archived(backup, "persistentvolumeclaims")
    assert {claim["metadata"]["annotations"].get(SNAPSHOT_NAME) for claim in claims} - {None} <= snapshots
    handles = {content["status"]["snapshotHandle"] for content in bed.archived(backup, "volumesnapshotcontents")}
    assert len(handles) >= len(snapshots) and handles <= set(bed.driver.snapshots())


def check_gone(database, *backups):
    """Deletes backups; nothing of their groups is left in driver and API."""
    for backup in backups:
        database.bed.delete_backup(backup)
    await_driver_empty(database.bed)
    await_objects_gone(database.bed, database.app)


def held(database, stem, *rules):
    """Starts a backup whose group the driver is just cutting; returns its name."""
    bed = database.bed
    count = bed.driver.calls(HOLD["method"])["held"]
    bed.driver.control({"op": "add", "rules": [HOLD, *rules]})
    name = database.begin(stem, "--csi-snapshot-timeout", "60s")
    bed.driver.await_calls(HOLD["method"], held=count + 1)
    return name


def cut(database, stem):
    """Starts a backup whose group is taken, and does not become ready; returns its name."""
    database.bed.driver.control({"op": "add", "rules": NOT_READY})
    name = database.begin(stem)
    database.bed.wait_phase("backups", name, ("WaitingForPluginOperations",))
    return name


def test_a_controller_that_is_restarted_while_a_group_is_made(database):
    bed = database.bed
    name = held(database, "restarted", *NOT_READY)
    bed.restart("snapshot-controller", kill=True)
    bed.driver.control({"op": "release"})  # The call that is held; a later one is held again.
    bed.wait_phase("backups", name, ("WaitingForPluginOperations",))
    bed.restart("snapshot-controller", kill=True)
    bed.driver.clear_faults()
    bed.assert_clean("backup", bed.wait_phase("backups", name, ("Completed",)))
    assert set(archived_members(bed, name)) == set(CLAIMS)
    assert len(bed.driver.groups()) == 1
    check_gone(database, name)


@pytest.mark.sweep
@pytest.mark.parametrize("plural", chance.one_of("volumegroupsnapshots", "volumegroupsnapshotcontents"))
def test_a_group_that_is_deleted_while_it_is_made(database, plural):
    bed = database.bed
    name = held(database, "taken-away")
    if plural == "volumegroupsnapshots":
        bed.api.delete(plural, our_group(bed, database), database.app)
    else:
        content, = bed.api.list(plural)
        bed.api.delete(plural, content["metadata"]["name"])
    bed.wait_for(lambda: "was deleted by another client" in bed.log("velero"), SECONDS_MAX, "the plugin's word")
    bed.driver.clear_faults()
    assert bed.wait_phase("backups", name, ENDED)["status"]["phase"] == "PartiallyFailed"
    told = bed.error_lines(name)
    for claim in CLAIMS:
        assert any(f"name={claim}" in line and "was deleted by another client" in line for line in told), told
    check_gone(database, name)


def test_a_group_that_is_deleted_before_it_is_ready(database):
    bed = database.bed
    name = cut(database, "not-ready")
    bed.api.delete("volumegroupsnapshots", our_group(bed, database), database.app)
    assert bed.wait_phase("backups", name, ENDED)["status"]["phase"] == "PartiallyFailed"
    bed.driver.clear_faults()
    shown = bed.velero("backup", "describe", name, "--details").stdout
    assert "was deleted before it was ready" in shown, shown
    check_gone(database, name)


@pytest.mark.sweep
@pytest.mark.parametrize("begin", chance.one_of(held, cut))
def test_a_backup_that_is_deleted_while_its_group_is_made(database, begin):
    bed = database.bed
    name = begin(database, "unwanted")
    bed.velero("backup", "delete", name, "--confirm")
    bed.wait_for(lambda: not bed.api.get("backups", name, bed.namespace) or any(
        r.get("status", {}).get("phase") == "Processed" for r in bed.api.list("deletebackuprequests", bed.namespace)),
                 SECONDS_MAX, "Velero's answer")
    bed.driver.clear_faults()
    if bed.api.get("backups", name, bed.namespace):  # Velero refuses: it is in progress.
        assert bed.wait_phase("backups", name, ENDED)["status"]["phase"] == "Completed", bed.error_lines(name)
    check_gone(database, name)


def drawn(what, points, kills):
    """Who is killed, and how many calls of what happens to a group have passed before."""
    def some(kind):
        return points if chance.EVERYTHING else sorted(chance.draw(what, kind).sample(*kills[kind]))
    return [pytest.param(kind, point, id=f"{kind}-{point}") for kind in kills for point in some(kind)]


def strike(bed, kind):
    if kind == "velero":
        bed.stop("velero", kill=True)
    for process in bed.plugin_processes():
        process.signal(signal.SIGKILL)


def labels_a_claim(method, path):
    """The first call by which something of a group is there."""
    return method == "PATCH" and "/persistentvolumeclaims/" in path


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "point"), drawn("group", POINTS, KILLS))
def test_a_kill_between_two_calls_leaves_nothing(database, kind, point, record_property):
    bed = database.bed

    def phase():
        return (bed.api.get("backups", name, bed.namespace) or {}).get("status", {}).get("phase")
    with CallGate(bed) as gate:
        gate.hold_after(point, labels_a_claim)
        name = database.begin(f"killed-{kind}-{point}")
        met = gate.await_held(lambda: phase() in ENDED, SECONDS_MAX)
        record_property("points", int(met))
        assert met or point > LEAST_POINTS, gate.calls()
        was = phase()
        if met:
            strike(bed, kind)
            print(f"killed before {gate.calls()[-1]}, {was}")
        gate.open()
        if kind == "velero" and met:
            bed.start("velero")
        ended = bed.wait_phase("backups", name, ENDED, SECONDS_MAX)["status"]["phase"]
    told = bed.error_lines(name)
    print(f"{name}: {ended}: {told}")
    if kind == "velero" and met and was == "InProgress":  # Velero's own rule.
        assert ended == "Failed"
    elif ended != "Completed":
        assert ended == "PartiallyFailed" and told
    if ended == "Completed":
        made = archived_members(bed, name)
        assert set(made) == set(CLAIMS)
        assert set(made.values()) <= set(bed.driver.snapshots())
    after = database.back_up(f"after-{kind}-{point}")
    if ended in ("Completed", "PartiallyFailed"):
        check_kept(bed, name)
    check_gone(database, name, after)


@pytest.fixture
def only_a_group(database):
    """Its backups have the claims of the group and no other."""
    alone = {"metadata": {"labels": {"velero.io/exclude-from-backup": "true"}}}
    database.bed.api.patch("persistentvolumeclaims", "alone", alone, database.app)
    yield database
    alone["metadata"]["labels"] = {"velero.io/exclude-from-backup": None}
    database.bed.api.patch("persistentvolumeclaims", "alone", alone, database.app)


def looks_for_classes(_, path):
    """The first call for a group that is to be deleted."""
    return "/volumegroupsnapshotclasses" in path


class Deletion:
    """What becomes of a `velero backup delete`."""

    def __init__(self, bed, backup):
        self._bed = bed
        self._backup = backup
        self._ask()

    def _ask(self):
        self._bed.velero("backup", "delete", self._backup, "--confirm")

    def is_through(self):
        return self._bed.api.get("backups", self._backup, self._bed.namespace) is None

    def errors(self):
        """What Velero says once it has given up; it is asked again where the backup was still in progress."""
        told = [r.get("status", {}).get("errors", []) for r in self._bed.api.list("deletebackuprequests", self._bed.namespace)
                if r["spec"]["backupName"] == self._backup]
        if not all(told):
            return []
        found = {error for errors in told for error in errors}
        if found == {"backup is still in progress"}:
            self._ask()
            return []
        return sorted(found)

    def has_ended(self):
        return self.is_through() or bool(self.errors())


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "point"), drawn("deletion", DELETION_POINTS, DELETION_KILLS))
def test_a_kill_while_a_backup_is_deleted_leaves_nothing(only_a_group, kind, point, record_property):
    bed = only_a_group.bed
    name = only_a_group.back_up(f"deleted-{kind}-{point}")
    with CallGate(bed) as gate:
        gate.hold_after(point, looks_for_classes)
        deletion = Deletion(bed, name)
        met = gate.await_held(deletion.has_ended, SECONDS_MAX)
        record_property("points", int(met))
        assert met or point > LEAST_DELETION_POINTS, gate.calls()
        if met:
            print(f"killed before {gate.calls()[-1]}")
            strike(bed, kind)
        gate.open()
        if kind == "velero" and met:  # Velero never takes up a request that it had begun.
            bed.start("velero")
            assert not deletion.is_through()
            bed.delete_backup(name)
        bed.wait_for(deletion.has_ended, SECONDS_MAX, f"end of backup {name}")
        assert deletion.is_through(), deletion.errors()  # Velero goes on without a plugin that died.
    await_driver_empty(bed)
    await_objects_gone(bed, only_a_group.app)
