#!/usr/bin/python3
"""What csi-delta costs, beside restic and kopia, in one run, taking turns.

    engine.py [--quick] [--row NAME]... [--runs N] [--size-mib N] [--scratch FOLDER] [--program FILE] [--chart] [--table]

Each figure is the median of at least three runs (--quick: one run of 1 GiB instead of 4), of whole processes: from
cold caches, key derivation included, until the result is durable; our verification and audit are on, and our memory is
limited to 256 MiB by a cgroup. The other tools run with their defaults and with their best flags, without a limit; the
fastest one counts, by the first round unless they are near each other.

Exits with 1 when a promise is missed. Raw figures go to build/bench/engine.json. --scratch keeps images and
repositories for the next call; --chart draws docs/performance-chart.svg, and --table writes that of docs/performance.md.
"""

import argparse
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "dev")]

import debian  # noqa: E402
import engine_in_place  # noqa: E402
import engine_lab  # noqa: E402
import engine_memory  # noqa: E402
import engine_rows  # noqa: E402
import engine_run  # noqa: E402
import engine_sparse  # noqa: E402
import engine_table  # noqa: E402
import engine_tools  # noqa: E402
import engine_world  # noqa: E402

ROOT = engine_lab.ROOT
MIB = 1 << 20
RUNS_MIN = 3
MEMORY_ROW = "memory"  # On a repository of its own, without other tools.
CHART = ROOT / "docs" / "performance-chart.svg"

ROWS = {
    "full-random": engine_rows.full_random,
    "rescan": engine_rows.rescan,
    "increment-chunks": engine_rows.increment_chunks,
    "increment-pages": engine_rows.increment_pages,
    "restore-file": engine_rows.restore_file,
    "restore-device": engine_rows.restore_device,
    "in-place": engine_in_place.in_place,
    "check": engine_rows.check,
    "full-words": engine_rows.full_words,
    "unchanged": engine_sparse.unchanged,
    "s3": engine_rows.s3,
    "s3-far": engine_rows.s3_far,
    "chart": engine_sparse.chart,
}


def programs(given):
    """Ours, the restics and kopia."""
    import build as bed_build  # Of the test bed, whose folder comes with engine_lab.

    kopia = engine_tools.Kopia(bed_build.build("kopia") / "bin" / "kopia")
    restics = [engine_tools.Restic(pathlib.Path(path), number) for number, path in restic_programs()]
    return engine_tools.CsiDelta(given), restics, kopia


def restic_programs():
    """(version, path) of the restic of the oldest and of the newest Debian there is."""
    found = list(debian.restics().values())
    return [(engine_tools.first_line([path, "version"]).split()[1], path) for path in (found[0], found[-1])]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--row", action="append", choices=[*ROWS, MEMORY_ROW])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--size-mib", type=int, help="of the image; 4096, or 1024 with --quick")
    parser.add_argument("--scratch")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/csi-delta")
    parser.add_argument("--chart", action="store_true")
    parser.add_argument("--table", action="store_true")
    return parser.parse_args(arguments)


def chart_drawn(world):
    """time of incremental backups, drawn"""
    outcome = engine_sparse.chart(world)
    engine_sparse.draw(outcome, CHART)
    return outcome


def run_memory_row(lab, quick, keep_row):
    """Runs the row of a large index; returns the promises that were missed."""
    lines, missed, raw = engine_memory.run(lab, quick)
    print(f"\n{MEMORY_ROW}: " + "\n  ".join(lines), flush=True)
    keep_row(MEMORY_ROW, raw)
    return missed


def main(arguments):
    options = parse(arguments)
    ours, restics, kopia = programs(options.program.resolve())
    machine = engine_lab.machine()
    versions = [tool.version() for tool in (ours, *restics, kopia)]
    print(machine, *versions, sep="\n")
    start = time.monotonic()
    with engine_lab.Lab(options.scratch) as lab:
        size_mib = options.size_mib or (1024 if options.quick else 4096)
        world = engine_world.World(lab, ours, restics, kopia, size_mib * MIB,
                                   options.runs or (1 if options.quick else RUNS_MIN))
        record = engine_run.Record("engine", {"machine": machine.rpartition(", load")[0], "versions": versions, "size_mib": size_mib,
                                              "runs": world.runs})
        names = options.row or [*ROWS, MEMORY_ROW]
        rows = {**ROWS, "chart": chart_drawn} if options.chart else ROWS
        missed = engine_run.run_rows(rows, world, [name for name in names if name in ROWS], record)
        if MEMORY_ROW in names:
            missed += run_memory_row(lab, options.quick, record.keep_row)
    if options.table:
        engine_table.write(record.path)
    return engine_run.finish(lab, record, missed, start)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
