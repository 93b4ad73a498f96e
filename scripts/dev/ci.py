"""./dev test and ./dev ci."""

import capacity
import changed
import filters
import manifest
import packages
import pipeline
import results
from account import Run, check_scenarios
from console import Failure, say
from schedule import Schedule

# What a first run needs. Measured: build/ of ./dev test 1 GiB, Go's caches 10 GiB; the rest is an estimate.
TEST_NEEDS = {"build_gib": 3, "cache_gib": 4, "go_gib": 11, "memory_gib": 6}
CI_NEEDS = {**TEST_NEEDS, "build_gib": 10}


def _go_through(run, steps, stop_when=lambda schedule: False):
    pipeline.say_seed(run)
    schedule = Schedule(steps)
    try:
        schedule.run(lambda: stop_when(schedule))
    finally:
        run.steps, run.step_failures = schedule.seconds, schedule.failed


def _needs_root(steps):
    return any(step.name in ("journeys", "e2e", "root", "image") or step.name.startswith("scenarios") for step in steps)


def test():
    """./dev test: every tier of it, even after one failed."""
    capacity.require(**TEST_NEEDS)
    packages.require_root()
    run = Run("test")
    _go_through(run, pipeline.test_steps(run))
    pipeline.remember_bed(run)
    check_scenarios(run)
    return run.account(pipeline.TEST_TIERS)


def _test_selection(verb, selection):
    run = Run(verb)
    steps = pipeline.selected_steps(run, selection)
    if _needs_root(steps):
        packages.require_root()
    _go_through(run, steps)
    return run.account([step.name for step in steps if step.name in pipeline.TIER_NAMES], whole=False)


def test_matching(text):
    """./dev test FILTER: what it names, and builds only what that needs."""
    programs = manifest.read() if filters.wants_programs(text) else {}
    return _test_selection(f"test {text}", filters.select(text, programs))


def test_changed():
    """./dev test --changed: what the change since origin can touch."""
    since, name = changed.base()
    paths = changed.files(since)
    if name not in changed.ORIGINS:
        say(f"there is no origin to compare with: this is what differs from {name}")
        if not paths:
            raise Failure(f"there is no origin to compare with, and nothing differs from {name}")
    selection = changed.select(paths, manifest.read() if paths else {})
    say(f"{len(paths)} files have changed since {since[:12]}; they touch: "
        f"{' '.join([*sorted(selection.tiers), *sorted(selection.programs), *sum(selection.paths.values(), [])])}")
    return _test_selection("test --changed", selection)


def ci(keep_going=False):
    """./dev ci. Stops at the first failure, unless told to keep going; says what did not run."""
    capacity.require(**CI_NEEDS)
    packages.require_root()
    run, optional = Run("ci"), results.OptionalTests.read()

    def stop(schedule):
        if keep_going:
            return False
        judged = [tier for tier in run.tiers if tier.name in schedule.seconds and pipeline.is_settled(tier.name, schedule.seconds)]
        return bool(schedule.failed or results.complaints(judged, optional))
    _go_through(run, pipeline.ci_steps(run), stop)
    if run.step_failures:
        say("dev: stopped at the first failure; what had not begun did not run")
    return run.account(pipeline.CI_TIERS, optional)
