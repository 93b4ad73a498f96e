#!/usr/bin/python3
"""Whether an upload over a slow line ends, and whether more memory makes it slower.

    slow_line.py [--mbit N]... [--runs N] [--unscaled] [--keep FOLDER]

A full backup of data that does not compress, by `csi-delta --memory-budget` 128 MiB, 224 MiB and 1 GiB, into an S3
server behind a line of 1, 4 and 20 Mbit/s: the loopback of a network namespace of its own, held to its rate by tbf. The
volume is 1.5 times what 32 packs of the largest budget hold. The budgets take turns.

Time is scaled by 60: the line is 60 times as fast, and by the clock of csi-delta-fast so is every limit of time. What
processors do is not scaled. --unscaled: one run of csi-delta itself at 4 Mbit/s with 1 GiB, 35 minutes.

Prints a PASS or FAIL line for each row, medians and ratios. Exits with 1 when an upload fails, or when the median of
more memory is more than 5 % above that of the least.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import engine_lab  # noqa: E402
import engine_packs  # noqa: E402

MIB = 1 << 20
BUDGETS = ("128MiB", "224MiB", "1GiB")
RATES = (1, 4, 20)  # Mbit/s
RUNS = 3
FACTOR = 60
RATIO_MAX = 1.05
VOLUME_BYTES = 1008 * MIB  # 1.5 x 32 uploads of 21 MiB.
UNSCALED_RATE = 4
QUEUED_MS = 100  # What the line may hold back. Not scaled, as the timers of TCP are not.
PROGRAMS = engine_lab.ROOT / "build" / "release" / "bin"


def hold_to(megabits, factor):
    """Sets the rate of this namespace's loopback."""
    rate = megabits * 1_000_000 * factor
    burst = max(64 * 1024, rate // 8 // 100)  # As much as passes between two ticks of the kernel.
    subprocess.run(["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", f"{rate}bit", "burst", str(burst),
                    "latency", f"{QUEUED_MS}ms"], check=True)


def fast_clock():
    """The variable by which csi-delta-fast runs its clock (scaled_clock.h)."""
    return {"CSI_DELTA_BENCH_CLOCK": f"{FACTOR}:{time.monotonic_ns()}:{time.time_ns()}"}


class Bench:
    """One volume, and a repository without a backup, of which each run gets a copy."""

    def __init__(self, lab, unscaled):
        self.lab, self.unscaled = lab, unscaled
        self.volume, self.empty = lab.folder / "volume", lab.folder / "empty"
        with self.volume.open("wb") as file:
            for _ in range(VOLUME_BYTES // MIB):
                file.write(os.urandom(MIB))
        lab.measure([PROGRAMS / "csi-delta", "-r", self.empty, "init"], engine_packs.ENVIRONMENT, cold=False)

    def upload(self, megabits, budget):
        """Seconds of one backup, and its result."""
        folder = self.lab.folder / "bucket"
        shutil.copytree(self.empty, folder)
        hold_to(megabits, 1 if self.unscaled else FACTOR)
        try:
            with engine_packs.seeded(folder, flags=["--hollow"]) as url:
                sample = self.lab.measure(
                    [PROGRAMS / ("csi-delta" if self.unscaled else "csi-delta-fast"), "-r", url, "--json", "backup",
                     "--memory-budget", budget, self.volume],
                    {**engine_packs.ENVIRONMENT, **({} if self.unscaled else fast_clock())}, cold=False)
            put_bytes = sum(path.stat().st_size for path in (folder / "data").rglob("*") if path.is_file())
            if put_bytes < VOLUME_BYTES:
                raise engine_lab.BenchError(f"{put_bytes} bytes were put of {VOLUME_BYTES}")
            return sample.seconds, json.loads(sample.output.strip().splitlines()[-1])
        finally:
            shutil.rmtree(folder)

    def row(self, megabits, budgets, runs):
        """One rate; returns whether it holds."""
        seconds = {budget: [] for budget in budgets}
        uploads = {}
        try:
            for _ in range(runs):
                for budget in budgets:
                    taken, result = self.upload(megabits, budget)
                    seconds[budget].append(taken)
                    uploads[budget] = result["uploads_in_flight"]
                    print(f"  {megabits} Mbit/s, {budget}: {taken:.1f} s, {result['retries']} retries", file=sys.stderr,
                          flush=True)
        except engine_lab.BenchError as error:
            print(f"FAIL {megabits} Mbit/s: {error}", flush=True)
            return False
        first = statistics.median(seconds[budgets[0]])
        held = True
        for budget in budgets:
            values = seconds[budget]
            ratio = statistics.median(values) / first
            held = held and ratio <= RATIO_MAX
            print(f"  {megabits:>2} Mbit/s  {budget:>7}  uploads {uploads[budget]:>2}  {statistics.median(values):7.1f} s "
                  f"({min(values):.1f}-{max(values):.1f})  ratio {ratio:.3f}", flush=True)
        print(f"{'PASS' if held else 'FAIL'} {megabits} Mbit/s", flush=True)
        return held


def main():
    options = engine_lab.options(__doc__, {"--mbit": [], "--runs": RUNS, "--unscaled": False, "--keep": None})
    engine_lab.enter_namespaces("--net")
    subprocess.run(["ip", "link", "set", "lo", "mtu", "1500"], check=True)
    with engine_lab.Lab(options.keep) as lab:
        print(f"{engine_lab.machine()}; {'unscaled' if options.unscaled else f'time scaled by {FACTOR}'}", flush=True)
        bench = Bench(lab, options.unscaled)
        if options.unscaled:
            return 0 if bench.row(UNSCALED_RATE, BUDGETS[-1:], 1) else 1
        held = [bench.row(megabits, BUDGETS, options.runs) for megabits in options.mbit or RATES]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
