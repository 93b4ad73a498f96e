"""The node of the bed changes nothing of the machine, and goes away without a trace."""

import os
import pathlib

import pytest

import processes

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


def check_pod_leaves_traces(traces):
    """A Pod with a device has cgroups, processes, and two loop devices: the driver's, and the kubelet's on it.

    A bed with groups has one more, of the file system that its volumes are in.
    """
    kinds = [trace.split()[0] for trace in traces]
    assert "cgroup" in kinds and "process" in kinds and kinds.count("loop") >= 2, traces


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
def test_node_of_a_killed_run_is_cleaned_up_by_the_next(killed_run):
    name, state = killed_run(KILLED_RUN)
    check_pod_leaves_traces(processes.traces(name, [state]))
    pods = processes.members_of(name)

    assert name in processes.wipe_orphans()
    assert processes.traces(name, [state]) == []
    assert [p for p in pods if p.alive()] == []
