"""The programs of a bed: how each is called, and how one sees that it is ready.

A component is started by `Bed.start`. Ready means that the next component may rely on it, seen from
outside: a port answers, an endpoint says ok, a socket exists.
"""

import contextlib
import http.client
import json
import os
import pathlib
import socket
import ssl
import sys
import time

import cluster_api
import group_proxy
import node
import objects
import processes

# How long a component may take until it is ready, on a machine that is busy with other things.
READY_SECONDS_MAX = 120

# In the order in which a bed starts them; it stops them in reverse.
ORDER = ("etcd", "s3", "csi-driver", "kube-apiserver", "kube-controller-manager",
         "snapshot-controller", "csi-snapshotter", "csi-provisioner", "velero")

# In beds with Settings.group_version, after the API server.
GROUP_PROXY = "group-proxy"
# Started by the tests that want it; see metadata.py.
SNAPSHOT_METADATA = "csi-snapshot-metadata"
SNAPSHOT_METADATA_PORT, SNAPSHOT_METADATA_HEALTH_PORT = 50051, 18080
# Two replicas; see differential.py.
DIFFSNAP, DIFFSNAP_SECOND = "csi-delta-diffsnap", "csi-delta-diffsnap-second"
DIFFSNAP_PORTS = {DIFFSNAP: 18443, DIFFSNAP_SECOND: 18444}
DIFFSNAP_NAMESPACE = "csi-driver"  # As deploy/diffsnap.yaml has it.
# Started by Bed.grow_claim.
RESIZER = "csi-resizer"
# Started by the tests that want it; see longhorn.py.
LONGHORN = "longhorn-stand-in"
LONGHORN_USER = "longhorn-manager"
LONGHORN_CONTROL_PORT, LONGHORN_WEBHOOK_PORT = 19500, 19501
ON_DEMAND = (GROUP_PROXY, SNAPSHOT_METADATA, DIFFSNAP, DIFFSNAP_SECOND, RESIZER, LONGHORN)

# Those that end when the driver's connection is lost, and so are started again with it.
DRIVER_CLIENTS = ("csi-snapshotter", "csi-provisioner")
DRIVER_CLIENTS_ON_DEMAND = (SNAPSHOT_METADATA, RESIZER)

KCM_CONTROLLERS = (
    "namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller", "garbage-collector-controller",
    "persistentvolume-binder-controller", "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller", "persistentvolume-expander-controller",
    "deployment-controller", "replicaset-controller")

# With what is made and deleted of Longhorn, but by itself; see longhorn_manners.py.
AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "Metadata", "users": [LONGHORN_USER]},
    {"level": "Request", "verbs": ["create", "delete"], "resources": [{"group": "longhorn.io"}]},
    {"level": "Metadata"}]}

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def program_path():
    """csi-delta under test: CSI_DELTA_PROGRAM, or what the release preset builds."""
    return pathlib.Path(os.environ.get("CSI_DELTA_PROGRAM") or REPOSITORY / "build/release/bin/csi-delta")


def longhorn_path():
    """The stand-in of Longhorn, as it was built with the tests."""
    built = pathlib.Path(os.environ.get("CSI_DELTA_TESTS") or REPOSITORY / "build/release/bin")
    return built / "csi-delta-longhorn-stand-in"


CLIENT_RATE = ["--kube-api-qps=200", "--kube-api-burst=400"]
# Each backup and restore waits for Velero's next look at its operations; the default is 10 s. Each look starts plugin processes:
# what is done in a moment is looked at often, what takes as long as moving a volume is not.
SNAPSHOT_LOOK, MOVE_LOOK = "200ms", "1s"
# The defaults wait a second after the first failure, and up to five minutes after many.
SNAPSHOT_RETRIES = ["--retry-interval-start=200ms", "--retry-interval-max=2s"]


def etcd_command(bed):
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [bed.program("kube", "etcd"), f"--data-dir={bed.scratch}/etcd",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}", "--log-level=warn"]


