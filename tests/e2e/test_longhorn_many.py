"""Longhorn with 1,000 volumes and 30,000 Snapshots, or a fiftieth of them beside other work: what backups, restores and prunes cost.

Where Longhorn has nothing to do, the manager of the test bed is stopped and its webhooks are off: what is measured is csi-delta.
"""

import concurrent.futures
import contextlib
import re
import signal
import uuid

import pytest

import cgroups
import cluster_api
import components
import longhorn
import longhorn_manners
import many_longhorn
import people
import plugin_settings
import promises
import rights
from costs import MIB, Costs

VOLUMES = 1000 if promises.QUIET else 20
SNAPSHOTS_EACH, GONE_EACH = 30, 8  # Of a volume; those of a job that is gone are the oldest.
SNAPSHOTS, GONE = VOLUMES * SNAPSHOTS_EACH, VOLUMES * GONE_EACH
DELETIONS = 500 if promises.QUIET else 20  # Of a run that is stopped: all of them take 27 minutes at this rate.
DELETIONS_PER_SECOND = 5
COMMAND_SECONDS = 1800
# Stock Velero asks for the namespace of each object that it restores, 100 in a second by default.
FAST = ["--features=EnableCSI", "--client-qps=1000", "--client-burst=1000"]
WORKERS = 10

KIND = "snapshots.longhorn.io"
GUARD_SECONDS = 20
GUARD_GROWTH_BYTES = 16 * MIB
PRUNE_BYTES = 64 * MIB
PRUNE_LISTS, PRUNE_OTHER_LISTS = 70, 20
NATIVE_LISTS_EACH, NATIVE_OTHERS_EACH = 1, 7
ONCE = 20  # Of a backup, however many there are.
PLUGIN, VELERO, PERSON = "plugin", "Velero", "csi-delta"
ROLES = components.REPOSITORY / "deploy" / "longhorn-roles.yaml"

pytestmark = pytest.mark.cluster(driver_name="driver.longhorn.io")


def job_of(position):
    return "weekly" if position < GONE_EACH else "nightly"


def snapshots_of(volumes, template, **kwargs):
    for volume in volumes:
        names = [f"{job_of(position)}-{uuid.uuid4()}" for position in range(SNAPSHOTS_EACH)]
        yield from many_longhorn.chain(template, volume, names, job_of, **kwargs)


def fill(bed):
    """The volumes and their Snapshots, of which one is a real one, and a job that is there."""
    longhorn.apply(bed, "RecurringJob", "nightly", {"name": "nightly", "task": "snapshot", "cron": "0 2 * * *", "retain": 22})
    volume = many_longhorn.stored(bed, "volumes", "template")
    volume["metadata"].setdefault("labels", {})["recurring-job.longhorn.io/nightly"] = "enabled"
    volumes = [many_longhorn.copy_of(volume, f"pvc-{uuid.uuid4()}") for _ in range(VOLUMES)]
    snapshot = many_longhorn.stored(bed, "snapshots", "template")
    many_longhorn.write(bed, "volumes", volumes)
    many_longhorn.write(bed, "snapshots", snapshots_of(volumes, snapshot))


def pruner(bed, workspace):
    """A person who may prune and nothing else."""
    roles = [(longhorn.NAMESPACE, "csi-delta-longhorn-viewer"), (longhorn.NAMESPACE, "csi-delta-longhorn-pruner"),
             ("", "csi-delta-longhorn-reader")]
    return people.Person(bed, workspace.name("pruner"), workspace.namespace(bed), roles)


def archive(bed, workspace, stem):
    """A backup with all Snapshot objects; its name."""
    with plugin_settings.during(bed, longhornItems="keep"):
        return workspace.backup(bed, "--include-namespaces", longhorn.NAMESPACE, "--include-resources", KIND, stem=stem,
                                timeout_seconds=COMMAND_SECONDS)["metadata"]["name"]


def prune_command(bed, person, *flags):
    return bed.inside([components.program_path(), "longhorn", "prune", "--of-gone-jobs", *flags, "--kubeconfig", person.config])


def try_prune(bed, costs, name, person):
    """A dry run; how many it would delete."""
    with costs.step(name) as step, cgroups.running(prune_command(bed, person), "csi-delta-prune", PRUNE_BYTES) as (run, peak):
        out, error = run.communicate(timeout=COMMAND_SECONDS)
        step.program_bytes = peak.bytes()
    assert run.returncode == 0, error[-2000:]
    return int(re.search(r"^would delete (\d+) Snapshots? of ", out, re.MULTILINE)[1])


