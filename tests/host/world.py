"""A cluster in memory and a Velero server without Velero: fake_cluster, and the harness of tests/pluginmanager."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

DRIVER = "d.example.com"
VELERO = "velero"
POLICY = "policy"
ANSWER_SECONDS_MAX = 400
CONTROL_SECONDS_MAX = 240
END_SECONDS_MAX = 240
LOOK_SECONDS = (0.01, 0.2)  # How often a condition is looked at: at first, and at last.
# What a cluster has for other reasons than the plugin's work.
NOT_COUNTED = ("Event", "Backup", "Restore", "CSIDriver")
MIB = 1 << 20
SNAPSHOT_API = "snapshot.storage.k8s.io"
GROUP_API = "groupsnapshot.storage.k8s.io"
VOLUME_GROUP = "velero.io/volume-group"


class Broken(AssertionError):
    """The story could not be told: not what it was to show is wrong, but how."""


def rule(value, **conditions):
    """A policy's rule that gives the matching volumes to us."""
    return {"conditions": conditions, "action": {"type": "custom", "parameters": {"csi-delta": value}}}


def plain_rule(action, **conditions):
    return {"conditions": conditions, "action": {"type": action}}


def key_of(obj):
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def marks(obj):
    """What a user writes on a foreign object, and leaves."""
    return {field: obj["metadata"].get(field) or {} for field in ("labels", "annotations", "finalizers", "ownerReferences")}