def s3_command(bed):
    return [bed.program("s3", "versitygw"), "--access", objects.ACCESS_KEY,
            "--secret", objects.SECRET_KEY, "--region", objects.REGION, "--port", f":{objects.S3_PORT}",
            "posix", "--versioning-dir", str(bed.s3_dir.parent / "s3-versions"), str(bed.s3_dir)]


def apiserver_command(bed):
    policy = bed.state / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    return [bed.program("kube", "kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=127.0.0.1", "--secure-port=6443", "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={bed.pki}/apiserver.crt",
            f"--tls-private-key-file={bed.pki}/apiserver.key",
            f"--client-ca-file={bed.pki}/ca.crt",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={bed.pki}/sa.pub",
            f"--service-account-signing-key-file={bed.pki}/sa.key",
            "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true", "--profiling=false",
            f"--audit-policy-file={policy}", f"--audit-log-path={bed.audit_log}",
            "--audit-log-maxsize=10000",  # MiB; a file that is put aside would not be read.
            *([f"--token-auth-file={bed.tokens_file}"] if bed.settings.group_version else ()),
            *(node.apiserver_flags(bed) if bed.node else ())]


def group_proxy_command(bed):
    return [sys.executable, str(pathlib.Path(__file__).with_name("group_proxy.py")),
            f"--ca={bed.pki}/ca.crt", f"--cert={bed.pki}/apiserver.crt", f"--key={bed.pki}/apiserver.key",
            f"--port={group_proxy.PORT}", f"--port-behind={cluster_api.PORT}",
            f"--version={bed.settings.group_version}"]


def manager_command(bed):
    config = f"{bed.pki}/kcm.conf"
    controllers = KCM_CONTROLLERS + (node.CONTROLLERS if bed.node else ())
    return [bed.program("kube", "kube-controller-manager"), f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1", "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={bed.pki}/sa.key",
            f"--root-ca-file={bed.pki}/ca.crt", "--pvclaimbinder-sync-period=2s",
            "--controllers=" + ",".join(controllers), *CLIENT_RATE]


def group_flags(bed):
    """Whether the controller and the sidecar know of groups, by default they do not; without the kinds they would end."""
    return [f"--feature-gates=CSIVolumeGroupSnapshot={str(bed.settings.group_kinds).lower()}"]


def controller_command(bed):
    return [bed.program("csi", "snapshot-controller"),
            f"--kubeconfig={bed.pki}/snapshot-controller.conf", "--leader-election=false",
            "--resync-period=10s",  # A volume snapshot deleted while it is made may wait for it with its finalizers.
            *SNAPSHOT_RETRIES, *group_flags(bed), *CLIENT_RATE, "-v=4"]


def snapshotter_command(bed):
    return [bed.program("csi", "csi-snapshotter"), f"--kubeconfig={bed.pki}/csi-snapshotter.conf",
            f"--csi-address={bed.driver.socket}", "--leader-election=false",
            "--resync-period=10s", *SNAPSHOT_RETRIES, "--extra-create-metadata", *group_flags(bed), *CLIENT_RATE, "-v=4"]


def provisioner_command(bed):
    return [bed.program("csi", "csi-provisioner"), f"--kubeconfig={bed.pki}/csi-provisioner.conf",
            f"--csi-address={bed.driver.socket}", "--leader-election=false",
            # What fails because something else is not there yet is tried again soon: the default waits a second first.
            "--extra-create-metadata", "--retry-interval-start=200ms", "--retry-interval-max=2s", "--default-fstype=ext4",
            "--snapshot-orphan-sweep-interval=2s",  # A claim deleted while it waits leaves a finalizer.
            *CLIENT_RATE, "-v=4"]


def resizer_command(bed):
    return [bed.program("csi", RESIZER), f"--kubeconfig={bed.pki}/{RESIZER}.conf",
            f"--csi-address={bed.driver.socket}", "--leader-election=false",
            "--handle-volume-inuse-error=false", *CLIENT_RATE, "-v=4"]


def metadata_command(bed):
    pair = bed.pki / SNAPSHOT_METADATA
    return [bed.program("metadata", SNAPSHOT_METADATA),
            f"--kubeconfig={pair}-client.conf", f"--csi-address={bed.driver.socket}",
            f"--port={SNAPSHOT_METADATA_PORT}", f"--tls-cert={pair}.crt", f"--tls-key={pair}.key",
            f"--http-endpoint=127.0.0.1:{SNAPSHOT_METADATA_HEALTH_PORT}", *CLIENT_RATE, "-v=3"]


def diffsnap_command(bed, name):
    pair = bed.pki / DIFFSNAP
    return [str(program_path()), "diffsnap", f"--csi-address=unix://{bed.driver.socket}",
            f"--listen=0.0.0.0:{DIFFSNAP_PORTS[name]}",
            f"--url=https://{bed.host if bed.node else 'localhost'}:{DIFFSNAP_PORTS[DIFFSNAP]}",
            f"--tls-cert-file={pair}.crt", f"--tls-key-file={pair}.key", f"--ca-file={bed.pki}/ca.crt",
            f"--cursor-key-file={bed.state}/cursor-key",
            f"--leader-election-namespace={DIFFSNAP_NAMESPACE}",
            f"--kubeconfig={bed.state}/{DIFFSNAP}.conf",
            *bed.diffsnap_args.get(name, [])]


def longhorn_command(bed):
    return [str(longhorn_path()), "--kubeconfig", f"{bed.pki}/{LONGHORN_USER}.conf",
            "--control-port", str(LONGHORN_CONTROL_PORT), "--webhook-port", str(LONGHORN_WEBHOOK_PORT),
            *bed.longhorn_args]


def driver_command(bed):
    if bed.node:  # The kubelet shows Pods what the driver mounts.
        return bed.node.inside(bed.driver.command())
    # In a mount namespace of its own: what the driver mounts ends with it.
    return ["/usr/bin/unshare", "--mount", "--propagation", "private", *bed.driver.command()]


def velero_command(bed):
    return [bed.velero_program, "server", f"--kubeconfig={bed.pki}/velero.conf",
            f"--namespace={bed.namespace}", f"--plugin-dir={bed.plugin_dir}",
            "--metrics-address=127.0.0.1:8085", "--profiler-address=", "--log-level=debug",
            "--backup-sync-period=1ms",  # Else Velero, started again, does not look at a bucket that it saw just before.
            "--store-validation-frequency=30s",
            f"--item-operation-sync-frequency={MOVE_LOOK if bed.node else SNAPSHOT_LOOK}",
            "--garbage-collection-frequency=10s",
            "--resource-timeout=1m", "--terminating-resource-timeout=1m", *bed.server_args]


def velero_environment(bed):
    """What the plugin processes inherit, too."""
    return {"KUBECONFIG": f"{bed.pki}/velero.conf", "VELERO_NAMESPACE": bed.namespace,
            "VELERO_SCRATCH_DIR": f"{bed.scratch}/tmp", "AWS_EC2_METADATA_DISABLED": "true",
            "CSI_SNAPSHOT_EARLY_FREQUENT_POLLING": "true",
            "CSI_DELTA_KUBECONFIG": str(bed.plugin_kubeconfig), **bed.server_env}


COMMANDS = {
    "etcd": etcd_command, "s3": s3_command, "csi-driver": driver_command,
    "kube-apiserver": apiserver_command, "kube-controller-manager": manager_command,
    "snapshot-controller": controller_command, "csi-snapshotter": snapshotter_command,
    "csi-provisioner": provisioner_command, "velero": velero_command,
    GROUP_PROXY: group_proxy_command,
    SNAPSHOT_METADATA: metadata_command,
    RESIZER: resizer_command,
    LONGHORN: longhorn_command,
    DIFFSNAP: lambda bed: diffsnap_command(bed, DIFFSNAP),
    DIFFSNAP_SECOND: lambda bed: diffsnap_command(bed, DIFFSNAP_SECOND),
    **node.COMMANDS,
}


# --------------------------------------------------------------------------------------------------
# Readiness

def port_open(bed, port):
    with processes.inside(bed.name):
        link = socket.socket(socket.AF_INET)
    with link:
        link.settimeout(1)
        return link.connect_ex(("127.0.0.1", port)) == 0


def health(bed, port):
    """The HTTP status and body of a component's /health."""
    with processes.inside(bed.name):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        connection.connect()  # Here, because a socket belongs to the namespace it is made in.
    with contextlib.closing(connection):
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return answer.status, answer.read()


def etcd_ready(bed):
    return port_open(bed, 2379) and json.loads(health(bed, 2379)[1]).get("health") == "true"


def metadata_ready(bed):
    return health(bed, SNAPSHOT_METADATA_HEALTH_PORT)[0] == 200


def diffsnap_ready(bed, name):
    """Whether a replica knows all objects."""
    with processes.inside(bed.name):
        context = ssl.create_default_context(cafile=f"{bed.pki}/ca.crt")
        connection = http.client.HTTPSConnection("localhost", DIFFSNAP_PORTS[name], timeout=2, context=context)
        connection.connect()
    with contextlib.closing(connection):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200


def apiserver_ready(bed):
    try:
        return bed.api.raw("GET", "/readyz")[0] == 200
    except OSError:
        return False


def socket_ready(path):
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(1)
        return link.connect_ex(str(path)) == 0


def _status_request_answered(bed):
    """Asks the running server for its version and waits for the answer: it works on requests."""
    name = f"ready-{time.monotonic_ns()}"
    bed.api.create("serverstatusrequests", {
        "apiVersion": "velero.io/v1", "kind": "ServerStatusRequest",
        "metadata": {"name": name, "namespace": bed.namespace}, "spec": {}})
    try:
        def answered():
            if not bed.alive("velero"):
                raise processes.BedError(f"velero ended; see {bed.log_path('velero')}")
            request = bed.api.get("serverstatusrequests", name, bed.namespace)
            return request and request.get("status", {}).get("phase") == "Processed"
        return processes.wait_until(answered, READY_SECONDS_MAX, "Velero to answer a request")
    finally:
        bed.api.delete("serverstatusrequests", name, bed.namespace)


def velero_ready(bed):
    location = bed.api.get("backupstoragelocations", "default", bed.namespace)
    status = location.get("status", {})
    validated = status.get("phase") == "Available" and status.get("lastValidationTime")
    return validated and _status_request_answered(bed)


READY = {
    "etcd": etcd_ready,
    "s3": lambda bed: port_open(bed, objects.S3_PORT),
    "csi-driver": lambda bed: socket_ready(bed.driver.socket),
    "kube-apiserver": apiserver_ready,
    "kube-controller-manager": lambda bed: port_open(bed, 10257),
    "velero": velero_ready,
    GROUP_PROXY: lambda bed: port_open(bed, group_proxy.PORT),
    SNAPSHOT_METADATA: metadata_ready,
    LONGHORN: lambda bed: port_open(bed, LONGHORN_CONTROL_PORT),  # It opens last.
    DIFFSNAP: lambda bed: diffsnap_ready(bed, DIFFSNAP),
    DIFFSNAP_SECOND: lambda bed: diffsnap_ready(bed, DIFFSNAP_SECOND),
    **node.READY,
}


def environment(bed, name):
    """The whole environment of a component; nothing of the environment leaks into it."""
    base = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "HOME": f"{bed.scratch}/home", "TMPDIR": f"{bed.scratch}/tmp"}
    if name == "velero":
        base.update(velero_environment(bed))
    return base
