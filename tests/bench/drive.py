"""One plugin process under the hand of Velero's own plugin manager, for the benches that look inside.

The manager is that of Velero 1.18.3, in the harness of tests/pluginmanager; API server, snapshot
controller, CSI sidecars and driver are those of the test bed.
"""

import concurrent.futures
import json
import os
import pathlib
import platform
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "bench"
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "pluginmanager")]

import bed as bed_module  # noqa: E402
import objects  # noqa: E402
import policy  # noqa: E402
import run as pluginmanager  # noqa: E402

MIB = 1 << 20
POLICY = "bench"
DISKS = 10
CREATING_THREADS = 8
RELEASE = pluginmanager.RELEASES["118"]


def machine():
    """What a table was measured on, in a line."""
    load = os.getloadavg()[0]
    return (f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}, load {load:.1f}; "
            f"Velero {RELEASE.version[1:]}, plugin {plugin_version()}")


def plugin_version():
    done = subprocess.run([bed_module.plugin_path(), "version"], capture_output=True, text=True,
                          check=False)
    return (done.stdout.strip().splitlines() or ["unknown"])[0].split()[-1]


def keep(name, data):
    """Writes the raw figures of a bench; says where."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), "data": data}, indent=1))
    print(f"raw data: {path.relative_to(ROOT)}")


def verdict(text, held):
    print(f"  {'held' if held else 'MISSED'}: {text}", flush=True)
    return held


def requests_since(bed, position, taker, kind):
    """How many requests each program made that works on backups, by the audit log, and the creations of a kind by one of them.

    A watch is in the log twice, when it begins and when it ends.
    """
    events = {event["auditID"]: event for event in bed.audit_events(since=position)}.values()
    users = ("velero-server", bed.plugin_user, "snapshot-controller", "csi-snapshotter")
    return ({user: sum(1 for event in events if event["user"].get("username") == user) for user in users},
            [event for event in events if event["user"].get("username") == taker and event["verb"] == "create"
             and event.get("objectRef", {}).get("resource") == kind])


def bed_without_velero():
    """A bed whose Velero is down, so that only the harness deals with backups. Use it with `with`."""
    bed = bed_module.Bed.up(bed_module.Settings(plugin=True))
    bed.stop("velero")
    bed.api.create("configmaps", policy.config_map(POLICY, bed.namespace, [policy.rule("snapshot")]))
    return bed


def static_claim(name, namespace, driver, handle):
    """A claim and the volume made for it by hand, which is a disk that others may be, too."""
    claim = objects.claim(name, namespace, MIB, volume=f"{namespace}-{name}")
    volume = {"apiVersion": "v1", "kind": "PersistentVolume",
              "metadata": {"name": claim["spec"]["volumeName"]},
              "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                       "capacity": {"storage": str(MIB)},
                       "storageClassName": objects.CLASS_IMMEDIATE,
                       "persistentVolumeReclaimPolicy": "Retain",
                       "claimRef": {"namespace": namespace, "name": name},
                       "csi": {"driver": driver, "volumeHandle": handle}}}
    return volume, claim


def create_claims(bed, namespace, count):
    """Makes bound claims over a few disks; returns the claims as the API server holds them."""
    bed.create_namespace(namespace)
    disks = [f"disk-{i}" for i in range(min(DISKS, count))]
    bed.create_claims(disks, namespace, MIB)
    handles = [bed.volume_handle(disk, namespace) for disk in disks]

    def create(number):
        volume, claim = static_claim(f"data-{number:04}", namespace, bed.driver.name,
                                     handles[number % len(handles)])
        bed.api.create("persistentvolumes", volume)
        bed.api.create("persistentvolumeclaims", claim)

    with concurrent.futures.ThreadPoolExecutor(CREATING_THREADS) as pool:
        list(pool.map(create, range(count)))

    def bound():
        claims = [c for c in bed.api.list("persistentvolumeclaims", namespace)
                  if c["metadata"]["name"].startswith("data-")
                  and c["status"].get("phase") == "Bound"]
        return claims if len(claims) == count else None
    claims = bed.wait_for(bound, 300, f"{count} claims bound")
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim} for claim in claims]


def create_backup(bed, name):
    """A Backup in progress that only the drive works on."""
    return bed.api.create("backups", {
        "apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": name, "namespace": bed.namespace},
        "spec": {"storageLocation": "default", "csiSnapshotTimeout": "10m", "ttl": "720h",
                 "resourcePolicy": {"kind": "configmap", "name": POLICY}},
        "status": {"phase": "InProgress"}})


class Drive:
    """A running plugin process and the manager that calls it. Use it with `with`.

    `pid` is the plugin's process. Not thread-safe.
    """

    def __init__(self, bed, backup, workers):
        harness = pluginmanager.build(RELEASE)
        folder = bed.scratch / f"drive-{backup['metadata']['name']}"
        plugins, scratch = folder / "plugins", folder / "tmp"
        plugins.mkdir(parents=True)
        scratch.mkdir()
        (plugins / bed_module.PLUGIN_NAME).write_bytes(bed_module.plugin_path().read_bytes())
        (plugins / bed_module.PLUGIN_NAME).chmod(0o755)
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(scratch),
               "HARNESS_SUITE": "drive", "HARNESS_VELERO": str(RELEASE.minor),
               "HARNESS_WORKERS": str(workers), "HARNESS_PLUGIN_DIR": str(plugins),
               "VELERO_NAMESPACE": bed.namespace,
               "CSI_DELTA_KUBECONFIG": str(bed.plugin_kubeconfig)}
        self._process = subprocess.Popen(
            bed.inside([harness, "server", "--features=EnableCSI"]), env=env, cwd=folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self._process.stdout.readline())
        self._send([backup])

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure:
            self._process.kill()
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _send(self, items):
        for item in items:
            self._process.stdin.write(json.dumps(item) + "\n")
        self._process.stdin.flush()

    def execute(self, claims):
        """Has all the claims backed up; returns an answer for each, in the order they came."""
        sender = threading.Thread(target=self._send, args=[claims])
        sender.start()
        lines = [self._process.stdout.readline() for _ in claims]
        sender.join()
        answers = [json.loads(line) for line in lines if line]
        refused = [a for a in answers if a["Error"] or a["Additional"] != 1]
        if refused or len(answers) != len(claims):
            raise SystemExit(f"{len(answers)} answers to {len(claims)} claims; not as wanted: "
                             f"{refused[:3]}")
        return answers
