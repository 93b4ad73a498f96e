"""Words of the tests that move volumes: a backup begun or made, its DataUpload and worker, what is restored of it."""

import contextlib
import datetime
import json
import pathlib
import shutil
import time

import bed as bed_module
import cgroups
import chance
import components
import data
import images
import mover
import objects
import processes
from bed import ENDED
from promises import within

MIB, GIB = 1 << 20, 1 << 30
CHUNK_BYTES = 512 << 10
MOVING_BYTES = 8 * MIB  # The claim of the fixture moving_app.
CLAIMS = "persistentvolumeclaims,persistentvolumes"
MOVE = ("--snapshot-move-data", "--data-mover", mover.NAME)
CANCELING_SECONDS_MAX, CANCELED_SECONDS_MAX, CANCELED_GONE_SECONDS_MAX = 2, 10, 30  # What is promised.
# What is not promised may take its time on a machine that is busy.
PHASE_SECONDS_MAX, GONE_SECONDS_MAX, MOVED_SECONDS_MAX = 120, 90, 300
SWEEPS = chance.EVERYTHING
AWAY_SECONDS = 60 if SWEEPS else 0  # How long a component is down that is down for long.
HELD = {"method": "GetMetadataAllocated", "hold": True}  # A worker that runs and gets no answer.
HELD_WITH_BASE = {"method": "GetMetadataDelta", "hold": True}  # The same of a volume that was moved before.
UPLOADS, DELETIONS = (" du-",), (" dx-",)
TRANSFERS = (" du-", " dd-")  # Deletions take their own time: they wait for the locks of workers that were killed.


def begin(bed, workspace, app, stem="moved", *flags):
    """Starts a backup and returns its name and its DataUpload, as soon as there is one."""
    name = workspace.name(stem)
    workspace.expect_backup(bed, name)
    bed.velero("backup", "create", name, "--include-namespaces", app, *MOVE, *flags)
    bed.wait_for(lambda: mover.uploads_of(bed, name), PHASE_SECONDS_MAX, f"the DataUpload of {name}")
    return name, mover.upload_of(bed, name)["metadata"]["name"]


def back_up(bed, workspace, app, stem, *flags):
    """A whole backup of a namespace with one volume; returns its name and the DataUpload."""
    backup = workspace.backup(bed, "--include-namespaces", app, *(flags or MOVE), stem=stem, expect=None,
                              timeout_seconds=MOVED_SECONDS_MAX)
    upload = mover.upload_of(bed, backup["metadata"]["name"])
    assert upload["status"]["phase"] == "Completed", upload["status"]
    assert backup["status"]["phase"] == "Completed", backup["status"]
    assert not upload["status"].get("node") and not upload["metadata"].get("finalizers")
    return backup["metadata"]["name"], upload


def annotation(upload, name):
    """What the mover says of an upload; "" for nothing."""
    return upload["metadata"].get("annotations", {}).get(f"mover.csi-delta.io/{name}", "")


def figure(upload, name):
    return int(annotation(upload, name))


def instant(upload, name):
    """A time that the mover notes, in seconds of the machine's clock."""
    return datetime.datetime.fromisoformat(annotation(upload, name).replace("Z", "+00:00")).timestamp()


def mode(upload):
    return annotation(upload, "mode")


def reason(upload):
    """Why it was a full one."""
    return annotation(upload, "reason").split(":")[0]


def upload(bed, name):
    return bed.api.get("datauploads", name, bed.namespace)


def phase(bed, name):
    return upload(bed, name).get("status", {}).get("phase", "New")


def await_phase(bed, name, *phases, seconds=PHASE_SECONDS_MAX):
    bed.wait_for(lambda: phase(bed, name) in phases, seconds,
                 lambda: f"{phases}: {json.dumps(upload(bed, name))}\n{mover.tell(bed)}")


def await_completed(bed, backup):
    """A backup that ended otherwise fails the test with what Velero and the mover say of it."""
    status = bed.wait_phase("backups", backup, ENDED)["status"]
    if status["phase"] != "Completed":
        raise AssertionError("\n".join([f"{backup}: {status}", *bed.error_lines(backup), *(
            f"{u['metadata']['name']}: {u['status']}" for u in mover.uploads_of(bed, backup))]))


