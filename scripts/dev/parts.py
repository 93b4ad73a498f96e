"""./dev test --all [N/4]: everything there is, in four parts that take about as long as each other.

The parts of one commit are split once, by the seconds of earlier runs, and the split is kept in the cache with the seed of
that day, so that each part runs what the others do not. Where nothing is known a file of scenarios counts by its number of
tests. Each part leaves build/results/all/<N>.json, and beside it what it ran; four that name one commit and ran everything
are the whole.
"""

import json
import os

import console
import durations
import results
import seeds
from console import ROOT, Failure

PARTS = 4
PART_SECONDS_MAX = 45 * 60
_SCENARIO_SECONDS = 25  # Of one that no run has measured.

# What is no scenario, with seconds on two cores where no run has measured it. Fuzzing counts with the builds of an empty
# cache: its part is the longest, and where caches are empty no part may take longer than it may.
OTHERS = {"dev": 1500, "fuzz": 2200, "clang-tidy tests": 300, "host": 260, "root": 460, "restic": 250, "unit": 400, "packs": 1200,
          "checks": 15, "scripts": 30, "docs": 40, "s3": 60, "image": 20}
durations.FIRST_RUN.update({f"all {name}": seconds for name, seconds in OTHERS.items()})


def has(file, *words):
    """Does a file of the checkout have some words?"""
    path = ROOT / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return any(one in text for one in words)


def promises_seconds(file):
    """Does a file of scenarios promise seconds, which only a machine on which nothing else runs keeps?"""
    return has(file, "import promises", "from promises import")


def weights(scenarios, known):
    """{item: seconds} of everything. A file of scenarios is an item: its tests share what is slow to make.

    `scenarios`: ids of pytest. Two lanes run at once, so a scenario counts by half of its seconds unless it runs alone.
    """
    found = {name: known["steps"].get(f"all {name}", [seconds])[-1] for name, seconds in OTHERS.items()}
    for name in scenarios:
        file = name.split("::")[0]
        share = 1 if promises_seconds(file) else 2
        found[file] = found.get(file, 0.0) + known["tests"].get(name, _SCENARIO_SECONDS) / share
    return found


def split(seconds, parts=PARTS):
    """The items in so many lists, the heaviest first and each to the lightest list; the same for the same seconds."""
    lists, sums = [[] for _ in range(parts)], [0.0] * parts
    for name in sorted(seconds, key=lambda one: (-seconds[one], one)):
        lightest = sums.index(min(sums))
        lists[lightest].append(name)
        sums[lightest] += seconds[name]
    return lists


def _plan_file(commit):
    return console.cache_dir() / "all" / f"{commit.rstrip('+')}.json"


def take_seed(commit, environment=os.environ):
    """Gives every test the seed of the commit's earlier parts, unless the caller chose: ids of samples are drawn by it."""
    path = _plan_file(commit)
    if path.is_file():
        environment.setdefault(seeds.VARIABLE, json.loads(path.read_text())["seed"])
    return seeds.set_once(environment)


def plan(commit, scenarios, seed):
    """The split of a commit: as an earlier part of it made it, or made now."""
    path = _plan_file(commit)
    wanted = weights(scenarios, durations.history())
    if path.is_file():
        kept = json.loads(path.read_text())["parts"]
        if sorted(name for part in kept for name in part) == sorted(wanted):
            return kept
    made = split(wanted)
    results.write_state(path, json.dumps({"seed": seed, "parts": made}, indent=1) + "\n")
    return made


def parse(text):
    """N of "N/4"; a Failure for anything else."""
    number, _, count = text.partition("/")
    if count != str(PARTS) or not number.isdigit() or not 1 <= int(number) <= PARTS:
        raise Failure(f"not a part: {text}; there are {' '.join(f'{n}/{PARTS}' for n in range(1, PARTS + 1))}")
    return int(number)


def _report_file(number):
    return results.results_folder() / "all" / f"{number}.json"


def write_report(number, run, items, is_good, seconds):
    """What a part did. Its items and tests are named, so that nothing can be in no part."""
    tests = run.tests()
    document = {"part": f"{number}/{PARTS}", "commit": durations.commit(), "passed": is_good, "seconds": round(seconds),
                "seed": run.seed, "items": items, "flaky": run.flaky, "tests": {test.id: test.outcome for test in tests},
                "unused": [test.unused for test in tests if test.unused is not None]}
    path = _report_file(number)
    results.write_state(path, json.dumps(document, indent=1) + "\n")
    return path


def reports(commit):
    """The reports of a commit that there are, by number."""
    paths = {number: _report_file(number) for number in range(1, PARTS + 1)}
    found = {number: json.loads(path.read_text()) for number, path in paths.items() if path.is_file()}
    return {number: report for number, report in found.items() if report["commit"] == commit}


def judge(found, scenarios):
    """What keeps four reports of a commit from being one whole run: lines, none if all is well."""
    wrong = [f"part {number}/{PARTS} has no report" for number in range(1, PARTS + 1) if number not in found]
    if any(report["commit"].endswith("+") or not report["commit"] for report in found.values()):
        wrong.append("a part ran with changes that no commit has")
    wrong += [f"part {report['part']} failed" for report in found.values() if not report["passed"]]
    if wrong:
        return wrong
    for what, wanted, key in (("items", {*OTHERS, *(name.split("::")[0] for name in scenarios)}, "items"),
                              ("scenarios", scenarios, "tests")):
        there = {name for report in found.values() for name in report[key]}
        left = sorted(set(wanted) - there)
        if left:
            wrong.append(f"{len(left)} {what} are in no report: {' '.join(left[:5])}")
    unused = [set(rights) for report in found.values() for rights in report["unused"]]
    wrong += [f"given by deploy/chart and used in no part: {right}" for right in sorted(set.intersection(*unused) if unused else ())]
    return wrong
