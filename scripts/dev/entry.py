"""Runs one entry of ctest: cmake/Entries.cmake says which.

    entry.py --name N --tier T --kind K --seconds S --nice N --programs FOLDER [--root] [--only suites|seconds]
             -- COMMAND... ::: CHOICE...

The whole output goes to build/results/<tier>/<name>.log, and the runner's report beside it; what failed is printed in full.
$CSI_DELTA_ONLY names words to use in place of CHOICE, by entry, as JSON: how ./dev runs single tests.
"""

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import build
import console
import process_tree
import report
import selection
from console import ROOT, say

TIDY_UP_SECONDS = 90  # A test bed goes down in order.
SHOWN_LINES_MAX = 200  # The log has all.
SECONDS_WORD = "support::AssertsSeconds("  # In tests that promise seconds: tests/support/await.h.
_BLOCK = re.compile(r"^=+ (ERRORS|FAILURES) =+$")
_AFTER_BLOCKS = re.compile(r"^=+ (short test summary info|warnings summary|\d.* in [\d.]+s.*) =+$|^- generated xml file")


def _arguments(words):
    at = words.index("--")
    parser = argparse.ArgumentParser()
    for name in ("name", "tier", "kind", "programs", "only"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--nice", type=int)
    parser.add_argument("--root", action="store_true")
    options = parser.parse_args(words[:at])
    split = words.index(":::", at)
    options.command, options.choice = words[at + 1:split], words[split + 1:]
    return options


def bed_environment(programs=build.folder("release") / "bin"):
    """Which programs, tests and CSI driver are tested, unless the caller chose."""
    release = build.folder("release") / "bin"
    defaults = {"CSI_DELTA_PLUGIN": release / build.PLUGIN, "CSI_DELTA_PROGRAM": release / build.PROGRAM,
                "CSI_DELTA_TESTS": programs, "CSI_DELTA_CSI_DRIVER": f"{programs}/csi-delta-test-driver"}
    return {key: os.environ.get(key) or str(value) for key, value in defaults.items()}


def _own_choice(options, sources):
    """What the tests of the entry are, where no one chose."""
    if options.only == "suites":
        return [f"--gtest_filter={':'.join(selection.patterns_of(sources))}"]
    if options.only == "seconds":
        names = [name for source in sources for name in selection.tests_with(source, SECONDS_WORD)]
        return [f"--gtest_filter={':'.join(pattern for name in names for pattern in selection.gtest_patterns(name))}"]
    return options.choice


def command_of(options, only):
    """The whole command line."""
    entry = f"{options.tier}/{options.name}"
    words = only[options.name] if options.name in only else _own_choice(
        options, selection.show_entries("-R", f"^{re.escape(options.name)}$")[options.name][1] if options.only else ())
    report_file = report.folder() / f"{entry}.xml"
    own = {"gtest": [f"--gtest_output=xml:{report_file}", "--gtest_color=no"],
           "pytest": ["-v", "-rs", "-p", "no:cacheprovider", f"--rootdir={ROOT}", "-o", "junit_family=xunit1",
                      f"--junitxml={report_file}"]}.get(options.kind, [])
    command = [*options.command, *own, *words]
    return console.as_root(command) if options.root else command


def _pytest_words(lines):
    """What pytest says of failures."""
    found, inside = [], False
    for line in lines:
        inside = bool(_BLOCK.match(line)) or (inside and not _AFTER_BLOCKS.match(line))
        found += [line] if inside else []
    return found or lines[-40:]


def shown_lines(kind, lines):
    """Of an entry that failed: what is printed."""
    if kind == "gtest":
        parts = [[f"---- {test}", *words[-SHOWN_LINES_MAX:]] for test, outcome, words, _ in report.sections(lines)
                 if outcome not in ("OK", "SKIPPED")]
        return sum(parts, []) or lines[-40:]
    if kind == "pytest":
        return _pytest_words(lines)
    if kind == "lines":
        return [line for line in lines if not line.startswith("PASS")][-SHOWN_LINES_MAX:]
    return [line for line in lines if not console.NINJA_EDGE.match(line)][-SHOWN_LINES_MAX:]


def run(options):
    """Runs the entry; returns its exit code."""
    log = report.folder() / options.tier / f"{options.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    for stale in (log, log.with_name(f"{options.name}.xml"), log.with_name(f"{options.name}.json")):
        stale.unlink(missing_ok=True)
    only = json.loads(os.environ.get("CSI_DELTA_ONLY") or "{}")
    command = command_of(options, only)
    if options.name in only:  # All that is chosen runs here, not in the other shards.
        for name in ("GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"):
            os.environ.pop(name, None)
    os.nice(options.nice)
    start = time.monotonic()
    with open(log, "wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=console.environment(bed_environment(options.programs)),
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        left, why = [], ""
        try:
            code = process.wait(options.seconds)
            left = process_tree.names()
        except subprocess.TimeoutExpired:
            code, why = 1, f"it did not end within {options.seconds:.0f} s"
        finally:
            process_tree.end_all(TIDY_UP_SECONDS)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    report.write_state(log.with_name(f"{options.name}.json"), json.dumps(
        {"code": code, "why": why, "left": left, "seconds": round(time.monotonic() - start, 1),
         "limit": options.seconds, "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1)}))
    if left:
        say(f"ended what was left: {'; '.join(left)}")
    if code:
        say("\n".join(shown_lines(options.kind, log.read_text(errors="replace").splitlines())))
        say(why or f"ended with code {code}")
        say(f"log: {console.shown(log)}")
    return 1 if code else 0


if __name__ == "__main__":
    process_tree.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(run(_arguments(sys.argv[1:])))