def prune_and_stop(bed, costs, person):
    """A prune that is stopped in the middle; how many it has deleted."""
    start = bed.audit_position()

    def deletions():
        return [e for e in bed.audit_events(person.user, start) if e["verb"] == "delete"]
    with open(bed.scratch / "prune.out", "w+", encoding="utf-8") as output, costs.step("prune, stopped") as step:
        with cgroups.running(prune_command(bed, person, "--yes"), "csi-delta-prune", PRUNE_BYTES, output) as (run, peak):
            bed.wait_for(lambda: len(deletions()) >= DELETIONS, COMMAND_SECONDS, f"{DELETIONS} deletions")
            run.send_signal(signal.SIGINT)
            error = run.communicate(timeout=COMMAND_SECONDS)[1]
            step.program_bytes = peak.bytes()
        output.seek(0)
        deleted = int(re.search(r"^deleted (\d+) Snapshots?", output.read(), re.MULTILINE)[1])
    assert run.returncode == 130, error[-2000:]
    assert all(r.code == 200 for r in rights.requests_of(deletions()))
    assert deleted == len(deletions())
    assert all(longhorn_manners.is_managed(bed, event) for event in deletions())
    assert deleted <= 1 + DELETIONS_PER_SECOND * step.seconds
    return deleted


def being_deleted(bed):
    return sum("deletionTimestamp" in one["metadata"] for one in many_longhorn.listed(bed, "snapshots"))


def check_prune(bed, costs, person):
    assert try_prune(bed, costs, "prune, dry run", person) == GONE
    deleted = prune_and_stop(bed, costs, person)
    assert being_deleted(bed) == deleted
    assert try_prune(bed, costs, "prune, dry run again", person) == GONE - deleted
    for name in ("prune, dry run", "prune, stopped", "prune, dry run again"):
        step = costs.steps[name]
        assert step.count(PERSON, KIND, "list") <= PRUNE_LISTS
        assert step.count(PERSON, but=KIND) <= PRUNE_OTHER_LISTS
        assert step.count(PERSON, KIND) - step.count(PERSON, KIND, "list") == (deleted if name == "prune, stopped" else 0)
        assert 0 < step.program_bytes <= PRUNE_BYTES


def check_backup(bed, workspace, costs):
    """Of Longhorn's whole namespace: the Snapshots of others stay out."""
    with costs.step("backup without them"):
        backup = workspace.backup(bed, "--include-namespaces", longhorn.NAMESPACE, timeout_seconds=COMMAND_SECONDS)
    name = backup["metadata"]["name"]
    assert not bed.archived(name, "snapshots")
    assert len(bed.archived(name, "volumes")) == VOLUMES + 1


def check_restores(bed, workspace, costs, few, many):
    """Both restores make nothing; the large one costs our plugin next to nothing more."""
    for name, backup, count in (("restore of 1", few, 1), (f"restore of {SNAPSHOTS}", many, SNAPSHOTS + 1)):
        with costs.step(name):
            restore = bed.restore(workspace.name(f"restore-{count}"), "--from-backup", backup, timeout_seconds=COMMAND_SECONDS)
        bed.assert_clean("restore", restore)
        assert not many_longhorn.listed(bed, "snapshots")
        log = bed.velero("restore", "logs", restore["metadata"]["name"]).stdout
        told = [int(found) for found in re.findall(rf"{KIND}: (\d+) are left out by now", log)]
        assert told == [10 ** n for n in range(1, len(str(count)))], told
    small, large = (step for name, step in costs.steps.items() if name.startswith("restore of"))
    assert large.program_bytes - small.program_bytes <= GUARD_GROWTH_BYTES
    assert large.count(PLUGIN) <= small.count(PLUGIN)
    assert 0 < large.plugin_cpu_seconds <= promises.within(GUARD_SECONDS, f"leaving {SNAPSHOTS} Snapshots out of a restore")


@pytest.mark.journey
def test_thousands_of_snapshots_in_a_backup_a_prune_and_a_restore(bed, workspace, record_property):
    bed.configure_velero(FAST)
    with longhorn.running(bed), people.roles(bed, ROLES):
        longhorn.create_volume(bed, "template", attached=True)
        longhorn.take(bed, "template", "template")
        longhorn.stop_manager(bed)
        person = pruner(bed, workspace)
        costs = Costs(bed, {bed.plugin_user: PLUGIN, "velero-server": VELERO, person.user: PERSON})
        few = archive(bed, workspace, "few")
        fill(bed)
        with costs.step("backup with all"):
            many = archive(bed, workspace, "many")
        assert len(bed.archived(many, "snapshots")) == SNAPSHOTS + 1
        check_backup(bed, workspace, costs)
        check_prune(bed, costs, person)
        many_longhorn.delete_all(bed, "snapshots")
        check_restores(bed, workspace, costs, few, many)
    show(costs, record_property)


