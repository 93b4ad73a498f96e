"""The node of a bed: scheduler, kubelet, containerd, a bridge for its Pods, and the driver registered there.

Only a bed with `Settings(node=True)` has one. Its programs, and the CSI driver, share one mount namespace
that ends with them; see node.sh.
"""

import contextlib
import json
import pathlib
import shutil

import cgroups
import cluster_api
import images
import objects
import pki
import processes

MOUNTS, CONTAINERD, SCHEDULER = "node-mounts", "containerd", "kube-scheduler"
KUBELET, REGISTRAR = "kubelet", "csi-registrar"
ORDER = (MOUNTS, CONTAINERD, SCHEDULER, KUBELET, REGISTRAR)

# What the controller manager does for nodes.
CONTROLLERS = ("node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller",
               "persistentvolume-attach-detach-controller")

NODE_ADDRESS = "10.99.0.1"  # A kubelet wants one that is not the loopback's.
POD_NETWORK, GATEWAY = "10.88.0.0/16", "10.88.0.1"  # The gateway is the bed's own end of the bridge.
BRIDGE = "bed-pods"
SERVICE_ADDRESS = "10.96.0.1"
SOCKET = "/run/containerd/containerd.sock"
PLUGINS_REGISTRY = "/var/lib/kubelet/plugins_registry"
CNI_PROGRAMS = "/usr/lib/cni"
READY_SECONDS_MAX = 120
POD_SECONDS_MAX = 180
STOP_SECONDS_MAX = 30

HERE = pathlib.Path(__file__).resolve().parent


def containerd_config(root, cni, device_ownership=False):
    """Paths that are not named here are containerd's own; node.sh keeps them from the machine."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    runtime = f"{cri}.containerd.runtimes.runc"
    return f"""version = 2
root = "{root}"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[{cri}]
  restrict_oom_score_adj = true
  device_ownership_from_security_context = {str(device_ownership).lower()}
  sandbox_image = "{images.BUSYBOX}"
[{cri}.containerd]
  snapshotter = "overlayfs"
[{runtime}]
  runtime_type = "io.containerd.runc.v2"
[{runtime}.options]
  SystemdCgroup = false
[{cri}.cni]
  bin_dir = "{CNI_PROGRAMS}"
  conf_dir = "{cni}"
