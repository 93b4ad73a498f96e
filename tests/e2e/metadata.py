"""Lists of blocks in a bed: upstream's metadata sidecar, the object that tells of it, and upstream's client.

The sidecar costs a second, so it runs only in beds where a test has called `serve`. It is a user of its
own, with the rights of its role and nothing more, and so is the client.
"""

import base64
import contextlib
import json

import components
import objects
import pki

MODULE = "metadata"
SIDECAR = components.SNAPSHOT_METADATA
NAMESPACE = "csi-metadata"
CLIENT = "metadata-client"
AUDIENCE = "bed-metadata"

SIDECAR_RULES = [
    {"apiGroups": ["cbt.storage.k8s.io"], "resources": ["snapshotmetadataservices"],
     "verbs": ["get"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"],
     "verbs": ["create"]},
    {"apiGroups": ["snapshot.storage.k8s.io"],
     "resources": ["volumesnapshots", "volumesnapshotcontents"], "verbs": ["get"]},
    # Listed for a volume snapshot that names no class: the driver's default class is meant.
    {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshotclasses"],
     "verbs": ["get", "list"]},
]
CLIENT_RULES = [
    {"apiGroups": ["cbt.storage.k8s.io"], "resources": ["snapshotmetadataservices"],
     "verbs": ["get"]},
    {"apiGroups": ["snapshot.storage.k8s.io"],
     "resources": ["volumesnapshots", "volumesnapshotcontents"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
]


class ListingFailed(Exception):
    """Upstream's client ended with an error; the text is what it said."""


def serve(bed):
    """Starts the sidecar for the bed's driver and tells the cluster of it; does nothing when that is so."""
    bed.product(MODULE)
    if bed.api.get("snapshotmetadataservices", bed.driver.name) is None:
        _set_up(bed)
    if not bed.alive(SIDECAR):
        bed.stop(SIDECAR)
        bed.start(SIDECAR)


def service_object(bed, **spec):
    """The object that tells of the sidecar; `spec` replaces fields."""
    return {"apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": bed.driver.name},
            "spec": {"address": f"{bed.host}:{components.SNAPSHOT_METADATA_PORT}",
                     "audience": AUDIENCE,
                     "caCert": base64.b64encode((bed.pki / "ca.crt").read_bytes()).decode(),
                     **spec}}


@contextlib.contextmanager
def told(bed, **spec):
    """While the body runs the cluster is told something else of the sidecar: other fields of its object."""
    bed.api.patch("snapshotmetadataservices", bed.driver.name, {"spec": spec})
    try:
        yield
    finally:
        bed.api.patch("snapshotmetadataservices", bed.driver.name, service_object(bed))


def list_blocks(bed, snapshot, namespace, *flags, base=None, user=CLIENT):
    """What upstream's client gets of a volume snapshot: a list of messages.

    `base` is a CSI handle; without one it lists what is allocated. ListingFailed when it ends with an
    error, whatever came before.
    """
    command = [bed.program(MODULE, "lister"), "-kubeconfig", kubeconfig(bed, user),
               "-namespace", namespace, "-snapshot", snapshot, *flags]
    done = bed.run(command + (["-base", base] if base else []), check=False)
    if done.returncode != 0:
        raise ListingFailed(done.stderr.strip())
    return json.loads(done.stdout)


def extents(messages):
    """The extents of a list of messages, as pairs of offset and length in bytes."""
    return [(block.get("byte_offset", 0), block["size_bytes"])
            for message in messages for block in message.get("block_metadata") or []]


def kubeconfig(bed, user):
    """A kubeconfig with a token of an account in NAMESPACE."""
    return bed.kubeconfig(user, NAMESPACE)


@contextlib.contextmanager
def account(bed, name, rules):
    """While the body runs there is a service account in NAMESPACE with these rights in the whole cluster."""
    _make_account(bed, name, rules)
    try:
        yield
    finally:
        bed.api.delete("clusterrolebindings", name)
        bed.api.delete("clusterroles", name)
        bed.api.delete("serviceaccounts", name, NAMESPACE)


def _make_account(bed, name, rules):
    bed.api.create(*objects.account(name, NAMESPACE))
    _grant(bed, name, rules, objects.subject(name, NAMESPACE))


def _grant(bed, name, rules, subject):
    bed.api.create("clusterroles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                                    "metadata": {"name": name}, "rules": rules})
    bed.api.create(*objects.binding(name, "ClusterRole", name, subject))


def _set_up(bed):
    bed.define(json.loads((bed.product(MODULE) / "share/crds.json").read_text()))
    pki.make_server(bed.pki, SIDECAR)
    pki.make_client(bed.pki, f"{SIDECAR}-client", f"/CN={SIDECAR}")
    bed.api.create("namespaces", objects.namespace(NAMESPACE))
    _grant(bed, SIDECAR, SIDECAR_RULES,
           {"kind": "User", "name": SIDECAR, "apiGroup": "rbac.authorization.k8s.io"})
    _make_account(bed, CLIENT, CLIENT_RULES)
    bed.api.create("snapshotmetadataservices", service_object(bed))
