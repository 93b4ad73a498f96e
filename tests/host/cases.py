"""What the plugin does in single stories, each in a cluster of its own."""

import dataclasses
import functools
import re
import threading
from collections.abc import Callable

from world import DRIVER, MIB, SNAPSHOT_API, plain_rule, rule


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    body: Callable  # takes a Stage


CASES = []


def case(body):
    CASES.append(Case(body.__name__.removeprefix("case_").replace("_", " "), body))
    return body


def add(name, body, **options):
    """A case whose body gets a cluster with these options."""
    def play(stage):
        with stage.world(**options) as world:
            body(world)
    CASES.append(Case(name, play))


def world_case(body=None, **options):
    """Makes a function of a cluster a case, by its name."""
    if not body:
        return functools.partial(world_case, **options)
    add(body.__name__.removeprefix("case_").replace("_", " "), body, **options)
    return body


def all_cases():
    return CASES


def _ours(world, *names, **options):
    """Claims in "app", which the policy gives to us."""
    world.claims(*names, **options)
    world.policy(rule("snapshot"))


def _saved(world, *names, name="b1", **options):
    """Such claims and a completed backup of them."""
    _ours(world, *(names or ("data",)))
    backup = world.backup(name, **options)
    assert backup.phase == "Completed", backup.errors
    return backup


def _delete_all(world, *backups):
    for backup in backups:
        errors, _ = world.delete(backup)
        assert not errors, errors
    world.expect_nothing_left()


# -- A backup, its restore, and its end

@world_case
def case_backup_restore_and_delete(world):
    backup = _saved(world, "one", "two")
    assert len(world.snapshots()) == 2
    assert not world.objects("volumesnapshots", "volumesnapshotcontents"), "the archive alone has the objects"
    assert len(backup.archived("volumesnapshotcontents")) == 2
    world.must_restore("r1", backup, "copy")
    _delete_all(world, backup)


@world_case
def case_second_backup_keeps_the_first(world):
    first = _saved(world)
    second = world.backup("b2")
    assert second.phase == "Completed", second.errors
    assert len(world.snapshots()) == 2
    for backup in (first, second):
        world.must_restore(f"r-{backup.name}", backup, f"copy-{backup.name}")
    errors, _ = world.delete(first)
    assert not errors and len(world.snapshots()) == 1
    world.expect_held(second)
    world.must_restore("r1", second, "copy")
    _delete_all(world, second)


@world_case
def case_deletion_with_a_restored_copy(world):
    backup = _saved(world)
    for name in ("copy-1", "copy-2"):
        world.must_restore(f"r-{name}", backup, name)
    _delete_all(world, backup)
    world.expect_data("copy-1", backup)  # Restored volumes have no snapshot.


# -- Deletions

@world_case
def case_driver_refuses_to_delete(world):
    backup = _saved(world)
    handle, = world.snapshots()
    world.settings(deletionWait="2s")
    world.driver_fault(method="DeleteSnapshot", match=handle, code="FailedPrecondition", message="kept by the array")
    _, log = world.delete(backup)
    assert world.snapshots() == {handle}
    contents = world.objects("volumesnapshotcontents")
    assert contents and all(c["metadata"].get("finalizers") and c["metadata"].get("deletionTimestamp") for c in contents)
    assert any(line.startswith("warning") and handle in line and DRIVER in line for line in log), log
    world.clear()
    world.wait_for(lambda: not world.snapshots(), "the driver's deletion")
    _delete_all(world, _after(world))  # The next backup sees it, and removes what stood for it.


@world_case
def case_snapshot_is_gone_before_its_backup(world):
    backup = _saved(world)
    handle, = world.snapshots()
    world.ask(op="remove_snapshot", handle=handle)
    _delete_all(world, backup)


@world_case
def case_deletion_goes_on_after_the_plugin_died(world):
    backup = _saved(world, "one", "two")
    world.kill_after(3)
    errors, _ = world.delete(backup)
    assert len(world.kills()) == 1 and errors, errors
    # Velero has no archive any more. Of what the plugin could not be asked about the driver may keep the snapshot.
    lost = {content["status"]["snapshotHandle"] for content in backup.archived("volumesnapshotcontents")
            if any(content["metadata"]["name"] in error for error in errors)}
    assert world.snapshots() <= lost, f"{world.snapshots()} left, errors: {errors}"
    after = _after(world)
    lost &= world.snapshots()
    deletion, _ = world.delete(after)
    assert not deletion, deletion
    world.wait_for(lambda: {*world.leftovers()} <= {f"snapshot {handle}" for handle in lost},
                   lambda: f"left behind: {world.leftovers()}, lost: {lost}")


