#!/usr/bin/python3
"""A whole cluster as plain processes: API server, CSI driver, Velero and S3, for the scenarios.

    bed.py up     --state DIR [--velero 1.18.3|1.13.1] [--namespace NS] [--csi-driver PATH]
                  [--plugin] [--node] [--groups] [--group-version v1|v1beta2|v1beta1|none]
    bed.py exec   --state DIR -- COMMAND...    runs a command inside, with KUBECONFIG and PATH set
    bed.py env    --state DIR                  prints those settings
    bed.py status --state DIR                  prints each component with its process id
    bed.py down   --state DIR

Tests use the class Bed instead; README.md beside this file says how, and why it is built this way.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import secrets as randomness
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import yaml

import build
import cluster_api
import components
import csi_drivers
import group_proxy
import node
import objects
import pki
import processes
from processes import BedError, LeftBehind, ProcessId

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
EVENT_BEGINS = b'{"kind":"Event","apiVersion":"audit.k8s.io'
PLUGIN_NAME = "velero-plugin-for-csi-delta"
VELERO_MODULES = {"1.18.3": "velero118", "1.13.1": "velero113"}
SHARED_MEMORY = pathlib.Path("/dev/shm")  # Sockets and etcd: short paths, and no fsync to wait for.
COMMAND_SECONDS_MAX = 300
KINDS_SECONDS_MAX = 60
CONTROLLER_SECONDS_MAX = 40  # After which one that still has not done a thing may never do it.
CHANGE_SECONDS_MAX = 120  # How long a volume, a snapshot or a namespace may take on a machine that is busy.
STOP_SECONDS = 5.0
TOLD_LINES = 12
VOLUMES_BYTES = 32 << 30  # Of the file system of the volumes' own; sparse.
VOLUMES_INODE_BYTES = 4 << 20
ENDED = ("Completed", "PartiallyFailed", "Failed", "FailedValidation")


def plugin_path():
    """The plugin under test: CSI_DELTA_PLUGIN, or what the release preset builds."""
    return pathlib.Path(os.environ.get("CSI_DELTA_PLUGIN")
                        or REPOSITORY / "build/release/bin" / PLUGIN_NAME)


def driver_path():
    """The CSI driver to run: CSI_DELTA_CSI_DRIVER, or the project's own."""
    return pathlib.Path(os.environ.get("CSI_DELTA_CSI_DRIVER")
                        or REPOSITORY / "build/release/bin/csi-delta-test-driver")


@dataclasses.dataclass
class Settings:
    """What a bed is made of. All of it can be written to a file, for `Bed.attach`."""

    velero: str = "1.18.3"
    namespace: str = "velero"  # Velero's own.
    csi_driver: str = dataclasses.field(default_factory=lambda: str(driver_path()))
    driver_name: str = ""  # What the driver says it is; "": a name of its own.
    plugin: bool = False  # Is csi-delta in the plugin folder when Velero starts?
    node: bool = False  # With a node that runs Pods; see node.py.
    groups: bool = False  # Does the driver take groups of volumes, at one instant?
    group_kinds: bool = True  # Are the kinds of groupsnapshot.storage.k8s.io there?
    group_version: str = ""  # The one version of them that Velero and the plugin see, or "none"; "": all.
    server_args: list = dataclasses.field(default_factory=lambda: ["--features=EnableCSI"])
    server_env: dict = dataclasses.field(default_factory=dict)


