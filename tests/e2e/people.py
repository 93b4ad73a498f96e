"""What a person does with `csi-delta snapshot`, and an application with a lock whose volume is looked at."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

import call_gate
import components
import objects
import pki

BLOCK_BYTES = 4096
PERSON = "csi-delta-test/person"  # Label of what binds a role to one.
GATE_SECONDS_MAX = 60
KILLS_MAX = 60
STEP_SECONDS = 0.002  # Between the two writes of a transaction.


def run(bed, namespace, *words, check=True, **kwargs):
    """`csi-delta snapshot WORDS` with the administrator's kubeconfig."""
    return bed.run([components.program_path(), "snapshot", *words, "-n", namespace], check=check, **kwargs)


def ask(bed, namespace, *words):
    """The same; what it answers with -o json."""
    return json.loads(run(bed, namespace, *words, "-o", "json").stdout)


class Ledger:
    """An application that keeps one number in two blocks of a volume, and raises it in transactions.

    Between the two writes the blocks differ: only while the lock is held is what the volume holds one transaction's.
    """

    def __init__(self, path):
        self._path = path
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.number = 0

    def __enter__(self):
        self._write(0)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _write(self, number):
        block = number.to_bytes(8, "little") * (BLOCK_BYTES // 8)
        with open(self._path, "r+b", buffering=0) as volume:
            for at in (0, 1):
                os.pwrite(volume.fileno(), block, at * BLOCK_BYTES)
                self._ended.wait(STEP_SECONDS)

    def _work(self):
        while not self._ended.is_set():
            with self._lock:
                self._write(self.number + 1)
                self.number += 1
            self._ended.wait(STEP_SECONDS)

    @contextlib.contextmanager
    def locked(self):
        """No transaction is begun meanwhile. Yields what tells, afterwards, how long that was, in milliseconds."""
        with self._lock:
            start, took = time.monotonic(), []
            yield lambda: took[0]
            took.append((time.monotonic() - start) * 1000)


def numbers(path):
    """What the two blocks of a ledger's volume hold."""
    with open(path, "rb") as volume:
        return [int.from_bytes(volume.read(BLOCK_BYTES)[:8], "little") for _ in range(2)]


@contextlib.contextmanager
def mounted(image):
    """Mounts the file system of a volume; yields the folder."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-o", "loop", image, folder], check=True)
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def freeze(folder):
    """The program of --hold in docs/snapshots.md."""
    return f"sh -c 'fsfreeze -f {folder} && echo frozen && cat > /dev/null; fsfreeze -u {folder}'"


def needs_recovery(image):
    """Whether an ext4 file system was in use when it was copied: its journal has to be replayed."""
    told = subprocess.run(["/usr/sbin/dumpe2fs", "-h", image], check=True, capture_output=True, text=True).stdout
    features, = (line for line in told.splitlines() if line.startswith("Filesystem features:"))
    return "needs_recovery" in features.split()


def stateful_set(name, namespace, template):
    """A StatefulSet whose PVCs are there already; no controller looks at it."""
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 3, "serviceName": name, "selector": {"matchLabels": {"app": name}},
                     "template": {"metadata": {"labels": {"app": name}},
                                  "spec": {"containers": [{"name": "main", "image": "none"}]}},
                     "volumeClaimTemplates": [{"metadata": {"name": template}, "spec": {
                         "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}]}}


def config_of(bed, account, namespace):
    """A kubeconfig for a service account."""
    config = bed.scratch / f"{account}.conf"
    pki.write_kubeconfig(config, bed.pki / "ca.crt", {"token": bed.api.token(account, namespace)})
    return config


class Person:
    """A service account and its kubeconfig. `bindings`: pairs of a namespace, "" for all, and a ClusterRole that it has there."""

    def __init__(self, bed, name, home, bindings):
        self.bed, self.name = bed, name
        bed.api.create(*objects.account(self.name, home))
        self.user = f"system:serviceaccount:{home}:{self.name}"
        for namespace, role in bindings:
            bed.api.create(*objects.binding(f"{self.name}-{role}", "ClusterRole", role, objects.subject(self.name, home),
                                            namespace, {PERSON: self.name}))
        self.config = config_of(bed, self.name, home)

    def run(self, namespace, *words, **kwargs):
        return run(self.bed, namespace, *words, "--kubeconfig", self.config, **kwargs)


class Gate(call_gate.Gate):
    """Of a person's program; what only asks for rights, or holds a volume, is not counted."""

    def admits(self, method, path):
        if "selfsubjectaccessreviews" in path or "/leases" in path:
            return True
        return super().admits(method, path)


def killed_after_each_write(person, namespace, *words):
    """Runs the verb until a run ends by itself; each before was killed once it had made one write.

    Returns how many those were, and what the last one printed.
    """
    kills = 0
    with Gate(person.bed) as gate:
        command = [components.program_path(), "snapshot", *words, "-n", namespace, "--kubeconfig",
                   gate.lead(person.config)]
        while kills < KILLS_MAX:
            gate.hold_after(1, lambda method, _: method != "GET", writes_only=True)
            with subprocess.Popen(person.bed.inside(command), text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as process:
                met = gate.await_held(lambda process=process: process.poll() is not None, GATE_SECONDS_MAX)
                if met:
                    process.kill()
                gate.open()
                out, error = process.communicate()
            if not met:
                assert process.returncode == 0, out + error
                return kills, out
            kills += 1
    raise AssertionError(f"{words} goes no further: {out}{error}")


ROLES = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "snapshot-roles.yaml"


@contextlib.contextmanager
def roles(bed, manifest=ROLES):
    """The ClusterRoles of a file of deploy/ are there while the body runs."""
    bed.kubectl("apply", "-f", manifest)
    try:
        yield
    finally:
        bed.kubectl("delete", "clusterrolebindings,clusterroles", "--selector", PERSON)
        bed.kubectl("delete", "-f", manifest)
