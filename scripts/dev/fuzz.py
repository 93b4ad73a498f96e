"""./dev fuzz: runs libFuzzer targets for a while, beginning from the corpus that is in the tree."""

import concurrent.futures
import tempfile

import build
import console
from console import ROOT, Failure, say, stage

PRESET = "fuzz"
CI_SECONDS = 10
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
INPUT_BYTES_MAX = 1 << 20
MEMORY_MIB_MAX = 2048
FAILURE_LINES = 40


def targets():
    """All fuzz targets: executables that the preset makes, by name."""
    build.configure(PRESET)
    programs = [name.removeprefix("bin/") for name in build.targets(PRESET) if name.startswith("bin/")]
    return sorted(name for name in programs if name.endswith("_fuzz"))


def _run(target, seconds):
    """Runs one target and says how many inputs it was fed."""
    crashes = build.folder(PRESET) / "crashes"
    crashes.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="csi-delta-fuzz-") as found:
        corpus = [path for path in (CORPUS / target,) if path.is_dir()]
        command = [build.folder(PRESET) / "bin" / target, f"-max_total_time={seconds}", "-timeout=10",
                   f"-rss_limit_mb={MEMORY_MIB_MAX}", f"-max_len={INPUT_BYTES_MAX}", "-verbosity=0",
                   "-print_final_stats=1", f"-artifact_prefix={crashes}/{target}-", found, *corpus]
        code, lines = console.execute(command, limit_seconds=seconds + 120, keep=True, quiet=True)
    if code != 0:
        say("\n".join(lines[-FAILURE_LINES:]))
        raise Failure(f"{target} found something: see {crashes.relative_to(ROOT)}; when it is mended, "
                      f"the input belongs into {CORPUS.relative_to(ROOT)}/{target}/")
    inputs = [line.split()[-1] for line in lines if line.startswith("stat::number_of_executed_units:")]
    say(f"{target}: {inputs[0] if inputs else '?'} inputs in {seconds} s, nothing found")


def run(target, seconds):
    """Builds and runs one target."""
    known = targets()
    if target not in known:
        raise Failure(f"no such fuzz target: {target}; there are {' '.join(known) or 'none'}")
    build.build(PRESET, [target])
    _run(target, seconds)


def run_all(seconds):
    """Builds all targets and runs each for so many seconds, as many side by side as there are cores."""
    known = targets()
    if not known:
        raise Failure("there are no fuzz targets")
    build.build(PRESET, known)
    with stage("fuzz targets"), concurrent.futures.ThreadPoolExecutor(console.jobs()) as pool:
        runs = [pool.submit(_run, target, seconds) for target in known]
        try:
            for finished in runs:
                finished.result()
        finally:
            pool.shutdown(cancel_futures=True)
    say(f"fuzz: {len(known)} targets, {seconds} s each, nothing found")
