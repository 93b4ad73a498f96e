"""./dev fuzz: does an input break a parser? Begins from the corpus in the tree and what earlier runs found.

What reaches new code is kept in $CSI_DELTA_CACHE/fuzz/<target>/, so that each run goes on where the last one ended.
`./dev fuzz TARGET --keep` makes of it the fewest inputs that reach as much and adds them to tests/fuzz/corpus/, which
unit tests replay.
"""

import concurrent.futures
import functools
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "dev"))
import build  # noqa: E402  pylint: disable=wrong-import-position
import console  # noqa: E402  pylint: disable=wrong-import-position
from console import ROOT, Failure, say, stage  # noqa: E402  pylint: disable=wrong-import-position

PRESET = "fuzz"
ALL_SECONDS = 120  # A target, in ./dev test --all.
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
CORPUS_BYTES_MAX = 1 << 20
INPUT_BYTES_MAX = 1 << 20
KEPT_INPUT_BYTES_MAX = 16 << 10  # Larger ones are many small ones in a row.
MERGE_SECONDS_MAX = 900
FAILURE_LINES = 40


def targets():
    """All fuzz targets: executables that the preset makes, by name."""
    build.configure(PRESET)
    programs = [name.removeprefix("bin/") for name in build.targets(PRESET) if name.startswith("bin/")]
    return sorted(name for name in programs if name.endswith("_fuzz"))


def _built(target):
    """The names of a target, or of all; after they are built."""
    known = targets()
    names = known if target == "all" else [target]
    if not known or not set(names) <= set(known):
        raise Failure(f"no such fuzz target: {target}; there are {' '.join(known) or 'none'}")
    build.build(PRESET, names)
    return names


def _cached(target):
    folder = console.cache_dir() / "fuzz" / target
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _execute(target, fault, limit_seconds, *words):
    """Runs libFuzzer; returns its lines. A Failure that names the fault if it does not end well."""
    code, lines = console.execute([build.folder(PRESET) / "bin" / target, "-timeout=10", "-rss_limit_mb=2048", *words],
                                  limit_seconds=limit_seconds, keep=True, quiet=True)
    if code != 0:
        say("\n".join(lines[-FAILURE_LINES:]))
        raise Failure(f"{target} {fault}")
    return lines


def _merge(target, into, source, input_bytes_max):
    """Adds to a folder those inputs of another that reach code which none of its own does."""
    _execute(target, "cannot merge its inputs", MERGE_SECONDS_MAX, "-merge=1", f"-max_len={input_bytes_max}", into, source)


def _run(target, seconds):
    """Runs one target and says how many inputs it was fed; keeps the fewest that reach as much."""
    crashes, found, corpus = build.folder(PRESET) / "crashes", _cached(target), CORPUS / target
    crashes.mkdir(exist_ok=True)
    before = len(os.listdir(found))
    lines = _execute(target, f"found something: see {crashes.relative_to(ROOT)}; when it is mended, the input belongs into "
                     f"{corpus.relative_to(ROOT)}/", seconds + 120, f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}",
                     "-verbosity=0", "-print_final_stats=1", f"-artifact_prefix={crashes}/{target}-", found,
                     *([corpus] if corpus.is_dir() else []))
    with tempfile.TemporaryDirectory(dir=found.parent) as fewest:
        _merge(target, fewest, found, INPUT_BYTES_MAX)
        shutil.rmtree(found)
        shutil.copytree(fewest, found)
    inputs = next((line.split()[-1] for line in lines if line.startswith("stat::number_of_executed_units:")), "?")
    say(f"{target}: {inputs} inputs in {seconds} s, nothing found; {len(os.listdir(found))} kept in the cache ({before} before)")


def run(target, seconds):
    """Runs one target, or all, for so many seconds each; as many at once as there are cores."""
    names = _built(target)
    with stage("fuzz targets"), concurrent.futures.ThreadPoolExecutor(console.jobs()) as pool:
        list(pool.map(functools.partial(_run, seconds=seconds), names))  # The first failure cancels those to come.
    say(f"fuzz: {len(names)} targets, {seconds} s each, nothing found")


def corpus_bytes(folder=CORPUS):
    """The size of all committed inputs."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def trim(new, bytes_max, folder=CORPUS):
    """Removes the largest of some new inputs until the corpora fit; returns those that stay, small ones first."""
    new = sorted(new, key=lambda path: (path.stat().st_size, path.name))
    while new and corpus_bytes(folder) > bytes_max:
        new.pop().unlink()
    return new


def keep(target):
    """Adds to the committed corpus of a target, or of all, the fewest cached inputs that reach more than it does."""
    names = _built(target)
    for at, name in enumerate(names):
        own = CORPUS / name
        own.mkdir(parents=True, exist_ok=True)
        before, weight = set(own.iterdir()), corpus_bytes()
        _merge(name, own, _cached(name), KEPT_INPUT_BYTES_MAX)
        new = set(own.iterdir()) - before
        stay = trim(new, weight + max(0, CORPUS_BYTES_MAX - weight) // (len(names) - at))
        say(f"{name}: {len(stay)} of {len(new)} new inputs added")
    say(f"fuzz: the corpora hold {corpus_bytes() >> 10} KiB of at most {CORPUS_BYTES_MAX >> 10}")


if __name__ == "__main__":
    try:
        run("all", ALL_SECONDS)
    except Failure as failure:
        sys.exit(f"fuzz: {failure}")
