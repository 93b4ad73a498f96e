"""A cluster in memory and a Velero server without Velero: fake_cluster, and the harness of tests/pluginmanager."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

DRIVER = "d.example.com"
VELERO = "velero"
POLICY = "policy"
ANSWER_SECONDS_MAX = 400
END_SECONDS_MAX = 60
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


def cpu_seconds(pid):
    """(of a process, of its ended children)."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, children_user, children_system = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15])
    return user + system, children_user + children_system


class FakeClusters:
    """The process that serves all clusters."""

    def __init__(self, program, folder):
        self.path = str(pathlib.Path(folder) / "control")
        self.process = subprocess.Popen([program, self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise Broken("fake_cluster did not start")

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        return connection.makefile("rw")

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


class Harness:
    """One process of the harness, which plays the Velero servers of many stories."""

    def __init__(self, program, release, folder, arguments):
        scratch = pathlib.Path(folder) / "tmp"
        scratch.mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(scratch), "HARNESS_SUITE": "stories",
               "HARNESS_VELERO": str(release.minor), "GOGC": "200"}
        self.process = subprocess.Popen([program, "server", *arguments], env=env, cwd=folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
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
            self.process.stdin.write(json.dumps({"seq": seq, **request}) + "\n")
            self.process.stdin.flush()
            done = self._lock.wait_for(lambda: self._answers is None or seq in self._answers, ANSWER_SECONDS_MAX)
            if self._answers is None:
                raise Broken("the harness ended")
            if not done:
                raise Broken(f"no answer to {request.get('op')} within {ANSWER_SECONDS_MAX} s")
            answer = self._answers.pop(seq)
        if "broken" in answer:
            raise Broken(answer["broken"])
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait(20)


class Backup:
    """A backup that was made: its object, archive, phase, errors and log."""

    def __init__(self, obj, answer):
        self.object = obj
        self.object["metadata"]["uid"] = answer["uid"]
        self.name = obj["metadata"]["name"]
        self.archive = answer["archive"]
        self.phase = answer.get("phase", "")
        self.errors = answer["errors"] or []
        self.log = answer["log"]
        self.object["status"] = {"phase": self.phase}

    def warnings(self):
        return [line for line in self.log if line.startswith("warning ")]

    def archived(self, kind):
        return [json.loads(item) if isinstance(item, str) else item for key, item in self.archive.items()
                if key.startswith(kind)]


class World:
    """One cluster with one Velero server; ends with `end()`. Not thread-safe."""

    def __init__(self, clusters, harness, plugin, folder, *, groups="", **options):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.harness = harness
        self.name = str(folder)
        self.groups = groups
        self._control = clusters.connect()
        self._cluster = None
        self._cluster = self.ask(op="new", folder=str(folder), groups=groups, driver=DRIVER, **options)["cluster"]
        self.pid_file = str(self.folder / "pid")
        plugins = self.folder / "plugins"
        plugins.mkdir()
        script = plugins / "velero-plugin-for-csi-delta"
        # Velero starts what the plugin says it is, so it keeps the name that it is called by here.
        script.write_text(f"#!/bin/bash\necho $$ > {self.pid_file}\nexport CSI_DELTA_KUBECONFIG={self.folder}/plugin.conf\n"
                          f"export VELERO_NAMESPACE={VELERO}\nexec -a \"$0\" {plugin} \"$@\"\n")
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

    def end(self):
        self.harness.ask(op="end", server=self.name)
        self.ask(op="end")
        self._control.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- The cluster

    def ask(self, **request):
        self._control.write(json.dumps({"cluster": self._cluster, **request}) + "\n")
        self._control.flush()
        answer = json.loads(self._control.readline() or '{"error": "fake_cluster ended"}')
        if "error" in answer:
            raise Broken(f"{request['op']}: {answer['error']}")
        return answer

    def load(self, *objs):
        return self.ask(op="load", objects=list(objs))["uids"]

    def objects(self, *plurals):
        return self.ask(op="dump", plurals=list(plurals))["objects"]

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

    def kill_at(self, call):
        """The plugin is killed before its so-many-th call from now on does its work."""
        self.ask(op="rule", user="plugin", at=call, kill=self.pid_file)

    def clear(self):
        self.ask(op="clear")

    def calls(self):
        return self.ask(op="calls", user="plugin")["calls"]

    def kills(self):
        return self.ask(op="calls", user="plugin")["kills"]

    def forget_calls(self):
        self.ask(op="forget_calls")

    def wait_for(self, condition, what, seconds=END_SECONDS_MAX):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(what() if callable(what) else what)
            time.sleep(0.01)

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

    def backup(self, name, *, namespace="app", policy=True, spec=None, timeout_s=30, snapshot_timeout="60s", phases=0,
               workers=1, stop=False):
        obj = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name, "namespace": VELERO},
               "spec": {"includedNamespaces": [namespace], "csiSnapshotTimeout": snapshot_timeout,
                        "itemOperationTimeout": f"{timeout_s}s", "storageLocation": "default", **(spec or {})}}
        if policy:
            obj["spec"]["resourcePolicy"] = {"kind": "configmap", "name": POLICY}
        answer = self.harness.ask(op="backup", server=self.name, backup=obj, namespaces=[namespace],
                                  timeoutMs=timeout_s * 1000, phases=phases, workers=workers, stopAtError=stop)
        return Backup(obj, answer)

    def restore(self, name, backup, *, mapping=None, timeout_s=30, stop=False):
        """Returns (phase, errors)."""
        obj = {"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": name, "namespace": VELERO},
               "spec": {"backupName": backup.name, "namespaceMapping": mapping or {}, "itemOperationTimeout": f"{timeout_s}s"}}
        for target in (mapping or {}).values():
            self.namespace(target)
        answer = self.harness.ask(op="restore", server=self.name, restore=obj, archive=backup.archive, mapping=mapping or {},
                                  timeoutMs=timeout_s * 1000, stopAtError=stop)
        return answer.get("phase", ""), answer["errors"] or [], answer["log"]

    def delete(self, backup, *, stop=False):
        """Deletes a backup; returns (errors, log)."""
        answer = self.harness.ask(op="delete", server=self.name, backup=backup.object, archive=backup.archive,
                                  stopAtError=stop)
        return answer["errors"] or [], answer["log"]

    # -- What a story ends with

    def leftovers(self):
        """All that a backup, restore or deletion may leave and must not."""
        left = [f"{o['kind']} {o['metadata'].get('namespace', '')}/{o['metadata']['name']}" for o in self.objects(
            "volumesnapshots", "volumesnapshotcontents", "volumegroupsnapshots", "volumegroupsnapshotcontents", "leases")]
        for claim in self.objects("persistentvolumeclaims"):
            marks = {**claim["metadata"].get("labels", {})}
            if "velero.io/csi-delta-group" in marks or claim["metadata"].get("finalizers"):
                left.append(f"marks of claim {claim['metadata']['name']}: {marks} {claim['metadata'].get('finalizers')}")
        state = self.driver()
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

    def drop(self, plural, name, namespace=""):
        with contextlib.suppress(Broken):  # It may go meanwhile.
            self.ask(op="delete", plural=plural, namespace=namespace, name=name)

    def data(self, namespace):
        """The data of each bound claim of a namespace."""
        volumes = self.driver()["volumes"]
        handles = {pv["metadata"]["name"]: pv["spec"].get("csi", {}).get("volumeHandle")
                   for pv in self.objects("persistentvolumes")}
        return {claim["metadata"]["name"]: volumes.get(handles.get(claim["spec"].get("volumeName"), ""), None)
                for claim in self.objects("persistentvolumeclaims") if claim["metadata"]["namespace"] == namespace}
