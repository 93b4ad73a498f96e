#!/usr/bin/python3
"""csi-delta conformance against the test driver as processes, on loop devices: needs root.

An honest driver passes, one that leaves out a block does not, and after a Ctrl-C nothing is left.
"""

import argparse
import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "csi_driver"))

import sanity  # noqa: E402

RUN_SECONDS_MAX = 300
DRIVERS = (
    ["--differential-snapshot"],
    ["--differential-snapshot", "--cursors", "opaque", "--block-type", "variable", "--block-bytes", "65536",
     "--keep-change-data"],
)


@contextlib.contextmanager
def driver(program, work, flags):
    with open(work / "driver.log", "wb") as log:
        process = subprocess.Popen(
            [program, "--endpoint", f"unix://{work}/csi.sock", "--state-dir", str(work / "state"),
             "--driver-name", "real.csi-delta.io", "--node-id", "n1", "--control-socket", f"{work}/control.sock",
             *flags], stderr=log)
    try:
        sanity.wait_for_socket(process, work / "csi.sock")
        yield
    finally:
        process.terminate()
        process.wait(sanity.STOP_SECONDS_MAX)


def command(program, work):
    (work / "mounts").mkdir(exist_ok=True)
    return [program, "conformance", "--json", "--csi-address", f"unix://{work}/csi.sock",
            "--work-folder", str(work / "mounts"), "--volume-size", "8MiB"]


def judge(program, work):
    """Exit code, and the check results."""
    done = subprocess.run(command(program, work), capture_output=True, text=True, check=False,
                          timeout=RUN_SECONDS_MAX)
    if done.stderr:
        print(done.stderr)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def interrupt(program, work):
    """Ctrl-C when the second snapshot has been judged; the exit code."""
    process = subprocess.Popen(command(program, work), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if '"snapshot 2"' in line:
            process.send_signal(signal.SIGINT)
            break
    process.communicate(timeout=RUN_SECONDS_MAX)
    return process.returncode


def add_lie(work, rule):
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(work / "control.sock"))
        control.sendall(json.dumps({"op": "add", "rules": [rule]}).encode() + b"\n")
        assert json.loads(control.makefile().readline())["ok"]


def problems_of(driver_program, program, work):
    """What is not as it should be, as lines."""
    problems = []
    for flags in DRIVERS:
        with driver(driver_program, work, flags):
            code, said = judge(program, work)
        failed = [line for line in said if line.get("verdict") == "FAIL"]
        if code != 0 or failed or len(said) < 150:
            problems.append(f"an honest driver {flags}: exit code {code}, {len(said)} check results, {failed}")
        problems += [f"left behind: {thing}" for thing in sanity.leftovers(work)]
    with driver(driver_program, work, []):
        code = interrupt(program, work)
        if code != 130:
            problems.append(f"interrupted: exit code {code}")
        problems += [f"left behind when interrupted: {thing}" for thing in sanity.leftovers(work)]
        add_lie(work, {"method": "GetMetadataDelta", "lie": "omit", "extent": 5})
        code, said = judge(program, work)
        rules = {line["rule"] for line in said if line.get("verdict") == "FAIL"}
        if code != 1 or "complete" not in rules:
            problems.append(f"a driver that omits a block: exit code {code}, {rules}")
        problems += [f"left behind: {thing}" for thing in sanity.leftovers(work)]
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True, help="path of csi-delta-test-driver")
    parser.add_argument("--program", required=True, help="path of csi-delta")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        problems = problems_of(arguments.driver, arguments.program, pathlib.Path(folder))
    for problem in problems:
        print(f"conformance: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