def cpu_seconds(pid):
    """(of a process, of its ended children)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, children_user, children_system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return user + system, children_user + children_system


def end_process(process, seconds):
    """Ends a process that ends with its input, and all of its session if it does not."""
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise Broken(f"{process.args[0]} did not end within {seconds} s") from None


class FakeClusters:
    """The process that serves all clusters."""

    def __init__(self, program, folder):
        self.path = str(pathlib.Path(folder) / "control")
        self.process = subprocess.Popen([program, self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)
        if self.process.stdout.readline() != "ready\n":
            raise Broken("fake_cluster did not start")

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CONTROL_SECONDS_MAX)
        connection.connect(self.path)
        return connection

    def close(self):
        end_process(self.process, 10)


class Harness:
    """One process of the harness, which plays the Velero servers of many stories."""

    def __init__(self, program, release, folder, arguments):
        scratch = pathlib.Path(folder) / "tmp"
        scratch.mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(scratch), "HARNESS_SUITE": "stories",
               "HARNESS_VELERO": str(release.minor), "GOGC": "200"}
        self.process = subprocess.Popen([program, "server", *arguments], env=env, cwd=folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        start_new_session=True)
        self._lock = threading.Condition()
        self._answers = {}
        self._last = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            with self._lock:
                self._answers[answer["seq"]] = answer
                self._lock.notify_all()
        with self._lock:
            self._answers = None
            self._lock.notify_all()

    def ask(self, **request):
        """One request; its answer. Many threads may ask at once."""
        with self._lock:
            self._last += 1
            seq = self._last
            try:
                self.process.stdin.write(json.dumps({"seq": seq, **request}) + "\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                raise Broken("the harness ended") from None
            done = self._lock.wait_for(lambda: self._answers is None or seq in self._answers, ANSWER_SECONDS_MAX)
            if self._answers is None:
                raise Broken("the harness ended")
            if not done:
                raise Broken(f"no answer to {request.get('op')} within {ANSWER_SECONDS_MAX} s")
            answer = self._answers.pop(seq)
        if "broken" in answer:
            raise Broken(answer["broken"])
        return answer

    def close(self):
        end_process(self.process, 20)


class Backup:
    """A backup that was made: its object, archive, phase, errors and log, and the data that its claims had."""

    def __init__(self, obj, answer, data):
        self.object = obj
        self.data = data
        self.object["metadata"]["uid"] = answer["uid"]
        self.name = obj["metadata"]["name"]
        self.archive = answer["archive"]
        self.phase = answer.get("phase", "")
        self.errors = answer["errors"] or []
        self.log = answer["log"]
        self.object["status"] = {"phase": self.phase}

    def warnings(self):
        return [line for line in self.log if line.startswith("warning ")]

    def archived(self, resource):
        return [item for key, item in self.archive.items() if key.split("/")[0].split(".")[0] == resource]

    def handles(self):
        """Those of the snapshots and groups that the archive needs."""
        all_of_them = {content.get("status", {}).get(field) for plural, field in (
            ("volumesnapshotcontents", "snapshotHandle"), ("volumegroupsnapshotcontents", "volumeGroupSnapshotHandle"))
                       for content in self.archived(plural)}
        return all_of_them - {None}


class World:
    """One cluster with one Velero server; ends with `end()`. Not thread-safe."""

    def __init__(self, clusters, harness, plugin, folder, *, groups="", seed=0, **options):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.harness = harness
        self.name = str(folder)
        self.groups = groups
        self._seed = seed  # of the order of the next deletion
        self._loaded = {}  # what the test made, by key
        self._volumes = {}  # their handles by (namespace, claim)
        self._copies = set()  # namespaces that were restored into
        self._connection = clusters.connect()
        self._control = self._connection.makefile("rw")
        self._cluster = None
        self._cluster = self.ask(op="new", folder=str(folder), groups=groups, driver=DRIVER, **options)["cluster"]
        self.pid_file = str(self.folder / "pid")
        plugins = self.folder / "plugins"
        plugins.mkdir()
        script = plugins / pathlib.Path(plugin).name
        script.write_text(f"#!/bin/sh\necho $$ > {self.pid_file}\nexport CSI_DELTA_KUBECONFIG={self.folder}/plugin.conf\n"
                          f"export VELERO_NAMESPACE={VELERO}\nexec {plugin} \"$@\"\n")
        script.chmod(0o755)
        self.load(*self._base())
        harness.ask(op="server", server=self.name, folder=str(plugins), kubeconfig=str(self.folder / "velero.conf"),
                    groupVersion=groups)

    def _base(self):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VELERO}}
        yield {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
               "provisioner": DRIVER, "reclaimPolicy": "Delete"}
        yield {"apiVersion": f"{SNAPSHOT_API}/v1", "kind": "VolumeSnapshotClass", "driver": DRIVER,
               "deletionPolicy": "Delete",
               "metadata": {"name": "snapshots", "labels": {"velero.io/csi-volumesnapshot-class": "true"}}}
        if self.groups:
            yield {"apiVersion": f"{GROUP_API}/{self.groups}", "kind": "VolumeGroupSnapshotClass", "driver": DRIVER,
                   "deletionPolicy": "Delete", "metadata": {"name": "groups"}}

    def close(self):
        with contextlib.ExitStack() as steps:
            steps.callback(shutil.rmtree, self.folder, ignore_errors=True)
            steps.callback(self._connection.close)
            steps.callback(self._control.close)
            steps.callback(self.ask, op="end")
            steps.callback(self.harness.ask, op="end", server=self.name)

    # -- The cluster

    def ask(self, **request):
        self._control.write(json.dumps({"cluster": self._cluster, **request}) + "\n")
        self._control.flush()
        try:
            line = self._control.readline()
        except TimeoutError:
            raise Broken(f"{request['op']}: no answer within {CONTROL_SECONDS_MAX} s") from None
        answer = json.loads(line or '{"error": "fake_cluster ended"}')
        if "error" in answer:
            raise Broken(f"{request['op']}: {answer['error']}")
        return answer

    def load(self, *objs):
        """Makes objects as they are, or replaces them."""
        self.ask(op="load", objects=list(objs))
        self._loaded.update({key_of(obj): obj for obj in objs})

    def objects(self, *plurals):
        """All objects of these kinds; without any: of all kinds."""
        return self.ask(op="dump", **({"plurals": list(plurals)} if plurals else {}))["objects"]

    def driver(self):
        return self.ask(op="driver")

    def snapshots(self):
        """Handles of all snapshots, of groups, too."""
        state = self.driver()
        return set(state["snapshots"]) | {handle for group in state["groups"].values() for handle in group}

    def driver_fault(self, **fault):
        self.ask(op="driver_fault", **fault)

    def fail_calls(self, **which):
        self.ask(op="rule", user="plugin", **which)

    def kill_after(self, writes, call=1):
        """From now on: the plugin is killed, once, before its so-many-th call after so many writes of anybody does its
        work; if there are more writes before that, then at its next call."""
        self.ask(op="rule", user="plugin", writes=writes, call=call, kill=self.pid_file)

    def clear(self):
        self.ask(op="clear")

    def calls(self):
        """[{"text": "verb plural namespace/name", "writes": how many of anybody were before it}] of the plugin."""
        return self.ask(op="calls", user="plugin")["calls"]

    def kills(self):
        """Like calls(), those at which it was killed."""
        return self.ask(op="calls", user="plugin")["kills"]

    def hits(self):
        """How many calls each rule was for."""
        return self.ask(op="calls", user="plugin")["hits"]

    def forget_calls(self):
        self.ask(op="forget_calls")

    def wait_for(self, condition, what, seconds=END_SECONDS_MAX):
        deadline, pause = time.monotonic() + seconds, LOOK_SECONDS[0]
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(what() if callable(what) else what)
            time.sleep(pause)
            pause = min(pause * 1.5, LOOK_SECONDS[1])

    # -- What stories are about

    def namespace(self, name="app"):
        self.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def claims(self, *names, namespace="app", group=None, labels=None, source=None):
        """Bound claims with volumes, each with data of its own."""
        self.namespace(namespace)
        labels = {**(labels or {}), **({VOLUME_GROUP: group} if group else {})}
        objs = []
        for name in names:
            handle = f"vol-{namespace}-{name}"
            objs.append({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{namespace}-{name}"},
                "spec": {"capacity": {"storage": str(MIB)}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                         "persistentVolumeReclaimPolicy": "Delete", "volumeMode": "Filesystem",
                         "claimRef": {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}"},
                         **(source or {"csi": {"driver": DRIVER, "volumeHandle": handle}})},
                "status": {"phase": "Bound"}})
            objs.append({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "labels": labels},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
                         "volumeName": f"pv-{namespace}-{name}", "resources": {"requests": {"storage": str(MIB)}}},
                "status": {"phase": "Bound", "capacity": {"storage": str(MIB)}}})
            if not source:
                self._volumes[namespace, name] = handle
                self.ask(op="write", volume=handle, data=f"data of {namespace}/{name}")
        self.load(*objs)

    def policy(self, *rules):
        document = {"version": "v1", "volumePolicies": list(rules)}
        self.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": POLICY, "namespace": VELERO},
                   "data": {"policy.yaml": json.dumps(document)}})

    def settings(self, **values):
        self.load({"apiVersion": "v1", "kind": "ConfigMap", "data": values,
                   "metadata": {"name": "csi-delta", "namespace": VELERO,
                                "labels": {"velero.io/plugin-config": "", "velero.io/csi-delta": ""}}})

    # -- Velero

    def backup(self, name, *, namespace="app", policy=True, spec=None, timeout_s=30, snapshot_timeout="60s", workers=1):
        """Makes a backup of claims that have data that no other backup has."""
        data = {claim: f"{name} of {space}/{claim}" for space, claim in self._volumes if space == namespace}
        for claim, text in data.items():
            self.ask(op="write", volume=self._volumes[namespace, claim], data=text)
        obj = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name, "namespace": VELERO},
               "spec": {"includedNamespaces": [namespace], "csiSnapshotTimeout": snapshot_timeout,
                        "itemOperationTimeout": f"{timeout_s}s", "storageLocation": "default", **(spec or {})}}
        if policy:
            obj["spec"]["resourcePolicy"] = {"kind": "configmap", "name": POLICY}
        answer = self.harness.ask(op="backup", server=self.name, backup=obj, namespaces=[namespace],
                                  timeoutMs=timeout_s * 1000, workers=workers)
        return Backup(obj, answer, data)

    def restore(self, name, backup, *, mapping, timeout_s=30):
        """Returns (phase, errors, log)."""
        obj = {"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": name, "namespace": VELERO},
               "spec": {"backupName": backup.name, "namespaceMapping": mapping, "itemOperationTimeout": f"{timeout_s}s"}}
        for target in mapping.values():
            self.namespace(target)
            self._copies.add(target)
        answer = self.harness.ask(op="restore", server=self.name, restore=obj, archive=backup.archive, mapping=mapping,
                                  timeoutMs=timeout_s * 1000)
        return answer.get("phase", ""), answer["errors"] or [], answer["log"]

    def must_restore(self, name, backup, namespace):
        """A completed restore of what was backed up in "app", with its data."""
        phase, errors, _ = self.restore(name, backup, mapping={"app": namespace})
        assert phase == "Completed", f"{name}: {errors}"
        self.expect_data(namespace, backup)

    def expect_data(self, namespace, backup):
        """What was restored there has the data of that backup."""
        self.wait_for(lambda: self.data(namespace) == backup.data,
                      lambda: f"data of {namespace}: {self.data(namespace)}, wanted {backup.data}")

    def expect_held(self, *backups):
        """The driver has all that the archives of backups need."""
        held = self.snapshots() | set(self.driver()["groups"])
        for backup in backups:
            assert backup.handles() <= held, f"{backup.name} needs {backup.handles() - held}, which the driver has not"

    def delete(self, backup, *, stop=False):
        """Deletes a backup, in an order of its own; returns (errors, log). `stop`: the server ends with its plugin."""
        self._seed += 1
        answer = self.harness.ask(op="delete", server=self.name, backup=backup.object, archive=backup.archive,
                                  seed=self._seed, stopAtError=stop)
        return answer["errors"] or [], answer["log"]

    # -- What a story ends with

    def leftovers(self):
        """All that differs from what the test made, but for restored claims."""
        left, there = [], {}
        for obj in self.objects():
            there[key_of(obj)] = obj
        copied = set()
        for key, obj in there.items():
            claim = obj.get("spec", {}).get("claimRef", {}).get("namespace") if key[0] == "PersistentVolume" else None
            if claim in self._copies:
                copied.add(obj["spec"].get("csi", {}).get("volumeHandle"))
            elif key[0] in NOT_COUNTED or key not in self._loaded and key[1] in self._copies and (
                    key[0] == "PersistentVolumeClaim"):
                continue
            elif key not in self._loaded:
                left.append(" ".join(key))
            elif marks(obj) != marks(self._loaded[key]):
                left.append(f"marks of {' '.join(key)}: {marks(obj)}, at the start {marks(self._loaded[key])}")
        left += [f"no {' '.join(key)}" for key in self._loaded.keys() - there.keys() if key[0] not in NOT_COUNTED]
        state = self.driver()
        volumes = set(self._volumes.values())
        left += [f"volume {handle}" for handle in set(state["volumes"]) - volumes - copied]
        left += [f"no volume {handle}" for handle in volumes - set(state["volumes"])]
        return left + [f"snapshot {handle}" for handle in state["snapshots"]] + [
            f"group {handle}" for handle in state["groups"]]

    def expect_nothing_left(self):
        self.wait_for(lambda: not self.leftovers(), lambda: f"left behind: {self.leftovers()}")

    def drop_namespace(self, namespace):
        """Deletes a namespace's claims and volume snapshots, as the namespace controller does."""
        for plural in ("persistentvolumeclaims", "volumegroupsnapshots", "volumesnapshots"):
            for obj in self.objects(plural):
                if obj["metadata"].get("namespace") == namespace:
                    self.drop(plural, obj["metadata"]["name"], namespace)

    def drop(self, plural, name, namespace):
        with contextlib.suppress(Broken):  # It may go meanwhile.
            self.ask(op="delete", plural=plural, namespace=namespace, name=name)

    def data(self, namespace):
        """The data of each bound claim of a namespace."""
        volumes = self.driver()["volumes"]
        handles = {pv["metadata"]["name"]: pv["spec"].get("csi", {}).get("volumeHandle")
                   for pv in self.objects("persistentvolumes")}
        return {claim["metadata"]["name"]: volumes.get(handles.get(claim["spec"].get("volumeName"), ""), None)
                for claim in self.objects("persistentvolumeclaims") if claim["metadata"]["namespace"] == namespace}
