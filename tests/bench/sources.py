#!/usr/bin/python3
"""How fast changed blocks are read from a cluster, beside upstream's iterator, on the test bed.

    sources.py [--quick] [--row NAME]... [--runs N]

listing: a server that has encoded its answer before anybody asks (tests/e2e/modules/cluster/metadata/replay) sends 32 million
tuples, 256, 4,096 and 16,000 to a message; our client and upstream's iterator (same release as the sidecar) take turns as
whole processes, discovery, token and TLS included. Server and client have one processor each. How fast the server is
says its processor's time for a client that throws the bytes away.

pages: `csi-delta diffsnap` beside a driver that has encoded its answer before anybody asks, and a client that reads its
pages over TLS; server and client have one processor each. Once with all tuples and once with an eighth of them: memory
must not grow with the list.

planner: `csi-delta backup` of a volume that did not change, told by the cluster, less the same told by an empty list.

Promises: twice upstream's rate, from a server three times as fast as either; a million extents a second in pages; the
planner takes 100 ms at most. Exits with 1 when one is missed. --quick: one run of a million tuples, and no promise is judged. Raw figures go to build/bench/.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "tests" / "e2e")]

import cgroups  # noqa: E402
import components  # noqa: E402
import costs  # noqa: E402
import data  # noqa: E402
import differential  # noqa: E402
import drive  # noqa: E402
import engine as engine_module  # noqa: E402
import metadata  # noqa: E402
import pki  # noqa: E402
from drive import bed_module, verdict  # noqa: E402

TUPLES = 32_000_000
TUPLE_BYTES = 4096
STRIDE_BYTES = 8192
PER_MESSAGE = (256, 4096, 16000)
PORT = 50071
RUNS_MIN = 3
RATE_MIN = 2
SERVER_RATE_MIN = 3
PLANNER_MS_MAX = 100
PAGES_RATE_MIN = 1_000_000
PAGES_GROWTH_MIB_MAX = 16
PLANNER_RUNS = 11
SERVER_PROCESSOR, CLIENT_PROCESSOR = "0", "1"
OURS, THEIRS, DISCARDED = "csi-delta", "upstream's iterator", "bytes thrown away"


@dataclasses.dataclass
class Sample:
    seconds: float
    processor_seconds: float


def timed(command, expected):
    """Runs a whole process, which must print `expected`; what it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate(timeout=600)
    seconds = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0 or expected not in out:
        raise SystemExit(f"{' '.join(map(str, command))}: ended with {process.returncode}: {out}{err}")
    return Sample(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


class World:
    """A bed with one volume snapshot, and a service of snapshot metadata that can be replaced."""

    def __init__(self, bed, folder, programs):
        self.bed, self.folder, self.programs = bed, folder, programs
        metadata.serve(bed)
        pki.make_server(bed.pki, "replay")
        bed.create_namespace("bench")
        bed.create_claim("data", "bench", engine_module.VOLUME_BYTES)
        data.fill(bed.volume_path("data", "bench"), 1, engine_module.VOLUME_BYTES // 2)
        bed.create_snapshot("one", "bench", "data")
        self.kubeconfig = metadata.kubeconfig(bed, metadata.CLIENT)

    def pinned(self, processor, *command):
        return self.bed.inside(["/usr/bin/taskset", "-c", processor, *command])

    def replayer(self, tuples, per_message):
        """A server of such a list; end it with `with`."""
        return self._listening(self.bed.program("metadata", "replay"), "-listen", f"127.0.0.1:{PORT}",
                               "-cert", f"{self.bed.pki}/replay.crt", "-key", f"{self.bed.pki}/replay.key",
                               "-tuples", str(tuples), "-per-message", str(per_message))

    def client(self, who, tuples):
        if who == OURS:
            return self.pinned(CLIENT_PROCESSOR, "/usr/bin/env", f"KUBECONFIG={self.kubeconfig}",
                               self.programs["list_blocks"], "csi-metadata", "bench/one", "", str((tuples - 1) * STRIDE_BYTES + TUPLE_BYTES))
        if who == THEIRS:
            return self.pinned(CLIENT_PROCESSOR, self.bed.program("metadata", "lister"), "-kubeconfig",
                               self.kubeconfig, "-namespace", "bench", "-snapshot", "one", "-count")
        return self.pinned(CLIENT_PROCESSOR, self.bed.program("metadata", "replay"), "-drain", f"127.0.0.1:{PORT}",
                           "-ca", f"{self.bed.pki}/ca.crt", "-tuples", str(tuples))

    def driver(self, tuples, socket):
        """A CSI driver of such a list, on a socket."""
        return self._listening(self.bed.program("metadata", "replay"), "-socket", socket, "-driver", self.bed.driver.name,
                               "-tuples", str(tuples), "-per-message", "4096")

    def _listening(self, *command):
        server = subprocess.Popen(self.pinned(SERVER_PROCESSOR, *command), stdout=subprocess.PIPE, text=True)
        if "listening" not in server.stdout.readline():
            raise SystemExit("the replaying server does not listen")
        return Ended(server)


class Ended:
    """A process that is ended with the `with` around it."""

    def __init__(self, process):
        self.process = process
        self.output = ""  # What it printed, once it has ended.

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        self.process.terminate()
        self.output = self.process.communicate(timeout=30)[0] or ""

    def processor_seconds(self):
        """What each answer of the replaying server took."""
        return [float(taken) for taken in re.findall(r"answered .*processor=(\S+)", self.output)]


def median(samples, field="seconds"):
    return statistics.median(getattr(sample, field) for sample in samples)


def listing(world, runs, quick):
    """Rows of one table; whether all promises were held."""
    tuples = TUPLES // 32 if quick else TUPLES
    raw, held = {}, True
    for per_message in PER_MESSAGE:
        samples = {who: [] for who in (OURS, THEIRS, DISCARDED)}
        server = world.replayer(tuples, per_message)
        with metadata.told(world.bed, address=f"127.0.0.1:{PORT}"), server:
            for _ in range(runs):
                for who, taken in samples.items():
                    taken.append(timed(world.client(who, tuples), str(tuples)))
        raw[per_message] = {who: [dataclasses.asdict(s) for s in taken] for who, taken in samples.items()}
        discarded_seconds = statistics.median(server.processor_seconds()[len(samples) - 1::len(samples)])
        print(f"\nlisting: {tuples:,} tuples, {per_message:,} to a message; its server takes "
              f"{discarded_seconds / tuples * 1e6:.3f} s of its processor per M tuples")
        for who, taken in samples.items():
            seconds = [sample.seconds for sample in taken]
            print(f"  {who:<20} {tuples / median(taken) / 1e6:7.1f} M tuples/s  {median(taken):6.2f} s "
                  f"({min(seconds):.2f}-{max(seconds):.2f})  "
                  f"{median(taken, 'processor_seconds') / tuples * 1e6:6.3f} s processor per M tuples")
        if not quick:
            rate = median(samples[THEIRS]) / median(samples[OURS])
            ahead = min(median(samples[OURS]), median(samples[THEIRS])) / discarded_seconds
            held &= verdict(f"{rate:.2f}x upstream's rate (must >= {RATE_MIN}x)", rate >= RATE_MIN)
            held &= verdict(f"the server's processor could do {ahead:.1f}x what the faster of the two takes (must >= "
                            f"{SERVER_RATE_MIN}x)", ahead >= SERVER_RATE_MIN)
    drive.keep("sources_listing", raw)
    return held


def read_pages(world, tuples, runs):
    """Runs a server over a driver of so many tuples; the runs' samples, its processor seconds in each, and its peak."""
    bed, socket = world.bed, world.folder / f"driver-{tuples}.sock"
    command = [f"--csi-address=unix://{socket}" if flag.startswith("--csi-address") else flag
               for flag in components.diffsnap_command(bed, components.DIFFSNAP)]
    samples, processor = [], []
    with world.driver(tuples, socket), open(world.folder / "diffsnap.log", "ab") as log:
        with Ended(subprocess.Popen(world.pinned(SERVER_PROCESSOR, *command), stderr=log)) as server:
            differential.ask(bed, f"warm-{tuples}", "bench", targetVolumeSnapshotName="one")
            client = world.pinned(CLIENT_PROCESSOR, "/usr/bin/env", f"KUBECONFIG={differential.kubeconfig(bed)}",
                                  world.programs["list_blocks"], "differential-snapshot", "bench/one", "",
                                  str((tuples - 1) * STRIDE_BYTES + TUPLE_BYTES))
            for _ in range(runs):
                before = costs.cpu_seconds(server.pid)
                samples.append(timed(client, f"extents={tuples}"))
                processor.append(costs.cpu_seconds(server.pid) - before)
            return samples, processor, cgroups.memory_bytes(server.pid, "VmHWM") / drive.MIB


def pages(world, runs, quick):
    """What `csi-delta diffsnap` serves."""
    bed = world.bed
    differential.serve(bed)
    bed.stop(components.DIFFSNAP)
    tuples = TUPLES // 128 if quick else TUPLES // 4
    few = tuples // 8
    _, _, peak_of_few = read_pages(world, few, runs)
    samples, processor, peak = read_pages(world, tuples, runs)
    drive.keep("sources_pages", {"samples": [dataclasses.asdict(s) for s in samples], "server_processor": processor,
                                 "peak_mib": peak, "peak_mib_of_an_eighth": peak_of_few})
    rate, alone = tuples / median(samples), tuples / statistics.median(processor)
    print(f"\npages: {tuples:,} extents, over TLS\n"
          f"  {rate / 1e6:.2f} M extents/s  {median(samples):.2f} s "
          f"({min(s.seconds for s in samples):.2f}-{max(s.seconds for s in samples):.2f}); "
          f"{alone / 1e6:.2f} M per second of the server's processor; peak {peak:.0f} MiB, {peak_of_few:.0f} MiB for an eighth")
    return quick or (verdict(f"{rate / 1e6:.2f} M extents/s (must >= {PAGES_RATE_MIN / 1e6:.0f} M)", rate >= PAGES_RATE_MIN)
                     & verdict(f"{peak - peak_of_few:.0f} MiB more for eight times the list (must <= "
                               f"{PAGES_GROWTH_MIB_MAX} MiB)", peak - peak_of_few <= PAGES_GROWTH_MIB_MAX))


def planner(world, runs, quick):
    """What it costs a backup of an unchanged volume to ask the cluster."""
    bed = world.bed
    mover = engine_module.Engine(bed, world.folder / "repository")
    parent, _ = mover.backup("one", "bench")
    bed.create_snapshot("two", "bench", "data")
    device = mover.device_of("two", "bench")
    (world.folder / "nothing").write_text(json.dumps({"base": parent["snapshot_id"]}) + '\n{"end":true}\n')
    sides = {"told by the cluster": ["--volume-snapshot", "bench/two", "--kubeconfig", world.kubeconfig],
             "told by an empty list": ["--extents", world.folder / "nothing"]}
    found = {side: [] for side in sides}
    with metadata.told(bed, address=f"127.0.0.1:{PORT}"), world.replayer(0, 1):
        for _ in range(1 if quick else max(runs, PLANNER_RUNS)):
            for side, flags in sides.items():
                start = time.monotonic()
                result = mover.run("backup", *flags, "--parent", parent["snapshot_id"], "--path", "/bench/data", device)
                found[side].append((time.monotonic() - start) * 1000)
                if result["mode_done"] != "incremental" or result["read_bytes"] != 0:
                    raise SystemExit(f"{side}: read {result['read_bytes']} bytes of an unchanged volume: {result}")
    print(f"\nplanner: an unchanged volume of {engine_module.VOLUME_BYTES >> 20} MiB")
    for side, values in found.items():
        print(f"  {side:<24}{statistics.median(values):6.0f} ms ({min(values):.0f}-{max(values):.0f})")
    drive.keep("sources_planner", found)
    told, listed = (statistics.median(values) for values in found.values())
    return quick or verdict(f"{told - listed:.0f} ms for discovery, token, TLS and an answer (must <= {PLANNER_MS_MAX} ms)",
                            told - listed <= PLANNER_MS_MAX)


ROWS = {"listing": listing, "pages": pages, "planner": planner}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--row", action="append", choices=ROWS, metavar="NAME")
    parser.add_argument("--runs", type=int, default=RUNS_MIN)
    parser.add_argument("--list-blocks", required=True, help="our client, as the build makes it")
    arguments = parser.parse_args()
    runs = 1 if arguments.quick else max(arguments.runs, RUNS_MIN)
    held = True
    with tempfile.TemporaryDirectory(prefix="csi-delta-bench-") as folder, \
            bed_module.Bed.up(bed_module.Settings()) as bed:
        bed.stop("velero")
        world = World(bed, pathlib.Path(folder), {"list_blocks": arguments.list_blocks})
        print(drive.machine())
        for name in arguments.row or ROWS:
            held &= ROWS[name](world, runs, arguments.quick)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
