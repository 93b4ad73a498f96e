#!/usr/bin/python3
"""A volume group of 16 with this plugin beside Velero's own single snapshots of the same claims, in one run, on the test bed.

    group.py [--quick] [--row N]... [--runs N]

Velero's own groups cannot be measured: with snapshot controller 8.6 they never finish (docs/volume-groups.md). So
"in-tree" is Velero 1.18.3 without this plugin, which snapshots each claim alone: as it is installed, and with the flags that
make it fastest, eight item-block workers and CSI_SNAPSHOT_EARLY_FREQUENT_POLLING=true. The sides take turns, on one bed, with
the same claims and the same driver.

Every row, for each side:

    ready     from the first request for a snapshot to the moment when all 16 are seen ready (looked at every 50 ms)
    window    how long an application must hold still: from that request to the last snapshot's handle. Of a group the
              freeze window, as the Event says it; of single snapshots, by the audit log
    frozen    how long the driver blocked writes, as it says itself; single snapshots are made without
    backup    `velero backup create --wait`
    requests  at the API server, of Velero, this plugin, snapshot controller and csi-snapshotter, for each member

Promises: a group is ready no later than the faster in-tree side, its window is no longer, and it takes no more requests for
each member than the thriftier one. Exits with 1 when one is missed. Raw figures go to build/bench/.
"""

import argparse
import datetime
import pathlib
import re
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import drive  # noqa: E402
from drive import bed_module, policy  # noqa: E402
import data  # noqa: E402
from plugin_latency import first_times  # noqa: E402

MEMBERS = 16
SIZE_BYTES = 16 * drive.MIB
LABEL = "velero.io/volume-group"
LOOK_SECONDS = 0.05
BACKUP_SECONDS_MAX = 900
APP = "bench-group"
CLAIMS = [f"data-{i:02}" for i in range(MEMBERS)]
TAKEN = re.compile(r"asked at (\S+), the driver had answered at (\S+)$")

OURS, STOCK, STOCK_FAST = "ours, one group", "in-tree, one by one", "in-tree, fastest flags"
# name: (our plugin, item-block workers, early polling)
SIDES = {OURS: (True, 1, "false"), STOCK: (False, 1, "false"), STOCK_FAST: (False, 8, "true")}

# The driver's delay of each cut, in ms, and runs.
ROWS = [(0, 3), (1000, 3)]
FIGURES = ("ready", "window", "frozen", "backup", "requests")


def seconds_of(text):
    """A time of RFC 3339 with up to nine digits behind the point, as seconds since 1970."""
    whole, _, part = text.rstrip("Z").partition(".")
    begin = datetime.datetime.fromisoformat(whole + "+00:00").timestamp()
    return begin + float(f"0.{part or 0}")


class ReadyWatch(threading.Thread):
    """Looks at the VolumeSnapshots of the claims until so many have been seen ready; `at` says when. Use it with `with`."""

    def __init__(self, bed):
        super().__init__(daemon=True)
        self._bed = bed
        self._over = threading.Event()
        self.at = None

    def run(self):
        seen = set()
        while not self._over.wait(LOOK_SECONDS):
            seen |= {s["metadata"]["uid"] for s in self._bed.api.list("volumesnapshots", APP)
                     if s.get("status", {}).get("readyToUse")}
            if len(seen) >= MEMBERS:
                self.at = time.time()
                return

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


def prepare(bed, side):
    """Restarts Velero as one side wants it."""
    plugin, workers, early = SIDES[side]
    bed.set_plugin(plugin)
    label = [] if plugin else ["--volume-group-snapshot-label-key=bench/none"]
    bed.configure_velero(server_args=["--features=EnableCSI", f"--item-block-worker-count={workers}", *label],
                         server_env={"CSI_SNAPSHOT_EARLY_FREQUENT_POLLING": early})


def window_of_group(bed, group):
    """The freeze window that the Event about a VolumeGroupSnapshot tells."""
    told = [e["message"] for e in bed.api.list("events", APP)
            if e["reason"] == "VolumeGroupCut" and e["involvedObject"]["name"] == group]
    if len(told) != 1:
        raise SystemExit(f"{len(told)} Events about {group}")
    asked, answered = TAKEN.search(told[0]).groups()
    return seconds_of(answered) - seconds_of(asked)


def last_handle(events):
    """When the last content of a snapshot got its first status, which is its handle."""
    handles = first_times(events, "volumesnapshotcontents", ("patch", "update"), "status")
    if len(handles) != MEMBERS:
        raise SystemExit(f"{len(handles)} volume snapshots were taken, not {MEMBERS}")
    return max(answered for _, answered in handles.values()) / 1e9