"""


def cni_config():
    return {"cniVersion": "1.0.0", "name": "bed", "plugins": [{
        "type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": False, "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": POD_NETWORK, "gateway": GATEWAY}]],
                 "routes": [{"dst": "0.0.0.0/0"}]}}]}


def kubelet_config(keys, cgroup_root):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                           "x509": {"clientCAFile": f"{keys}/ca.crt"}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{keys}/kubelet-server.crt", "tlsPrivateKeyFile": f"{keys}/kubelet-server.key",
        "address": NODE_ADDRESS, "healthzBindAddress": "127.0.0.1",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup_root, "failCgroupV1": False,
        "failSwapOn": False,
        "syncFrequency": "10s",  # How soon a Pod sees a Secret that has changed.
        # A program that tests kill again and again is there again at once.
        "featureGates": {"KubeletCrashLoopBackOffMax": True}, "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "0%",
                         "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
        "makeIPTablesUtilChains": False, "resolvConf": "", "oomScoreAdj": 0,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins"}


class Node:
    """The one node of a bed, `objects.NODE`. Owned by the bed, which starts and ends it."""

    def __init__(self, bed):
        self._bed = bed
        self.folder = bed.scratch / "node"

    # -- Life --------------------------------------------------------------------------------------

    def prepare(self):
        """Everything that the programs want to find: keys, files, addresses, cgroups."""
        bed = self._bed
        (self.folder / "cni").mkdir(parents=True)
        pki.make_server(bed.pki, "kubelet-server")
        pki.make_client(bed.pki, "kubelet", f"/O=system:nodes/CN=system:node:{objects.NODE}")
        pki.make_client(bed.pki, "scheduler", "/CN=system:kube-scheduler")
        pki.make_client(bed.pki, "apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet")
        self._configure_containerd()
        self._write("cni/bed.conflist", json.dumps(cni_config()))
        self._write("kubelet.json", json.dumps(kubelet_config(bed.pki, f"/{bed.name}")))
        self._write("busybox.tar", images.busybox())
        cgroups.make(bed.name)
        for command in (
                ["ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "lo"],
                # Else the first Pod makes it, and what Pods are to reach has no address before.
                ["ip", "link", "add", BRIDGE, "up", "type", "bridge"],
                ["ip", "address", "add", f"{GATEWAY}/16", "dev", BRIDGE],
                # A service of one port needs no kube-proxy.
                ["iptables", "-t", "nat", "-A", "PREROUTING", "-d", SERVICE_ADDRESS, "-p", "tcp",
                 "--dport", "443", "-j", "DNAT", "--to-destination", f"{GATEWAY}:{bed.client_port}"]):
            bed.run(command)

    def _configure_containerd(self, **options):
        self._write("containerd.toml", containerd_config(self._bed.state / "containerd", self.folder / "cni", **options))

    def _write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def start(self):
        """Starts what needs an API server, and gives the node its image. Pods run a moment later."""
        bed = self._bed
        bed.start(SCHEDULER)
        self.import_image(self.folder / "busybox.tar")
        bed.start(KUBELET)
        bed.start(REGISTRAR)

    def await_ready(self):
        """Waits until Pods can be scheduled here, with volumes of the bed's driver."""
        self._bed.wait_for(self._ready, READY_SECONDS_MAX, lambda: f"node ready: {self._object()}")

    def _object(self):
        return self._bed.api.get("nodes", objects.NODE)

    def _ready(self):
        node = self._object()
        conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
        if conditions.get("Ready") != "True" or node["spec"].get("taints"):
            return False
        drivers = self._bed.api.get("csinodes", objects.NODE)
        return drivers and any(d["name"] == self._bed.driver.name
                               for d in drivers["spec"].get("drivers") or [])

    # -- Inside ------------------------------------------------------------------------------------

    def inside(self, command):
        """A command line that runs another one among the node's mounts."""
        return ["/usr/bin/nsenter", f"--mount=/proc/{self._bed.pid(MOUNTS)}/ns/mnt", "--",
                *map(str, command)]

    def run(self, command, **kwargs):
        """Runs a program among the node's mounts and in the bed's network; see Bed.run."""
        return self._bed.run(self.inside(command), **kwargs)

    def import_image(self, path):
        """Gives the node an image, as an archive."""
        self.run(["ctr", "--address", SOCKET, "--namespace", "k8s.io", "images", "import", path])

    def save_logs(self, target):
        """Copies what the Pods have written to a folder."""
        if self._bed.alive(MOUNTS) and (logs := path_inside(self._bed, "/var/log/pods")).is_dir():
            shutil.copytree(logs, target, dirs_exist_ok=True)

    def restart_containerd(self):
        """As on a node whose containerd is updated: what runs in Pods goes on."""
        processes.end_all([self._bed.record.processes[CONTAINERD]], STOP_SECONDS_MAX)
        self._bed.start(CONTAINERD)

    @contextlib.contextmanager
    def device_ownership(self):
        """While the body runs, containerd gives block devices to the user of the Pod."""
        self._configure_containerd(device_ownership=True)
        self.restart_containerd()
        try:
            yield
        finally:
            self._configure_containerd()
            self.restart_containerd()

    @contextlib.contextmanager
    def cordoned(self):
        """While the body runs, no Pod is scheduled here."""
        self._bed.api.patch("nodes", objects.NODE, {"spec": {"unschedulable": True}})
        try:
            yield
        finally:
            self._bed.api.patch("nodes", objects.NODE, {"spec": {"unschedulable": None}})

    @contextlib.contextmanager
    def loops_of_root(self):
        """While the body runs, block devices are root's alone, as on a machine without udev."""
        loops = ["sh", "-c", 'chown "$0" /dev/loop[0-9]*; chmod "$1" /dev/loop[0-9]*']
        self.run([*loops, "root:root", "0600"])
        try:
            yield
        finally:
            self.run([*loops, "root:disk", "0660"])

    # -- Pods --------------------------------------------------------------------------------------

    def start_pod(self, pod):
        """Creates a Pod and waits until it runs or has ended; returns it."""
        return self._follow(pod, ("Running", "Succeeded", "Failed"))

    def run_pod(self, pod):
        """Creates a Pod and waits until it has ended; returns its phase and what it wrote."""
        ended = self._follow(pod, ("Succeeded", "Failed"))
        meta = ended["metadata"]
        return ended["status"]["phase"], self._bed.kubectl("logs", "-n", meta["namespace"],
                                                           meta["name"]).stdout

    def delete_pods(self, namespace):
        """Deletes the Pods of a namespace and waits until they are gone."""
        self._bed.api.request("DELETE", cluster_api.path("pods", namespace=namespace))
        self._bed.wait_for(lambda: not self._bed.api.list("pods", namespace), POD_SECONDS_MAX,
                           f"end of the pods in namespace {namespace}")

    def _follow(self, pod, phases):
        bed, meta = self._bed, pod["metadata"]
        bed.wait_for(lambda: bed.api.get("serviceaccounts", "default", meta["namespace"]), READY_SECONDS_MAX,
                     f"the default account of namespace {meta['namespace']}")
        bed.api.create("pods", pod)

        def found():
            return bed.api.get("pods", meta["name"], meta["namespace"])

        def there():
            now = found()
            return now["status"].get("phase") in phases and now
        return bed.wait_for(there, POD_SECONDS_MAX, lambda: self._tell(found()))

    def _tell(self, pod):
        meta = pod["metadata"]
        events = [e["message"] for e in self._bed.api.list("events", meta["namespace"])
                  if e["involvedObject"]["name"] == meta["name"]]
        return f"pod {meta['name']}: {json.dumps(pod['status'])}\n" + "\n".join(events)