def outlast_absence(bed, name):
    """Lets the time pass in which a component is down, while a DataUpload goes on."""
    ends = time.monotonic() + AWAY_SECONDS

    def over():
        assert phase(bed, name) == "InProgress", upload(bed, name)["status"]
        return time.monotonic() >= ends
    bed.wait_for(over, AWAY_SECONDS + PHASE_SECONDS_MAX, "the end of an absence")


def cancel(bed, name, plural="datauploads"):
    bed.api.patch(plural, name, {"spec": {"cancel": True}}, bed.namespace)


def check_canceled(bed, name, plural="datauploads"):
    """What was asked to stop a moment ago stops; in time, where time is looked at."""
    def status():
        return bed.api.get(plural, name, bed.namespace)["status"]
    for phases, seconds in ((("Canceling", "Canceled"), within(CANCELING_SECONDS_MAX, "a move that is called off is Canceling")),
                            (("Canceled",), within(CANCELED_SECONDS_MAX, "a move that is called off is Canceled"))):
        bed.wait_for(lambda phases=phases: status().get("phase") in phases, seconds,
                     lambda phases=phases: f"{phases}: {status()}\n{mover.tell(bed)}")
    assert status()["completionTimestamp"] and status()["message"]
    assert not bed.api.get(plural, name, bed.namespace)["metadata"].get("finalizers")


@contextlib.contextmanager
def held_in_progress(bed, workspace, app, *flags):
    """A DataUpload that is InProgress, and stays so for the body; yields names of backup and DataUpload."""
    with bed.driver.faults(HELD, HELD_WITH_BASE):
        backup, name = begin(bed, workspace, app, "held", *flags)
        await_phase(bed, name, "InProgress")
        yield backup, name


def begin_restore(bed, workspace, backup, app, stem):
    """Starts a restore beside the volume; returns its name, its namespace, and its DataDownload once there is one."""
    name, target = workspace.name(f"r-{stem}"), workspace.name(f"to-{stem}")
    workspace.expect_namespace(bed, target)
    bed.velero("restore", "create", name, "--from-backup", backup, "--include-resources", CLAIMS,
               "--namespace-mappings", f"{app}:{target}")
    made = bed.wait_for(lambda: download_of(bed, name), PHASE_SECONDS_MAX, f"the DataDownload of {name}")
    return name, target, made["metadata"]["name"]


def download_of(bed, restore):
    """The one DataDownload of a restore; None while none exists."""
    found = bed.api.list("datadownloads", bed.namespace, labelSelector=f"velero.io/restore-name={restore}")
    return found[0] if found else None


def worker(bed, name):
    """The Pod of a DataUpload; None while none exists."""
    return bed.api.get("pods", f"du-{upload(bed, name)['metadata']['uid']}", mover.NAMESPACE)


def workers(bed):
    """The processes in the Pods of workers, of which there are some."""
    found = running(bed, "worker")
    assert found, "no worker runs"
    return found


def controllers(bed):
    """The processes in the Pods of the controller, of which there are some."""
    found = running(bed, "datamover")
    assert found, "no controller runs"
    return found


def running(bed, word):
    """Processes of csi-delta in the bed's Pods whose command line has the word."""
    found = []
    for pid in cgroups.pids(bed.name):
        with contextlib.suppress(OSError):
            if word in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                found.append(processes.ProcessId.of(pid))
    return [process for process in found if process]  # One may have ended since.


@contextlib.contextmanager
def share_manager(bed):
    """The driver makes a file share of a volume for several writers, whose device is on another node alone, as Longhorn does."""
    bed.configure_driver("--share-manager", "elsewhere")
    try:
        yield
    finally:
        bed.configure_driver()


def write_chunks(bed, app, chunks, seed):
    """Changes 1,000 bytes in each of these chunks of the claim `data`."""
    for chunk in chunks:
        data.fill(bed.volume_path("data", app), seed + chunk, 1000, chunk * CHUNK_BYTES + 5000)


def restore_beside(bed, workspace, app, backup, stem, resources=CLAIMS):
    """Restores a backup's volume `data` into a namespace of its own, and returns that."""
    target, _ = workspace.copy(bed, backup, app, "--include-resources", resources, stem=stem, timeout_seconds=MOVED_SECONDS_MAX)
    bed.wait_bound("data", target)
    return target