# -- Faults

def _after(world, **options):
    """One more backup must succeed and leave nothing of the one before."""
    world.clear()
    after = world.backup("after", **options)
    assert after.phase == "Completed", after.errors
    return after


def _fails(world, wanted, faults, names=("data",), group=None, **options):
    """A backup whose driver fails: one error has all that is wanted. One more succeeds."""
    _ours(world, *names, group=group)
    for fault in faults:
        world.driver_fault(**fault)
    backup = world.backup("b1", **options)
    assert backup.phase == "PartiallyFailed" and (group or len(backup.errors) == 1), backup.errors
    assert any(all(re.search(words, error) for words in wanted) for error in backup.errors), backup.errors
    _delete_all(world, backup, _after(world))


add("create snapshot fails", functools.partial(
    _fails, wanted=["app/data.*the array is on fire"], snapshot_timeout="8s",
    faults=[{"method": "CreateSnapshot", "code": "Internal", "message": "the array is on fire"}]))
# The second is what the plugin's Progress says.
add("snapshot is never ready", functools.partial(
    _fails, wanted=["timed out", "not ready yet"], timeout_s=1, faults=[{"not_ready": True}]))


@world_case
def case_snapshot_takes_its_time(world):
    _ours(world, "data")
    world.driver_fault(not_ready=True, times=5)
    backup = world.backup("b1")
    assert backup.phase == "Completed" and world.driver()["calls"]["CreateSnapshot"] > 5, backup.errors
    _delete_all(world, backup)


@world_case
def case_access_refused(world):
    _ours(world, "data")
    world.fail_calls(code=403, message="forbidden: no rule lets you")
    backup = world.backup("b1")
    assert backup.phase == "PartiallyFailed", backup.errors
    assert any(re.search("app/data.*forbidden", error) for error in backup.errors), backup.errors
    _delete_all(world, backup, _after(world))


def _refused(world, verb, plural, phase):
    _ours(world, "data")
    world.fail_calls(verb=verb, plural=plural, code=403, message="forbidden: no rule lets you")
    backup = world.backup("b1", snapshot_timeout="8s")
    assert world.hits()[0] > 0, "the plugin did not ask for what is refused"
    assert backup.phase == phase, backup.errors
    if phase == "Completed":
        assert len(backup.handles()) == 1, backup.archive
    else:
        assert any("forbidden" in error for error in backup.errors), backup.errors
    world.expect_held(backup)
    _delete_all(world, backup, _after(world))


for _verb, _plural, _phase in (
        ("create", "volumesnapshots", "PartiallyFailed"),
        ("patch", "volumesnapshots", "PartiallyFailed"),
        ("patch", "volumesnapshotcontents", "PartiallyFailed"),
        ("create", "leases", "PartiallyFailed"),
        ("watch", "volumesnapshots", "Completed"),
        ("get", "persistentvolumes", "PartiallyFailed"),
        ("list", "volumesnapshotclasses", "PartiallyFailed"),
        ("delete", "leases", "Completed"),
        ("list", "volumesnapshots", "PartiallyFailed")):
    add(f"access refused {_verb} {_plural}", functools.partial(_refused, verb=_verb, plural=_plural, phase=_phase))


def _many(world, count):
    """A backup of many claims, and what is archived of it: (backup, names of claims, handles)."""
    names = [f"data-{i:03}" for i in range(count)]
    _ours(world, *names)
    backup = world.backup("b1", timeout_s=200, workers=8)
    return backup, names, {content["status"]["snapshotHandle"] for content in backup.archived("volumesnapshotcontents")}


def _expect_only_the_archived(world, handles):
    """A backup of something else finds all that is orphaned; the driver has what archives have, and no more."""
    world.clear()
    world.claims("elsewhere", namespace="elsewhere")
    after = world.backup("after", namespace="elsewhere")
    assert after.phase == "Completed", after.errors
    handles = handles | {after.archived("volumesnapshotcontents")[0]["status"]["snapshotHandle"]}
    world.wait_for(lambda: world.snapshots() == handles, lambda: f"{world.snapshots() ^ handles}")
    world.wait_for(lambda: not [one for one in world.leftovers() if not one.startswith("snapshot ")],
                   lambda: f"left behind: {world.leftovers()}")


