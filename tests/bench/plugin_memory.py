#!/usr/bin/python3
"""What one plugin process holds in memory while it backs up 2,000 claims.

    plugin_memory.py [--claims N]

Velero's plugin manager (1.18.3) calls Execute for every claim, eight at a time, in one process; each call
takes a real volume snapshot through API server, snapshot controller, csi-snapshotter and driver. The
claims are bound ones with volumes of their own, which stand for ten disks of the driver.

Promise: flat after warm-up, that is, the resident memory in the end is at most 1.05 times what it was
after the first quarter. Exits with 1 when that is missed. Raw figures go to build/bench/.
"""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import drive  # noqa: E402
from plugin_start import status_number  # noqa: E402

WORKERS = 8
STEPS = 8
WARM_UP_STEPS = 2
GROWTH_MAX = 1.05


def memory_kib(pid):
    """(VmRSS, VmHWM, threads) of a process."""
    return tuple(status_number(pid, key) for key in ("VmRSS", "VmHWM", "Threads"))


def measure(bed, count):
    """Rows of (claims so far, seconds so far, VmRSS, VmHWM, threads)."""
    claims = drive.create_claims(bed, "bench-memory", count)
    print(f"{count} claims bound", file=sys.stderr, flush=True)
    rows = []
    start = time.monotonic()
    with drive.Drive(bed, drive.create_backup(bed, "bench-memory"), WORKERS) as driven:
        rows.append((0, 0.0, *memory_kib(driven.pid)))
        step = count // STEPS
        for first in range(0, count, step):
            driven.execute(claims[first:first + step])
            rows.append((min(first + step, count), time.monotonic() - start,
                         *memory_kib(driven.pid)))
            print(f"  {rows[-1][0]} claims, {rows[-1][1]:.0f} s", file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--claims", type=int, default=2000)
    count = parser.parse_args().claims
    with drive.bed_without_velero() as bed:
        rows = measure(bed, count)
    print(drive.machine())
    print(f"{'claims':>7} {'seconds':>8} {'resident KiB':>13} {'peak KiB':>9} {'threads':>8}")
    for done, seconds, resident, peak, threads in rows:
        print(f"{done:>7} {seconds:>8.0f} {resident:>13} {peak:>9} {threads:>8}")
    drive.keep("plugin_memory", rows)
    growth = rows[-1][2] / rows[WARM_UP_STEPS][2]
    print(f"{'held' if growth <= GROWTH_MAX else 'missed'}: resident after {count} claims is "
          f"{growth:.3f} times that after {rows[WARM_UP_STEPS][0]} (at most {GROWTH_MAX})")
    return 0 if growth <= GROWTH_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
