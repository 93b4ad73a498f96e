"""$CSI_DELTA_CACHE/flaky.txt: names of journeys that failed and then passed, with the time; never verdicts."""

import time

import console
import durations

RUNS, NAMES_MAX = 10, 3


def _file():
    return console.cache_dir() / "flaky.txt"


def add(names):
    """Writes down what was flaky in this run."""
    if not names:
        return
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        for name in names:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {name}\n")


def recent(known=None):
    """Names in the last ten runs that had journeys, each once."""
    runs = [run["when"] for run in (known or durations.history())["runs"] if run.get("journeys")]
    since = runs[-RUNS] if len(runs) >= RUNS else ""
    path = _file()
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return sorted({line.split(" ", 1)[1] for line in lines if " " in line and line.split(" ", 1)[0] >= since})


def complaint():
    """What is wrong when too many were flaky lately, or ""."""
    names = recent()
    if len(names) <= NAMES_MAX:
        return ""
    return f"{len(names)} flaky names in {RUNS} runs, at most {NAMES_MAX} are fine: {' '.join(names)}"