class Bed:
    """One cluster with its storage. Make it with `Bed.up()`, end it with `down()`, or use `with`.

    Owns its network namespace, its folders and every process in the namespace. A bed dies with the
    process that made it unless `detached`: the next bed anywhere on the machine cleans up then.
    Methods raise BedError, ApiError or CalledProcessError. Not thread-safe, except `api`.

    With `storage_of` it is a second cluster on the storage of another bed: its own etcd, API server
    and Velero, but the CSI driver and the bucket of the other one, which must outlive it. With
    `bucket_of` it has only the bucket of the other one, and may have a node.
    """

    def __init__(self, record, state, settings, storage_of=None, bucket_of=None):
        self.record = record
        self.name = record.name
        self.state = pathlib.Path(state)
        self.scratch = SHARED_MEMORY / self.name
        self.settings = settings
        self.pki = self.state / "pki"
        self.plugin_dir = self.state / "plugins"
        self.plugin_kubeconfig = self.state / "plugin.conf"
        self.audit_log = self.state / "audit.log"
        self.tokens_file = self.state / "tokens.csv"
        self.server_args = list(settings.server_args)
        self.server_env = dict(settings.server_env)
        self.diffsnap_args = {}  # Further flags of csi-delta diffsnap, by component.
        self.longhorn_args = []  # Further flags of the stand-in of Longhorn.
        self.owns_storage = storage_of is None
        if self.owns_storage:
            self.s3_dir = bucket_of.s3_dir if bucket_of else self.state / "s3"
            self.driver = csi_drivers.make_driver(
                settings.csi_driver, self.state / "driver", self.scratch)
            self.driver.name = settings.driver_name or self.driver.name
            if settings.groups:
                self.driver.volumes_dir = self.state / "driver-volumes"
        else:
            self.s3_dir, self.driver = storage_of.s3_dir, storage_of.driver
        self.node = node.Node(self) if settings.node else None
        self.up_seconds = None  # How long the start took, without building.
        self._programs = {}
        self._children = {}
        self._readers = {}  # Of what a component writes, where it writes into a pipe.
        self._refusals = []  # Parts of the audit log, from and to, in which every access of the plugin was refused.
        self._api = None
        self.buckets = {}  # Folders of those that tests made, by location; see places.py.
        self._ending = []  # Namespaces whose end was not awaited, each with its volumes.

    # -- Life --------------------------------------------------------------------------------------

    @classmethod
    def up(cls, settings=None, *, state=None, detached=False, storage_of=None, bucket_of=None):
        """Starts everything and waits until it is ready. Cleans up behind killed runs first."""
        if os.geteuid() != 0:
            raise BedError("the test bed makes network namespaces and must run as root")
        processes.wipe_orphans()
        settings = settings or Settings()
        if storage_of is None and not os.access(settings.csi_driver, os.X_OK):
            raise BedError(f"CSI driver {settings.csi_driver} is not built")
        if settings.node and storage_of is not None:
            raise BedError("a bed on the storage of another one has no node: the driver is not there")
        for module in ("kube", "csi", "awsplugin", "s3", VELERO_MODULES[settings.velero]):
            build.build(module)
        start = time.monotonic()
        name = f"csd-{randomness.token_hex(4)}"
        if state is None:
            state = tempfile.mkdtemp(prefix=f"{name}-")
        state = pathlib.Path(state).resolve()
        for record in processes.records():
            if str(state) in record.folders:  # A bed that was not taken down.
                record.wipe()
        owner = None if detached else ProcessId.of(os.getpid())
        record = processes.Record(name, [str(state), str(SHARED_MEMORY / name)], owner)
        record.save()
        bed = cls(record, state, settings, storage_of, bucket_of)
        try:
            bed._start_everything()
        except BaseException:
            build.say(f"bed: logs kept in {bed.save_logs()}")
            bed.down()
            raise
        bed.up_seconds = time.monotonic() - start
        build.say(f"bed: up in {bed.up_seconds:.1f} s, in network namespace {bed.name}")
        return bed

    @classmethod
    def attach(cls, state):
        """The running bed of a state folder, as another process started it."""
        state = pathlib.Path(state).resolve()
        for record in processes.records():
            if str(state) in record.folders:
                settings = Settings(**json.loads((state / "bed.json").read_text()))
                return cls(record, state, settings)
        raise BedError(f"no bed is up in {state}")

    def down(self):
        """Ends and deletes everything. May be called twice, and in any state."""
        for name in reversed(self.component_names()):
            child = self._children.get(name)
            if child and child.poll() is None:
                child.kill()
        self.record.wipe()
        for child in (*self._children.values(), *self._readers.values()):
            child.wait()

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure:
            build.say(f"bed: logs kept in {self.save_logs()}")
        self.down()

    def _start_everything(self):
        for folder in (self.state, self.scratch, self.scratch / "home", self.scratch / "tmp",
                       self.state / "logs", self.plugin_dir, self.s3_dir / objects.BUCKET,
                       self.s3_dir.parent / "s3-versions", self.driver.state_dir):
            folder.mkdir(parents=True, exist_ok=True)
        (self.state / "bed.json").write_text(json.dumps(dataclasses.asdict(self.settings)))
        pki.make_pki(self.pki)
        if self.settings.group_version:
            self._lead_velero_through_proxy()
        processes.add_netns(self.name)
        self._fill_plugin_dir()
        if self.owns_storage and self.driver.volumes_dir:
            self._mount_volumes()
        if self.node:
            self.node.prepare()
            self.start(node.MOUNTS)
        early = ["etcd", "s3"] + (["csi-driver"] if self.owns_storage else [])
        early += [node.CONTAINERD] if self.node else []
        for name in early:
            self._spawn(name)
        for name in early:
            self._await_ready(name)
        self.start("kube-apiserver")
        if self.settings.group_version:
            self.start(components.GROUP_PROXY)
        self._spawn("kube-controller-manager")
        self._create_kinds()
        for name in ("snapshot-controller", *components.DRIVER_CLIENTS):
            self._spawn(name)
        self._create_objects()
        if self.node:
            self.node.start()
        self.start("velero")
        self._await_ready("kube-controller-manager")
        if self.node:
            self.node.await_ready()

    def _mount_volumes(self):
        """Gives the driver a file system for volumes alone, which it can freeze."""
        image = self.state / "driver-volumes.img"
        with open(image, "wb") as file:
            file.truncate(VOLUMES_BYTES)
        self.driver.volumes_dir.mkdir()
        subprocess.run(["mkfs.ext4", "-q", "-i", str(VOLUMES_INODE_BYTES), image], check=True)
        subprocess.run(["mount", "-o", "loop,noatime", image, self.driver.volumes_dir], check=True)

    @property
    def client_port(self):
        """Of the API server as Velero and the plugin see it."""
        return group_proxy.PORT if self.settings.group_version else pki.SERVER_PORT

    def _lead_velero_through_proxy(self):
        """A token instead of a certificate, which no proxy can pass on."""
        token = randomness.token_hex(16)
        self.tokens_file.write_text(f'{token},velero-server,velero-server,"system:masters"\n')
        self.tokens_file.chmod(0o600)
        pki.write_kubeconfig(self.pki / "velero.conf", self.pki / "ca.crt", {"token": token}, port=self.client_port)

    def _fill_plugin_dir(self):
        shutil.copy2(self.program("awsplugin", "velero-plugin-for-aws"), self.plugin_dir)
        if self.settings.plugin:
            self._copy_plugin()

    def _copy_plugin(self):
        source = plugin_path()
        if not os.access(source, os.X_OK):
            raise BedError(f"plugin {source} is not built")
        scratch = self.state / "plugin.new"
        shutil.copy2(source, scratch)
        scratch.rename(self.plugin_dir / PLUGIN_NAME)

    def _create_kinds(self):
        names = []
        for module in ("csi", VELERO_MODULES[self.settings.velero]):
            for kind in json.loads((self.product(module) / "share/crds.json").read_text()):
                if kind["spec"]["group"] == cluster_api.GROUP_SNAPSHOT and not self.settings.group_kinds:
                    continue
                self.api.create("customresourcedefinitions", kind)
                names.append(kind["metadata"]["name"])

        def pending():
            kinds = self.api.list("customresourcedefinitions")
            return [k["metadata"]["name"] for k in kinds if not any(
                c["type"] == "Established" and c["status"] == "True"
                for c in k.get("status", {}).get("conditions") or [])]
        self.wait_for(lambda: not pending(), KINDS_SECONDS_MAX, lambda: f"kinds to be served: {pending()}")
        # Established comes a moment before the paths are served.
        probe = cluster_api.path("serverstatusrequests", namespace=self.namespace)
        self.wait_for(lambda: self.api.raw("GET", probe)[0] == 200, KINDS_SECONDS_MAX, "Velero's paths")
        for plural in ("volumesnapshots", *self._group_plurals()):
            self.wait_for(lambda probe_csi=cluster_api.path(plural): self.api.raw("GET", probe_csi)[0] == 200,
                          KINDS_SECONDS_MAX, f"the paths of {plural}")

    def _group_plurals(self):
        return ["volumegroupsnapshots"] if self.settings.group_kinds else []

    def _create_objects(self):
        for plural, obj in objects.storage_objects(self.driver.name):
            self.api.create(plural, obj)
        if self.settings.groups and self.settings.group_kinds:
            self.api.create("volumegroupsnapshotclasses", objects.group_class(objects.GROUP_CLASS, self.driver.name))
        self._create_velero_objects()

    def _create_velero_objects(self):
        self.api.create("namespaces", objects.namespace(self.namespace))
        for plural, obj in objects.velero_objects(self.namespace, self.host):
            self.api.create(plural, obj)
        self.api.create("deployments", self._velero_deployment())
        self._grant_plugin_rights()

    def _velero_deployment(self):
        """What `velero install` would create, without replicas: restores look for it."""
        listing = self.run(
            [self.velero_program, "install", "--dry-run", "-o", "json", "--namespace",
             self.namespace, "--no-secret", "--no-default-backup-location",
             "--use-volume-snapshots=false",
             "--plugins", "velero/velero-plugin-for-aws:v1.14.2"]).stdout
        for obj in json.loads(listing)["items"]:
            if obj["kind"] == "Deployment":
                obj["spec"]["replicas"] = 0
                return obj
        raise BedError("velero install names no Deployment")

    def _grant_plugin_rights(self):
        """Gives our plugin's account what deploy/rbac.yaml lists, and a kubeconfig with its token."""
        rules = REPOSITORY / "deploy" / "rbac.yaml"
        documents = [d for d in yaml.safe_load_all(rules.read_text()) if d]
        for document in documents:
            if document["kind"] == "ClusterRole":
                self.api.create("clusterroles", document)
            elif document["kind"] == "Role":
                document["metadata"]["namespace"] = self.namespace
                self.api.create("roles", document)
            else:
                continue
            kind, name = document["kind"], document["metadata"]["name"]
            self.api.create(*objects.binding(name, kind, name, objects.subject(objects.PLUGIN_ACCOUNT, self.namespace),
                                             self.namespace if kind == "Role" else ""))
        self.renew_plugin_token()

    def renew_plugin_token(self, port=None):
        """Writes a kubeconfig with a fresh token of the plugin's account, and another way to the API server."""
        token = self.api.token(objects.PLUGIN_ACCOUNT, self.namespace)
        pki.write_kubeconfig(self.plugin_kubeconfig, self.pki / "ca.crt", {"token": token}, self.namespace,
                             port or self.client_port)

    def kubeconfig(self, account, namespace):
        """A kubeconfig with a token of a service account; made once."""
        path = self.state / f"{account}.conf"
        if not path.exists():
            pki.write_kubeconfig(path, self.pki / "ca.crt", {"token": self.api.token(account, namespace)}, namespace)
        return path

    def define(self, kinds):
        """Makes the API server serve these kinds; returns those that it did not know."""
        new = [kind for kind in kinds if not self.api.get("customresourcedefinitions", kind["metadata"]["name"])]
        for kind in new:
            self.api.create("customresourcedefinitions", kind)
        for plural in (kind["spec"]["names"]["plural"] for kind in new):
            self.wait_for(lambda probe=cluster_api.path(plural): self.api.raw("GET", probe)[0] == 200, KINDS_SECONDS_MAX,
                          f"the path of {plural}")
        return new

    # -- Components --------------------------------------------------------------------------------

    def product(self, module):
        """The folder of a built module; builds it when need be."""
        if module not in self._programs:
            self._programs[module] = build.build(module)
        return self._programs[module]

    def program(self, module, name):
        return str(self.product(module) / "bin" / name)

    @property
    def velero_program(self):
        return self.program(VELERO_MODULES[self.settings.velero], "velero")

    def component_names(self):
        """All that this bed may run, in the order of their start."""
        return (*(node.ORDER if self.node else ()), *components.ORDER, *components.ON_DEMAND)

    def log_path(self, name):
        return self.state / "logs" / f"{name}.log"

    def log(self, name):
        """All that a component has written so far."""
        path = self.log_path(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def pid(self, name):
        """The process id of a component, or None when it is not running."""
        process = self.record.processes.get(name)
        return process.pid if process and process.alive() else None

    def alive(self, name):
        return self.pid(name) is not None

    def dead(self):
        """The components that were started and have ended by themselves."""
        return [n for n in self.component_names()
                if n in self.record.processes and not self.alive(n)]

    @contextlib.contextmanager
    def _output(self, name):
        """Where a component writes: to its log; Velero's server through a pipe, as in a Pod.

        Before go-plugin says that a plugin's process ended, it flushes stderr to the disk. A pipe has
        nothing to flush; on a file that takes seconds, in which Velero calls the dead process.
        """
        with open(self.log_path(name), "ab") as log:
            if name != "velero":
                yield log
                return
            # A process, not a thread: a bed may outlive who started it. It ends with the last writer.
            self._readers[name] = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log,
                                                   start_new_session=True)
            with self._readers[name].stdin as pipe:
                yield pipe

    def _spawn(self, name):
        if self.alive(name):
            raise BedError(f"{name} is running already")
        if name == "csi-driver":
            if not self.owns_storage:
                raise BedError("the CSI driver belongs to the other cluster")
            self.driver.socket.unlink(missing_ok=True)
        command = ["/usr/bin/nsenter", f"--net={processes.NAMESPACES / self.name}", "--",
                   *components.COMMANDS[name](self)]
        with self._output(name) as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.state,
                env=components.environment(self, name), start_new_session=True)
        self._children[name] = child
        self.record.processes[name] = ProcessId.of(child.pid) or ProcessId(child.pid, -1)
        self.record.save()

    def _await_ready(self, name):
        ready = components.READY.get(name)
        if ready is None:
            return

        def probe():
            if not self.alive(name):
                tail = self.log(name)[-1500:]
                raise BedError(f"{name} ended while starting; {self.log_path(name)} ends:\n{tail}")
            with contextlib.suppress(OSError):
                return ready(self)
        processes.wait_until(probe, components.READY_SECONDS_MAX, f"{name} ready")

    def start(self, name):
        """Starts a component and waits until it is ready."""
        audited = self.audit_position() if self.audit_log.exists() else 0
        self._spawn(name)
        self._await_ready(name)
        if name == "kube-apiserver":  # Until it is ready it refuses everybody, not knowing its roles.
            self._refusals.append((audited, self.audit_position() if self.audit_log.exists() else 0))

    def stop(self, name, kill=False):
        """Ends a component and its children, at once with `kill`; returns when they are gone.

        The plugin processes of a Velero server end with it, as they would with its container.
        """
        process = self.record.processes.pop(name, None)
        if process is None:
            return
        family = [p for p in processes.processes_in(self.name)
                  if _session(p.pid) == process.pid and p != process]
        processes.end_all([process], 0.0 if kill else STOP_SECONDS)
        processes.end_all(family)
        child = self._children.pop(name, None)
        if child:
            child.wait()
        reader = self._readers.pop(name, None)
        if reader:
            reader.wait()  # The log is whole.
        self.record.save()

    def restart(self, name, kill=False):
        """Stops and starts a component; with the CSI driver, also what depends on it."""
        dependents = ()
        if name == "csi-driver":
            dependents = (*components.DRIVER_CLIENTS,
                          *filter(self.alive, components.DRIVER_CLIENTS_ON_DEMAND))
        for other in dependents:
            self.stop(other)
        self.stop(name, kill)
        self.start(name)
        for other in dependents:
            self.start(other)

    @contextlib.contextmanager
    def paused(self, name):
        """While the body runs, a component answers no request and loses nothing."""
        process = self.record.processes[name]
        process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.signal(signal.SIGCONT)

    def plugin_processes(self):
        """The running processes of our plugin: Velero starts one per backup, restore or delete."""
        path = str(self.plugin_dir / PLUGIN_NAME)
        return [p for p in processes.processes_in(self.name) if _first_argument(p.pid) == path]

    def set_plugin(self, present):
        """Puts our plugin into the plugin folder or takes it out; a change restarts Velero."""
        if (self.plugin_dir / PLUGIN_NAME).exists() == present:
            return
        if present:
            self._copy_plugin()
        else:
            (self.plugin_dir / PLUGIN_NAME).unlink()
        self.restart("velero")

    def configure_velero(self, server_args=None, server_env=None):
        """Restarts Velero with other flags or environment, if they are other ones."""
        args = self.settings.server_args if server_args is None else server_args
        env = self.settings.server_env if server_env is None else server_env
        if (args, env) != (self.server_args, self.server_env):
            self.server_args, self.server_env = list(args), dict(env)
            self.restart("velero")

    def configure_driver(self, *args):
        """Restarts the CSI driver with other flags, if they are other ones."""
        if list(args) != self.driver.args:
            self.driver.args = list(args)
            self.restart("csi-driver")

    # -- Programs ----------------------------------------------------------------------------------

    @property
    def host(self):
        """The address at which everybody who shall reaches the bed's servers: Pods, too, where there are some."""
        return node.GATEWAY if self.node else "127.0.0.1"

    @property
    def namespace(self):
        """Velero's namespace."""
        return self.settings.namespace

    def environment(self):
        """What a person or a test needs to use the bed's programs."""
        folders = [self.product(m) / "bin"
                   for m in ("kube", "csi", VELERO_MODULES[self.settings.velero])]
        return {"KUBECONFIG": str(self.pki / "admin.conf"), "VELERO_NAMESPACE": self.namespace,
                "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])}

    def inside(self, command):
        """A command line that runs another one in the bed's network."""
        return ["/usr/bin/nsenter", f"--net={processes.NAMESPACES / self.name}", "--",
                *map(str, command)]

    def run(self, command, *, check=True, stdin=None, timeout_seconds=COMMAND_SECONDS_MAX):
        """Runs a program inside; returns the CompletedProcess with text. BedError if it fails."""
        done = subprocess.run(
            self.inside(command), input=stdin, capture_output=True, text=True,
            timeout=timeout_seconds, check=False,
            env={**os.environ, **self.environment(), "HOME": f"{self.scratch}/home"})
        if check and done.returncode != 0:
            raise BedError(f"`{' '.join(map(str, command))}` ended with {done.returncode}:\n"
                           f"{done.stdout}{done.stderr}")
        return done

    def kubectl(self, *arguments, **kwargs):
        return self.run([self.program("kube", "kubectl"), *arguments], **kwargs)

    def velero(self, *arguments, **kwargs):
        return self.run([self.velero_program, "--namespace", self.namespace, *arguments], **kwargs)

    @property
    def api(self):
        """The API server as the administrator; see cluster_api.ClusterApi."""
        if self._api is None:
            self._api = cluster_api.ClusterApi(self.name, self.pki)
        return self._api

    # -- Waiting and looking -----------------------------------------------------------------------

    def wait_for(self, condition, timeout_seconds, what, failure=BedError):
        """Returns the first truthy value of `condition`. The error names what died meanwhile."""
        try:
            return processes.wait_until(condition, timeout_seconds, what, failure)
        except failure as error:
            raise failure(f"{error}; ended by themselves: {self.dead() or 'none'}") from None

    def wait_gone(self, condition, timeout_seconds, what):
        """As `wait_for`, for what has to go: the error is a LeftBehind."""
        return self.wait_for(condition, timeout_seconds, what, LeftBehind)

    def audit_events(self, user=None, since=None, until=None):
        """The API server's audit log as a list of dicts, in order.

        `user` keeps the events of one user name ("velero-server", or `plugin_user`), or of several;
        `since` and `until` are `audit_position()`s.
        """
        users = {user} if isinstance(user, str) else user
        events = []
        with open(self.audit_log, "rb") as log:
            if since:  # An event belongs to where it begins: the log may be in the middle of one.
                log.seek(since - 1)
                log.readline()
            while until is None or log.tell() < until:
                line = log.readline()
                if not line.endswith(b"\n"):
                    break
                # An API server that was killed in the middle of an event has its successor go on with the line.
                event = json.loads(line[max(0, line.rfind(EVENT_BEGINS)):])
                if users is None or event["user"].get("username") in users:
                    events.append(event)
        return events

    def events_with_rights(self, users):
        """The audit events of these users, but those from while rights were taken from them."""
        found, position = [], 0
        for start, end in [*sorted(self._refusals), (self.audit_position(), 0)]:
            found += self.audit_events(users, position, max(position, start))
            position = max(position, end)
        return found

    @contextlib.contextmanager
    def refusing(self):
        """What is refused while the body runs is meant to be."""
        start = self.audit_position()
        try:
            yield
        finally:
            self._refusals.append((start, self.audit_position()))

    def audit_position(self):
        return self.audit_log.stat().st_size

    @property
    def plugin_user(self):
        return f"system:serviceaccount:{self.namespace}:{objects.PLUGIN_ACCOUNT}"

    def save_logs(self, target=None):
        """Copies all logs to a folder that outlives the bed; returns it."""
        root = os.environ.get("CSI_DELTA_E2E_LOGS") or REPOSITORY / "build" / "e2e-logs"
        target = pathlib.Path(target or pathlib.Path(root) / self.name)
        if (self.state / "logs").is_dir():
            shutil.copytree(self.state / "logs", target, dirs_exist_ok=True)
        if self.audit_log.exists():
            shutil.copy2(self.audit_log, target)
        if self.node:
            self.node.save_logs(target / "pods")
        return target

    # -- Volumes -----------------------------------------------------------------------------------

    def create_namespace(self, name, labels=None):
        return self.api.create("namespaces", objects.namespace(name, labels))

    def begin_to_delete_namespace(self, name):
        """Deletes a namespace without waiting for more than its Pods and claims; `await_endings` does.

        Claims first: a snapshot deleted while a claim waits to be filled from it is looked at again late.
        """
        volumes = [c["spec"]["volumeName"] for c in self.api.list("persistentvolumeclaims", name) if c["spec"].get("volumeName")]
        if self.node:
            self.node.delete_pods(name)
        self.api.request("DELETE", cluster_api.path("persistentvolumeclaims", namespace=name))
        self._await_end_of_claims(name)
        for plural in (*self._group_plurals(), "volumesnapshots"):
            self.api.request("DELETE", cluster_api.path(plural, namespace=name))
        self.api.delete("namespaces", name)
        self._ending.append((name, set(volumes)))

    def _await_end_of_claims(self, name):
        def wait(seconds):
            self.wait_gone(lambda: not self.api.list("persistentvolumeclaims", name), seconds,
                           lambda: f"end of the claims in namespace {name}: {self._tell_finalizers('persistentvolumeclaims', name)}")
        try:
            wait(CONTROLLER_SECONDS_MAX)
        except LeftBehind:
            if stuck := self._snapshots_without_content(name):
                print(f"the snapshot controller remembers contents that are gone, of {', '.join(stuck)}: restarted")
                self.restart("snapshot-controller")
            wait(CHANGE_SECONDS_MAX)

    def _snapshots_without_content(self, namespace):
        """The VolumeSnapshots that are being deleted though their content is gone already.

        The controller keeps what it wrote last in a memory of its own. When a content is deleted just as it is made, the
        controller may write that down after it was told of the deletion, and then tries to delete it for ever.
        """
        def is_stuck(snapshot):
            content = snapshot.get("status", {}).get("boundVolumeSnapshotContentName")
            return bool(content and snapshot["metadata"].get("deletionTimestamp")
                        and not self.api.get("volumesnapshotcontents", content))
        return [s["metadata"]["name"] for s in self.api.list("volumesnapshots", namespace) if is_stuck(s)]

    def await_endings(self):
        """Waits for what is in the namespaces that `begin_to_delete_namespace` was called for, and for their volumes."""
        while self._ending:
            name, volumes = self._ending.pop()
            for plural in (*self._group_plurals(), "volumesnapshots"):
                self.wait_gone(lambda plural=plural, name=name: not self.api.list(plural, name), CHANGE_SECONDS_MAX,
                               lambda plural=plural, name=name: f"end of the {plural} in namespace {name}: "
                               f"{self._tell_finalizers(plural, name)}")
            self.wait_gone(lambda volumes=volumes: not volumes & {v["metadata"]["name"] for v in self.api.list("persistentvolumes")},
                           CHANGE_SECONDS_MAX, lambda name=name, volumes=volumes: f"end of the volumes {volumes} of namespace {name}")

    def _tell_finalizers(self, plural, namespace):
        return {o["metadata"]["name"]: o["metadata"].get("finalizers") for o in self.api.list(plural, namespace)}

    def delete_namespace(self, name, timeout_seconds=CHANGE_SECONDS_MAX, empty_is_enough=False):
        """Deletes a namespace and waits until it, and the volumes of its claims, are gone.

        What has finalizers goes first: when the namespace controller meets some, it looks again
        only after 8 s. An empty namespace still takes it 5 s; with `empty_is_enough` these are not
        waited for, which is right when the name is not used again.
        """
        volumes = [c["spec"]["volumeName"] for c in self.api.list("persistentvolumeclaims", name)
                   if c["spec"].get("volumeName")]
        if self.node:
            self.node.delete_pods(name)
        # Claims first: a snapshot deleted while a claim waits to be filled from it is looked at again
        # by the snapshot controller only after 15 minutes. While a group is there, so are its members.
        for plural in ("persistentvolumeclaims", *self._group_plurals(), "volumesnapshots"):
            self.api.request("DELETE", cluster_api.path(plural, namespace=name))
            self.wait_for(lambda: not self.api.list(plural, name), timeout_seconds,
                          f"end of the {plural} in namespace {name}")
        self.api.delete("namespaces", name)
        self.wait_for(lambda: not any(self.api.get("persistentvolumes", v) for v in volumes),
                      timeout_seconds, f"end of the volumes of namespace {name}")
        if not empty_is_enough:
            self.wait_for(lambda: self.api.get("namespaces", name) is None, timeout_seconds,
                          f"end of namespace {name}")

    def create_claim(self, name, namespace, size_bytes, **kwargs):
        """Creates a PersistentVolumeClaim (arguments of objects.claim) and waits until it is bound.

        For a class that waits for a consumer, the only node is selected, as a scheduler would.
        """
        claim = objects.claim(name, namespace, size_bytes, **kwargs)
        if claim["spec"]["storageClassName"] == objects.CLASS_WAIT:
            claim["metadata"]["annotations"] = {
                **claim["metadata"]["annotations"],
                "volume.kubernetes.io/selected-node": objects.NODE}
        self.api.create("persistentvolumeclaims", claim)
        return self.wait_bound(name, namespace)

    def create_claims(self, names, namespace, size_bytes, timeout_seconds=180, **kwargs):
        """Creates many claims at once and waits until all are bound."""
        for name in names:
            self.api.create("persistentvolumeclaims",
                            objects.claim(name, namespace, size_bytes, **kwargs))
        self.wait_for(lambda: all(c["status"].get("phase") == "Bound"
                                  for c in self.api.list("persistentvolumeclaims", namespace)),
                      timeout_seconds, f"{len(names)} claims bound")

    def ask_to_grow(self, name, namespace, size_bytes):
        """Asks for a larger volume; the resizer runs then."""
        if not self.alive(components.RESIZER):
            self.stop(components.RESIZER)
            self.start(components.RESIZER)
        self.api.patch("persistentvolumeclaims", name, {
            "spec": {"resources": {"requests": {"storage": str(size_bytes)}}}}, namespace)

    def grow_claim(self, name, namespace, size_bytes):
        """Asks for a larger volume and waits until the claim has it."""
        def capacity():
            return self.api.get("persistentvolumeclaims", name, namespace)["status"]["capacity"]
        before = capacity()
        self.ask_to_grow(name, namespace, size_bytes)
        self.wait_for(lambda: capacity() != before, CHANGE_SECONDS_MAX,
                      lambda: f"claim {namespace}/{name} to grow\n{self.log(components.RESIZER)[-3000:]}")

    def create_snapshot(self, name, namespace, claim):
        """Takes a VolumeSnapshot of a claim and waits until it is ready; returns its CSI handle."""
        self.api.create("volumesnapshots", objects.volume_snapshot(name, namespace, claim))
        snapshot = self.wait_snapshot_ready(name, namespace)
        content = snapshot["status"]["boundVolumeSnapshotContentName"]
        return self.api.get("volumesnapshotcontents", content)["status"]["snapshotHandle"]

    def import_snapshot(self, name, namespace, handle):
        """Makes a VolumeSnapshot of one that the driver has, and waits until it is ready."""
        for plural, obj in objects.imported_snapshot(name, namespace, self.driver.name, handle):
            self.api.create(plural, obj)
        return self.wait_snapshot_ready(name, namespace)

    def wait_snapshot_ready(self, name, namespace, timeout_seconds=CHANGE_SECONDS_MAX):
        """Waits until a VolumeSnapshot is ready to use; returns it."""
        def ready():
            snapshot = self.api.get("volumesnapshots", name, namespace)
            return snapshot and snapshot.get("status", {}).get("readyToUse") and snapshot
        return self.wait_for(ready, timeout_seconds, f"volume snapshot {namespace}/{name} ready")

    def wait_snapshots_gone(self, namespace, timeout_seconds=CHANGE_SECONDS_MAX):
        """Waits until the namespace has no volume snapshot; the error tells of each what became of it."""
        self.wait_gone(lambda: not self.api.list("volumesnapshots", namespace), timeout_seconds,
                       lambda: "\n".join([f"no volume snapshots in namespace {namespace}",
                                          *self._tell_snapshots(namespace)]))

    def _tell_snapshots(self, namespace):
        """The volume snapshots of a namespace, their contents, and what was logged of them last."""
        for snapshot in self.api.list("volumesnapshots", namespace):
            content_name = f"snapcontent-{snapshot['metadata']['uid']}"
            yield json.dumps(snapshot)
            yield from (json.dumps(content) for content in self.api.list("volumesnapshotcontents")
                        if content["metadata"]["name"] == content_name)
            for program in ("velero", "snapshot-controller", "csi-snapshotter"):
                named = [line for line in self.log(program).splitlines()
                         if snapshot["metadata"]["name"] in line or content_name in line]
                yield from (f"{program}: {line}" for line in named[-TOLD_LINES:])

    def delete_claim(self, name, namespace, with_volume=True):
        """Deletes a claim and waits until it is gone, and its volume."""
        claim = self.api.get("persistentvolumeclaims", name, namespace)
        volume = claim["spec"].get("volumeName", "none")
        self.api.delete("persistentvolumeclaims", name, namespace)
        self.wait_for(lambda: not self.api.get("persistentvolumeclaims", name, namespace)
                      and not (with_volume and self.api.get("persistentvolumes", volume)),
                      CHANGE_SECONDS_MAX, f"end of claim {namespace}/{name}")

    def retain(self, name, namespace):
        """Has the volume of a claim outlive it; returns its PersistentVolume."""
        volume = self.api.get("persistentvolumeclaims", name, namespace)["spec"]["volumeName"]
        return self.api.patch("persistentvolumes", volume, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})

    def release_volume(self, name, namespace):
        """Deletes a claim and its PersistentVolume, but not the volume; returns the PersistentVolume."""
        volume = self.retain(name, namespace)
        self.delete_claim(name, namespace, with_volume=False)
        self.delete_pv(volume["metadata"]["name"])
        return volume

    def delete_pv(self, name):
        """Deletes a PersistentVolume, whose volume stays if it says Retain, and waits until it is gone."""
        self.api.delete("persistentvolumes", name)
        self.wait_for(lambda: not self.api.get("persistentvolumes", name), CHANGE_SECONDS_MAX, f"end of PersistentVolume {name}")

    def delete_volume_of(self, pv):
        """Has the volume deleted of a PersistentVolume that is gone: by one that its provisioner deletes."""
        name = pv["metadata"]["name"]
        self.api.create("persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": self.driver.name}},
            "spec": {**pv["spec"], "persistentVolumeReclaimPolicy": "Delete"}})
        self.wait_for(lambda: not self.api.get("persistentvolumes", name), CHANGE_SECONDS_MAX, f"end of the volume of {name}")

    def wait_bound(self, name, namespace, timeout_seconds=CHANGE_SECONDS_MAX):
        """Waits until a claim is bound; returns it."""
        def bound():
            claim = self.api.get("persistentvolumeclaims", name, namespace)
            return claim and claim.get("status", {}).get("phase") == "Bound" and claim
        return self.wait_for(bound, timeout_seconds, f"claim {namespace}/{name} bound")

    def volume_handle(self, name, namespace):
        """The CSI handle of the volume that a bound claim has."""
        claim = self.api.get("persistentvolumeclaims", name, namespace)
        volume = self.api.get("persistentvolumes", claim["spec"]["volumeName"])
        return volume["spec"]["csi"]["volumeHandle"]

    def volume_path(self, name, namespace):
        """The host's file with the bytes of a block volume."""
        return self.driver.volume_path(self.volume_handle(name, namespace))

    def contents_of(self, handle):
        """The VolumeSnapshotContents that stand for one snapshot of the driver."""
        return [c for c in self.api.list("volumesnapshotcontents")
                if handle in (c.get("status", {}).get("snapshotHandle"),
                              c["spec"]["source"].get("snapshotHandle"))]

    # -- Backups -----------------------------------------------------------------------------------

    def backup(self, name, *flags, expect="Completed", timeout_seconds=COMMAND_SECONDS_MAX):
        """`velero backup create NAME FLAGS --wait`; returns the Backup, which must end as expected.

        With `expect=None` any end is fine.
        """
        return self._create_and_wait("backup", name, flags, expect, timeout_seconds)

    def restore(self, name, *flags, expect="Completed", timeout_seconds=COMMAND_SECONDS_MAX):
        """`velero restore create NAME FLAGS --wait`; returns the Restore, as `backup` does."""
        return self._create_and_wait("restore", name, flags, expect, timeout_seconds)

    def wait_phase(self, plural, name, phases, timeout_seconds=COMMAND_SECONDS_MAX):
        """Waits until a Velero object, like ("backups", name), is in one of `phases`; returns it.

        `phases` may be ENDED: any phase after which a backup or restore does not change any more.
        One that it ended in instead is an error at once.
        """
        def arrived():
            obj = self.api.get(plural, name, self.namespace)
            phase = obj and obj.get("status", {}).get("phase")
            if phase in ENDED and phase not in phases:
                raise BedError(f"{plural} {name} ended {phase}, instead of {phases}")
            return phase in phases and obj
        return self.wait_for(arrived, timeout_seconds, f"{plural} {name} in one of {phases}")

    def inventory(self):
        """As things(), once all has ended that is about to."""
        self.await_endings()
        return self.things()

    def things(self):
        """What a backup can leave behind, as a dict of sorted lists: compare before and after."""
        found = {plural: sorted(f"{o['metadata'].get('namespace', '')}/{o['metadata']['name']}"
                                for o in self.api.list(plural))
                 for plural in ("persistentvolumes", "volumesnapshots", "volumesnapshotcontents",
                                "volumegroupsnapshots", "volumegroupsnapshotcontents",
                                "backups", "deletebackuprequests", "datauploads", "datadownloads")}
        backups = self.s3_dir / objects.BUCKET / "backups"
        found["leases"] = sorted(o["metadata"]["name"]
                                 for o in self.api.list("leases", self.namespace))
        found["driver volumes"] = self.driver.volumes()
        found["driver snapshots"] = self.driver.snapshots()
        found["driver groups"] = self.driver.groups()
        found["bucket"] = sorted(p.name for p in backups.iterdir()) if backups.is_dir() else []
        return found

    def _create_and_wait(self, kind, name, flags, expect, timeout_seconds):
        self.velero(kind, "create", name, *flags, "--wait", timeout_seconds=timeout_seconds)
        obj = self.api.get(f"{kind}s", name, self.namespace)
        phase = obj["status"].get("phase")
        if expect is not None and phase != expect:
            lines = self.velero(kind, "logs", name, check=False).stdout.splitlines()
            bad = [line for line in lines if "level=error" in line or "level=warning" in line]
            raise BedError(f"{kind} {name} is {phase}, not {expect}: {json.dumps(obj['status'])}\n"
                           + "\n".join(bad[-20:]))
        return obj

    def error_lines(self, backup):
        """Those of a backup's log that Velero counts as errors."""
        log = self.velero("backup", "logs", backup, check=False).stdout
        return [line for line in log.splitlines() if "level=error" in line]

    def assert_clean(self, kind, obj):
        """Fails, with what `velero describe` says, if a backup or restore had errors or warnings."""
        status = obj["status"]
        if status.get("errors", 0) or status.get("warnings", 0):
            raise AssertionError(self.velero(kind, "describe", obj["metadata"]["name"]).stdout)

    def delete_backup(self, name, timeout_seconds=180):
        """`velero backup delete`, and waits until the Backup is gone; asks again when Velero refused.

        Velero takes a backup for one in progress for a moment after it has called it Completed.
        """
        def ask():
            self.velero("backup", "delete", name, "--confirm")

        def is_gone():
            if self.api.get("backups", name, self.namespace) is None:
                return True
            requests = [r for r in self.api.list("deletebackuprequests", self.namespace) if r["spec"]["backupName"] == name]
            if requests and all(r.get("status", {}).get("errors") for r in requests):
                ask()
            return False
        ask()
        self.wait_for(is_gone, timeout_seconds, f"end of backup {name}")

    def archived(self, backup, plural):
        """The objects of a kind in the archive of a backup, each in the version that it was saved in; none without one."""
        archive = self.s3_dir / objects.BUCKET / "backups" / backup / f"{backup}.tar.gz"
        found = {}
        if not archive.exists():
            return []
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                parts = member.name.split("/")
                if member.isfile() and parts[0] == "resources" and parts[1].split(".")[0] == plural:
                    obj = json.loads(tar.extractfile(member).read())
                    found[obj["metadata"]["uid"]] = obj
        return list(found.values())

    def remove_snapshots(self, handles, groups=()):
        """Deletes snapshots and groups from the storage, and what stands for them in the cluster, without Velero.

        Those alone that a backup's archive names: what a backup left beside stays, to be counted.
        """
        def standing():
            return {plural: [o for o in self.api.list(plural) if handles_of(o) & wanted]
                    for plural, wanted in (("volumegroupsnapshotcontents", set(groups)), ("volumesnapshotcontents", set(handles)))
                    if wanted}
        for plural, found in standing().items():
            for obj in found:
                self.api.delete(plural, obj["metadata"]["name"])
        self.wait_gone(lambda: not any(standing().values()), CHANGE_SECONDS_MAX, lambda: f"no object of a snapshot: {standing()}")
        for group in set(groups) & set(self.driver.groups()):
            self.driver.remove_group(group)
        for handle in set(handles) & set(self.driver.snapshots()):
            self.driver.remove_snapshot(handle)

    def drop_backup(self, name):
        """Makes a backup and its restores vanish without Velero's deletion: what it snapshotted stays."""
        for restore in self.api.list("restores", self.namespace):
            if restore["spec"].get("backupName") == name:
                self.api.delete("restores", restore["metadata"]["name"], self.namespace)
        backup = self.api.get("backups", name, self.namespace)
        location = backup["spec"].get("storageLocation") if backup else None
        # Where Velero finds it later, it makes the object again. One that failed may have no folder.
        shutil.rmtree(self.buckets.get(location, self.s3_dir / objects.BUCKET) / "backups" / name, ignore_errors=True)
        self.api.delete("backups", name, self.namespace)

    def sync_backup(self, name, timeout_seconds=CHANGE_SECONDS_MAX):
        """Makes Velero find a backup that another cluster put into the bucket; returns it.

        A restart, because Velero looks when it starts, and after that only once a minute.
        """
        if not self.api.get("backups", name, self.namespace):
            self.restart("velero")
        return self.wait_for(lambda: self.api.get("backups", name, self.namespace),
                             timeout_seconds, f"backup {name} found in the bucket")


