"""The last lines of a run: what ran, what is wrong, what took long, and how to run a failed test again."""

import time

import console
import durations
import filters
import flaky
import manifest
import results
import scenarios
import seeds
from console import Failure, say
from results import Test, Tier

SHOWN_REPLAYS = 10
SANITIZED = ("asan", "tsan")  # Tiers that are verbs, too.


class Run:
    """The tiers of one run, and what is known of it beside them."""

    def __init__(self, verb):
        self.verb = verb
        self.tiers = []
        self.flaky = []  # Ids of journeys that failed and passed when they ran again.
        self.notes = []  # What was left out, and why.
        self.bed = ""  # Where tests of the bed run: what they judge, as it was before.
        self.seed = seeds.set_once()
        self.start = time.monotonic()
        self.steps = {}  # Seconds of what was scheduled.
        self.step_failures = {}

    def check(self, name, action):
        """Runs something that is no test runner: it counts as one test of the tier "checks"."""
        checks = next((tier for tier in self.tiers if tier.name == "checks"), None)
        if checks is None:
            checks = Tier("checks", ran=True)
            self.tiers.append(checks)
        start = time.monotonic()
        outcome = results.PASSED
        try:
            action()
        except Failure as error:
            outcome = results.FAILED
            say(f"dev: {name}: {error}")
        took = time.monotonic() - start
        checks.tests.append(Test(f"checks::{name}", outcome, seconds=took))
        checks.seconds += took

    def tests(self):
        return [test for tier in self.tiers for test in tier.tests]

    def add_missing(self, required):
        """Tiers that should have run and did not are part of the account, each with what kept it."""
        known = {tier.name for tier in self.tiers}
        self.tiers += [Tier(name) for name in required if name not in known]
        for tier in self.tiers:
            if not tier.ran and not tier.error:
                tier.error = self.step_failures.get(tier.name) or self.step_failures.get(f"all {tier.name}", "")

    def complaints(self, optional):
        """What is wrong: steps that failed, and what the tiers say; the reason of a step is not told twice."""
        found = results.complaints(self.tiers, optional)
        steps = [f"{name}: {why}" for name, why in self.step_failures.items() if not any(line.endswith(why) for line in found)]
        if not found and not steps and not any(tier.ran for tier in self.tiers):
            found.append("nothing ran")
        return [*steps, *found]

    def account(self, required=(), optional=None, whole=True, counts_flaky=False):
        """Prints it all; True if all is well. With `counts_flaky` too many flaky names of late are not."""
        self.add_missing(required)
        found = self.complaints(results.OptionalTests.read() if optional is None else optional)
        seconds = time.monotonic() - self.start
        path = durations.record(self.verb, self.tiers, self.steps.items(), seconds, whole)
        flaky.add(self.flaky)
        found += filter(None, [flaky.complaint() if counts_flaky else ""])
        say("")
        for line in results.table(self.tiers):
            say(line)
        say(f"stages: {console.STAGES.summary()}")
        if durations.processor():
            say(durations.processor())
        slow = durations.slowest(self.tiers)
        if len(slow) > 1:
            say(f"the {len(slow)} slowest (all: {path}):")
            for line in slow:
                say(line)
        for line in [*self.notes, *(f"{tier.name}: {note}" for tier in self.tiers for note in sorted(set(tier.notes)))]:
            say(line)
        for line in found:
            say(line if line.startswith("failed: ") else f"dev: {line}")
        self._say_replays()
        for name in self.flaky:
            say(f"flaky: {name}: failed, and passed when it ran again alone in a new bed")
        say(f"./dev {self.verb}: {seconds:.0f} s in all")
        say(results.last_line(self.tiers, len(found)))
        return not found

    def _replay(self, tier, test):
        if tier.name in filters.ELSEWHERE:
            return f"./dev {filters.ELSEWHERE[tier.name]}"
        return seeds.replay(test.id, self.seed, tier.name if tier.name in SANITIZED else "test")

    def _say_replays(self):
        failed = [(tier, test) for tier in self.tiers for test in tier.tests
                  if test.outcome == results.FAILED and not test.id.startswith("checks::")]
        for line in dict.fromkeys(self._replay(*one) for one in failed[:SHOWN_REPLAYS]):
            say(f"again: {line}")
        if failed:
            say(f"whole outputs: {results.shown(results.results_folder())}/")


def promised_here(promises, tests, unit_tests):
    """Those promises that a run is to prove which is not --all: of unit tests ("Suite.Case"), and of what else it ran."""
    def is_unit(name):
        return any(part in unit_tests for part in name.rpartition("::")[2].split("/"))
    return [one for one in promises if is_unit(one.test) or any(scenarios.is_named(one.test, test.id) for test in tests)]


def check_scenarios(run):
    """Compares the promises of tests/scenarios.txt with the tests that ran. --all proves the others."""
    def compare():
        promises, tests = scenarios.read(), run.tests()
        units = {name for program in manifest.labelled(manifest.read(), "unit") for name, _ in manifest.tests_of(program)}
        mine = promised_here(promises, tests, units)
        say(f"scenarios: {len(mine)} of {len(promises)} promises are proven here, the others by ./dev test --all")
        wrong = scenarios.compare(mine, tests)
        for line in wrong:
            say(f"scenarios: {line}")
        if wrong:
            raise Failure(f"{len(wrong)} scenarios are not proven by a test that ran")
    run.check("scenarios", compare)


def of_one(verb, work, skips_allowed=False):
    """A verb that runs a tier or two: `work` gets the list of tiers. With `skips_allowed`, a skip with a reason is fine."""
    run = Run(verb)
    work(run.tiers)
    optional = results.OptionalTests({"*": "the caller chose"}) if skips_allowed else results.OptionalTests.read()
    return run.account(optional=optional, whole=False)


