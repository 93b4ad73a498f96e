"""./dev fuzz: runs libFuzzer targets for a while, beginning from the corpus in the tree and what earlier runs found.

What reaches new code is kept in $CSI_DELTA_CACHE/fuzz/<target>/, so that each run goes on where the last one ended.
`./dev fuzz TARGET --keep` makes of it the fewest inputs that reach as much and adds them to tests/fuzz/corpus/, which
unit tests replay.
"""

import pathlib
import shutil
import tempfile

import build
import console
import progress
from console import ROOT, Failure, say, stage

PRESET = "fuzz"
ALL_SECONDS = 120  # A target, in ./dev test --all.
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
CORPUS_BYTES_MAX = 1 << 20
KEPT_INPUT_BYTES_MAX = 16 << 10  # Larger ones are many small ones in a row.
INPUT_BYTES_MAX = 1 << 20
MEMORY_MIB_MAX = 2048
MERGE_SECONDS_MAX = 900
FAILURE_LINES = 40


def targets():
    """All fuzz targets: executables that the preset makes, by name."""
    build.configure(PRESET)
    programs = [name.removeprefix("bin/") for name in build.targets(PRESET) if name.startswith("bin/")]
    return sorted(name for name in programs if name.endswith("_fuzz"))


def _cached(target):
    folder = console.cache_dir() / "fuzz" / target
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _program(target):
    return build.folder(PRESET) / "bin" / target


def _merge(target, into, *sources):
    """Adds to a folder those inputs of others that reach code which none of its own does."""
    command = [_program(target), "-merge=1", f"-max_len={INPUT_BYTES_MAX}", "-timeout=10", f"-rss_limit_mb={MEMORY_MIB_MAX}",
               into, *(source for source in sources if source.is_dir())]
    code, lines = console.execute(command, limit_seconds=MERGE_SECONDS_MAX, keep=True, quiet=True)
    if code != 0:
        say("\n".join(lines[-FAILURE_LINES:]))
        raise Failure(f"{target}: the inputs cannot be merged")


def _tidy_cache(target):
    """Makes of the cached inputs the fewest that reach as much."""
    folder = _cached(target)
    with tempfile.TemporaryDirectory(prefix=f"{target}.", dir=folder.parent) as made:
        fewest = pathlib.Path(made) / "inputs"
        fewest.mkdir()
        _merge(target, fewest, folder)
        shutil.rmtree(folder)
        fewest.rename(folder)


def _run(target, seconds, part):
    """Runs one target and says how many inputs it was fed."""
    crashes = build.folder(PRESET) / "crashes"
    crashes.mkdir(exist_ok=True)
    found = _cached(target)
    before = sum(1 for _ in found.iterdir())
    corpus = [path for path in (CORPUS / target,) if path.is_dir()]
    command = [_program(target), f"-max_total_time={seconds}", "-timeout=10",
               f"-rss_limit_mb={MEMORY_MIB_MAX}", f"-max_len={INPUT_BYTES_MAX}", "-verbosity=0",
               "-print_final_stats=1", f"-artifact_prefix={crashes}/{target}-", found, *corpus]
    code, lines = console.execute(command, limit_seconds=seconds + 120, keep=True, quiet=True)
    part.step()
    if code != 0:
        say("\n".join(lines[-FAILURE_LINES:]))
        raise Failure(f"{target} found something: see {crashes.relative_to(ROOT)}; when it is mended, "
                      f"the input belongs into {CORPUS.relative_to(ROOT)}/{target}/")
    inputs = [line.split()[-1] for line in lines if line.startswith("stat::number_of_executed_units:")]
    _tidy_cache(target)
    kept = sum(1 for _ in found.iterdir())
    say(f"{target}: {inputs[0] if inputs else '?'} inputs in {seconds} s, nothing found; {kept} kept in the cache "
        f"({before} before)")


def _require(names):
    known = targets()
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        raise Failure(f"no such fuzz target: {' '.join(unknown)}; there are {' '.join(known) or 'none'}")
    return known


def run(target, seconds):
    """Builds and runs one target."""
    _require([target])
    build.build(PRESET, [target])
    _run(target, seconds, progress.part())


def run_all(seconds):
    """Builds all targets and runs each for so many seconds, as many at once as there are cores."""
    known = _require([])
    build.build(PRESET, known)
    part = progress.part()
    part.done, part.total = 0, len(known)
    with stage("fuzz targets"), progress.pool() as pool:
        runs = [pool.submit(_run, target, seconds, part) for target in known]
        try:
            for finished in runs:
                finished.result()
        finally:
            pool.shutdown(cancel_futures=True)
    say(f"fuzz: {len(known)} targets, {seconds} s each, nothing found")


def corpus_bytes(folder=CORPUS):
    """The size of all committed inputs."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def choose(candidates, budget_bytes):
    """Those of some inputs (paths) that fit into a budget, small ones first; large ones never."""
    chosen = []
    for path in sorted(candidates, key=lambda one: (one.stat().st_size, one.name)):
        size = path.stat().st_size
        if size > min(budget_bytes, KEPT_INPUT_BYTES_MAX):
            break
        budget_bytes -= size
        chosen.append(path)
    return chosen


def keep(target):
    """Adds to the committed corpus of a target, or of all, the fewest cached inputs that reach more than it does."""
    known = _require([] if target == "all" else [target])
    names = known if target == "all" else [target]
    build.build(PRESET, names)
    for name in names:
        own = CORPUS / name
        own.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}.") as folder:
            united = pathlib.Path(folder) / "united"
            shutil.copytree(own, united)
            before = {path.name for path in united.iterdir()}
            _merge(name, united, _cached(name))
            new = [path for path in united.iterdir() if path.name not in before]
            share = (CORPUS_BYTES_MAX - corpus_bytes()) // max(1, len(names) - names.index(name))
            chosen = choose(new, max(0, share))
            for path in chosen:
                shutil.copyfile(path, own / path.name)
        say(f"{name}: {len(chosen)} of {len(new)} new inputs added")
    say(f"fuzz: the corpora hold {corpus_bytes() >> 10} KiB of at most {CORPUS_BYTES_MAX >> 10}")
