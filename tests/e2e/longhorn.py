"""Longhorn's Snapshot system in a bed: the stand-in of tests/support/longhorn, and how all of it goes again.

Its webhooks refuse every update of a PVC while it does not run, so a bed has it only while a test is in `running`.
"""

import contextlib
import json
import threading

import yaml

import components
import longhorn_manners
import many
import objects
import processes

NAMESPACE = "longhorn-system"
STORED = "/registry/longhorn.io/"  # Where the API server keeps its objects in etcd.
RIGHTS = components.REPOSITORY / "deploy" / "longhorn-rbac.yaml"
SECONDS_MAX = 60
VOLUME = {"size": str(16 << 20), "snapshotMaxCount": 250, "numberOfReplicas": 1}
_WEBHOOKS = ("mutatingwebhookconfigurations/longhorn-webhook-mutator",
             "validatingwebhookconfigurations/longhorn-webhook-validator")


@contextlib.contextmanager
def running(bed, *flags):
    """The stand-in runs in the bed, with further flags; in the end nothing of it is left, and what it never may be asked for
    was not asked for.

    Velero looks for kinds when it starts, and then every five minutes.
    """
    bed.longhorn_args = list(flags)
    audited = bed.audit_position()
    try:
        bed.start(components.LONGHORN)
        bed.restart("velero")
        yield
        longhorn_manners.check(bed, audited)
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


def grant(bed):
    """Gives the accounts in the bed what deploy/longhorn-rbac.yaml lists; the plugin's have another name here."""
    documents = list(yaml.safe_load_all(RIGHTS.read_text()))
    documents[1]["subjects"] = [{"kind": "ServiceAccount", "name": objects.PLUGIN_ACCOUNT, "namespace": bed.namespace}]
    for document in documents:
        bed.kubectl("apply", "-f", "-", stdin=json.dumps(document))


def stop_manager(bed):
    """No controller looks at objects any more, and no webhook is asked."""
    ask(bed, "manager-stop")
    bed.kubectl("delete", *_WEBHOOKS)


def apply(bed, kind, name, spec):
    """Makes an object of Longhorn, unless it is there; also if two callers make it at once."""
    bed.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps({
        "apiVersion": "longhorn.io/v1beta2", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}))


@contextlib.contextmanager
def volumes_of_pvs(bed):
    """Each PersistentVolume has its Volume, as Longhorn's CSI driver makes it; that of the bed makes files alone."""
    stop, made = threading.Event(), set()

    def make():
        while not stop.wait(0.5):
            for handle in {pv["spec"].get("csi", {}).get("volumeHandle") for pv in bed.api.list("persistentvolumes")} - made - {None}:
                apply(bed, "Volume", handle, VOLUME)
                made.add(handle)
    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def create_volume(bed, name, attached=False):
    """A Volume of 16 MiB; returns when it is as asked."""
    apply(bed, "Volume", name, VOLUME)
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
    """Webhooks first, for they refuse all else; then objects, whose finalizers are never taken off any more; and the kinds."""
    bed.kubectl("delete", "--ignore-not-found", *_WEBHOOKS)
    many.Etcd(bed).delete_range(STORED, STORED[:-1] + "0")
    kinds = bed.kubectl("get", "crd", "-o", "name").stdout.split()
    kinds = [kind for kind in kinds if kind.endswith(".longhorn.io")]
    bed.kubectl("delete", "--ignore-not-found", *kinds, f"namespace/{NAMESPACE}")  # It waits for all at once.
