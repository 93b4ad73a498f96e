"""A move that is called off, by any client and at any stage: it stops within seconds, and all of it goes."""

import signal

import pytest

import data
import mover
from bed import ENDED
from moving import (CANCELING_SECONDS_MAX, MIB, MOVED_SECONDS_MAX, PHASE_SECONDS_MAX, await_completed, await_counted,
                    await_nothing_left, await_phase, back_up, begin_restore, cancel, check_canceled, controllers,
                    counted, held_in_progress, phase, restored_checksum, upload, workers)
from promises import within

VOLUME_BYTES = 8 * MIB
VOLUME_ANNOTATION = "mover.csi-delta.io/volume"  # Of a DataDownload whose volume is filled and being given away.

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("needs injected faults")]


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
    assert bed.wait_phase("backups", backup, ENDED)["status"]["phase"] == "PartiallyFailed"


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


@pytest.fixture
def download(bed, workspace):
    """A DataDownload that has just begun. Afterwards there is as much of everything as before."""
    app, _ = workspace.volume(bed, VOLUME_BYTES, stem="saved", labels=mover.RESTRICTED)
    backup, _ = back_up(bed, workspace, app, "saved")
    await_nothing_left(bed)
    before = counted(bed)
    restore, target, name = begin_restore(bed, workspace, backup, app, "given")
    yield name
    bed.driver.clear_faults()
    bed.wait_phase("restores", restore, ENDED)
    bed.delete_namespace(target, empty_is_enough=True)
    await_nothing_left(bed)
    await_counted(bed, before)


def test_a_download_that_is_rebound(bed, download):
    """Volumes are not bound for a while: what is half given is taken back."""
    def await_download(found, what):
        def made():
            return bed.api.get("datadownloads", download, bed.namespace)
        bed.wait_for(lambda: found(made()), MOVED_SECONDS_MAX, lambda: f"{what}: {made()}\n{mover.tell(bed)}")
    with bed.paused("s3"):
        await_download(lambda d: d.get("status", {}).get("phase") == "InProgress", "in progress")
        bed.stop("kube-controller-manager", kill=True)
    await_download(lambda d: VOLUME_ANNOTATION in d["metadata"].get("annotations", {}), "passed on")
    cancel(bed, download, "datadownloads")
    check_canceled(bed, download, "datadownloads")
    bed.start("kube-controller-manager")