def restored_checksum(bed, workspace, app, backup, stem):
    """The checksum of a backup's volume `data`, restored beside the others."""
    target = restore_beside(bed, workspace, app, backup, stem)
    return data.checksum(bed.volume_path("data", target))


def busybox(name, app, script):
    """A Pod that runs a script with the claim `data` at /data."""
    return objects.pod(name, app, images.BUSYBOX, images.shell(script), folders={"data": "/data"})


def with_hooks(pod, **scripts):
    """A Pod whose hooks run these scripts, by their moment; they may write to /tmp."""
    pod["metadata"]["annotations"] = {
        f"{moment}.hook.backup.velero.io/{key}": value for moment, script in scripts.items()
        for key, value in (("command", json.dumps(images.shell(script))), ("container", "main"), ("on-error", "Fail"),
                           ("timeout", "30s"))}
    pod["spec"]["volumes"].append({"name": "scratch", "emptyDir": {}})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "scratch", "mountPath": "/tmp"})
    return pod


def noted(bed, app, pod, name):
    """The time since the machine's start that a hook noted in /tmp, as the machine's clock has it."""
    told = bed.kubectl("exec", "-n", app, pod, "--", *images.shell(f"cat /tmp/{name}")).stdout
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + float(told.split()[0])


def run_busybox(bed, name, app, script):
    """What such a Pod says, which must end well."""
    phase, told = bed.node.run_pod(busybox(name, app, script))
    assert phase == "Succeeded", told
    return told


def repository_of(bed, upload):
    """The repository of an upload, in the bucket's folder."""
    parts = upload["status"]["snapshotID"].split("/")
    return bed.s3_dir.joinpath(objects.BUCKET, "plugins", "csi-delta", *parts[2:5])


def stored_bytes(repository):
    return sum(pack.stat().st_size for pack in (repository / "data").glob("*/*"))


def restic(bed, repository, *arguments):
    """What stock restic says of a repository in the bucket, with the operator's key."""
    key, = mover.keyring(bed).values()
    return bed.run(["/usr/bin/env", f"RESTIC_PASSWORD={key}", f"RESTIC_CACHE_DIR={bed.scratch}/restic",
                    "/usr/bin/restic", "--no-lock", "-r", repository, *arguments]).stdout


def check_repository(bed, upload):
    """Stock restic reads all data of an upload's repository and finds no fault."""
    restic(bed, repository_of(bed, upload), "check", "--read-data")


def check_increment(upload, chunks):
    """What was read is what changed, in so many chunks; and the list of it was not taken on trust."""
    assert mode(upload) == "incremental", upload["metadata"]["annotations"]
    assert figure(upload, "read-bytes") <= 1.1 * chunks * CHUNK_BYTES
    assert figure(upload, "audit-bytes") > 0


def restored_from_bucket(bed, upload, ring, target):
    """The checksum of what our own program restores with exported keys alone of what a DataUpload stored. `target`: a file
    that is not below /dev, where the program writes to devices alone."""
    snapshot = upload["status"]["snapshotID"].split("/")[5]
    bed.run([components.program_path(), "restore", snapshot, "--no-lock", "--keyring-file", ring,
             "--repo", repository_of(bed, upload), "--target", target])
    return data.checksum(target)


def mover_key(bed, *words):
    """What csi-delta mover-key prints of the default location."""
    return bed.run([components.program_path(), "mover-key", *words, "--mover-namespace", mover.NAMESPACE,
                    "--velero-namespace", bed.namespace, "--location", "default"]).stdout


def exported_keys(bed, ring):
    """Writes the keyring of the default location to a file."""
    ring.write_text(mover_key(bed, "export"))
    return ring


def snapshot_ids(bed, repository, ring):
    """The ids in a repository, as our own program lists them with exported keys alone."""
    told = bed.run([components.program_path(), "snapshots", "--json", "--no-lock", "--keyring-file", ring,
                    "--repo", repository]).stdout
    return {snapshot["id"] for snapshot in json.loads(told)}


