"""What csi-delta doctor sees of a node: may workers open devices?"""

import json

import pytest

import components
import mover
import objects
from moving import GONE_SECONDS_MAX, MIB

pytestmark = [pytest.mark.moves, pytest.mark.own_driver("its devices are loops, which a test takes away")]


def probe(bed):
    """What is said of the storage class in use."""
    told = bed.run([components.program_path(), "doctor", "--probe", "--json", "--mover-namespace", mover.NAMESPACE,
                    "--velero-namespace", bed.namespace], check=False).stdout
    finding, = [f for f in map(json.loads, told.splitlines())
                if f.get("check") == "device-access" and objects.CLASS_IMMEDIATE in f["subject"]]
    return finding


@pytest.mark.journey
def test_a_probe_tells_whether_workers_may_open_devices(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    volumes = bed.driver.volumes()
    good = probe(bed)
    assert good["grade"] == "good", good
    with bed.node.loops_of_root():
        fault = probe(bed)
    assert fault["grade"] == "fault" and "Permission denied" in fault["text"], fault
    for remediation in ("worker.supplementalGroups", "device_ownership_from_security_context"):
        assert remediation in fault["cure"], fault
    assert not mover.left_behind(bed)
    bed.wait_for(lambda: bed.driver.volumes() == volumes, GONE_SECONDS_MAX, "the driver's volumes as before")