def measure(bed, side, name):
    """One backup: its FIGURES, in seconds but for the last; where none exists, None."""
    ours = SIDES[side][0]
    flags = ["--resource-policies-configmap", drive.POLICY] if ours else []
    position = bed.audit_position()
    begin = time.monotonic()
    with ReadyWatch(bed) as ready:
        bed.backup(name, "--include-namespaces", APP, *flags, timeout_seconds=BACKUP_SECONDS_MAX)
        seconds = time.monotonic() - begin
    if ready.at is None:
        raise SystemExit(f"{name}: {MEMBERS} ready VolumeSnapshots were never seen")
    kind, taker = ("volumegroupsnapshots", bed.plugin_user) if ours else ("volumesnapshots", "velero-server")
    requests, asked = drive.requests_since(bed, position, taker, kind)
    if len(asked) != (1 if ours else MEMBERS):
        raise SystemExit(f"{name}: {taker} made {len(asked)} {kind}")
    asked_at = min(seconds_of(e["requestReceivedTimestamp"]) for e in asked)
    figures = {"ready": ready.at - asked_at, "backup": seconds, "requests": sum(requests.values()) / MEMBERS,
               "requests by client": requests, "frozen": None}
    if ours:
        newest = max(bed.driver.control({"op": "groups"})["groups"], key=lambda g: g["created_at_ns"])
        figures["frozen"] = newest["frozen_ns"] / 1e9
        figures["window"] = window_of_group(bed, asked[0]["objectRef"]["name"])
    else:
        figures["window"] = last_handle(bed.audit_events("csi-snapshotter", position)) - asked_at
    bed.delete_backup(name)
    return figures


def run_row(bed, delay_ms, runs):
    """All sides, alternating: {side: [figures, ...]}."""
    found = {side: [] for side in SIDES}
    rules = [{"method": method, "delay_ms": delay_ms} for method in ("CreateSnapshot", "CreateVolumeGroupSnapshot")]
    with bed.driver.faults(*rules if delay_ms else []):
        for run in range(runs):
            for number, side in enumerate(SIDES):
                prepare(bed, side)
                found[side].append(measure(bed, side, f"bench-{delay_ms}-{run}-{number}"))
                print(f"  {delay_ms} ms, {side}: {found[side][-1]}", file=sys.stderr, flush=True)
    return found


def median(runs, figure):
    values = [run[figure] for run in runs]
    return None if None in values else statistics.median(values)


def show(delay_ms, found):
    """Prints a line per side, and after that what is missed; returns whether nothing is."""
    for side, runs in found.items():
        cells = []
        for figure in FIGURES:
            middle = median(runs, figure)
            values = [run[figure] for run in runs]
            cells.append(f"{'-':>22}" if middle is None else
                         f"{middle:>8.2f} ({min(values):.2f}-{max(values):.2f})".rjust(22))
        print(f"{delay_ms / 1000:>7.0f} s  {side:<24}" + "".join(cells))
    missed = []
    for figure in ("ready", "window", "requests"):
        best = min(median(found[side], figure) for side in (STOCK, STOCK_FAST))
        ratio = best / median(found[OURS], figure)
        print(f"{'':>11}{figure}: {ratio:.2f} times as good as the better in-tree side")
        missed += [figure] if ratio < 1 else []
    if missed:
        print(f"{'':>11}missed: {', '.join(missed)}")
    return not missed


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run of each")
    parser.add_argument("--row", type=int, action="append", choices=range(len(ROWS)))
    parser.add_argument("--runs", type=int, help="instead of three")
    options = parser.parse_args(arguments)
    return [(delay_ms, options.runs or (1 if options.quick else runs))
            for number, (delay_ms, runs) in enumerate(ROWS) if number in (options.row or range(len(ROWS)))]


def main(arguments):
    rows = parse(arguments)
    results = []
    with bed_module.Bed.up(bed_module.Settings(plugin=True, groups=True)) as bed:
        bed.api.create("configmaps", policy.config_map(drive.POLICY, bed.namespace, [policy.rule("snapshot")]))
        bed.create_namespace(APP)
        bed.create_claims(CLAIMS, APP, SIZE_BYTES, labels={LABEL: "db"})
        for number, claim in enumerate(CLAIMS):
            data.fill(bed.volume_path(claim, APP), seed=number, length_bytes=SIZE_BYTES)
        for delay_ms, runs in rows:
            results.append((delay_ms, run_row(bed, delay_ms, runs)))
    print(drive.machine())
    print(f"{MEMBERS} volumes of {SIZE_BYTES // drive.MIB} MiB, medians (min-max), seconds; requests for each member")
    print(f"{'a cut takes':>9}  {'side':<22}" + "".join(f"{figure:>22}" for figure in FIGURES))
    held = [show(delay_ms, found) for delay_ms, found in results]
    drive.keep("group", [{"delay_ms": delay_ms, "sides": found} for delay_ms, found in results])
    print("held" if all(held) else "missed: see the table")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
