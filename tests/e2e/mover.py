"""The data mover in a bed with a node: the chart of deploy/, rendered by Helm's own code, and the product's image.

It runs only in beds where a test has called `serve`, as the chart's Deployment, in a namespace of its own
that takes nothing but restricted Pods. Controller and workers have the chart's accounts and no other rights.
"""

import base64
import contextlib
import json
import pathlib
import subprocess

import bed as bed_module
import build
import components
import images
import metadata
import objects

CHART = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "chart"
NAMESPACE = "csi-delta"
CONTROLLER, WORKER = "csi-delta-mover", "csi-delta-worker"  # Deployment and accounts.
NAME = "csi-delta"  # What spec.datamover says.
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
ENDED = ("Completed", "Failed", "Canceled")
READY_SECONDS_MAX = 120
INTO_EXISTING = {"restore": {"intoExistingVolumes": True}}  # Settings; with them the chart gives further rights.
METRICS_PORT = 8080  # The default of the chart.
PLURALS = {"ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles", "Role": "roles",
           "ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings",
           "ConfigMap": "configmaps", "Deployment": "deployments",
           "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
           "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
           "NetworkPolicy": "networkpolicies", "PodDisruptionBudget": "poddisruptionbudgets",
           "CustomResourceDefinition": "customresourcedefinitions"}


class ChartRefused(Exception):
    """Helm does not render the chart with these values; the text is Helm's."""


def render(values, namespace=NAMESPACE, without=""):
    """The objects that `helm install` makes of the chart, in a cluster without the API group and version `without`."""
    done = subprocess.run(
        [build.build("helm") / "bin" / "render", "-chart", CHART, "-namespace", namespace,
         "-values", json.dumps(values), "-without", without], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ChartRefused(done.stderr)
    return json.loads(done.stdout)


def _documents(bed, **changes):
    """What the chart is in a bed: its kubelet asks each second whether the controller is ready, where the default is 10 s."""
    documents = render(values(bed, **changes))
    for document in documents:
        if document["kind"] == "Deployment":
            for container in document["spec"]["template"]["spec"]["containers"]:
                container["readinessProbe"]["periodSeconds"] = 1
    return documents


def values(bed, **changes):
    """The chart's values for a bed. No daily checks: one would begin beside a test."""
    repository, tag = images.PRODUCT.split(":")
    changes["settings"] = {"checks": {"percentPerDay": 0}, **changes.get("settings", {})}
    return {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
            "veleroNamespaces": [bed.namespace], **changes}


def define(bed):
    """Makes the API server know the data mover's kinds."""
    if bed.define(d for d in render(values(bed)) if d["kind"] == "CustomResourceDefinition"):
        bed.restart("velero")  # Version 1.13 stumbles over kinds that are newer than its knowledge of them.


def serve(bed):
    """Installs the metadata sidecar and the data mover, and waits until it is ready; does nothing when that is so."""
    metadata.serve(bed)
    if bed.api.get("namespaces", NAMESPACE) is None:
        define(bed)
        bed.create_namespace(NAMESPACE, RESTRICTED)
        install(bed)
    bed.wait_for(lambda: ready(bed), READY_SECONDS_MAX, lambda: f"the data mover ready: {tell(bed)}")


def install(bed, **changes):
    """What `helm install` does in a cluster that knows the kinds; replaces what is there."""
    import_image(bed)
    with bed.refusing():
        for document in _documents(bed, **changes):
            if document["kind"] != "CustomResourceDefinition":
                plural, meta = PLURALS[document["kind"]], document["metadata"]
                bed.api.delete(plural, meta["name"], meta.get("namespace"))
                if plural == "deployments":  # Else the old controller works on beside the new one.
                    bed.wait_for(lambda: not pods(bed), READY_SECONDS_MAX, "end of the old controller")
                bed.api.create(plural, document)


def uninstall(bed):
    """What `helm uninstall` does: all but the kinds goes."""
    with bed.refusing():
        for document in reversed(render(values(bed))):
            if document["kind"] != "CustomResourceDefinition":
                meta = document["metadata"]
                bed.api.delete(PLURALS[document["kind"]], meta["name"], meta.get("namespace"))
        bed.wait_for(lambda: not pods(bed), READY_SECONDS_MAX, "the end of the controller")


@contextlib.contextmanager
def configured(bed, settings):
    """While the body runs, the controller has these settings."""
    upgrade(bed, settings=settings)
    try:
        yield
    finally:
        upgrade(bed)


def upgrade(bed, **changes):
    """What `helm upgrade` does with other values."""
    for document in _documents(bed, **changes):
        if document["kind"] in ("ClusterRole", "ConfigMap", "Deployment"):
            meta = document["metadata"]
            bed.api.patch(PLURALS[document["kind"]], meta["name"], document, meta.get("namespace"))
    bed.wait_for(lambda: _rolled_out(bed), READY_SECONDS_MAX, lambda: f"the data mover ready: {tell(bed)}")


def _rolled_out(bed):
    """Whether the Pods are those that are asked for, and no other."""
    found = bed.api.get("deployments", CONTROLLER, NAMESPACE)
    status, wanted = found["status"], found["spec"]["replicas"]
    return (status.get("observedGeneration") == found["metadata"]["generation"] and status.get("updatedReplicas") == wanted
            and status.get("readyReplicas") == wanted and len(pods(bed)) == wanted)


@contextlib.contextmanager
def stopped(bed):
    """While the body runs there is no controller."""
    def scale(replicas):
        bed.api.patch("deployments", CONTROLLER, {"spec": {"replicas": replicas}}, NAMESPACE)
    scale(0)
    try:
        bed.wait_for(lambda: not pods(bed), READY_SECONDS_MAX, "no controller")
        yield
    finally:
        scale(1)


def import_image(bed):
    archive = bed.state / "product.tar"
    archive.write_bytes(images.product(bed_module.plugin_path(), components.program_path()))
    bed.node.import_image(archive)
    archive.unlink()


def ready(bed):
    found = bed.api.get("deployments", CONTROLLER, NAMESPACE)
    return found and found["status"].get("readyReplicas", 0) == found["spec"]["replicas"]


def pods(bed, component="datamover"):
    """The Pods of the controller."""
    return bed.api.list("pods", NAMESPACE, labelSelector=f"app.kubernetes.io/component={component}")


def log(bed):
    """What the controller has written, as far as its Pods are there."""
    return "".join(bed.kubectl("logs", "-n", NAMESPACE, pod["metadata"]["name"], check=False).stdout
                   for pod in pods(bed))


def metrics(bed):
    """What the controller's page of metrics says: values by series, as they are written there."""
    pod, = pods(bed)
    page = bed.kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:{METRICS_PORT}"
                       "/proxy/metrics").stdout
    pairs = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, value in pairs}


