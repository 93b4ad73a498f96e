"""Longhorn's Snapshot system in a bed: the stand-in of tests/support/longhorn, and how all of it goes again.

Its webhooks refuse every update of a PVC while it does not run, so a bed has it only while a test is in `running`.
"""

import contextlib
import json

import components
import processes

NAMESPACE = "longhorn-system"
SECONDS_MAX = 60
_WEBHOOKS = ("mutatingwebhookconfigurations/longhorn-webhook-mutator",
             "validatingwebhookconfigurations/longhorn-webhook-validator")


@contextlib.contextmanager
def running(bed, *flags):
    """The stand-in runs in the bed, with further flags; in the end nothing of it is left.

    Velero looks for kinds when it starts, and then every five minutes.
    """
    bed.longhorn_args = list(flags)
    try:
        bed.start(components.LONGHORN)
        bed.restart("velero")
        yield
    finally:
        bed.stop(components.LONGHORN)
        _remove(bed)
        bed.restart("velero")


def ask(bed, request):
    """What the stand-in answers to a control request, "attach/VOLUME"."""
    return bed.run(ask_command(request)).stdout


def ask_command(request):
    url = f"http://127.0.0.1:{components.LONGHORN_CONTROL_PORT}/{request}"
    return [str(components.longhorn_path()), "--ask", url]


def create_volume(bed, name, attached=False):
    """A Volume of 16 MiB; returns when it is as asked."""
    bed.kubectl("apply", "-f", "-", stdin=json.dumps({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Volume", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"size": str(16 << 20), "snapshotMaxCount": 250, "numberOfReplicas": 1}}))
    _await_state(bed, name, "detached")
    if attached:
        ask(bed, f"attach/{name}")
        _await_state(bed, name, "attached")


def take(bed, volume, name):
    """A Snapshot, taken as users take one; returns when it is ready."""
    bed.kubectl("create", "-f", "-", stdin=json.dumps({
        "apiVersion": "longhorn.io/v1beta2", "kind": "Snapshot", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"volume": volume, "createSnapshot": True}}))
    await_ready(bed, name)


def await_ready(bed, name):
    bed.kubectl("wait", "lhsnap", name, "-n", NAMESPACE, "--for=jsonpath={.status.readyToUse}=true",
                f"--timeout={SECONDS_MAX}s")


def _await_state(bed, name, state):
    def is_so():
        shown = bed.kubectl("get", "volumes.longhorn.io", name, "-n", NAMESPACE, "-o", "jsonpath={.status.state}")
        return shown.stdout == state
    processes.wait_until(is_so, SECONDS_MAX, f"Volume {name} {state}")


def _remove(bed):
    """Webhooks first, for they refuse all else; then objects with their finalizers, and the kinds."""
    bed.kubectl("delete", "--ignore-not-found", *_WEBHOOKS)
    kinds = bed.kubectl("get", "crd", "-o", "name").stdout.split()
    kinds = [kind for kind in kinds if kind.endswith(".longhorn.io")]
    for kind in kinds:
        plural = kind.split("/", 1)[1]
        found = bed.kubectl("get", plural, "-A", "-o", "json")
        for item in json.loads(found.stdout)["items"]:
            meta = item["metadata"]
            if meta.get("finalizers"):
                bed.kubectl("patch", plural, meta["name"], "-n", meta["namespace"], "--type=merge",
                            "-p", '{"metadata":{"finalizers":null}}', check=False)
    if kinds:
        bed.kubectl("delete", *kinds)
    bed.kubectl("delete", "--ignore-not-found", "namespace", NAMESPACE)
