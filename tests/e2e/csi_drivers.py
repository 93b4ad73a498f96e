"""The CSI drivers that a bed can run: how each is started, and where its bytes are on the host."""

import contextlib
import json
import pathlib
import socket
import subprocess
import tempfile

UPSTREAM_PROGRAM = "hostpathplugin"
CONTROL_SECONDS_MAX = 120


class Driver:
    """One driver: a program, its state folder and its socket. Subclasses know the program.

    A block volume and the snapshot of one are plain files on the host, so a test reads and writes
    them without a kubelet. Subclasses have:

    - command(): the command line that serves CSI on `socket`
    - volumes(), snapshots(), groups(): the handles of all that exist in the driver
    - volume_path(handle), snapshot_path(handle): the file that holds the bytes of a block volume, or of its snapshot
    - write_file(handle, name, content), read_file(handle, name): of the root of a file system that is not mounted
    """

    name = ""
    can_inject_faults = False
    cuts_at_once = False  # Of a group, where `volumes_dir` is set.

    def __init__(self, program, state_dir, socket_dir):
        self.program = pathlib.Path(program)
        self.state_dir = pathlib.Path(state_dir)
        self.socket = pathlib.Path(socket_dir) / "csi.sock"
        self.control_socket = pathlib.Path(socket_dir) / "control.sock"
        self.args = []  # Further flags; see Bed.configure_driver.
        self.volumes_dir = None  # A file system of the volumes' own, for groups.

    def control(self, request):
        raise NotImplementedError(f"{self.program.name} has no control socket")

    @contextlib.contextmanager
    def faults(self, *rules):
        """While the body runs, calls are delayed, held, refused or lied to as the rules say."""
        self.control({"op": "add", "rules": list(rules)})
        try:
            yield
        finally:
            self.clear_faults()

    def clear_faults(self):
        """Forgets all rules and releases every call that is held."""
        if self.can_inject_faults:
            self.control({"op": "clear"})


class UpstreamHostPath(Driver):
    """csi-driver-host-path of the kubernetes-csi project, given by path."""

    name = "hostpath.csi.k8s.io"

    def command(self):
        return [str(self.program), f"--drivername={self.name}", "--nodeid=n1",
                f"--endpoint=unix://{self.socket}", f"--statedir={self.state_dir}",
                "--enable-topology=false", "--enable-snapshot-metadata", "-v=4", *self.args]

    def _state(self, key):
        try:
            state = json.loads((self.state_dir / "state.json").read_text())
        except FileNotFoundError:
            return []
        return state.get(key) or []

    def volumes(self):
        return sorted(v["VolID"] for v in self._state("Volumes"))

    def snapshots(self):
        return sorted(s["Id"] for s in self._state("Snapshots"))

    def groups(self):
        return sorted(g["Id"] for g in self._state("GroupSnapshots"))

    def volume_path(self, handle):
        return self.state_dir / handle

    def snapshot_path(self, handle):
        return self.state_dir / f"{handle}.snap"

    def write_file(self, handle, name, content):
        (self.volume_path(handle) / name).write_bytes(content)

    def read_file(self, handle, name):
        return (self.volume_path(handle) / name).read_bytes()


class TestDriver(Driver):
    """The project's own driver, tests/support/csi_driver: its control socket can make it fail."""

    __test__ = False  # Not a test class, whatever its name says to pytest.
    name = "test.csi-delta.io"
    can_inject_faults = True
    cuts_at_once = True

    def command(self):
        return [str(self.program), "--endpoint", f"unix://{self.socket}",
                "--state-dir", str(self.state_dir), "--driver-name", self.name,
                "--node-id", "n1", "--control-socket", str(self.control_socket),
                *(("--group-snapshots", "--volumes-dir", str(self.volumes_dir)) if self.volumes_dir else ()),
                *self.args]

    def control(self, request):
        """Sends one JSON object, returns the JSON object that answers it.

        The requests are described in tests/support/csi_driver/README.md.
        """
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(CONTROL_SECONDS_MAX)
            link.connect(str(self.control_socket))
            link.sendall(json.dumps(request).encode() + b"\n")
            with link.makefile("r", encoding="utf-8") as answers:
                answer = json.loads(answers.readline())
        if not answer["ok"]:
            raise ValueError(f"{request}: {answer['error']}")
        return answer

    def remove_snapshot(self, handle):
        """Deletes a snapshot behind everybody's back, as a storage administrator would."""
        self.control({"op": "delete_snapshot", "id": handle})

    def remove_group(self, handle):
        self.control({"op": "delete_group", "id": handle})

    def await_calls(self, method, timeout_seconds=90, **at_least):
        """Waits until calls of a method were `started`, `held`, `finished` or `failed` so often."""
        self.control({"op": "wait", "method": method, "timeout_ms": int(timeout_seconds * 1000),
                      **at_least})

    def calls(self, method):
        """How often a method was called, as started, held, finished and failed."""
        counts = self.control({"op": "count"})["calls"]
        return counts.get(method, {"started": 0, "held": 0, "finished": 0, "failed": 0})

    def _records(self, kind):
        return sorted(p.stem for p in (self.state_dir / "records" / kind).glob("*.json"))

    def volumes(self):
        return self._records("volumes")

    def snapshots(self):
        return self._records("snapshots")

    def groups(self):
        return self._records("groups")

    def volume_path(self, handle):
        return (self.volumes_dir or self.state_dir) / "volumes" / handle

    def snapshot_path(self, handle):
        return self.state_dir / "snapshots" / handle

    # The volume is an image of an ext4 file system; debugfs needs no mount.

    def write_file(self, handle, name, content):
        with tempfile.NamedTemporaryFile() as source:
            source.write(content)
            source.flush()
            subprocess.run(["/usr/sbin/debugfs", "-w", "-R", f"write {source.name} {name}",
                            self.volume_path(handle)], check=True, capture_output=True)

    def read_file(self, handle, name):
        return subprocess.run(["/usr/sbin/debugfs", "-R", f"cat {name}", self.volume_path(handle)],
                              check=True, capture_output=True).stdout


def make_driver(program, state_dir, socket_dir):
    """The driver for a program, told by its file name."""
    kind = UpstreamHostPath if pathlib.Path(program).name == UPSTREAM_PROGRAM else TestDriver
    return kind(program, state_dir, socket_dir)
