"""Lets the tests import the scripts that they test, and gives them checkouts of their own."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import psutil
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("scripts", "scripts/dev", "scripts/docs", "scripts/fuzz", "scripts/lint", "scripts/mutants", "tests/bench", "tests/e2e")]
import build  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import  # Not the one of tests/e2e.
PYTHON = "/usr/bin/python3"
WAIT_SECONDS_MAX = 300
LIMITS = (("entry.py", "TIDY_UP_SECONDS = 90", "TIDY_UP_SECONDS = 2"), ("__main__.py", "GRACE_SECONDS = 100", "GRACE_SECONDS = 9"))
PRESETS = """{"version": 3, "configurePresets": [{"name": "release", "generator": "Ninja",
"binaryDir": "${sourceDir}/build/release", "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"}}]}"""
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(small NONE)
enable_testing()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
include(cmake/Entries.cmake)
"""
# Starts a child, and in a session of its own what ignores polite signals; writes their ids; tidies up when it is asked.
TREE = """trap 'sleep 0.1; echo > tidy; exit' TERM
sleep 600 & child=$!
setsid sh -c 'trap "" TERM INT HUP; echo $$ > own; sleep 600 & wait; wait' &
while [ ! -s own ]; do sleep 0.02; done
echo $child $(cat own) > ids.new; mv ids.new ids; wait
"""


def pytest_configure(config):
    config.addinivalue_line("markers", "clang_tidy: compiles the project's plugin of clang-tidy; ./dev ci runs it")


def lives_on(process):
    """Is it there some seconds after it was to end?"""
    deadline = time.monotonic() + 20
    while (alive := process.is_running() and process.status() != psutil.STATUS_ZOMBIE) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive


def write(folder, files):
    """Makes files {name: text} below a folder, and returns that."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


class Checkout:
    """A small checkout: the scripts of this one, with shorter grace periods, and a preset that needs no compiler."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(ROOT / "scripts/dev", folder / "scripts/dev", ignore=shutil.ignore_patterns("__pycache__"))
        for name, long, short in LIMITS:
            assert long in (text := (folder / "scripts/dev" / name).read_text())
            write(folder / "scripts/dev", {name: text.replace(long, short)})
        entries = (ROOT / "cmake/Entries.cmake").read_text()
        write(folder, {"cmake/Entries.cmake": entries, "CMakePresets.json": PRESETS, "tree.sh": TREE, "tests/scenarios.txt": ""})
        own = {name: value for name, value in os.environ.items() if not name.startswith(("CSI_DELTA_", "GTEST_"))}
        self.env = {**own, "PYTHONPATH": ":".join([f"{folder}/scripts/dev", *(f"{ROOT}/scripts/{name}" for name in ("", "docs", "fuzz", "lint", "mutants"))]), "CSI_DELTA_CACHE": str(folder / "cache"),
                    "CSI_DELTA_JOBS": "2", "CSI_DELTA_SWEEP": "7"}

    def run(self, *command, sig=None, **env):
        """(what it printed, its exit code). `sig`: sent when all of TREE runs, none of which may outlive the command."""
        everything, deadline = [], time.monotonic() + WAIT_SECONDS_MAX
        with subprocess.Popen([str(word) for word in command], cwd=self.folder, env={**self.env, **env}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                if sig:
                    while not (self.folder / "ids").exists():
                        assert time.monotonic() < deadline and process.poll() is None
                        time.sleep(0.02)
                    everything = psutil.Process(process.pid).children(recursive=True)
                    assert {int(word) for word in (self.folder / "ids").read_text().split()} < {one.pid for one in everything}
                    process.send_signal(sig)
                printed = process.communicate(timeout=WAIT_SECONDS_MAX)[0]
            finally:
                process.kill()  # What has ended does not mind.
        assert not [one for one in everything if lives_on(one)] and (not sig or (self.folder / "tidy").exists())
        return printed, process.returncode


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)
