"""The steps of ./dev test and ./dev ci, and what each needs.

Two cores: what the journeys need comes first, the programs in C++ and the bed's in Go side by side. The journeys wait
more than they compute; everything else is built and run below them, and takes what they leave.
"""

import time

import changed
import lint
import manifest
import prepare
import pytests
import results
import seeds
import tiers
from account import check_scenarios
from console import ROOT, say
from schedule import Step

NEWEST_AND_OLDEST = (tiers.VELERO_VERSIONS[0], tiers.VELERO_VERSIONS[-1])  # What ./dev test runs; --all runs every one.
SHIPPED = "^src/"  # What CI has clang-tidy look at; --all has it look at the tests, too.
GO_NICE, LATER_NICE, LAST_NICE = 10, 15, 19  # Of Go that is not needed first; of what no journey waits for.
OLD_VELERO = ROOT / "tests" / "e2e" / "test_old_velero.py"
JOURNEYS = ("journeys", "journeys moves")
OLD_JOURNEYS = "journeys old velero"  # Of CI: its Velero is a seventh of the bed's Go, for one scenario.
TEST_TIERS = ("checks", "scripts", "docs", "unit", "host", "s3", "restic", *JOURNEYS)
CI_TIERS = (*TEST_TIERS, OLD_JOURNEYS, "asan", "tsan", "clang-tidy", "image")
TIER_NAMES = {*CI_TIERS, "root", "e2e"}


def cheap_steps(run):
    def checks():
        run.check("fmt", lambda: lint.format_sources(check=True))
        run.check("house", lint.check_house)
    return [Step("checks", checks), Step("scripts", lambda: tiers.run_scripts(run.tiers))]


def docs_step(run, paths=None, **order):
    def work():
        prepare.site()
        tiers.run_docs(run.tiers, paths)
    return Step("docs", work, **order)


def build_steps():
    return [Step("build programs", prepare.programs, makes=True),
            Step("build real tests", prepare.real_tests, ("build programs",), makes=True)]


def go_steps(versions):
    """Go programs one after the other, in the order in which they are wanted."""
    return [Step("go bed", prepare.bed_without_old_velero, makes=True),
            Step("go hosts", lambda: prepare.hosts(versions), after=("go bed",), nice=GO_NICE, makes=True)]


def journey_steps(run):
    """The two lanes, with the tests of the bed where it has changed."""
    must, why = changed.bed_changed()
    run.bed = changed.bed_digest() if must else ""
    run.notes.append(f"tests of the bed: {'run' if must else 'left out'}: {why}")

    def lane(words):
        marks = f"({'journey or bed' if must else 'journey'}) and {tiers.LANES[words]}"
        return lambda: tiers.run_e2e(run.tiers, f"journeys{words}", extra=["-m", marks, f"--ignore={OLD_VELERO}"])
    needs = ("go bed", "build real tests")
    return [Step("journeys", lane(""), needs), Step("journeys moves", lane(" moves"), needs)]


def old_velero_steps(run, after):
    """The oldest Velero's journey, and what it needs beside those of the newest."""
    def journeys():
        tiers.run_e2e(run.tiers, OLD_JOURNEYS, [OLD_VELERO], extra=["-m", "journey"])
    return [Step("go old velero", prepare.old_velero, after=after, makes=True),
            Step(OLD_JOURNEYS, journeys, ("go bed", "build real tests", "go old velero")),
            again_step(run, (OLD_JOURNEYS,), "old journeys again", (OLD_JOURNEYS,))]


def again_step(run, after, name="journeys again", of=JOURNEYS):
    """Journeys that failed run once more when nothing else does."""
    def again():
        mine = [tier for tier in run.tiers if tier.name in of or tier.name.startswith("scenarios")]
        tests = [test for tier in mine for test in tier.tests]
        if not any(test.outcome == results.FAILED for test in tests):
            return
        journeys = set(pytests.collect([ROOT / "tests" / "e2e"], "-m", "journey"))
        retried, words = pytests.to_retry(tests, journeys)
        run.notes += words
        run.flaky += tiers.run_again(mine, retried)
    return Step(name, again, after=tuple(after))


def is_settled(name, ended):
    """Whether a tier that ran is to be judged: a journey has not failed before its second run."""
    again = "journeys again" if name in JOURNEYS else "old journeys again" if name == OLD_JOURNEYS else name
    return again in ended


def test_steps(run):
    """All of ./dev test."""
    steps = [
        *cheap_steps(run),
        *build_steps(),
        *go_steps(NEWEST_AND_OLDEST),
        *journey_steps(run),
        # It keeps both cores busy by itself, and would starve the compiler.
        Step("host", lambda: tiers.run_host(run.tiers, NEWEST_AND_OLDEST), ("build real tests", "go hosts"),
             after=("build unit tests",), nice=LAST_NICE),
        Step("s3", lambda: tiers.run_s3(run.tiers), ("build real tests", "go bed"), nice=LATER_NICE),
        Step("build unit tests", prepare.unit_tests, ("build real tests",), nice=LATER_NICE, makes=True),
        Step("restic", lambda: tiers.run_restic(run.tiers), ("build real tests",), nice=LATER_NICE),
        Step("unit", lambda: tiers.run_unit(run.tiers), ("build unit tests",), nice=LATER_NICE),
        docs_step(run, nice=LATER_NICE),
    ]
    steps.append(again_step(run, [step.name for step in steps]))
    return steps