@world_case
def case_two_hundred_claims_and_every_tenth_call_fails(world):
    world.fail_calls(every=10, code=503, message="the server is busy")
    backup, names, handles = _many(world, 200)
    failed = {name for name in names if any(error.startswith(f"app/{name}: ") for error in backup.errors)}
    assert len(failed) == len(backup.errors), f"an error that names no claim: {backup.errors}"
    assert len(handles) == 200 - len(failed), f"{len(handles)} archived, errors: {backup.errors}"
    _expect_only_the_archived(world, handles)


@world_case
def case_fifty_claims_and_every_tenth_driver_call_fails(world):
    world.driver_fault(every=10, code="Unavailable", message="try again")
    backup, _, handles = _many(world, 50)
    assert backup.phase == "Completed" and not backup.warnings(), backup.errors
    assert len(handles) == 50
    _expect_only_the_archived(world, handles)


@world_case
def case_answers_that_get_lost(world):
    _ours(world, *[f"data-{i}" for i in range(10)])
    world.fail_calls(every=7, code=503, message="no answer", lost=True)
    backup = world.backup("b1", timeout_s=60)
    assert world.hits()[0] > 0, "no answer got lost"
    world.clear()
    names = {f"data-{i}" for i in range(10)}
    archived = {snapshot["spec"]["source"]["persistentVolumeClaimName"] for snapshot in backup.archived("volumesnapshots")}
    failed = {name for name in names if any(error.startswith(f"app/{name}: ") for error in backup.errors)}
    assert len(failed) == len(backup.errors), f"an error that names no claim: {backup.errors}"
    assert archived | failed == names and not archived & failed, f"archived {archived}, errors: {backup.errors}"
    assert len(backup.handles()) == len(archived), backup.handles()
    world.expect_held(backup)
    _delete_all(world, backup, _after(world))


@world_case(lag_ms=40)
def case_controllers_that_lag_behind(world):
    backup = _saved(world, "one", "two")
    world.must_restore("r1", backup, "copy")
    _delete_all(world, backup)


# -- Groups

def _group_story(world):
    _ours(world, "one", "two", group="db")
    backup = world.backup("b1")
    assert backup.phase == "Completed", backup.errors
    state = world.driver()
    assert len(state["groups"]) == 1 and not state["snapshots"], state
    world.must_restore("r1", backup, "copy")
    _delete_all(world, backup)
    assert not world.driver()["asked_alone"]


for _version in ("v1", "v1beta2", "v1beta1"):
    add(f"group {_version} is taken restored and deleted", _group_story, groups=_version)


def _without_groups(world):
    _ours(world, "one", "two", group="db")
    backup = world.backup("b1")
    assert backup.phase == "Completed", backup.errors
    state = world.driver()
    assert len(state["snapshots"]) == 2 and not state["groups"], state
    assert any("alone" in line for line in backup.warnings()), backup.warnings()
    _delete_all(world, backup)


add("a cluster without groups takes each claim alone", _without_groups)
add("a driver without groups takes each claim alone", _without_groups, groups="v1", driver_groups=False)
_group_fails = functools.partial(_fails, names=("one", "two"), group="db", snapshot_timeout="8s")
add("a failing member is named", functools.partial(_group_fails, wanted=["disk 2 is gone"], timeout_s=8, faults=[
    {"method": "CreateVolumeGroupSnapshot", "not_ready": True, "times": 1},
    {"method": "ListSnapshots", "match": "vol-app-two", "code": "Internal", "message": "disk 2 is gone"}]), groups="v1")
add("a group that the driver refuses", functools.partial(_group_fails, wanted=["the pool is full"], faults=[
    {"method": "CreateVolumeGroupSnapshot", "code": "Internal", "message": "the pool is full"}]), groups="v1")


# -- Volumes of others

def _pod(annotations=None):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "user", "namespace": "app", "annotations": annotations or {}},
            "spec": {"containers": [{"name": "c", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}],
                     "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "status": {"phase": "Running"}}


def _hands_off(world, rules=(), spec=None, pod=None, source=None, prepare=None):
    if prepare:
        prepare(world)
    else:
        world.claims("data", source=source)
    if pod:
        world.load(pod)
    world.policy(*rules)
    backup = world.backup("b1", policy=bool(rules), spec=spec)
    assert backup.phase == "Completed", backup.errors
    assert not world.snapshots() and not world.objects("volumesnapshots", "leases")


def _unbound(world):
    world.namespace()
    world.load({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "app"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "volumeMode": "Filesystem",
                         "resources": {"requests": {"storage": str(MIB)}}}, "status": {"phase": "Pending"}})


