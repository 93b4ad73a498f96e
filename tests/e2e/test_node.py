"""The node of the bed runs Pods with volumes as a node of a default cluster does, and goes away without a trace."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

import cluster_api
import data
import images
import objects
import processes
from promises import within

MIB = 1 << 20
HERE = pathlib.Path(__file__).resolve().parent
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
DEVICE = "/dev/data"
WAIT_FOREVER = "echo waits; sleep infinity"
WRITE_DEVICE = f"dd if=/dev/urandom of={DEVICE} bs=1M count=8 conv=fsync 2>/dev/null; sha256sum {DEVICE}"

# A run that makes a bed whose node runs a Pod with a device, and then is killed.
KILLED_RUN = """
import pathlib, sys, time
import bed, images, objects, processes
processes.RECORDS = pathlib.Path(sys.argv[1])
b = bed.Bed.up(bed.Settings(node=True))
b.create_namespace("app")
b.create_claim("data", "app", 1 << 20)
b.node.start_pod(objects.pod("holder", "app", images.BUSYBOX, images.shell("sleep infinity"),
                               devices={"data": "/dev/data"}))
print(b.name, b.state, flush=True)
time.sleep(3600)
"""


def pod(name, namespace, script, **kwargs):
    return objects.pod(name, namespace, images.BUSYBOX, images.shell(script), **kwargs)


def check_pod_leaves_traces(traces):
    """A Pod with a device has cgroups, processes, and two loop devices: the driver's, and the kubelet's on it.

    A bed with groups has one more, of the file system that its volumes are in.
    """
    kinds = [trace.split()[0] for trace in traces]
    assert "cgroup" in kinds and "process" in kinds and kinds.count("loop") >= 2, traces


@pytest.mark.bed
def test_node_is_ready_within_a_minute(node_bed):
    assert node_bed.up_seconds < within(60, "a bed with a node is up")
    assert node_bed.dead() == []


@pytest.mark.bed
def test_a_device_written_by_one_pod_is_read_by_another_from_its_snapshot(node_bed, workspace):
    bed = node_bed
    app = workspace.namespace(bed, labels=RESTRICTED)
    bed.create_claim("data", app, 8 * MIB)
    phase, written = bed.node.run_pod(pod("writer", app, WRITE_DEVICE, devices={"data": DEVICE}))
    assert phase == "Succeeded", written
    data.expect(bed.volume_path("data", app), written.split()[0])

    bed.create_snapshot("snap", app, "data")
    bed.create_claim("copy", app, 8 * MIB, snapshot="snap")
    phase, read = bed.node.run_pod(pod("reader", app, f"sha256sum {DEVICE}", devices={"copy": DEVICE}))
    assert (phase, read) == ("Succeeded", written)


@pytest.mark.bed
def test_a_device_that_is_roots_alone_is_refused_to_the_pod(node_bed, workspace):
    bed = node_bed
    app = workspace.namespace(bed, labels=RESTRICTED)
    bed.create_claim("data", app, MIB)
    with bed.node.loops_of_root():
        phase, told = bed.node.run_pod(pod("reader", app, f"ls -ln {DEVICE}; dd if={DEVICE} count=1 2>&1",
                                           devices={"data": DEVICE}))
    assert phase == "Failed"
    assert told.startswith("brw-------") and "Permission denied" in told


@pytest.mark.bed
def test_a_device_is_for_the_group_of_disks(node_bed, workspace):
    bed = node_bed
    app = workspace.namespace(bed, labels=RESTRICTED)
    bed.create_claim("data", app, MIB)
    phase, told = bed.node.run_pod(pod("stranger", app, f"dd if={DEVICE} count=1 2>&1",
                                       devices={"data": DEVICE}, groups=()))
    assert phase == "Failed" and "Permission denied" in told


@pytest.mark.bed
def test_a_file_of_the_kubelets_is_on_the_device_of_its_folder(node_bed):
    """Else drivers take it for a mount point, and mount nothing there."""
    folder = "/var/lib/kubelet/plugins"
    told = node_bed.node.run(["sh", "-c", f"f=$(mktemp -p {folder}); stat -c %d {folder} $f; rm $f"]).stdout.split()
    assert len(told) == 2 and len(set(told)) == 1, told


@pytest.mark.bed
def test_logs_and_exec_reach_a_running_pod(node_bed, workspace):
    bed = node_bed
    app = workspace.namespace(bed, labels=RESTRICTED)
    bed.node.start_pod(pod("runs", app, WAIT_FOREVER))
    bed.wait_for(lambda: bed.kubectl("logs", "-n", app, "runs").stdout == "waits\n", 60, "the Pod's first line")
    told = bed.kubectl("exec", "-n", app, "runs", "--", "/bin/busybox", "id", "-u").stdout
    assert told == f"{objects.POD_USER}\n"


@pytest.mark.bed
def test_a_restricted_namespace_refuses_a_pod_of_root(node_bed, workspace):
    bed = node_bed
    app = workspace.namespace(bed, labels=RESTRICTED)
    refused = pod("root", app, WAIT_FOREVER)
    refused["spec"]["securityContext"].update(runAsNonRoot=False, runAsUser=0)
    with pytest.raises(cluster_api.ApiError, match='violates PodSecurity "restricted:latest"') as answer:
        bed.node.start_pod(refused)
    assert answer.value.code == 403


@pytest.mark.bed
def test_settings_of_the_whole_kernel_stay_in_the_bed(node_bed):
    setting = pathlib.Path("/proc/sys/kernel/panic")
    before = setting.read_text()
    assert node_bed.node.run(["cat", setting]).stdout.strip() == "10"  # The kubelet's wish.
    node_bed.node.run(["sh", "-c", f"echo {int(before) + 11} > {setting}"])
    assert setting.read_text() == before


@pytest.mark.bed
def test_owners_of_devices_are_the_beds_own(node_bed):
    def inside():
        return node_bed.node.run(["stat", "--format", "%U:%G %a", "/dev/loop0"]).stdout

    def machines():
        status = os.stat("/dev/loop0")
        return status.st_mode, status.st_uid, status.st_gid

    before = machines()
    assert inside() == "root:disk 660\n"
    with node_bed.node.loops_of_root():
        assert inside() == "root:root 600\n"
        assert machines() == before
    assert inside() == "root:disk 660\n"


@pytest.mark.bed
def test_down_leaves_nothing_of_the_node(node_bed, beds):
    bed = node_bed
    bed.create_namespace("held")
    bed.create_claim("data", "held", MIB)
    bed.node.start_pod(pod("holder", "held", WAIT_FOREVER, devices={"data": DEVICE}))
    name, state = bed.name, bed.state
    check_pod_leaves_traces(processes.traces(name, [state]))
    pods = processes.members_of(name)
    beds.down(count=False)
    assert processes.traces(name, [state]) == []
    assert [p for p in pods if p.alive()] == []


@pytest.mark.bed
def test_node_of_a_killed_run_is_cleaned_up_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "RECORDS", tmp_path)  # So that no other run cleans up first.
    run = subprocess.Popen([sys.executable, "-c", KILLED_RUN, tmp_path], stdout=subprocess.PIPE,
                           text=True, env={**os.environ, "PYTHONPATH": str(HERE)})
    with run:
        name, state = run.stdout.readline().split()
        run.send_signal(signal.SIGKILL)
        run.wait()
    check_pod_leaves_traces(processes.traces(name, [state]))
    pods = processes.members_of(name)

    assert name in processes.wipe_orphans()
    assert processes.traces(name, [state]) == []
    assert [p for p in pods if p.alive()] == []