def ci_steps(run):
    """./dev test, and then what else guards main."""
    test = test_steps(run)

    def test_is_over():
        remember_bed(run)
        check_scenarios(run)
        took = f"./dev test: {time.monotonic() - run.start:.0f} s"
        say(took)
        run.notes.append(took)

    def clang_tidy():
        tiers.run_tidy_rules(run.tiers)
        run.check("clang-tidy", lambda: lint.clang_tidy(SHIPPED))
    over = ("./dev test",)
    return [
        *test, Step("./dev test", test_is_over, after=tuple(step.name for step in test)),
        *old_velero_steps(run, over),
        Step("image", lambda: tiers.run_image(run.tiers), after=over),
        Step("build asan", lambda: prepare.build.build("asan", [prepare.UNIT]), after=over, makes=True),
        Step("asan", lambda: tiers.run_sanitized(run.tiers, "asan"), ("build asan",)),
        Step("build tsan", lambda: prepare.build.build("tsan", [prepare.TSAN]), after=("build asan",), nice=5,
             makes=True),
        Step("tsan", lambda: tiers.run_sanitized(run.tiers, "tsan"), ("build tsan",), nice=5),
        Step("clang-tidy", clang_tidy, after=("build tsan",), nice=GO_NICE),
    ]


def remember_bed(run):
    """The tests of the bed ran and passed, all of them: until what they judge changes they need not run again."""
    lanes = [tier for tier in run.tiers if tier.name in JOURNEYS]
    if run.bed and len(lanes) == len(JOURNEYS) and not results.complaints(lanes, results.OptionalTests.read()):
        changed.bed_passed(run.bed)


def selected_steps(run, selection):
    """The steps of a selection of tests (filters.Selection): they build only what it needs."""
    whole = set(selection.tiers)
    journeys = "journeys" in whole or "e2e" in selection.paths
    host = selection.host is not None or "host" in whole
    restic_or_host_or_s3 = host or journeys or whole & {"s3", "restic"} or "s3" in selection.paths
    steps = [step for step in cheap_steps(run) if step.name in whole]
    if "scripts" in selection.paths and "scripts" not in whole:
        steps.append(Step("scripts", lambda: tiers.run_scripts(run.tiers, _full(selection.paths["scripts"]))))
    if "docs" in whole or "docs" in selection.paths:
        steps.append(docs_step(run, None if "docs" in whole else _full(selection.paths["docs"])))
    if restic_or_host_or_s3 or "image" in whole or "image" in selection.paths:
        steps.append(build_steps()[0])
    if restic_or_host_or_s3:
        steps.append(build_steps()[1])
    if journeys:  # One scenario builds an old Velero by itself.
        steps += go_steps(())[:1]
    elif "s3" in whole or "s3" in selection.paths:
        steps.append(Step("go bed", lambda: prepare.bed(prepare.STORE_MODULES), nice=GO_NICE, makes=True))
    if host:
        # A test that is named may be of any version.
        versions = tiers.VELERO_VERSIONS if selection.host else NEWEST_AND_OLDEST
        steps.append(Step("go hosts", lambda: prepare.hosts(versions), nice=GO_NICE, makes=True))
        steps.append(Step("host", lambda: tiers.run_host(run.tiers, versions, selection.host or ""),
                          ("build real tests", "go hosts")))
    if "s3" in whole or "s3" in selection.paths:
        paths = None if "s3" in whole else _full(selection.paths["s3"])
        steps.append(Step("s3", lambda: tiers.run_s3(run.tiers, paths), ("build real tests", "go bed")))
    if "image" in whole or "image" in selection.paths:
        paths = None if "image" in whole else _full(selection.paths["image"])
        steps.append(Step("image", lambda: tiers.run_image(run.tiers, paths), ("build programs",)))
    if "restic" in whole:
        steps.append(Step("restic", lambda: tiers.run_restic(run.tiers), ("build real tests",)))
    steps += _program_steps(run, selection, [step.name for step in steps])
    if "journeys" in whole:
        steps += journey_steps(run)
    if "e2e" in selection.paths:
        steps.append(Step("e2e", lambda: tiers.run_e2e(run.tiers, "e2e", _full(selection.paths["e2e"])),
                          ("build real tests", "go bed"), after=JOURNEYS if "journeys" in whole else ()))
    return steps


def _full(paths):
    return [ROOT / path for path in paths]


def _program_steps(run, selection, earlier):
    """Test programs: all unit tests, or those that are named, each in the tier that it belongs to."""
    steps = []
    builds = tuple(name for name in earlier if name in ("build programs", "build real tests"))
    if "unit" in selection.tiers:
        steps += [Step("build unit tests", prepare.unit_tests, after=builds, makes=True),
                  Step("unit", lambda: tiers.run_unit(run.tiers), ("build unit tests",))]
    if "root" in selection.tiers:
        steps += [Step("build root tests", prepare.root_tests, after=builds, makes=True),
                  Step("root", lambda: tiers.run_root(run.tiers), ("build root tests",))]
    if not selection.programs:
        return steps
    known = manifest.read()
    runners = {"unit": tiers.run_unit, "root": tiers.run_root,
               "restic": lambda into, only: tiers.run_restic(into, True, only)}
    of_tier = {}
    for name, patterns in selection.programs.items():
        labels = known[name].labels
        tier = "unit" if "unit" in labels else "restic" if "restic" in labels else "root"
        if tier not in selection.tiers:
            of_tier.setdefault(tier, {})[name] = patterns
    names = [name for only in of_tier.values() for name in only]
    if not names:
        return steps
    steps.append(Step("build tests", lambda: prepare.named(names), after=builds, makes=True))
    for tier, only in of_tier.items():
        steps.append(Step(tier, lambda run_tier=runners[tier], only=only: run_tier(run.tiers, only), ("build tests",)))
    return steps


def say_seed(run):
    say(f"random seed of the day: {seeds.VARIABLE}={run.seed}")