def handles_of(content):
    """The handles of the driver that a content of a snapshot, or of a group, stands for."""
    status, source = content.get("status") or {}, content["spec"].get("source") or {}
    handles = source.get("groupSnapshotHandles") or {}
    return {status.get("snapshotHandle"), source.get("snapshotHandle"), status.get("volumeGroupSnapshotHandle"),
            handles.get("volumeGroupSnapshotHandle")} - {None}


def _session(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[3])


def _first_argument(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return None


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="bed.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("up", "down", "env", "status", "exec"):
        sub = verbs.add_parser(verb)
        sub.add_argument("--state", required=True, help="the bed's folder; `down` deletes it")
        if verb == "up":
            sub.add_argument("--velero", choices=sorted(VELERO_MODULES), default="1.18.3")
            sub.add_argument("--namespace", default="velero", help="Velero's namespace")
            sub.add_argument("--csi-driver", default=str(driver_path()))
            sub.add_argument("--plugin", action="store_true", help="with our plugin")
            sub.add_argument("--node", action="store_true", help="with a node that runs Pods")
            sub.add_argument("--groups", action="store_true", help="with a driver that takes groups of volumes")
            sub.add_argument("--group-version", default="", help="of their kinds, all that Velero sees")
        if verb == "exec":
            sub.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def main(arguments):
    options = _parse(arguments)
    if options.verb == "up":
        Bed.up(Settings(velero=options.velero, namespace=options.namespace,
                        csi_driver=options.csi_driver, plugin=options.plugin, node=options.node,
                        groups=options.groups, group_version=options.group_version),
               state=options.state, detached=True)
        return 0
    if options.verb == "down":
        processes.wipe_orphans()
        with contextlib.suppress(BedError):  # Nothing there is what `down` is for.
            Bed.attach(options.state).down()
        return 0
    bed = Bed.attach(options.state)
    if options.verb == "env":
        for key, value in bed.environment().items():
            print(f"export {key}='{value}'")
        print(f"# network namespace: {bed.name}")
        return 0
    if options.verb == "status":
        for name in bed.record.processes:
            print(f"{name:24} {bed.pid(name) or 'ended'}")
        return 1 if bed.dead() else 0
    return subprocess.run(bed.inside(options.command), check=False,
                          env={**os.environ, **bed.environment()}).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BedError, FileNotFoundError) as failure:
        sys.exit(f"bed: {failure}")