for _name, _how in {
        "a volume of no CSI driver": {"rules": [rule("snapshot")], "source": {"hostPath": {"path": "/nowhere"}}},
        "file backup opt in": {"pod": _pod({"backup.velero.io/backup-volumes": "data"})},
        "file backup opt out": {"pod": _pod(), "spec": {"defaultVolumesToFsBackup": True}},
        "file backup by policy": {"rules": [plain_rule("fs-backup")], "pod": _pod()},
        "an unbound claim": {"rules": [rule("snapshot")], "prepare": _unbound},
        "what the policy skips": {"rules": [plain_rule("skip")]},
        "custom action of another plugin": {"rules": [
            {"conditions": {}, "action": {"type": "custom", "parameters": {"their-mover": "true"}}}]}}.items():
    add(f"hands off {_name}", functools.partial(_hands_off, **_how))
add("hands off without EnableCSI", functools.partial(_hands_off, rules=[rule("snapshot")]), csi=False)


@world_case
def case_hands_off_where_volumes_are_not_to_be_snapshotted(world):
    world.claims("data")
    off = world.backup("off", policy=False, spec={"snapshotVolumes": False})
    assert off.phase == "Completed" and not world.snapshots(), off.errors
    on = world.backup("on", policy=False)
    assert on.phase == "Completed" and len(world.snapshots()) == 1, "without the field the volume is managed"
    _delete_all(world, off, on)


@world_case
def case_user_made_snapshots_stay(world):
    world.claims("data")
    world.load({"apiVersion": f"{SNAPSHOT_API}/v1", "kind": "VolumeSnapshot",
                "metadata": {"name": "taken", "namespace": "app"},
                "spec": {"volumeSnapshotClassName": "snapshots", "source": {"persistentVolumeClaimName": "data"}}})
    world.wait_for(lambda: world.objects("volumesnapshots")[0].get("status", {}).get("readyToUse"), "ready")
    mine = world.snapshots()
    before = {o["metadata"]["uid"] for o in world.objects("volumesnapshots", "volumesnapshotcontents")}
    world.policy(rule("snapshot"))
    backup = world.backup("b1")
    assert backup.phase == "Completed" and len(world.snapshots()) == 2, backup.errors
    assert {o["metadata"]["uid"] for o in world.objects("volumesnapshots", "volumesnapshotcontents")} == before
    world.delete(backup)
    world.wait_for(lambda: not world.snapshots() - mine, "the backup's snapshot goes")
    # The archive has the user's content, too: whether its snapshot goes with the backup is Velero's rule.


# -- Longhorn's own objects

LONGHORN = "longhorn-system"


def _longhorn(kind, version="v1beta2"):
    """(resource, object) of a kind of Longhorn's."""
    resource = f"{kind.lower()}s.longhorn.io"
    return resource, {"apiVersion": f"longhorn.io/{version}", "kind": kind,
                      "metadata": {"name": "one", "namespace": LONGHORN, "labels": {"longhornvolume": "pvc-1"}},
                      "spec": {"volume": "pvc-1", "createSnapshot": True}}


def _archive_of_longhorn(world, **options):
    """A backup of Longhorn's namespace that has one object of some kinds, as an older Velero archives them all."""
    world.namespace(LONGHORN)
    world.load(_longhorn("Snapshot")[1])
    backup = world.backup("b1", namespace=LONGHORN, policy=False)
    assert backup.phase == "Completed" and not backup.warnings(), backup.errors
    world.drop("snapshots", "one", LONGHORN)
    for kind in ("Engine", "Setting", "Snapshot", "Volume"):
        resource, obj = _longhorn(kind, **options)
        backup.archive[f"{resource}/{LONGHORN}/one"] = obj
    return backup


def _made(world):
    """(kind, namespace) of Longhorn's objects."""
    return {(obj["kind"], obj["metadata"]["namespace"])
            for obj in world.objects("engines", "settings", "snapshots", "volumes")}


def _longhorn_restore(world, want, mapping=None, settings=None, **options):
    if settings:
        world.settings(**settings)
    backup = _archive_of_longhorn(world, **options)
    assert not _made(world)
    phase, errors, log = world.restore("r1", backup, mapping=mapping or {})
    assert phase == "Completed", errors
    assert _made(world) == {(kind, LONGHORN) for kind in want}, log


