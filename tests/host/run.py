#!/usr/bin/python3
"""The plugin at work under Velero's own plugin manager, in clusters that are in memory.

    run.py [--version 118]... [--filter TEXT]... [--product FILE] [--fake-cluster FILE] [--jobs N] [--seed N]
           [--build-only] [--list]

For each Velero release the harness of tests/pluginmanager plays the Velero server: it finds the plugin, and calls its
actions as a backup, a restore or a deletion of Velero does. The API server, the snapshot controller, the sidecars and the
driver are those of tests/support, served by fake_cluster over HTTPS. Each case has a cluster of its own; many run at once.

Prints `PASS 1.18.3/host/<case>: 120 ms` or `FAIL 1.18.3/host/<case>: reason` for each, and how to run that one alone; the
last line is `N passed, N failed`. --filter takes parts of case names. Without --version: the newest and the oldest.
--every-call, and more than two versions: the plugin is killed before each call, else only where the cluster differs
from the call before; see kills.py.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import shlex
import sys
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/pluginmanager"))

import cases  # noqa: E402  pylint: disable=wrong-import-position
import kills  # noqa: E402  pylint: disable=wrong-import-position
import run as pluginmanager  # noqa: E402  pylint: disable=wrong-import-position
import world  # noqa: E402  pylint: disable=wrong-import-position

DEFAULT_VERSIONS = ("118", "113")
RELEASES_MAX = 2  # At a time: much of it is waiting.
LONGEST = ("two hundred", "fifty claims", "kill in a backup")


class Stage:
    """What cases are told with: one fake_cluster, and a harness for each command line of a server."""

    def __init__(self, clusters, harness, release, plugin, folder, *, seed, every_call):
        self._clusters, self._program, self.release, self._seed = clusters, harness, release, seed
        self.every_call = every_call
        self.sweeps_groups = every_call or release.minor == max(one.minor for one in pluginmanager.RELEASES.values())
        self._plugin, self._folder = plugin, folder
        self._harnesses = {}
        self._count = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def world(self, *, csi=True, **options):
        """A cluster with a server, while the body runs. `csi`: is EnableCSI on?"""
        with self._lock:
            self._count += 1
            number = self._count
            if csi not in self._harnesses:
                folder = self._folder / f"server-{csi}"
                folder.mkdir()
                self._harnesses[csi] = world.Harness(self._program, self.release, folder,
                                                     ["--features=EnableCSI"] if csi else [])
        one = world.World(self._clusters, self._harnesses[csi], self._plugin, self._folder / f"w{number}",
                          seed=self._seed, **options)
        with contextlib.closing(one):
            yield one

    def cpu_seconds(self):
        """Where the machine's time went, in words."""
        harness, plugins = 0.0, 0.0
        for one in self._harnesses.values():
            own, children = world.cpu_seconds(one.process.pid)
            harness, plugins = harness + own, plugins + children
        clusters, _ = world.cpu_seconds(self._clusters.process.pid)
        return f"harness {harness:.1f}, plugins {plugins:.1f}, clusters {clusters:.1f}, runner {time.process_time():.1f}"

    def close(self):
        with contextlib.ExitStack() as steps:
            for harness in self._harnesses.values():
                steps.callback(harness.close)


class Report:
    """Prints a line for each case as it ends. Thread-safe."""

    def __init__(self):
        self.passed = self.failed = 0
        self.started = time.monotonic()
        self._lock = threading.Lock()

    def add(self, name, started, problem=None, replay=""):
        with self._lock:
            if problem is None:
                self.passed += 1
                print(f"PASS {name}: {(time.monotonic() - started) * 1000:.0f} ms", flush=True)
            else:
                self.failed += 1
                print(f"FAIL {name}: {' '.join(str(problem).split())[:2000]}", flush=True)
                print(f"  alone: {replay}", flush=True)

    def say(self, text):
        with self._lock:
            print(text, flush=True)


def tell(case, stage, report, arguments):
    """One case, to its line."""
    name = f"{stage.release.version[1:]}/host/{case.name}"
    started = time.monotonic()
    replay = shlex.join(["tests/host/run.py", "--version", stage.release.name, "--seed", str(arguments.seed),
                         "--filter", case.name])
    try:
        case.body(stage)
    except AssertionError as problem:
        report.add(name, started, problem or "assertion", replay)
        if arguments.verbose:
            traceback.print_exc()
    except Exception as problem:  # pylint: disable=broad-exception-caught
        report.add(name, started, f"{type(problem).__name__}: {problem}", replay)
        traceback.print_exc()
    else:
        report.add(name, started)


def chosen(arguments, stage, report):
    """All cases of a release that the filters leave."""
    everything = [*cases.all_cases(), *([] if arguments.no_kills else kills.all_cases(stage, report, arguments.filter))]
    names = {case.name for case in everything}
    everything.sort(key=lambda case: [text not in case.name for text in LONGEST])
    return [case for case in everything if not arguments.filter or any(
        text == case.name if text in names else text in case.name for text in arguments.filter)]


def run_release(arguments, release, harness, report):
    with contextlib.ExitStack() as steps:
        folder = pathlib.Path(steps.enter_context(tempfile.TemporaryDirectory(prefix="host-")))
        clusters = steps.enter_context(contextlib.closing(world.FakeClusters(arguments.fake_cluster, folder)))
        stage = steps.enter_context(contextlib.closing(Stage(
            clusters, harness, release, arguments.product, folder, seed=arguments.seed,
            every_call=arguments.every_call or any("at call" in text for text in arguments.filter))))
        started = time.monotonic()
        todo = chosen(arguments, stage, report)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda case: tell(case, stage, report, arguments), todo))
        kills.summarize(stage, report, bool(arguments.filter))
        report.say(f"host: Velero {release.version}: {len(todo)} cases in {time.monotonic() - started:.1f} s; "
                   f"CPU seconds: {stage.cpu_seconds()}; --seed {arguments.seed}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="append", choices=list(pluginmanager.RELEASES), default=[])
    parser.add_argument("--filter", action="append", default=[])
    parser.add_argument("--product", type=pathlib.Path, default=ROOT / "build/release/bin/velero-plugin-for-csi-delta")
    built = [ROOT / "build" / preset / "bin" / "fake_cluster" for preset in ("release", "dev", "tidy")]
    parser.add_argument("--fake-cluster", type=pathlib.Path,
                        default=next((program for program in built if program.is_file()), built[0]))
    parser.add_argument("--jobs", type=int, default=40, help="cases of a release at a time")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"),
                        help="of the order in which Velero comes to what it deletes")
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--every-call", action="store_true")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    arguments.product, arguments.fake_cluster = arguments.product.resolve(), arguments.fake_cluster.resolve()
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        for case in cases.all_cases():
            print(case.name)
        print(*kills.SWEEPS, sep="\n")
        return 0
    arguments.every_call |= len(arguments.version) > 2  # All that there are: ./dev test --all.
    releases = [pluginmanager.RELEASES[name] for name in arguments.version or DEFAULT_VERSIONS]
    harnesses = [(release, pluginmanager.build(release)) for release in releases]
    if arguments.build_only:
        return 0
    for binary in (arguments.product, arguments.fake_cluster):
        if not binary.is_file():
            raise SystemExit(f"host: no {binary}: build it first")
    report = Report()
    with concurrent.futures.ThreadPoolExecutor(RELEASES_MAX) as pool:
        list(pool.map(lambda one: run_release(arguments, *one, report), harnesses))
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
