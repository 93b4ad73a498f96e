"""DifferentialSnapshots in a bed: the program csi-delta beside the driver, with the rights of deploy/ and no more.

It runs only in beds where a test has called `serve`. Its users are service accounts with the roles of
deploy/diffsnap.yaml; clients of its pages speak HTTPS through the bed's network.
"""

import base64
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import urllib.parse

import yaml

import cluster_api
import components
import images
import objects
import pki
import processes

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
KIND = DEPLOY / "differentialsnapshot-crd.yaml"
MANIFEST = DEPLOY / "diffsnap.yaml"
SIDECAR = DEPLOY / "diffsnap-sidecar.yaml"

FIRST, SECOND = components.DIFFSNAP, components.DIFFSNAP_SECOND
PORTS = components.DIFFSNAP_PORTS
NAMESPACE = components.DIFFSNAP_NAMESPACE
ACCOUNT = "csi-delta-diffsnap"
DRIVER = "driver-with-sidecar"  # A Deployment, and the pair of keys of its sidecar.
SECRETS = (f"{ACCOUNT}-tls", f"{ACCOUNT}-cursor-key")  # As the sidecar names them.
POD_SECONDS_MAX = 180
MOVER, REQUESTER, STRANGER = "csi-delta-backup", "diffsnap-requester", "diffsnap-stranger"
STATE_SECONDS_MAX = 120  # On a machine that is busy with other things.
LAST_STATES = ("Success", "Failure")
PLURALS = {"ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles", "Role": "roles",
           "ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings", "Service": "services",
           "NetworkPolicy": "networkpolicies"}


def manifest():
    """The documents of deploy/diffsnap.yaml."""
    return [document for document in yaml.safe_load_all(MANIFEST.read_text()) if document]


def rules(name):
    """The rules of a ClusterRole of the manifest."""
    return next(d["rules"] for d in manifest() if d["kind"] == "ClusterRole" and d["metadata"]["name"] == name)


def serve(bed, *names):
    """Starts the service for the bed's driver, and all that it needs; does nothing when that is so."""
    define(bed)
    if bed.api.get("namespaces", NAMESPACE) is None:
        _install(bed)
    for name in names or (FIRST,):
        if not bed.alive(name):
            bed.stop(name)
            bed.start(name)


def define(bed):
    """Makes the API server know the kind."""
    bed.define([yaml.safe_load(KIND.read_text())])


def _install(bed):
    bed.api.create("namespaces", objects.namespace(NAMESPACE))
    for document in manifest():
        bed.api.create(PLURALS[document["kind"]], document)
    (bed.state / "cursor-key").write_text(base64.b64encode(os.urandom(32)).decode())
    pki.make_server(bed.pki, FIRST)
    bed.kubeconfig(ACCOUNT, NAMESPACE)
    for name, role in ((MOVER, f"{ACCOUNT}-mover"), (REQUESTER, f"{ACCOUNT}-requester"), (STRANGER, None)):
        bed.api.create(*objects.account(name, NAMESPACE))
        if role:
            bed.api.create(*objects.binding(name, "ClusterRole", role, objects.subject(name, NAMESPACE)))


def token(bed, account, audience=None):
    """A token of an account of the manifest's namespace; for the API server unless an audience is named."""
    return bed.api.token(account, NAMESPACE, **({"audiences": [audience]} if audience else {}))


def kubeconfig(bed):
    """A kubeconfig of a client that asks for differences."""
    return bed.kubeconfig(MOVER, NAMESPACE)


def api(bed, account):
    """The API server as an account of the manifest's namespace."""
    return cluster_api.ClusterApi(bed.name, bed.pki, token=token(bed, account))


def user(account):
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def make(name, space, **spec):
    """A DifferentialSnapshot."""
    return {"apiVersion": "diffsnap.csi-delta.io/v1alpha1", "kind": "DifferentialSnapshot",
            "metadata": {"name": name, "namespace": space}, "spec": spec}


def ask(bed, name, space, timeout_seconds=STATE_SECONDS_MAX, **spec):
    """Makes a DifferentialSnapshot and waits for its last state; returns it."""
    bed.api.create("differentialsnapshots", make(name, space, **spec))
    return wait_state(bed, name, space, LAST_STATES, timeout_seconds)


def wait_state(bed, name, space, states, timeout_seconds=STATE_SECONDS_MAX):
    """Waits until a DifferentialSnapshot is in one of these states; returns it."""
    def arrived():
        found = bed.api.get("differentialsnapshots", name, space)
        return found and found.get("status", {}).get("state") in states and found
    return bed.wait_for(arrived, timeout_seconds, f"DifferentialSnapshot {space}/{name} in one of {states}")


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, status, body):
        self.status = status
        self.code = json.loads(body)["code"]
        super().__init__(f"{status} {body.decode(errors='replace')}")


