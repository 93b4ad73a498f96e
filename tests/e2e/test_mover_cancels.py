"""A move that is called off, by any client and at any stage: it stops within seconds, and all of it goes."""

import signal

import pytest

import data
import metadata
import mover
from bed import ENDED
from moving import (CANCELING_SECONDS_MAX, MIB, MOVED_SECONDS_MAX, PHASE_SECONDS_MAX, await_completed, await_counted,
                    await_nothing_left, await_phase, back_up, begin_restore, cancel, check_canceled, controllers,
                    counted, held_in_progress, phase, restored_checksum, upload, workers)
from promises import within

VOLUME_BYTES = 8 * MIB
VOLUME_ANNOTATION = "mover.csi-delta.io/volume"  # Of a DataDownload whose volume is filled and being given away.

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("needs injected faults")]


def check_partial(bed, backup):
    assert bed.wait_phase("backups", backup, ENDED)["status"]["phase"] == "PartiallyFailed"


def test_an_upload_whose_worker_hangs_while_the_controller_dies(bed, workspace, moving_app):
    """Called off twice, and the second controller finds the first one's Canceling."""
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        for process in workers(bed):
            process.signal(signal.SIGSTOP)
        cancel(bed, name)
        await_phase(bed, name, "Canceling", seconds=within(CANCELING_SECONDS_MAX, "a move that is called off is Canceling"))
        for process in controllers(bed):
            process.signal(signal.SIGKILL)
        cancel(bed, name)
        await_phase(bed, name, "Canceled", seconds=mover.READY_SECONDS_MAX)
        check_canceled(bed, name)
    check_partial(bed, backup)


def test_an_upload_whose_backup_is_deleted(bed, workspace, moving_app):
    """Velero refuses while it knows that the backup runs, which a Velero that restarted does not."""
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        bed.wait_phase("backups", backup, ("WaitingForPluginOperations",))
        bed.velero("backup", "delete", backup, "--confirm")
        bed.wait_for(lambda: any("in progress" in "".join(d.get("status", {}).get("errors", []))
                                 for d in bed.api.list("deletebackuprequests", bed.namespace)), PHASE_SECONDS_MAX,
                     "Velero's refusal")
        assert phase(bed, name) == "InProgress"
        bed.restart("velero", kill=True)
        bed.delete_backup(backup)
        bed.wait_for(lambda: upload(bed, name) is None, PHASE_SECONDS_MAX, "end of the DataUpload")
        await_nothing_left(bed, (" du-",))


def test_an_upload_whose_namespace_is_deleted_goes_on(bed, workspace, moving_app):
    written = data.checksum(bed.volume_path("data", moving_app))
    with held_in_progress(bed, workspace, moving_app) as (backup, name):
        bed.wait_phase("backups", backup, ("WaitingForPluginOperations",))
        bed.delete_namespace(moving_app)
        bed.driver.clear_faults()
        await_completed(bed, backup)
    assert phase(bed, name) == "Completed"
    data.same(restored_checksum(bed, workspace, moving_app, backup, "gone"), written)


class Saved:
    """A backup that restores are made of."""

    def __init__(self, bed, workspace):
        self.app, _ = workspace.volume(bed, VOLUME_BYTES, stem="saved", labels=mover.RESTRICTED)
        self.backup, _ = back_up(bed, workspace, self.app, "saved")
        await_nothing_left(bed)


@pytest.fixture(scope="module")
def saved(beds, shared_workspace):
    bed = beds.get(node=True)
    metadata.serve(bed)
    mover.serve(bed)
    return Saved(bed, shared_workspace)


@pytest.fixture
def restore(bed, workspace, saved):
    """Begins a restore, as often as it is called. Afterwards there is as much of everything as before."""
    before = counted(bed)
    made = []

    def start(stem):
        made.append(begin_restore(bed, workspace, saved.backup, saved.app, stem))
        return made[-1]
    yield start
    bed.driver.clear_faults()
    for name, target, _ in made:
        bed.wait_phase("restores", name, ENDED)
        bed.delete_namespace(target, empty_is_enough=True)
    await_nothing_left(bed)
    await_counted(bed, before)


def check_canceled_download(bed, name):
    cancel(bed, name, "datadownloads")
    check_canceled(bed, name, "datadownloads")


def await_download_phase(bed, name, phase):
    await_download(bed, name, lambda d: d.get("status", {}).get("phase") == phase, phase)


def await_download(bed, name, found, what):
    def status():
        return bed.api.get("datadownloads", name, bed.namespace)
    bed.wait_for(lambda: found(status()), MOVED_SECONDS_MAX, lambda: f"{what}: {status()}\n{mover.tell(bed)}")


def test_a_download_that_is_rebound(bed, restore):
    """Volumes are not bound for a while: what is half given is taken back."""
    _, _, name = restore("given")
    with bed.paused("s3"):
        await_download_phase(bed, name, "InProgress")
        bed.stop("kube-controller-manager", kill=True)
    await_download(bed, name, lambda d: VOLUME_ANNOTATION in d["metadata"].get("annotations", {}), "passed on")
    check_canceled_download(bed, name)
    bed.start("kube-controller-manager")
