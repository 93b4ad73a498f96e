"""A person who logs in by a program: tokens that end while `csi-delta snapshot create` waits."""

import contextlib
import subprocess
import time

import pytest

import components
import login
import objects
import people

MIB = 1 << 20
TOKEN_SECONDS = 10
WAIT_SECONDS = 60
USER_ROLE, VIEWER_ROLE = "csi-delta-snapshot-user", "csi-delta-snapshot-viewer"


def _start(bed, config, programs, *words):
    """`kubectl csi-delta snapshot WORDS` with that kubeconfig, alongside."""
    path = bed.environment()["PATH"]
    return subprocess.Popen(
        bed.inside(["/usr/bin/env", f"KUBECONFIG={config}", f"PATH={programs}:{path}", f"HOME={bed.scratch}/home",
                    bed.program("kube", "kubectl"), "csi-delta", "snapshot", *words]),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.own_driver("needs a snapshot that is taken late")
def test_a_token_that_ends_during_the_wait_is_renewed(bed, workspace, tmp_path):
    app = workspace.namespace(bed)
    bed.create_claims(["told", "untold"], app, MIB)
    (tmp_path / "kubectl-csi_delta").symlink_to(components.program_path())
    with people.roles(bed), contextlib.ExitStack() as running:
        person = people.Person(bed, workspace.name("alice"), app, [(app, USER_ROLE), (app, VIEWER_ROLE)])
        start = bed.audit_position()
        folders = {pvc: tmp_path / f"login-{pvc}" for pvc in ("told", "untold")}
        configs = {pvc: login.prepare(folder, bed, person.name, app, seconds=TOKEN_SECONDS, tells_end=pvc == "told")
                   for pvc, folder in folders.items()}
        began = time.monotonic()
        with bed.driver.faults({"method": "CreateSnapshot", "hold": True}):
            runs = {pvc: running.enter_context(_start(
                bed, config, tmp_path, "create", pvc, "--name", pvc, "--wait", "ready", "--timeout", f"{WAIT_SECONDS}s",
                "--class", objects.SNAPSHOT_CLASS, "-n", app)) for pvc, config in configs.items()}
            bed.driver.await_calls("CreateSnapshot", held=2)
            bed.wait_for(lambda: all(len(login.calls(folder)) > 2 for folder in folders.values()), WAIT_SECONDS,
                         lambda: f"each program to log in three times: {[login.calls(f) for f in folders.values()]}")
        for pvc, run in runs.items():
            out, error = run.communicate(timeout=WAIT_SECONDS)
            assert run.returncode == 0 and f"{pvc} " in out and "Ready" in out, (pvc, out, error)
        print(f"waited for {time.monotonic() - began:.0f} s with tokens of {TOKEN_SECONDS} s")
    for pvc, folder in folders.items():
        gaps = [later - earlier for earlier, later in zip(login.calls(folder), login.calls(folder)[1:])]
        assert min(gaps) > TOKEN_SECONDS - 1, f"{pvc}: asked again before the token had ended: {gaps}"
    refused = [event for event in bed.audit_events(since=start) if event["responseStatus"]["code"] == 401]
    assert refused, "where the program does not tell when a token ends, the API server does"
    people.run(bed, app, "delete", "told", "untold", "--last-too", "--wait")