def stored_groups(bed, ring, *names):
    """The volume groups in the default location's bucket, as our own program finds them with exported keys alone."""
    location = bed.api.get("backupstoragelocations", "default", bed.namespace)["spec"]
    folder = f"s3:{location['config']['s3Url']}/{location['objectStorage']['bucket']}/plugins/csi-delta"
    done = bed.run(["/usr/bin/env", f"AWS_ACCESS_KEY_ID={objects.ACCESS_KEY}", f"AWS_SECRET_ACCESS_KEY={objects.SECRET_KEY}",
                    components.program_path(), "snapshots", "--group", *names, "--json", "--keyring-file", ring, "--repo", folder],
                   check=False)
    assert done.returncode in (0, 3), done.stderr  # Other tests may have left a repository that does not open.
    return json.loads(done.stdout)


def counted(bed):
    """How much there is of all that a move makes, in cluster, driver and kernel: compare before and after.

    Bases are left out, with their snapshots: one of a claim that is gone may go at any time. So are deletions of data:
    they wait for the locks of workers that were killed.
    """
    counts = {plural: len([o for o in bed.api.list(plural) if not o["metadata"]["name"].startswith("dx-")])
              for plural in ("persistentvolumes", "volumesnapshots", "persistentvolumeclaims", "pods", "secrets", "volumetasks")}
    counts["volumesnapshotcontents"] = len([content for content in bed.api.list("volumesnapshotcontents")
                                            if not mover.is_base(content)])
    counts["driver volumes"] = len(bed.driver.volumes())
    counts["driver snapshots"] = len(snapshots_but_bases(bed))
    counts["loop devices"] = len(processes.loops_below(bed.state))
    return counts


def snapshots_but_bases(bed):
    """The driver's snapshots that no base stands for. A base that goes takes its snapshot with it first."""
    handles = {base.get("status", {}).get("snapshotHandle") for base in mover.bases(bed)}
    return set(bed.driver.snapshots()) - handles


def await_base(bed, app):
    """Waits until there is one base, and no other, for the one claim of a namespace; returns it."""
    base, = bed.wait_for(lambda: found if len(found := mover.bases(bed, app)) == 1 else None, GONE_SECONDS_MAX,
                         lambda: f"one base: {mover.bases(bed, app)}")
    return base


def await_counted(bed, before):
    """Waits until there is no more than before; what others left may have gone meanwhile."""
    def more():
        return {kind: (before[kind], count) for kind, count in counted(bed).items() if count > before[kind]}
    bed.wait_gone(lambda: not more(), GONE_SECONDS_MAX, lambda: f"no more than before: {more()}")


def undone(bed):
    """The deletions of data that are not done."""
    return [(d["spec"], d.get("status")) for d in bed.api.list("datadeletions", bed.namespace)
            if d.get("status", {}).get("phase") != "Completed"]


def left(bed, kinds=TRANSFERS):
    """What there is of single uploads (du), downloads (dd) or deletions (dx)."""
    return [thing for thing in mover.left_behind(bed) if any(kind in thing for kind in kinds)]


def await_nothing_left(bed, kinds=TRANSFERS, seconds=GONE_SECONDS_MAX):
    """Waits until nothing is there of single moves: their end asks for that, kubelet and API server take their time."""
    bed.wait_gone(lambda: not left(bed, kinds), seconds, lambda: f"nothing left: {left(bed, kinds)}")


def forget_moved(bed, namespace):
    """Deletes what the claims of a namespace that is gone, or goes, brought into the bucket, and their bases."""
    for repository in mover.repositories(bed):
        if repository.parent.name == namespace:
            shutil.rmtree(repository.parent, ignore_errors=True)
    if bed.node:
        bases = mover.bases(bed, namespace)
        for base in bases:
            bed.api.delete("volumesnapshotcontents", base["metadata"]["name"])
        bed.remove_snapshots({h for base in bases for h in bed_module.handles_of(base)})


def forget_deletions(bed):
    """Ends what earlier tests asked to be deleted: it may wait for the locks of workers that they killed."""
    for deletion in bed.api.list("datadeletions", bed.namespace):
        bed.api.delete("datadeletions", deletion["metadata"]["name"], bed.namespace)
    await_nothing_left(bed, DELETIONS)
    for repository in mover.repositories(bed):
        for lock in (repository / "locks").glob("*"):
            lock.unlink(missing_ok=True)