# --------------------------------------------------------------------------------------------------
# Commands and readiness, as in components.py

def mounts_command(bed):
    return ["/usr/bin/unshare", "--mount", "--propagation", "private", str(HERE / "node.sh"),
            str(bed.node.folder)]


def containerd_command(bed):
    return bed.node.inside(["/usr/bin/containerd", "--config", bed.node.folder / "containerd.toml"])


def scheduler_command(bed):
    config = f"{bed.pki}/scheduler.conf"
    return [bed.program("kube", "kube-scheduler"), f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1", "--leader-elect=false"]


def kubelet_command(bed):
    return bed.node.inside([
        bed.program("kube", "kubelet"), f"--config={bed.node.folder}/kubelet.json",
        f"--kubeconfig={bed.pki}/kubelet.conf", f"--hostname-override={objects.NODE}",
        f"--node-ip={NODE_ADDRESS}"])


def registrar_command(bed):
    return bed.node.inside([bed.program("kube", "csi-registrar"), bed.driver.socket, PLUGINS_REGISTRY])


COMMANDS = {MOUNTS: mounts_command, CONTAINERD: containerd_command, SCHEDULER: scheduler_command,
            KUBELET: kubelet_command, REGISTRAR: registrar_command}


def apiserver_flags(bed):
    """What the API server wants besides, to be reached by Pods and to reach the kubelet."""
    pair = f"{bed.pki}/apiserver-kubelet"
    return ["--bind-address=0.0.0.0", f"--advertise-address={GATEWAY}",
            f"--kubelet-client-certificate={pair}.crt", f"--kubelet-client-key={pair}.key",
            f"--kubelet-certificate-authority={bed.pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP"]


def path_inside(bed, path):
    """A path of the node, as the machine reaches it."""
    return pathlib.Path(f"/proc/{bed.pid(MOUNTS)}/root{path}")


def containerd_ready(bed):
    return bed.node.run(["ctr", "--address", SOCKET, "version"], check=False).returncode == 0


READY = {MOUNTS: lambda bed: path_inside(bed, "/run/bed-node").exists(),
         CONTAINERD: containerd_ready,
         KUBELET: lambda bed: path_inside(bed, PLUGINS_REGISTRY).is_dir()}
