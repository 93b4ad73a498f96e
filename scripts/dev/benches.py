"""./dev bench: measures, and says what is not as promised."""

import build
import console
import entry
import runs
from console import ROOT, Failure

PYTHON = "/usr/bin/python3"
FOLDER = ROOT / "tests" / "bench"
USAGE = ("usage: ./dev bench plugin | engine [--quick] [--row NAME]... | sources [--quick] [--row NAME]... | "
         "mover [--quick] [--row NAME]... | control [--row NAME]... [--runs N] [--programs FOLDER] [--assert] | "
         "group [--quick] [--row N]... | line [--mbit N]... [--runs N] [--unscaled] | "
         "network [--row NAME]... [--restic PROGRAM]... [--mib N] [--runs N] | "
         "worker [--runs N] [--cores N,N] [--mib N,N] | micro | "
         "packs [--chunks-per-pack N]... [--entries N] [--limit-mib N] | "
         "verbs [--quick] [--pack-mib N]... [--limit-mib N]...")


def _start(script, *arguments):
    console.run(console.as_root([PYTHON, FOLDER / script, *arguments]), env=entry.bed_environment())


def _program(name):
    return build.build("release", [name]) / "bin" / name


def _plugin():
    runs.for_scenarios()
    missed = []
    for script in sorted(FOLDER.glob("plugin_*.py")):
        with console.stage(f"bench {script.stem}"):
            try:
                _start(script.name)
            except Failure:
                missed.append(script.stem)
    if missed:
        raise Failure(f"not as promised: {' '.join(missed)}")


def run(arguments):
    """One of them, by its name; further arguments are its own."""
    what, *extra = arguments or [None]
    if what == "plugin" and not extra:
        _plugin()
    elif what == "engine":
        _start("engine.py", "--program", build.build_program(), *extra)
    elif what in ("sources", "mover", "group"):
        runs.for_scenarios()
        _start(f"{what}.py", *(["--list-blocks", _program("list_blocks")] if what == "sources" else []), *extra)
    elif what in ("packs", "verbs"):  # In the memory of a worker: they end well, or the row is a Failure.
        _start(f"engine_{what}.py", *extra)
    elif what == "control":
        raw = ROOT / "build" / "bench" / "control.json"
        raw.parent.mkdir(parents=True, exist_ok=True)
        console.run(console.as_root([_program("control_bench"), "--json", raw, *extra]))  # As root it has a cgroup.
    elif what == "network":
        _start("network.py", "--store", _program("bucket_bench"), "--program", build.build_program(), *extra)
    elif what == "line":
        build.build("release", ["csi-delta", "csi-delta-fast"])
        _start("slow_line.py", *extra)
    elif what in ("worker", "micro"):
        console.run([_program({"worker": "worker_bench", "micro": "engine_micro"}[what]), *extra])
    else:
        raise Failure(USAGE)
