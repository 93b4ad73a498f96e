#!/usr/bin/python3
"""Runs upstream's csi-sanity against the test driver, once per access type, and looks for leftovers.

Needs root: the driver mounts. csi-sanity is a product of tests/e2e/build.py unless it is given.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import build  # noqa: E402
import processes  # noqa: E402

START_SECONDS_MAX = 20
STOP_SECONDS_MAX = 20
SANITY_SECONDS_MAX = 500
SUMMARY = re.compile(r"Ran (\d+) of (\d+) Specs")
COUNTS = re.compile(r"(\d+) Passed.*?(\d+) Failed.*?(\d+) Pending.*?(\d+) Skipped")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def wait_for_socket(driver, path):
    deadline = time.monotonic() + START_SECONDS_MAX
    while not path.exists():
        if driver.poll() is not None:
            sys.exit(f"sanity: the driver ended with status {driver.returncode}")
        if time.monotonic() > deadline:
            sys.exit(f"sanity: no {path} after {START_SECONDS_MAX} s")
        time.sleep(0.02)


def leftovers(work):
    """Loop devices and mounts that still refer to the folder, and objects that still exist in it."""
    found = [*processes.loops_below(work), *processes.mounts_below(work)]
    for part in ("volumes", "snapshots", "records/volumes", "records/snapshots", "records/groups", "partial"):
        found += [str(path) for path in (work / "state" / part).iterdir()]
    return found


def run_sanity(driver_program, sanity_program, access_type):
    """Whether all specs passed. Prints the summary, and the whole output when some failed."""
    with tempfile.TemporaryDirectory(prefix="csi-sanity-") as folder:
        work = pathlib.Path(folder)
        socket = work / "csi.sock"
        with open(work / "driver.log", "wb") as log:
            driver = subprocess.Popen(
                [driver_program, "--endpoint", f"unix://{socket}",
                 "--state-dir", str(work / "state"), "--driver-name", "sanity.csi-delta.io",
                 "--node-id", "n1", "--group-snapshots"], stderr=log)
        try:
            wait_for_socket(driver, socket)
            result = subprocess.run(
                [sanity_program, f"--csi.endpoint=unix://{socket}", f"--csi.mountdir={work}/mount",
                 f"--csi.stagingdir={work}/staging", f"--csi.testvolumeaccesstype={access_type}"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                timeout=SANITY_SECONDS_MAX)
        finally:
            driver.terminate()
            driver.wait(STOP_SECONDS_MAX)
        return judge(access_type, result, driver.returncode, leftovers(work))


def judge(access_type, result, driver_status, left):
    output = COLOURS.sub("", result.stdout)
    ran = SUMMARY.search(output)
    counts = COUNTS.search(output)
    problems = [f"left behind: {thing}" for thing in left]
    if result.returncode != 0:
        problems.append(f"csi-sanity ended with status {result.returncode}")
    if driver_status != 0:
        problems.append(f"the driver ended with status {driver_status}")
    if ran is None or counts is None or int(ran.group(1)) == 0 or int(counts.group(1)) == 0:
        problems.append("no specs ran")
    if problems:
        print(output)
    summary = "; ".join(found.group(0) for found in (ran, counts) if found)
    print(f"csi-sanity, {access_type}: {summary}")
    for problem in problems:
        print(f"csi-sanity, {access_type}: {problem}")
    return not problems


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True, help="path of csi-delta-test-driver")
    parser.add_argument("--sanity", help="path of csi-sanity",
                        default=build.product_dir("csi") / "bin" / "csi-sanity")
    arguments = parser.parse_args()
    for program in (arguments.driver, arguments.sanity):
        if not pathlib.Path(program).is_file():
            sys.exit(f"sanity: no program {program}; tests/e2e/build.py csi builds csi-sanity")
    passed = [run_sanity(arguments.driver, arguments.sanity, kind) for kind in ("mount", "block")]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
