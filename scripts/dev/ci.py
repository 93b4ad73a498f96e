"""./dev test and ./dev ci: all tiers in order, and the account of what ran."""

import time

import console
import fuzz
import lint
import results
import scenarios
import tiers
from console import ROOT, Failure, say
from results import Test, Tier


def _check(into, name, action):
    """Runs a stage that is no test runner: it counts as one test of the tier "checks"."""
    checks = next((tier for tier in into if tier.name == "checks"), None)
    if checks is None:
        checks = Tier("checks", ran=True)
        into.append(checks)
    start = time.monotonic()
    try:
        action()
        checks.tests.append(Test(f"checks::{name}", results.PASSED))
    except Failure as error:
        checks.tests.append(Test(f"checks::{name}", results.FAILED))
        say(f"dev: {name}: {error}")
    checks.seconds += time.monotonic() - start


def _failed(into, optional):
    return bool(results.complaints(into, optional))


def _account(into, required, optional):
    """The last lines of a run; True if all is well."""
    known = {tier.name for tier in into}
    into += [Tier(name) for name in required if name not in known]
    wrong = results.complaints(into, optional)
    say("")
    for line in results.table(into):
        say(line)
    say(f"stages: {console.STAGES.summary()}")
    if not any(tier.ran for tier in into):
        wrong.append("nothing ran")
    for line in wrong:
        say(f"dev: {line}")
    say(results.last_line(into, len(wrong)))
    return not wrong


def account_of(into, skips_allowed=False):
    """The account of a verb that runs one tier. With `skips_allowed`, one that printed a reason is fine."""
    optional = results.OptionalTests({"*": "the caller chose"} if skips_allowed
                                     else results.OptionalTests.read().reasons)
    return _account(into, [], optional)


VELERO_VERSIONS = ("118", "113")  # Whose plugin managers CI asks; `./dev test` asks all.
SHIPPED = "^src/"  # What CI has clang-tidy look at; `./dev lint` has it look at the tests, too.
# All unit tests run in "asan"; the real tiers take their tests and drivers from "release".
TEST_TIERS = ("checks", "scripts", "asan", "image", "plugin manager", "sanity", "s3", "e2e", "e2e moves")
CI_TIERS = (*TEST_TIERS, "tsan")


def _check_scenarios(into):
    """Compares the scenarios that are promised with the tests that ran, in this run."""
    def compare():
        wrong = scenarios.compare(scenarios.read(), [test for tier in into for test in tier.tests])
        for line in wrong:
            say(f"scenarios: {line}")
        if wrong:
            raise Failure(f"{len(wrong)} scenarios are not proven by a test that ran")
    with console.stage("scenarios"):
        _check(into, "scenarios", compare)


def _test_steps(into, versions=(), beside_e2e=()):
    """The test tiers, cheapest first. `versions`: of Velero's plugin manager, else all."""
    return [
        lambda: tiers.run_scripts(into),
        lambda: tiers.run_sanitized(into, "asan"),
        lambda: tiers.run_image(into),
        lambda: tiers.run_plugin_manager(into, versions=versions),
        lambda: tiers.run_sanity(into),
        lambda: tiers.run_s3(into),
        lambda: tiers.run_e2e(into, beside=beside_e2e),
        lambda: _check_scenarios(into),
    ]


def _ci_steps(into):
    """The steps of CI; each is run only while nothing has failed."""
    def check(name, action):
        return lambda: _check(into, name, action)

    beside_e2e = [
        lambda: tiers.run_sanitized(into, "tsan"),
        check("clang-tidy", lambda: lint.clang_tidy(SHIPPED)),
        check("fuzz", lambda: fuzz.run_all(fuzz.CI_SECONDS)),
    ]
    return [
        check("fmt", lambda: lint.format_sources(check=True)),
        check("house", lint.check_house),
        *_test_steps(into, VELERO_VERSIONS, beside_e2e),
    ]


def test():
    """./dev test: every tier, even after one failed."""
    into = []
    with tiers.real_programs_built_beside():
        for step in _test_steps(into):
            step()
    return _account(into, TEST_TIERS, results.OptionalTests.read())


def test_matching(pattern):
    """./dev test FILTER: only what matches it; of unit tests, the programs of that name."""
    into = []
    tiers.run_scripts(into, pattern)
    tiers.run_unit(into, pattern)
    if tiers.e2e_matches(pattern):
        tiers.run_e2e(into, pattern)
    into = [tier for tier in into if tier.ran or tier.error]
    if not into:
        raise Failure(f"no test matches {pattern}")
    return _account(into, (), results.OptionalTests.read())


def ci(keep_going=False):
    """./dev ci. Stops at the first failure, unless told to keep going; says what did not run."""
    start = time.monotonic()
    into, optional = [], results.OptionalTests.read()
    with tiers.real_programs_built_beside(VELERO_VERSIONS):
        for step in _ci_steps(into):
            step()
            if _failed(into, optional) and not keep_going:
                say("dev: stopping here; the stages after this one did not run")
                break
    say(f"dev: {ROOT.name}: {time.monotonic() - start:.0f} s in all")
    return _account(into, CI_TIERS, optional)