def show(costs, record_property):
    table = costs.table(KIND)
    record_property("costs", table)
    print(f"{VOLUMES} volumes, {SNAPSHOTS} Snapshots\n{table}")


def create_pvc(bed, app, name):
    """A PVC with a volume that is Longhorn's."""
    bed.api.create("persistentvolumes", {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{app}-{name}", "labels": {"of": app}},
        "spec": {"capacity": {"storage": "16Mi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
                 "csi": {"driver": "driver.longhorn.io", "volumeHandle": name}, "claimRef": {"namespace": app, "name": name}}})
    bed.api.create("persistentvolumeclaims", {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": app},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": f"{app}-{name}",
                 "resources": {"requests": {"storage": "16Mi"}}}})


@contextlib.contextmanager
def bound_pvcs(bed, app, names):
    """PVCs of these names are bound while the body runs; their PersistentVolumes go with them."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda name: create_pvc(bed, app, name), names))
    try:
        for name in names:
            bed.wait_bound(name, app)
        yield
    finally:
        bed.api.request("DELETE", cluster_api.path("persistentvolumes", labelSelector=f"of={app}"))


def engine_of(template, name):
    """The engine of a volume, which runs and has no snapshot."""
    engine = many_longhorn.copy_of(template, f"{name}-e-0")
    engine["metadata"]["labels"]["longhornvolume"] = engine["spec"]["volumeName"] = name
    engine["status"]["snapshots"] = {"volume-head": engine["status"]["snapshots"]["volume-head"] | {"parent": ""}}
    return engine


def attach_volumes(bed, names):
    """Volumes that are attached, and beside them Snapshots of others, which the manager does not know.

    All that the manager would write of them is there, but that they are attached: it does one thing after the other. The owner
    stays the template's, for the garbage collector deletes what has none.
    """
    attachment, volume, engine, snapshot = (many_longhorn.stored(bed, plural, name) for plural, name in (
        ("volumeattachments", "template"), ("volumes", "template"), ("engines", "template-e-0"), ("snapshots", "template")))
    volume["status"]["state"] = "detached"
    others = [many_longhorn.copy_of(volume, f"other-{number}") for number in range(VOLUMES)]
    many_longhorn.write(bed, "snapshots", snapshots_of(others, snapshot, owned=False))
    attachments = [many_longhorn.copy_of(attachment, name) for name in names]
    for one in attachments:
        one["spec"]["volume"] = one["metadata"]["name"]
    many_longhorn.write(bed, "engines", (engine_of(engine, name) for name in names), at_once=1)
    many_longhorn.write(bed, "volumeattachments", attachments, at_once=1)
    many_longhorn.write(bed, "volumes", (many_longhorn.copy_of(volume, name) for name in names), at_once=1)
    for name in names:
        bed.wait_for(lambda name=name: many_longhorn.volume_state(bed, name) == "attached", COMMAND_SECONDS, f"{name} attached")


def check_native(bed, step, backup):
    """Each volume has one, that is ready and in the archive; none costs more than it may."""
    made = many_longhorn.listed(bed, "snapshots", labelSelector="longhorn.csi-delta.io/made-by")
    assert len(made) == len({one["spec"]["volume"] for one in made}) == VOLUMES
    assert all(one["status"]["readyToUse"] for one in made)
    assert {one["metadata"]["uid"] for one in bed.archived(backup, "snapshots")} == {one["metadata"]["uid"] for one in made}
    assert step.count(PLUGIN, KIND, "create") == VOLUMES
    assert step.count(PLUGIN, KIND, "watch") <= ONCE
    assert step.count(PLUGIN, KIND, "list") <= ONCE + VOLUMES * NATIVE_LISTS_EACH
    assert step.count(PLUGIN, but=KIND) <= ONCE + VOLUMES * NATIVE_OTHERS_EACH


@pytest.mark.journey
def test_native_snapshots_of_many_volumes(bed, workspace, record_property):
    app, names = workspace.namespace(bed), [f"pvc-{number:04}" for number in range(VOLUMES)]
    # Only where one worker would take too long: with several, Velero sometimes ends with "concurrent map writes".
    bed.configure_velero([*FAST, f"--item-block-worker-count={WORKERS if promises.QUIET else 1}"])
    with longhorn.running(bed):
        longhorn.grant(bed)
        longhorn.create_volume(bed, "template", attached=True)
        longhorn.take(bed, "template", "template")
        attach_volumes(bed, names)
        costs = Costs(bed, {bed.plugin_user: PLUGIN, "velero-server": VELERO})
        with bound_pvcs(bed, app, names), costs.step("native backup") as step:
            backup = workspace.backup(bed, *workspace.by_policy(bed, app, "longhorn"), timeout_seconds=COMMAND_SECONDS)
        check_native(bed, step, backup["metadata"]["name"])
    show(costs, record_property)
