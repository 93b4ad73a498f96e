"""./dev test --all: runs the parts of everything, and says whether they are one whole."""

import time

import benches
import build
import capacity
import changed
import durations
import fuzz
import lint
import packages
import parts
import pipeline
import prepare
import pytests
import results
import scenarios
import tiers
from account import Run
from console import ROOT, Failure, say
from parts import PARTS
from schedule import Schedule, Step

NEEDS = {"build_gib": 14, "cache_gib": 6, "go_gib": 11, "memory_gib": 6}
E2E = ROOT / "tests" / "e2e"
PART = {"CSI_DELTA_PART": "1"}  # What all scenarios show together is judged when all parts have run.
OF_ALL = "tests/e2e/test_privileges.py"  # Has the test that tells this, of the scenarios that ran beside it.
TELLS = f"{OF_ALL}::test_the_data_mover_uses_each_right_and_needs_no_other"
_EACH_SOURCE_ALONE = ("all", prepare.UNIT, prepare.REAL, prepare.ROOT_TESTS)


def _dev(run):
    run.check("dev", lambda: build.build("dev", _EACH_SOURCE_ALONE))


def _scenarios(run, name, files, mark, env):
    """A step of scenarios, with the test that tells which rights they used where they move volumes."""
    moves = mark != tiers.LANES[""] and any(parts.has(file, "pytest.mark.moves") for file in files)
    paths = [*files, TELLS] if moves and OF_ALL not in files else files
    return lambda: tiers.run_e2e(run.tiers, name, [ROOT / path for path in paths], ["-m", f"({mark}) and not long"],
                                 {**PART, **env}, may_be_empty=True)


def _other_steps(run, items):
    """The steps of what is no scenario. They run one after the other, and before the scenarios: some promise seconds."""
    def check(name, action):
        return lambda: run.check(name, action)
    known = {
        "checks": pipeline.cheap_steps(run)[0].run,
        "scripts": lambda: tiers.run_scripts(run.tiers),
        "docs": lambda: (prepare.site(), tiers.run_docs(run.tiers)),
        "unit": lambda: (prepare.unit_tests(), tiers.run_unit(run.tiers)),
        "unit quiet": lambda: tiers.run_unit_quiet(run.tiers),
        "restic": lambda: (prepare.later_restics(), prepare.real_tests(), tiers.run_restic(run.tiers, later=True)),
        "s3": lambda: (prepare.real_tests(), prepare.bed(prepare.STORE_MODULES), tiers.run_s3(run.tiers)),
        "image": lambda: (prepare.programs(), tiers.run_image(run.tiers)),
        "host": lambda: (prepare.real_tests(), prepare.hosts(), tiers.run_host(run.tiers)),
        "root": lambda: (prepare.root_tests(), tiers.run_root(run.tiers)),
        "fuzz": check("fuzz", lambda: fuzz.run_all(fuzz.ALL_SECONDS)),
        "packs": check("packs", lambda: benches.run(benches.MILLION_PACKS)),
        "clang-tidy tests": check("clang-tidy tests", lambda: lint.clang_tidy("^tests/")),
        "dev": lambda: _dev(run),
    }
    steps, before = [], ()
    for name in known:
        if name.removesuffix(" quiet") in items:
            steps.append(Step(f"all {name}", known[name], after=before))
            before = (f"all {name}",)
    return steps


def _scenario_steps(run, files, before):
    """Two lanes at once; and then, while nothing else runs, the files that promise seconds."""
    hasty = [file for file in files if parts.promises_seconds(file)]
    needs, others = ("go bed", "build real tests"), [file for file in files if file not in hasty]
    steps = [Step("build programs", prepare.programs, after=before, makes=True),
             Step("build real tests", prepare.real_tests, ("build programs",), makes=True),
             Step("go bed", prepare.bed, after=before, nice=pipeline.GO_NICE, makes=True)]
    lanes = [Step(f"scenarios{words}", _scenarios(run, f"scenarios{words}", others, mark, {}), needs)
             for words, mark in tiers.LANES.items() if others]
    if hasty:
        name = tiers.QUIET_SCENARIOS
        lanes.append(Step(name, _scenarios(run, name, hasty, "moves or not moves", tiers.QUIET), needs,
                          after=tuple(step.name for step in lanes)))
    return [*steps, *lanes]


def part_steps(run, items):
    """The steps of one part."""
    steps = _other_steps(run, items)
    files = sorted(item for item in items if item.endswith(".py"))
    if files:
        steps += _scenario_steps(run, files, tuple(step.name for step in steps))
    return [*steps, pipeline.again_step(run, [step.name for step in steps])]


def _all_scenarios():
    return pytests.collect([E2E], "-m", "not long")


def run_part(number):
    """One part: runs its items and leaves its report. True if all of it is well."""
    packages.require_root()
    commit = durations.commit()
    parts.take_seed(commit)
    run = Run(f"test --all {number}/{PARTS}")
    items = parts.plan(commit, _all_scenarios(), run.seed)[number - 1]
    say(f"part {number}/{PARTS} of commit {commit}: {' '.join(items)}")
    pipeline.say_seed(run)
    with results.below(f"all/{number}"):
        is_good, seconds = _run_items(run, items)
    path = parts.write_report(number, run, items, is_good, seconds)
    say(f"part {number}/{PARTS} of commit {commit}: {'passed' if is_good else 'FAILED'}; {results.shown(path)}")
    return is_good


def _run_items(run, items):
    """(is all well?, seconds)."""
    steps = part_steps(run, items)
    schedule = Schedule(steps)
    try:
        schedule.run()
    finally:
        run.steps, run.step_failures = schedule.seconds, schedule.failed
    names = {step.name.removeprefix("all ") for step in steps}
    seconds = time.monotonic() - run.start
    late = [f"it took {seconds:.0f} s, more than {parts.PART_SECONDS_MAX}: later parts are split by what was measured now"]
    run.notes += late if seconds > parts.PART_SECONDS_MAX else []
    required = [name for name in names if name in pipeline.TIER_NAMES or name.startswith(("scenarios", "unit"))]
    return run.account(sorted(required), counts_flaky=True), seconds


def _judge_promises(found):
    """The promises of tests/scenarios.txt against the tests of all parts."""
    tests = [results.Test(name, outcome) for report in found.values() for name, outcome in report["tests"].items()]
    return scenarios.compare(scenarios.read(), tests)


def summary(found):
    """Whether the reports are of a whole run that passed; says why not."""
    wrong = parts.judge(found, _all_scenarios())
    if len(found) == PARTS:
        wrong += [f"scenarios: {line}" for line in _judge_promises(found)]
    for line in wrong:
        say(f"dev: --all: {line}")
    if not wrong:
        say(f"--all: four parts passed at commit {found[1]['commit']}: {sum(len(r['tests']) for r in found.values())} tests, "
            f"{', '.join(str(found[n]['seconds']) for n in sorted(found))} s")
    return not wrong


def run(text=None):
    """./dev test --all [N/4]."""
    capacity.require(**NEEDS)
    if text:
        is_good = run_part(parts.parse(text))
        found = parts.reports(durations.commit())
        return summary(found) and is_good if len(found) == PARTS else is_good
    before, bed = durations.commit(), changed.bed_digest()
    is_good = all([run_part(number) for number in range(1, PARTS + 1)])
    if durations.commit() != before:
        raise Failure("the checkout changed while its parts ran")
    if is_good:
        changed.bed_passed(bed)
    return summary(parts.reports(before)) and is_good
