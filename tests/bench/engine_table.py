#!/usr/bin/python3
"""Writes the table of docs/performance.md from the raw figures of the bench: build/bench/engine.json.

`./dev bench engine --table` calls it after its run. It changes what stands between the two marks, and nothing else.
"""

import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, RECORD = ROOT / "docs" / "performance.md", ROOT / "build" / "bench" / "engine.json"
MARKS = re.compile(r"(?<=<!-- table of engine.json -->\n).*?(?=<!-- end of the table -->)", re.DOTALL)
FAMILIES = ("csi-delta", "restic", "kopia")
ROWS = {"full-random": "full backup", "rescan": "backup without a list, nothing changed",
        "increment-chunks": "backup, 1 % changed", "restore-file": "restore to a file", "check": "check of all data"}
MIB = 1 << 20


def fastest(samples, family):
    """The contestant of a family with the smallest median and its samples, or None."""
    own = {name: runs for name, runs in samples.items() if name.split()[0] == family}
    return min(own.items(), key=lambda one: statistics.median(run["seconds"] for run in one[1]), default=None)


def seconds(runs):
    values = [run["seconds"] for run in runs]
    spread = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else "one run"
    return f"{statistics.median(values):.2f} s ({spread})"


def markdown(head, lines):
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *lines])


def table(record):
    """The table and what was measured on what, as Markdown. A row that was not measured is a ValueError."""
    rows, run = record["rows"], record["run"]
    if missing := [f"--row {name}" for name in ROWS if name not in rows]:
        raise ValueError(f"not measured yet: ./dev bench engine {' '.join(missing)}")
    found = {name: [fastest(rows[name]["samples"], family) for family in FAMILIES] for name in ROWS}
    lines = [[title, *(seconds(one[1]) if one else "not measured" for one in found[name])] for name, title in ROWS.items()]
    peaks = [[one[1] for row in found.values() if (one := row[at])] for at in range(len(FAMILIES))]
    highest = [max(one["peak_bytes"] for runs in of for one in runs) / MIB for of in peaks]
    lines.append(["memory, at most (VmHWM)", *(f"{one:.0f} MiB" for one in highest)])
    stored = {name.split()[0]: size for name, size in rows["full-random"]["stored_bytes"].items()}
    lines.append(["disk, after the full backup", *(f"{stored[family] / MIB:,.0f} MiB" for family in FAMILIES)])
    chosen = "; ".join(f"{title}: `{one[0]}`" for name, title in ROWS.items() for one in found[name][1:] if one)
    loads = [rows[name]["load"] for name in ROWS]
    return (f"{markdown(['', *FAMILIES], lines)}\n{run['size_mib']:,} MiB of random data, medians of {run['runs']} runs in turns, least to most. "
            f"{run['machine']}; load after a row {min(loads):.1f} to {max(loads):.1f}.\n"
            f"Versions: {'; '.join(run['versions'])}. Of several versions and flags the fastest counts: {chosen}.\n")


def write(record=RECORD, page=PAGE):
    made = table(json.loads(record.read_text(encoding="utf-8")))
    page.write_text(MARKS.sub(lambda _: made, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    try:
        write()
    except (OSError, ValueError) as error:
        sys.exit(f"engine_table: {error}")
