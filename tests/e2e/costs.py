"""What steps of a scenario cost: requests by account and kind, bytes that were read, memory of the programs, seconds."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import threading
import time

import cgroups
import rights

SERVERS = ("velero", "kube-apiserver")
MIB = 1 << 20
_LOOK_SECONDS = 0.1
_SIZE = re.compile(r"^apiserver_response_sizes_sum\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def kind_of(right):
    """Of a request, as "plural.group"."""
    return f"{right.resource}.{right.group}".rstrip(".")


def _answered(bed):
    """The bytes of all answers to LIST and GET so far, by kind."""
    code, text = bed.api.raw("GET", "/metrics")
    assert code == 200, text
    found = collections.Counter()
    for labels, value in _SIZE.findall(text.decode()):
        of = dict(_LABEL.findall(labels))
        found[f"{of['resource']}.{of['group']}".rstrip(".")] += int(float(value))
    return found


def cpu_seconds(pid):
    """What a process has used of processors; 0 once it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _PluginUse:
    """The most memory of any process of our plugin while the body runs; the processor time of all, but for their last moment."""

    def __init__(self, bed):
        self._bed = bed
        self._ended = threading.Event()
        self._peaks, self._cpu_seconds = {}, {}
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _look(self):
        while not self._ended.wait(_LOOK_SECONDS):
            for process in self._bed.plugin_processes():
                if process not in self._peaks:
                    self._peaks[process] = cgroups.PeakMemory(process.pid)
                self._cpu_seconds[process] = max(self._cpu_seconds.get(process, 0.0), cpu_seconds(process.pid))

    def bytes(self):
        return max((peak.bytes() for peak in self._peaks.values()), default=0)

    def cpu_seconds(self):
        return sum(self._cpu_seconds.values())


@dataclasses.dataclass
class Step:
    """`requests` are counted by pairs of an account and a rights.Right; `read_bytes` by kind; `resident_bytes` of a server
    are what it had before, and its most."""

    seconds: float = 0.0
    requests: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    read_bytes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    resident_bytes: dict = dataclasses.field(default_factory=dict)
    program_bytes: int = 0  # The most of our plugin, or of what the step ran.
    plugin_cpu_seconds: float = 0.0

    def count(self, account, kind=None, verb=None, but=None):
        """Requests of an account: of one kind, or of all but one; with one verb."""
        return sum(count for (who, right), count in self.requests.items()
                   if who == account and kind in (None, kind_of(right)) and but != kind_of(right) and verb in (None, right.verb))


class Costs:
    """Measures steps in a bed, and prints them as a table. `accounts` are names by user."""

    def __init__(self, bed, accounts):
        self._bed = bed
        self._accounts = accounts
        self.steps = {}

    @contextlib.contextmanager
    def step(self, name):
        """Measures the body. Yields the Step, which is complete when the body has ended."""
        step = self.steps[name] = Step()
        audited, answered = self._bed.audit_position(), _answered(self._bed)
        pids = {server: self._bed.pid(server) for server in SERVERS}
        before = {server: cgroups.memory_bytes(pid, "VmRSS") for server, pid in pids.items()}
        for pid in pids.values():
            cgroups.forget_peak(pid)
        start = time.monotonic()
        with _PluginUse(self._bed) as plugin:
            yield step
            step.seconds = time.monotonic() - start
        step.program_bytes = max(step.program_bytes, plugin.bytes())
        step.plugin_cpu_seconds = plugin.cpu_seconds()
        step.resident_bytes = {s: (before[s], cgroups.memory_bytes(pid, "VmHWM")) for s, pid in pids.items()}
        step.read_bytes = _answered(self._bed) - answered
        # The log has a watch when it begins and when it ends.
        events = {event["auditID"]: event for event in self._bed.audit_events(self._accounts.keys(), audited)}
        for event in events.values():
            for request in rights.requests_of([event]):
                step.requests[self._accounts[event["user"]["username"]], request.right] += 1

    def table(self, kind):
        """A line for each step; requests and bytes of one kind, and of all others."""
        accounts = list(dict.fromkeys(self._accounts.values()))
        head = ["step", "s", "plugin's CPU s", *(f"{a}: {kind.split('.')[0]}+others" for a in accounts), "read MiB", "others MiB",
                "ours MiB", *(f"{server} MiB" for server in SERVERS)]
        rows = [head, *(self._row(name, step, kind, accounts) for name, step in self.steps.items())]
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    @staticmethod
    def _row(name, step, kind, accounts):
        read = step.read_bytes[kind]
        resident = [[bytes_ // MIB for bytes_ in step.resident_bytes[server]] for server in SERVERS]
        return [name, f"{step.seconds:.1f}", f"{step.plugin_cpu_seconds:.1f}",
                *(f"{step.count(a, kind)}+{step.count(a, but=kind)}" for a in accounts),
                f"{read / MIB:.1f}", f"{(step.read_bytes.total() - read) / MIB:.1f}", f"{step.program_bytes / MIB:.1f}",
                *(f"{before} -> {most}" for before, most in resident)]
