"""csi-delta try: a namespace is backed up twice, restored into a scratch namespace and compared, and nothing of it is left."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

import components
import mover
from moving import (CHUNK_BYTES, GONE_SECONDS_MAX, HELD, MIB, MOVED_SECONDS_MAX, PHASE_SECONDS_MAX, await_nothing_left, phase, undone,
                    write_chunks)

VOLUME_BYTES = 16 * MIB
CHANGED_CHUNKS = (3, 17)
LABEL = "mover.csi-delta.io/try"
INTERRUPTED, BUSY = 130, 11
TRIAL_SECONDS_MAX = 3 * MOVED_SECONDS_MAX  # Two backups and a restore.

pytestmark = pytest.mark.moves


@pytest.fixture(autouse=True)
def with_csi(bed):
    """Velero's Deployment as it is where CSI is enabled: the bed's own stands for a server that is a process."""
    found = bed.api.get("deployments", "velero", bed.namespace)
    container = found["spec"]["template"]["spec"]["containers"][0]
    before = container.get("args", [])
    set_arguments(bed, [*before, "--features=EnableCSI"])
    yield
    set_arguments(bed, before)


def set_arguments(bed, arguments):
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": arguments}]
    bed.kubectl("patch", "deployment", "velero", "--namespace", bed.namespace, "--type", "json", "--patch", json.dumps(patch))


def make_app(bed, workspace):
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    workspace.expect_namespace(bed, f"{app}-try")
    return app


def begin(bed, app, *flags):
    """Starts csi-delta try."""
    command = [components.program_path(), "try", app, "--velero-namespace", bed.namespace, "--json", *flags]
    return subprocess.Popen(bed.inside(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **bed.environment()})


@contextlib.contextmanager
def first_upload_held(bed, app):
    """csi-delta try, whose first DataUpload is InProgress and stays so for the body: its VolumeSnapshot has been taken."""
    def uploads():
        return [u["metadata"]["name"] for u in bed.api.list("datauploads", bed.namespace) if u["spec"]["sourceNamespace"] == app]
    with bed.driver.faults(HELD):
        program = begin(bed, app)
        try:
            bed.wait_for(lambda: any(phase(bed, name) == "InProgress" for name in uploads()), PHASE_SECONDS_MAX,
                         lambda: f"an upload of {app} to run: {uploads()} {program.poll()} {mover.tell(bed)}")
            yield program
        except BaseException:
            program.kill()
            raise


def end(program):
    """Exit code and what it printed."""
    said, complaints = program.communicate(timeout=TRIAL_SECONDS_MAX)
    return program.returncode, said, complaints


def made(bed, app):
    """What a run has made, and has not removed."""
    labelled = [f"{plural} {thing['metadata']['name']}" for plural in ("backups", "restores")
                for thing in bed.api.list(plural, bed.namespace, labelSelector=f"{LABEL}={app}")]
    scratch = bed.api.get("namespaces", f"{app}-try")
    volumes = [v["metadata"]["name"] for v in bed.api.list("persistentvolumes")
               if (v["spec"].get("claimRef") or {}).get("namespace") == f"{app}-try"]
    return [*labelled, *(["scratch namespace"] if scratch else []), *volumes]


def check_nothing_is_left(bed, app):
    bed.wait_for(lambda: not made(bed, app), GONE_SECONDS_MAX, lambda: f"nothing left: {made(bed, app)}")
    bed.wait_for(lambda: not undone(bed), MOVED_SECONDS_MAX, lambda: f"the deletion: {undone(bed)}")
    await_nothing_left(bed)


def test_the_second_backup_reads_what_changed_and_is_restored(bed, workspace):
    app = make_app(bed, workspace)
    with first_upload_held(bed, app) as program:
        write_chunks(bed, app, CHANGED_CHUNKS, 2)
    code, said, complaints = end(program)
    assert code == 0, said + complaints
    *progress, result = map(json.loads, said.splitlines())
    assert any(line["stage"].startswith(f"backing up {app} (1 of 2)") for line in progress), progress
    (first,), (second,) = (backup["volumes"] for backup in result["backups"])
    assert result["ok"] and result["incremental"] and result["removed"], result
    assert result["volumes"] == [{"pvc": "data", "restored": True, "error": ""}]
    assert first["mode"] == "full" and first["read_bytes"] > second["read_bytes"] and second["mode"] == "incremental"
    assert 0 < second["changed_bytes"] <= 1.1 * len(CHANGED_CHUNKS) * CHUNK_BYTES, second
    assert second["read_bytes"] <= 1.1 * second["changed_bytes"], second
    check_nothing_is_left(bed, app)


def test_a_run_that_is_interrupted_or_killed_is_cleaned_up(bed, workspace):
    app = make_app(bed, workspace)
    with first_upload_held(bed, app) as program:
        program.send_signal(signal.SIGINT)
        code, said, complaints = end(program)
    assert code == INTERRUPTED, said + complaints
    check_nothing_is_left(bed, app)

    with first_upload_held(bed, app) as program:
        program.kill()
        end(program)
        busy = begin(bed, app)
        code, said, complaints = end(busy)
        assert code == BUSY and "--clean-up" in complaints, (code, said, complaints)
        code, said, complaints = end(begin(bed, app, "--clean-up"))
    assert code == 0, said + complaints
    check_nothing_is_left(bed, app)
