"""./dev test --all [N/4]: everything there is, in four parts that take about as long as each other.

The parts of one commit are split once, by the seconds of earlier runs, and the split is kept in the cache, so that
each part runs what the others do not. Where nothing is known a file of scenarios counts by its number of tests.
Each part leaves build/results/all/<N>.json; four that name one commit and ran every test are the whole.
"""

import json

import console
import durations
import results
from console import Failure

PARTS = 4
PART_SECONDS_MAX = 45 * 60
_SCENARIO_SECONDS = 25  # Of one that no run has measured.

# What is no scenario, with seconds on two cores where no run has measured it.
OTHERS = {"dev": 1500, "fuzz": 1700, "clang-tidy tests": 900, "host": 240, "root": 460, "restic": 180, "unit": 400,
          "checks": 15, "scripts": 15, "s3": 70, "image": 20}
durations.FIRST_RUN.update({f"all {name}": seconds for name, seconds in OTHERS.items()})


def weights(scenarios, known):
    """{item: seconds} of everything. A file of scenarios is an item: its tests share what is slow to make.

    `scenarios`: ids of pytest. Two lanes run at once, so a scenario counts by half of its seconds.
    """
    found = {name: known["steps"].get(f"all {name}", [seconds])[-1] for name, seconds in OTHERS.items()}
    for name in scenarios:
        file = name.split("::")[0]
        found[file] = found.get(file, 0.0) + known["tests"].get(name, _SCENARIO_SECONDS) / 2
    return found


def split(seconds, parts=PARTS):
    """The items in so many lists, the heaviest first and each to the lightest list; the same for the same seconds."""
    lists, sums = [[] for _ in range(parts)], [0.0] * parts
    for name in sorted(seconds, key=lambda one: (-seconds[one], one)):
        lightest = sums.index(min(sums))
        lists[lightest].append(name)
        sums[lightest] += seconds[name]
    return lists


def plan(commit, scenarios):
    """The split of a commit: as an earlier part of it made it, or made now."""
    path = console.cache_dir() / "all" / f"{commit.rstrip('+')}.json"
    wanted = weights(scenarios, durations.history())
    if path.is_file():
        kept = json.loads(path.read_text())
        if sorted(name for part in kept for name in part) == sorted(wanted):
            return kept
    made = split(wanted)
    results.write_state(path, json.dumps(made, indent=1) + "\n")
    return made


def parse(text):
    """N of "N/4"; a Failure for anything else."""
    number, _, count = text.partition("/")
    if count != str(PARTS) or not number.isdigit() or not 1 <= int(number) <= PARTS:
        raise Failure(f"not a part: {text}; there are {' '.join(f'{n}/{PARTS}' for n in range(1, PARTS + 1))}")
    return int(number)


def _folder():
    folder = results.results_folder() / "all"
    folder.mkdir(exist_ok=True)
    return folder


def write_report(number, run, items, is_good, seconds):
    """What a part did. Its tests are named, so that nothing can be in no part."""
    document = {"part": f"{number}/{PARTS}", "commit": durations.commit(), "passed": is_good, "seconds": round(seconds),
                "seed": run.seed, "items": items, "flaky": run.flaky,
                "tests": {test.id: test.outcome for test in run.tests()}}
    path = _folder() / f"{number}.json"
    results.write_state(path, json.dumps(document, indent=1) + "\n")
    return path


def reports():
    """The reports that there are, by number."""
    found = {}
    for number in range(1, PARTS + 1):
        path = _folder() / f"{number}.json"
        if path.is_file():
            found[number] = json.loads(path.read_text())
    return found


def judge(found, scenarios):
    """What keeps four reports from being one whole run: lines, none if all is well."""
    wrong = [f"part {number}/{PARTS} has no report" for number in range(1, PARTS + 1) if number not in found]
    commits = sorted({report["commit"] for report in found.values()})
    if len(commits) > 1:
        wrong.append(f"the parts are of {len(commits)} commits: {' '.join(commits)}")
    if any(commit.endswith("+") or not commit for commit in commits):
        wrong.append("a part ran with changes that no commit has")
    wrong += [f"part {report['part']} failed" for report in found.values() if not report["passed"]]
    ran = {test for report in found.values() for test in report["tests"]}
    left = [name for name in scenarios if name not in ran]
    if left and len(found) == PARTS:
        wrong.append(f"{len(left)} scenarios are in no report: {' '.join(left[:5])}")
    return wrong