for _name, _how in {
        "the settings alone are restored": {"want": ["Setting"]},
        "nothing is restored into a mapped namespace": {"want": [], "mapping": {LONGHORN: "copy"}},
        "nothing of a dropped version is restored": {"want": [], "version": "v1beta1"},
        "the guard is switched off but for the worst": {
            "want": ["Setting", "Volume"], "settings": {"longhornGuard": "off"}}}.items():
    add(f"of longhorn {_name}", functools.partial(_longhorn_restore, **_how), csi=False)


@case
def case_longhorns_snapshots_stay_out_of_a_backup(stage):
    with stage.world(csi=False) as world:
        world.namespace(LONGHORN)
        world.load(_longhorn("Snapshot")[1])
        archived = world.backup("b1", namespace=LONGHORN, policy=False).archived("snapshots")
        # Velero honours the mark from 1.18.1 on.
        assert not archived if stage.release.minor >= 18 else [
            item["metadata"]["annotations"].get("velero.io/skip-from-backup") for item in archived] == ["true"]
        world.settings(longhornItems="keep")
        kept, = world.backup("b2", namespace=LONGHORN, policy=False).archived("snapshots")
        assert "annotations" not in kept["metadata"]


LONGHORN_DRIVER = {"csi": {"driver": "driver.longhorn.io", "volumeHandle": "pvc-1"}}


def _longhorns_volume(world):
    world.namespace(LONGHORN)
    world.load({"apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": "pvc-1", "namespace": LONGHORN},
                "spec": {"size": str(MIB)}, "status": {"state": "attached", "robustness": "healthy"}},
               {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
                "provisioner": "driver.longhorn.io"})


def _native_archive(world):
    """A backup of a claim with a native snapshot, as the plugin's action archives it; the cluster has the snapshot."""
    _longhorns_volume(world)
    world.claims("data", source=LONGHORN_DRIVER)
    backup = world.backup("b1", policy=False)
    assert backup.phase == "Completed", backup.errors
    _, snapshot = _longhorn("Snapshot")
    snapshot["metadata"] = {"name": "csd-1", "namespace": LONGHORN, "uid": "uid-csd-1", "labels": {
        "longhorn.csi-delta.io/made-by": "csi-delta", "velero.io/backup-name": "b1",
        "velero.io/backup-uid": backup.object["metadata"]["uid"]}}
    snapshot["spec"]["labels"] = {"csi-delta-claim": "app/data"}
    snapshot["status"] = {"readyToUse": True}
    backup.archive[f"snapshots.longhorn.io/{LONGHORN}/csd-1"] = snapshot
    claim = backup.archive["persistentvolumeclaims/app/data"]
    claim["metadata"].setdefault("labels", {}).update(
        {"longhorn.csi-delta.io/native": "true", "velero.io/backup-name": "b1"})
    claim["metadata"].setdefault("annotations", {}).update({
        "longhorn.csi-delta.io/snapshot": f"{LONGHORN}/csd-1", "longhorn.csi-delta.io/snapshot-uid": "uid-csd-1",
        "longhorn.csi-delta.io/volume": "pvc-1"})
    world.load(snapshot)
    return backup, snapshot


def _take_as_longhorn(world):
    world.wait_for(lambda: world.objects("snapshots"), "no snapshot is asked for")
    snapshot, = world.objects("snapshots")
    world.ask(op="load", objects=[{**snapshot, "status": {
        "requestedTime": "2026-10-01T02:00:00Z", "creationTime": "2026-10-01T02:00:00Z", "readyToUse": True}}])


@world_case(csi=False)
def case_native_snapshot_is_archived_with_its_claim_and_deleted_with_its_backup(world):
    _longhorns_volume(world)
    world.claims("data", source=LONGHORN_DRIVER)
    world.policy(rule("longhorn"))
    longhorn = threading.Thread(target=_take_as_longhorn, args=[world])
    longhorn.start()
    backup = world.backup("b1")  # Of the claim's namespace alone.
    longhorn.join()
    assert backup.phase == "Completed" and not backup.warnings(), backup.errors
    snapshot, = backup.archived("snapshots")
    assert snapshot["status"]["readyToUse"] and snapshot["metadata"]["namespace"] == LONGHORN
    claim, = backup.archived("persistentvolumeclaims")
    assert claim["metadata"]["annotations"]["longhorn.csi-delta.io/snapshot-uid"] == snapshot["metadata"]["uid"]
    errors, _ = world.delete(backup)
    assert not errors and not world.objects("snapshots"), errors


