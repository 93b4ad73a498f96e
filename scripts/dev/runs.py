"""Runs entries of ctest (cmake/Entries.cmake, cmake/Runs.cmake): ./dev test, ci, e2e, asan, tsan, sweep, interop."""

import contextlib
import json
import os
import re
import threading
import time

import build
import capacity
import console
import debian
import interop as interop_tools
import packages
import report
import scenarios
import selection
from console import ROOT, Failure, say
from report import SEED, Entry, Run

SLOTS_A_CORE = 3  # Many entries wait more than they compute; Entries.cmake says how many slots each takes.
PARTS, PART_SECONDS_MAX = 4, 45 * 60
TEST_BUDGET_SECONDS, CI_BUDGET_SECONDS = (600, 1500), (1500, 3000)  # When all was built before, and with empty caches.
SWEEP_BUDGET_SECONDS = 4 * 3600
# What a first run needs. Measured: build/ of ./dev test 1 GiB, Go's caches 10 GiB; the rest is an estimate.
TEST_NEEDS = {"build_gib": 3, "cache_gib": 4, "go_gib": 11, "memory_gib": 6}
CI_NEEDS, ALL_NEEDS = {**TEST_NEEDS, "build_gib": 10}, {"build_gib": 14, "cache_gib": 6, "go_gib": 11, "memory_gib": 6}
SANITIZED = {"asan": ("csidelta_unit_tests", "^unit$"), "tsan": ("csidelta_tsan_tests", "^threads$"),
             "coverage": ("csidelta_unit_tests", "^unit$")}
_START = re.compile(r"^ +Start +\d+: (\S+)")
_END = re.compile(r"^ *\d+/(\d+) Test +#\d+: (\S+) \.*(\*{3}\S+| +Passed)")
_FAR = re.compile(rb"\[ *(\d+%|\d+/\d+)\]")  # How far pytest or ninja is.
_LEDGER = re.compile(r"^storm: (.+) (\d+)$", re.MULTILINE)  # What tests/reliability/storm_test.cc prints.


def set_seed():
    """Gives every test the seed of the day, the date as a number, unless the caller chose; returns it."""
    return os.environ.setdefault(SEED, time.strftime("%Y%m%d", time.gmtime()))


def new_run(verb, budget_seconds=None):
    run = Run(verb, set_seed(), budget_seconds)
    say(f"random seed of the day: {SEED}={run.seed}")
    return run


