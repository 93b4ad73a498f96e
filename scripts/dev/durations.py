"""How long tests, tiers and steps took: in this run's report, and of earlier runs for "about how long still".

build/results/durations.json holds one run. The cache keeps seconds of earlier runs, never what they found.
"""

import contextlib
import fcntl
import json
import time

import console
import results

SLOWEST = 25
_SHOWN_SECONDS_MIN = 0.05
_KEPT_OF_A_STEP, _KEPT_RUNS = 5, 50
_JOURNEYS = ("journeys", "scenarios")  # Beginnings of their tiers' names.

# Seconds of a first run on two cores, for a machine that has no history; they are scaled by what was seen so far.
FIRST_RUN = {"checks": 15, "scripts": 15, "docs": 40, "build programs": 260, "build real tests": 120, "go bed": 900,
             "go old velero": 120, "go hosts": 60, "journeys old velero": 60, "build unit tests": 420, "unit": 90, "host": 60, "s3": 60, "restic": 60, "journeys": 400,
             "journeys moves": 420, "build asan": 500, "asan": 300, "build tsan": 240, "tsan": 180, "clang-tidy": 300,
             "image": 20, "journeys again": 0, "old journeys again": 0, "./dev test": 0, "build tests": 120, "build root tests": 60, "root": 460,
             "e2e": 60, "scenarios": 1200, "scenarios moves": 1200, "scenarios quiet": 600, "all unit quiet": 15}


def _file():
    return console.cache_dir() / "durations.json"


def history():
    """Of earlier runs: {"steps": {name: [seconds, newest last]}, "tests": {id: seconds}, "runs": [of journeys]}."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(_file().read_text())
        if isinstance(found, dict) and {"steps", "tests", "runs"} <= found.keys():
            return found
    return {"steps": {}, "tests": {}, "runs": []}


def slowest(tiers, count=SLOWEST):
    """The tests that took longest, as lines."""
    timed = sorted(((test.seconds, test.id, tier.name) for tier in tiers for test in tier.tests), reverse=True)
    return [f"{seconds:>8.1f} s  {name}  ({tier})" for seconds, name, tier in timed[:count]
            if seconds >= _SHOWN_SECONDS_MIN]


def processor():
    """What the steps took of the processors, the most first, as one line; two cores have two seconds in each."""
    took = [f"{name} {seconds:.0f} s" for name, seconds in console.PROCESSOR_SECONDS.most_common() if name and seconds >= 1]
    return f"processor time: {', '.join(took)}" if took else ""


def commit():
    """The commit of the checkout, with "+" if files differ from it; "" outside a repository."""
    try:
        changed = console.output(["git", "status", "--porcelain", "--untracked-files=no"], quiet=True).strip()
        return console.output(["git", "rev-parse", "HEAD"], quiet=True).strip() + ("+" if changed else "")
    except console.Failure:
        return ""


def report(verb, tiers, steps, seconds):
    """This run's document. `steps`: (name, seconds) of what was scheduled."""
    return {"verb": verb, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(),
            "seconds": round(seconds, 1),
            "steps": {name: round(took, 1) for name, took in steps},
            "processor_seconds": {name: round(took, 1) for name, took in console.PROCESSOR_SECONDS.items() if name},
            "stages": [{"name": name, "seconds": round(took, 1)} for name, took in console.STAGES.seconds],
            "tiers": {tier.name: round(tier.seconds, 1) for tier in tiers},
            "tests": {tier.name: {test.id: round(test.seconds, 3) for test in tier.tests} for tier in tiers}}


def record(verb, tiers, steps, seconds, whole=True):
    """Writes build/results/durations.json and adds to the history; steps only of a `whole` run, not of a filtered one."""
    document = report(verb, tiers, steps, seconds)
    path = results.results_folder() / "durations.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    cache = _file()
    cache.parent.mkdir(parents=True, exist_ok=True)
    with open(cache.with_suffix(".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = history()
        for name, took in document["steps"].items() if whole else ():
            known["steps"][name] = [*known["steps"].get(name, []), took][-_KEPT_OF_A_STEP:]
        for tests in document["tests"].values():
            known["tests"].update(tests)
        if any(tier.name.startswith(_JOURNEYS) for tier in tiers):
            known["runs"] = [*known["runs"], {"verb": verb, "when": document["when"], "seconds": document["seconds"],
                                              "journeys": True}][-_KEPT_RUNS:]
        draft = cache.with_suffix(".new")
        draft.write_text(json.dumps(known) + "\n")
        draft.replace(cache)
    return results.shown(path)


def expected(name, known):
    """About how long a step takes, in seconds: as in the last run here, else as in a first run; None for an unknown one."""
    seen = known["steps"].get(name)
    return seen[-1] if seen else FIRST_RUN.get(name)