@dataclasses.dataclass
class Reader:
    """Reads the pages of one DifferentialSnapshot as anybody would: by its status, a token, and HTTPS."""

    bed: object
    found: dict
    account: str = MOVER
    port: int = None  # Of another replica than that in the status.

    def __post_init__(self):
        status = self.found["status"]
        self.url = urllib.parse.urlsplit(status["url"])
        self.context = ssl.create_default_context(cadata=base64.b64decode(status["caBundle"]).decode())
        self.token = token(self.bed, self.account, status["audience"])

    def get(self, **query):
        """One page. Refused when none exists."""
        with processes.inside(self.bed.name):
            connection = http.client.HTTPSConnection(self.url.hostname, self.port or self.url.port,
                                                     context=self.context, timeout=60)
            connection.connect()
        try:
            connection.request("GET", f"{self.url.path}?{urllib.parse.urlencode(query)}",
                               headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise Refused(answer.status, body)
        return json.loads(body)

    def pages(self, **query):
        """All pages, to the last one."""
        page = self.get(**query)
        yield page
        while page.get("nextOffset"):
            page = self.get(**{**query, "startOffset": page["nextOffset"]})
            yield page


def merged(extents):
    """Pairs of offset and length in bytes in order, where those that touch are one."""
    found = []
    for offset, length in extents:
        if found and sum(found[-1]) == offset:
            offset, length = found[-1][0], found.pop()[1] + length
        found.append((offset, length))
    return found


def blocks(pages):
    """What pages list, as pairs of offset and length in bytes."""
    return merged((block["offset"], block["size"]) for page in pages for block in page["changeBlockList"])


@contextlib.contextmanager
def sidecar(bed):
    """While the body runs, the service is a container beside another one, by the patch of deploy/; gives the Pod's address.

    The other one stands for the driver, whose socket is that of the bed's.
    """
    _make_secrets(bed)
    bed.api.create("deployments", {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": DRIVER, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": DRIVER}}, "template": {
            "metadata": {"labels": {"app": DRIVER}},
            "spec": {"serviceAccountName": ACCOUNT, "securityContext": {"runAsUser": 0},
                     "containers": [{"name": "driver", "image": images.BUSYBOX, "imagePullPolicy": "Never"}],
                     "volumes": [{"name": "socket-dir", "hostPath": {"path": str(bed.driver.socket.parent)}}]}}}})
    patch = yaml.safe_load(SIDECAR.read_text())
    patch["spec"]["template"]["spec"]["containers"][0].update(image=images.PRODUCT, imagePullPolicy="Never")
    bed.kubectl("patch", "deployment", DRIVER, "-n", NAMESPACE, "--patch", json.dumps(patch))
    try:
        pod = bed.wait_for(lambda: _ready_pod(bed), POD_SECONDS_MAX, lambda: json.dumps(_pods(bed)))
        yield pod["status"]["podIP"]
        assert all(c["restartCount"] == 0 for pod in _pods(bed) for c in pod["status"]["containerStatuses"])
    finally:
        bed.api.delete("deployments", DRIVER, NAMESPACE)
        bed.wait_for(lambda: not _pods(bed), POD_SECONDS_MAX, "the end of the sidecar")
        for name in SECRETS:
            bed.api.delete("secrets", name, NAMESPACE)


def _make_secrets(bed):
    pki.make_server(bed.pki, DRIVER, f"DNS:{ACCOUNT}.{NAMESPACE}.svc")
    for name, files in zip(SECRETS, ({"tls.crt": f"{DRIVER}.crt", "tls.key": f"{DRIVER}.key", "ca.crt": "ca.crt"},
                                     {"key": bed.state / "cursor-key"})):
        bed.api.create("secrets", {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {key: base64.b64encode((bed.pki / path).read_bytes()).decode() for key, path in files.items()}})


def _pods(bed):
    return bed.api.list("pods", NAMESPACE, labelSelector=f"app={DRIVER}")


def _ready_pod(bed):
    """The one Pod with both containers, once both are ready."""
    for pod in _pods(bed):
        states = pod["status"].get("containerStatuses") or []
        if len(states) == 2 and all(state["ready"] for state in states):
            return pod
    return None


def by_curl(bed, found, account=MOVER, address=None):
    """What `curl` of the documentation prints of the first page; `address` is what a cluster's DNS would say of the URL's host."""
    status = found["status"]
    authority = bed.state / "differential-ca.crt"
    authority.write_bytes(base64.b64decode(status["caBundle"]))
    url = urllib.parse.urlsplit(status["url"])
    known = ["--resolve", f"{url.hostname}:{url.port}:{address}"] if address else []
    done = bed.run(["/usr/bin/curl", *known, "--silent", "--show-error", "--cacert", authority, "--compressed",
                    "-H", f"Authorization: Bearer {token(bed, account, status['audience'])}", status["url"]])
    return json.loads(done.stdout)


def help_text():
    return subprocess.run([components.program_path(), "diffsnap", "--help"], check=True, capture_output=True, text=True).stdout