class Progress:
    """One line every ten seconds: how many entries have ended, what runs now and how far it is."""

    def __init__(self, name, entries):
        self._name, self._entries, self._running, self._done = name, entries, [], 0
        self._start, self._over = time.monotonic(), threading.Event()
        self._shows_output = False

    def line_of_ctest(self, line):
        """Takes what ctest prints; shows the output of what failed."""
        if begun := _START.match(line):
            self._running.append(begun[1])
            self._shows_output = False
        elif ended := _END.match(line):
            self._done += 1
            with contextlib.suppress(ValueError):
                self._running.remove(ended[2])
            self._shows_output = "***" in ended[3]
            if self._shows_output:
                say(line.strip())
        elif self._shows_output:
            say(line)

    def _far(self, name):
        """The name of an entry, and how far its log says that it is."""
        entry, words = self._entries.get(name), []
        if entry:
            with contextlib.suppress(OSError), open(report.folder() / entry.tier / f"{name}.log", "rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
                words = _FAR.findall(log.read())
        return f"{name} {words[-1].decode()}" if words else name

    def text(self, last_seconds=None):
        """The line. `last_seconds`: what the same took here the last time, if it ever ran."""
        took = int(time.monotonic() - self._start)
        left = f"; about {(last_seconds - took) / 60:.0f} min left if it takes as long as the last time" if (
            last_seconds and last_seconds - took > 60) else ""
        return (f"[{took // 60:02}:{took % 60:02}] {self._name}: {self._done} of {len(self._entries)} · "
                f"{', '.join(map(self._far, self._running[:8]))}{left}")

    @contextlib.contextmanager
    def shown(self, last_seconds):
        """Prints the line now and then while the body runs."""
        def work():
            while not self._over.wait(console.PROGRESS_EVERY_SECONDS):
                say(self.text(last_seconds))
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def _last_seconds():
    """{stage: seconds} of the last whole run of each on this machine."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads((console.cache_dir() / "stage-seconds.json").read_text())
    return {}


def entries_of(*words, preset="release"):
    """The entries that ctest would run, by name, with those that make what they need."""
    found = {}
    for name, (labels, _) in selection.show_entries(*words, preset=preset).items():
        kinds = dict(label.split(":", 1) for label in labels if ":" in label)
        found[name] = Entry(name, kinds["tier"], kinds["kind"], "may-be-empty" in labels)
    return found


def ctest(name, *words, preset="release", env=None, only=None, at_once=None):
    """Runs the entries that the words choose; returns them with what they did.

    `name`: of the stage, for the progress and for how long it takes. `only`: words in place of an entry's own choice.
    """
    build.configure(preset)
    entries = entries_of(*words, preset=preset)
    if not entries:
        raise Failure(f"{name}: no such entry of ctest")
    for entry in entries.values():
        for suffix in ("json", "xml", "log"):
            (report.folder() / entry.tier / f"{entry.name}.{suffix}").unlink(missing_ok=True)
    junit = report.folder() / f"ctest-{name.replace(' ', '-').replace('/', '-')}.xml"
    junit.unlink(missing_ok=True)
    progress, start = Progress(name, entries), time.monotonic()
    command = ["ctest", "--test-dir", build.folder(preset), "-j", at_once or SLOTS_A_CORE * console.jobs(), "--output-on-failure",
               "--output-junit", junit, *words]
    with progress.shown(_last_seconds().get(name)):
        console.execute(command, quiet=True, watch=progress.line_of_ctest, log=junit.with_suffix(".log"),
                        env={**(env or {}), "CSI_DELTA_ONLY": json.dumps(only or {})})
    cases = {}
    if junit.is_file():
        cases = {case.get("name"): case for _, case in report.cases(junit)}
    found = [report.read_entry(entry, cases.get(entry.name)) for entry in entries.values()]
    if not only and all(entry.ran for entry in found):
        report.write_state(console.cache_dir() / "stage-seconds.json",
                           json.dumps({**_last_seconds(), name: round(time.monotonic() - start)}) + "\n")
    return found


def _exactly(names):
    return ("-R", f"^({'|'.join(map(re.escape, names))})$")


def make(*names):
    """Makes what something beside ctest runs; a Failure if that fails."""
    bad = [entry.name for entry in ctest("build", *_exactly(names)) if not entry.ran or entry.error]
    if bad:
        raise Failure(f"{' '.join(bad)} failed")


def for_scenarios():
    """All that a scenario runs, for verbs that are none of ctest's."""
    packages.require_root()
    make("build-programs", "build-real-tests", "go-bed", "go-old-velero")


def run_again(run, entries):
    """Journeys that failed run once more, each alone and so in a bed of its own; what passes then is flaky, not failed."""
    retried, words = report.to_retry(entries)
    run.notes += words
    for test in retried:
        say(f"again, alone: {test.id}")
        mine = next(entry for entry in entries if test in entry.tests)
        again = ctest("again", *_exactly(["e2e"]), only={"e2e": [test.id]},
                      env={"CSI_DELTA_QUIET": "1"} if mine.name.startswith("scenarios-quiet") else None)
        seen = report.tests_of(again)
        if seen and not report.complaints(again, {}):
            run.flaky.append(test.id)
            mine.tests = [report.Test(one.id, report.PASSED, "", one.seconds, one.properties) if one.id == test.id else one
                          for one in mine.tests]


def stage(run, name, *words, retries=True, **kwargs):
    """One call of ctest, as a part of a run."""
    with console.stage(name):
        entries = ctest(name, *words, **kwargs)
        if retries:
            run_again(run, entries)
    run.entries += [entry for entry in entries if not (entry.makes and entry.name in {one.name for one in run.entries})]
    return entries


def promised_here(promises, tests, unit_tests):
    """Those promises that a run is to prove which is not --all: of unit tests ("Suite.Case"), and of what else it ran."""
    def is_unit(name):
        return any(part in unit_tests for part in name.rpartition("::")[2].split("/"))
    return [one for one in promises if is_unit(one.test) or any(scenarios.is_named(one.test, test.id) for test in tests)]


def _judge_scenarios(run):
    """Compares promises of tests/scenarios.txt with the tests that ran."""
    units = {name for one in selection.programs().values() if one.tier == "unit" for name in selection.tests_of(one)}
    promises, tests = scenarios.read(), run.tests()
    mine = promised_here(promises, tests, units)
    say(f"scenarios: {len(mine)} of {len(promises)} promises are proven here, the others by ./dev test --all")
    run.wrong += [f"scenarios: {line}" for line in scenarios.compare(mine, tests)]


def _test_stage(run, budgets=TEST_BUDGET_SECONDS):
    """All of ./dev test; the tests of the bed only where it has changed."""
    must, why = selection.bed_changed()
    run.notes.append(f"tests of the bed: {'run' if must else 'left out'}: {why}")
    digest = selection.bed_digest() if must else ""
    entries = stage(run, "test", "-L", "^in-test$", env={"CSI_DELTA_BED_TESTS": str(int(must))})
    lanes = [entry for entry in entries if entry.tier == "journeys"]
    if digest and lanes and not report.complaints(lanes, report.read_optional()):
        report.write_state(selection.bed_file(), f"{digest}\n")
    _judge_scenarios(run)
    run.budget_seconds = budgets[sum(entry.seconds for entry in entries if entry.makes) > TEST_BUDGET_SECONDS[0]]


def test():
    """./dev test: every tier of it, even after one failed."""
    capacity.require(**TEST_NEEDS)
    packages.require_root()
    run = new_run("test")
    _test_stage(run)
    return run.account()


def _test_selection(verb, chosen, known):
    names, only = chosen.entries(known)
    run = new_run(verb)
    words = _exactly(names)
    entries = entries_of(*words)
    if {entry.tier for entry in entries.values()} & {"journeys", "e2e", "root", "image"}:
        packages.require_root()
    must = "journeys" in chosen.tiers and selection.bed_changed()[0]
    stage(run, verb, *words, only=only, retries=False, env={"CSI_DELTA_BED_TESTS": str(int(must or "e2e" in names))})
    return run.account()


def test_matching(text):
    """./dev test FILTER: what it names, and builds only what that needs."""
    known = selection.programs()
    return _test_selection(f"test {text}", selection.select(text, known), known)


def test_changed():
    """./dev test --changed: what the change since origin can touch."""
    since, name = selection.base()
    paths = selection.changed_files(since)
    if name not in selection.ORIGINS:
        say(f"there is no origin to compare with: this is what differs from {name}")
        if not paths:
            raise Failure(f"there is no origin to compare with, and nothing differs from {name}")
    known = selection.programs()
    chosen = selection.select_changed(paths, known)
    say(f"{len(paths)} files have changed since {since[:12]}; they touch: "
        f"{' '.join([*sorted(chosen.tiers), *sorted(chosen.programs), *sum(chosen.paths.values(), [])])}")
    return _test_selection("test --changed", chosen, known)


def _sanitized_stage(run, preset, *words):
    target, label = SANITIZED[preset]
    build.build(preset, [target])
    stage(run, preset, "-L", label, *words, preset=preset, at_once=console.jobs())


def ci(keep_going=False):
    """./dev ci. Stops at the first stage that failed, unless told to keep going; says what did not run."""
    capacity.require(**CI_NEEDS)
    packages.require_root()
    run = new_run("ci")
    _test_stage(run, CI_BUDGET_SECONDS)
    run.notes.append(f"./dev test: {time.monotonic() - run.start:.0f} s")
    rest = {"ci": lambda: stage(run, "ci", "-L", "^in-ci$"),
            "asan": lambda: _sanitized_stage(run, "asan"), "tsan": lambda: _sanitized_stage(run, "tsan")}
    for name, work in rest.items():
        if run.complaints() and not keep_going:
            say("dev: stopped at the first stage that failed")
            run.wrong.append(f"{name} did not run: an earlier stage failed")
            continue
        try:
            work()
        except Failure as error:
            run.wrong.append(f"{name}: {error}")
    return run.account()


def sanitized(preset, pattern=None):
    """Unit tests under a sanitizer; for threads only those that have some and do not call the distribution's gRPC.

    `pattern`: a part of a program's name, perhaps with a test of it: "json_test::A.B".
    """
    name, _, test_name = (pattern or "").partition("::")
    target, label = SANITIZED[preset]
    build.build(preset, [target])
    run, words = new_run("cover" if preset == "coverage" else preset), ["-L", label]
    only = None
    if pattern:
        words += ["-R", re.escape(name)]
        if test_name:
            patterns = selection.gtest_patterns(test_name)
            first = {entry.partition(".")[0]: entry for entry in reversed(entries_of(*words, preset=preset))}  # Of the shards.
            only = {entry: [f"--gtest_filter={':'.join(patterns)}"] for entry in first.values()}
            words = ["-L", label, *_exactly(only)]
    stage(run, preset, *words, preset=preset, only=only, at_once=console.jobs())
    return run.account()


def e2e(*arguments):
    """./dev e2e: the scenarios, with the caller's own words for pytest."""
    groups = arguments[:1] == ("group",)
    extra = list(arguments[1:] if groups else arguments)
    if "--csi-driver" in extra[:-1]:
        at = extra.index("--csi-driver") + 1
        extra[at] = os.path.abspath(extra[at])
    packages.require_root()
    run = new_run("e2e")
    words = [str(ROOT / "tests" / "e2e"), *(["-m", "group"] if groups else []), *extra]
    stage(run, "e2e", *_exactly(["e2e"]), only={"e2e": words}, retries=False, env={SEED: "all"} if groups else None)
    return run.account(skips_allowed=bool(extra))


def interop():
    """Every restic, then every format of volumes, then rustic."""
    packages.ensure_debian(interop_tools.FORMAT_PACKAGES)
    run = new_run("interop")
    stage(run, "interop", "-L", "^in-interop$")
    return run.account()


def ledger(printed, revision):
    """The lines of a ledger, of what a storm has printed: what befell how many seeds of which code."""
    counts = _LEDGER.findall(printed)
    return [f"storm of revision {revision}:", *(f"{int(count):>12,}  {name}" for name, count in counts)] if counts else []


def sweep(seed=None):
    """./dev sweep: all points, the sample of a seed, or all seeds of the storm alone (docs/reliability.md keeps its ledger)."""
    os.environ[SEED] = "all" if seed in (None, "storm") else seed
    run = new_run("sweep", SWEEP_BUDGET_SECONDS)
    if seed == "storm":
        stage(run, "sweep storm", *_exactly(["storm_test.sweep"]), only={"build-unit-tests": ["storm_test"]})
        for line in ledger((report.folder() / "sweep" / "storm_test.sweep.log").read_text(), report.commit()):
            say(line)
        return run.account()
    packages.require_root()
    stage(run, "sweep", "-L", "^in-sweep$" if seed else "^in-sweep-all$", retries=False)
    points = 0
    for entry in run.entries:
        mine = [(int(test.properties["points"]), test.id) for test in entry.tests if "points" in test.properties]
        for count, name in mine:
            say(f"{count:>7} points  {name}")
        total = sum(count for count, _ in mine)
        if entry.tests:
            say(f"{entry.name}: {total} points in {entry.seconds:.0f} s, of at most {entry.limit_seconds:.0f}")
        points += total
    say(f"sweep: {'all points' if not seed else f'seed {seed}'}: {points}")
    return run.account()


def parse_part(text):
    """N of "N/4"; a Failure for anything else."""
    number, _, count = text.partition("/")
    if count != str(PARTS) or not number.isdigit() or not 1 <= int(number) <= PARTS:
        raise Failure(f"not a part: {text}; there are {' '.join(f'{n}/{PARTS}' for n in range(1, PARTS + 1))}")
    return int(number)


def _part_file(number):
    return report.folder() / "all" / f"{number}.json"


def _take_seed(commit):
    """Gives every test the seed of the commit's earlier parts, unless the caller chose: ids of samples are drawn by it."""
    path = console.cache_dir() / "all" / f"{commit.rstrip('+')}.seed"
    if path.is_file():
        os.environ.setdefault(SEED, path.read_text().strip())
    report.write_state(path, set_seed() + "\n")


def run_part(number):
    """One part: runs its entries and leaves its report. True if all of it is well."""
    packages.require_root()
    commit = report.commit()
    _take_seed(commit)
    run = new_run(f"test --all {number}/{PARTS}", PART_SECONDS_MAX)
    stage(run, f"all-{number}", "-L", f"^in-all-{number}$")
    is_good = run.account()
    if complaint := report.flaky_complaint():
        say(f"dev: {complaint}")
        is_good = False
    tests = run.tests()
    report.write_state(_part_file(number), json.dumps(
        {"part": f"{number}/{PARTS}", "commit": commit, "passed": is_good, "seconds": round(time.monotonic() - run.start),
         "seed": run.seed, "entries": [entry.name for entry in run.entries], "flaky": run.flaky,
         "tests": {test.id: test.outcome for test in tests},
         "unused": [json.loads(one.properties["unused_rights"]) for one in tests if "unused_rights" in one.properties]}, indent=1))
    say(f"part {number}/{PARTS} of commit {commit}: {'passed' if is_good else 'FAILED'}")
    return is_good


def judge_parts(found, entries, promises):
    """What keeps the reports of parts of a commit from being one whole run: lines, none if all is well.

    `found`: report by number; `entries`: the names of all there are.
    """
    wrong = [f"part {number}/{PARTS} has no report" for number in range(1, PARTS + 1) if number not in found]
    if any(one["commit"].endswith("+") or not one["commit"] for one in found.values()):
        wrong.append("a part ran with changes that no commit has")
    wrong += [f"part {one['part']} failed" for one in found.values() if not one["passed"]]
    if wrong:
        return wrong
    left = sorted(set(entries) - {name for one in found.values() for name in one["entries"]})
    if left:
        wrong.append(f"{len(left)} entries are in no report: {' '.join(left[:5])}")
    unused = [set(rights) for one in found.values() for rights in one["unused"]]
    unused = sorted(set.intersection(*unused) if unused else ())
    wrong += [f"given by deploy/chart and used in no part: {right}" for right in unused]
    tests = [report.Test(name, outcome) for one in found.values() for name, outcome in one["tests"].items()]
    return wrong + [f"scenarios: {line}" for line in scenarios.compare(promises, tests)]


def _summary():
    """Whether the reports of this commit are of a whole run that passed; says why not."""
    commit, found = report.commit(), {}
    for number in range(1, PARTS + 1):
        one = json.loads(_part_file(number).read_text()) if _part_file(number).is_file() else {}
        if one.get("commit") == commit:
            found[number] = one
    if len(found) < PARTS:
        return True  # Not the last one.
    wrong = judge_parts(found, [name for n in range(1, PARTS + 1) for name in entries_of("-L", f"^in-all-{n}$")], scenarios.read())
    for line in wrong:
        say(f"dev: --all: {line}")
    if not wrong:
        say(f"--all: four parts passed at commit {commit}: {sum(len(one['tests']) for one in found.values())} tests, "
            f"{', '.join(str(found[number]['seconds']) for number in sorted(found))} s")
    return not wrong


def test_all(text=None):
    """./dev test --all [N/4]."""
    capacity.require(**ALL_NEEDS)
    debian.ensure_restics(newest=True)
    if text:
        return run_part(parse_part(text)) and _summary()
    before, bed = report.commit(), selection.bed_digest()
    is_good = all([run_part(number) for number in range(1, PARTS + 1)])
    if report.commit() != before:
        raise Failure("the checkout changed while its parts ran")
    if is_good:
        report.write_state(selection.bed_file(), f"{bed}\n")
    return _summary() and is_good
