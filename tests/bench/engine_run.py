"""Runs the rows of a bench one by one, prints what came of each, and keeps the raw figures."""

import json
import os
import sys
import time

import engine_lab

ROOT = engine_lab.ROOT
MIB = 1 << 20


def print_outcome(name, title, outcome, seconds):
    print(f"\n{name}: {title} [{seconds:.0f} s]")
    for who, samples in outcome.samples.items():
        processor = engine_lab.median(samples, "processor_seconds")
        peak = max(sample.peak_bytes for sample in samples)
        scratch = max(sample.scratch_bytes for sample in samples)
        print(f"  {who:56} {engine_lab.spread(samples):>26}  processor {processor:6.2f} s  "
              f"VmHWM {peak / MIB:5.0f} MiB  scratch {scratch / MIB:4.0f} MiB")
    for verdict in outcome.verdicts:
        print(f"  -> {verdict.text()}")
    for remark in outcome.remarks:
        print(f"     {remark}")
    sys.stdout.flush()


def run_rows(rows, world, names, record):
    """Runs the rows, {name: function}, that are named; returns the promises that were missed."""
    missed = []
    for name in names:
        start = time.monotonic()
        try:
            outcome = rows[name](world)
        except engine_lab.BenchError as error:
            print(f"\n{name}: {error}", flush=True)
            missed.append(f"{name}: failed")
            continue
        seconds = time.monotonic() - start
        print_outcome(name, rows[name].__doc__, outcome, seconds)
        record.keep_row(name, {"seconds": seconds, **outcome.document()})
        missed += [f"{name}: {verdict.text()}" for verdict in outcome.verdicts if not verdict.held]
    return missed


class Record:
    """The raw figures, on the disk after every row. Rows of earlier runs of the same kind stay until they are renewed."""

    def __init__(self, bench, run):
        self.path = ROOT / "build" / "bench" / f"{bench}.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.document = {"run": run, "rows": {}}
        if self.path.exists():
            before = json.loads(self.path.read_text(encoding="utf-8"))
            if before.get("run") == run:
                self.document = before

    def keep_row(self, name, raw):
        self.document["rows"][name] = {"load": os.getloadavg()[0], **raw}
        self.path.write_text(json.dumps(self.document, indent=1), encoding="utf-8")


def finish(lab, record, missed, start):
    """Prints what is left to say of a run that began at `start`; returns its exit code."""
    for note in lab.notes:
        print(f"note: {note}")
    print(f"\nraw data: {record.path.relative_to(ROOT)}")
    print(f"{time.monotonic() - start:.0f} s in all")
    print("MISSED:\n  " + "\n  ".join(missed) if missed else "every promise held")
    return 1 if missed else 0