def tell(bed):
    """How the controller's Pods are, and their last lines."""
    states = [f"{pod['metadata']['name']}: {json.dumps(pod['status'])}" for pod in pods(bed)]
    return "\n".join([*states, log(bed)[-3000:]])


def user(account):
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def left_behind(bed):
    """What there still is of single uploads and downloads, as a sorted list."""
    found = []
    for plural in ("volumetasks", "pods", "persistentvolumeclaims", "volumesnapshots", "secrets"):
        found += [f"{plural} {o['metadata']['name']}" for o in bed.api.list(
            plural, NAMESPACE, labelSelector="mover.csi-delta.io/task")]
    return sorted(found)


def is_base(content):
    return content["metadata"].get("labels", {}).get("mover.csi-delta.io/base") == "true"


def bases(bed, namespace=None):
    """The contents whose snapshots are kept as bases, of all claims or of those in a namespace."""
    return [base for base in bed.api.list("volumesnapshotcontents", labelSelector="mover.csi-delta.io/base=true")
            if namespace is None
            or base["metadata"]["annotations"]["mover.csi-delta.io/claim-namespace"] == namespace]


def repositories(bed):
    """The repositories in the bucket, as folders."""
    root = bed.s3_dir / objects.BUCKET / "plugins" / "csi-delta"
    return sorted(config.parent for config in root.glob("*/*/*/config"))


def keyring(bed, location="default"):
    """The passwords of a location by fingerprint, newest first."""
    secret = bed.api.get("secrets", f"csi-delta-keys-{bed.namespace}.{location}", NAMESPACE)
    newest = secret["metadata"]["annotations"]["mover.csi-delta.io/newest"]
    return {name: base64.b64decode(value).decode() for name, value in sorted(
        secret["data"].items(), key=lambda item: item[0] != newest)}


def uploads_of(bed, backup):
    """The DataUploads of a backup."""
    return bed.api.list("datauploads", bed.namespace, labelSelector=f"velero.io/backup-name={backup}")


def upload_of(bed, backup):
    """The one DataUpload of a backup."""
    uploads = uploads_of(bed, backup)
    assert len(uploads) == 1, uploads
    return uploads[0]


def record_of(bed, app):
    """The ProtectedVolume of the only PVC of a namespace."""
    record, = (r for r in bed.api.list("protectedvolumes", bed.namespace) if r["spec"]["namespace"] == app)
    return record


def await_recorded(bed, app, backup):
    """Waits until the record of a volume names a backup as its last good one."""
    bed.wait_for(lambda: record_of(bed, app).get("status", {}).get("lastGoodBackup", {}).get("backup") == backup,
                 READY_SECONDS_MAX, lambda: f"the record to name {backup}: {record_of(bed, app)}")


def deletions(bed, backup):
    """The DataDeletions of a backup."""
    return [d for d in bed.api.list("datadeletions", bed.namespace) if d["spec"]["backup"] == backup]


def evict(bed, pod):
    """As a drain does."""
    meta = pod["metadata"]
    bed.api.request("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction", {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]}})