@world_case(csi=False)
def case_native_snapshot_that_no_engine_takes_is_an_error_and_goes(world):
    # Without EnableCSI, and with no Longhorn that would take it.
    _longhorns_volume(world)
    world.claims("data", source=LONGHORN_DRIVER)
    world.policy(rule("longhorn"))
    backup = world.backup("b1", snapshot_timeout="1s")
    error, = backup.errors
    assert "PVC app/data: Longhorn took no snapshot of Volume pvc-1 within 1s" in error, error
    assert not world.objects("snapshots"), "Longhorn would take it later"
    assert any(call["text"].startswith("create snapshots") for call in world.calls())


@world_case(csi=False)
def case_native_snapshot_is_restored_or_an_error(world):
    backup, _ = _native_archive(world)
    # No driver is here that would fill it.
    world.restore("r1", backup, mapping={"app": "copy"}, timeout_s=1)
    content, = world.objects("volumesnapshotcontents")
    assert content["spec"]["source"] == {"snapshotHandle": "snap://pvc-1/csd-1"}, content
    assert content["spec"]["deletionPolicy"] == "Retain"
    claim, = (c for c in world.objects("persistentvolumeclaims") if c["metadata"]["namespace"] == "copy")
    assert claim["spec"]["dataSource"]["name"] == content["metadata"]["name"] and "volumeName" not in claim["spec"]
    assert not set(claim["metadata"].get("annotations", {})) & {"longhorn.csi-delta.io/snapshot"}
    world.drop("snapshots", "csd-1", LONGHORN)
    phase, errors, _ = world.restore("r2", backup, mapping={"app": "gone"})
    assert phase == "PartiallyFailed" and "csd-1 is not here" in errors[0], errors
    assert not [c for c in world.objects("persistentvolumeclaims") if c["metadata"]["namespace"] == "gone"]


@world_case(csi=False)
def case_native_snapshot_goes_with_its_backup_by_its_uid(world):
    backup, snapshot = _native_archive(world)
    world.drop("snapshots", "csd-1", LONGHORN)
    world.load({**snapshot, "metadata": {**snapshot["metadata"], "uid": "another"}})
    errors, _ = world.delete(backup)
    assert not errors and len(world.objects("snapshots")) == 1, errors
    world.drop("snapshots", "csd-1", LONGHORN)
    world.load(snapshot)
    errors, _ = world.delete(backup)
    assert not errors and not world.objects("snapshots"), errors


# -- Settings

@world_case
def case_unknown_setting_is_one_warning(world):
    _ours(world, "one", "two")
    world.settings(orphanGracePeriods="48h")
    backup = world.backup("b1")
    assert backup.phase == "Completed", backup.errors
    line, = backup.warnings()
    assert "orphanGracePeriods" in line and "nearest known key is orphanGracePeriod" in line, line


@world_case
def case_wrong_setting_is_an_error(world):
    _ours(world, "one", "two")
    world.settings(orphanGracePeriod="two days")
    backup = world.backup("b1")
    assert backup.phase == "PartiallyFailed" and len(backup.errors) == 2, backup.errors
    assert all("orphanGracePeriod" in e and "a duration from 1m to 8760h" in e for e in backup.errors), backup.errors


@world_case
def case_policy_and_unbound_claim_together(world):
    _unbound(world)
    _ours(world, "bound")
    backup = world.backup("b1")
    assert backup.phase == "Completed" and len(world.snapshots()) == 1, backup.errors
    _delete_all(world, backup)


# -- Restores that cannot be

@world_case
def case_restore_of_a_snapshot_that_is_gone(world):
    backup = _saved(world)
    handle, = world.snapshots()
    world.ask(op="remove_snapshot", handle=handle)
    phase, errors, _ = world.restore("r1", backup, mapping={"app": "copy"}, timeout_s=8)
    assert phase == "PartiallyFailed", errors
    assert world.data("copy").get("data") is None
    world.drop_namespace("copy")
    _delete_all(world, backup)


@world_case
def case_restore_waits_for_a_slow_provisioner(world):
    backup = _saved(world)
    world.driver_fault(method="CreateVolume", code="Unavailable", message="not now", times=4)
    world.must_restore("r1", backup, "copy")
    _delete_all(world, backup)
