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
         "worker [--runs N] [--cores N,N] [--mib N,N] | micro | "
         "packs [--chunks-per-pack N]... [--entries N] [--limit-mib N] | "
         "verbs [--quick] [--pack-mib N]... [--limit-mib N]...")
# What verbs do in the memory of a worker: they end well, or the row is a Failure.
ROWS = ("packs", "verbs")


def _as_root(script, *arguments):
    return console.as_root([PYTHON, FOLDER / script, *arguments])


def _plugin():
    runs.for_scenarios()
    missed = []
    for script in sorted(FOLDER.glob("plugin_*.py")):
        with console.stage(f"bench {script.stem}"):
            code, _ = console.execute(_as_root(script.name), env=entry.bed_environment())
            missed += [script.stem] if code != 0 else []
    if missed:
        raise Failure(f"not as promised: {' '.join(missed)}")


def _control(arguments):
    program = build.build("release", ["control_bench"]) / "bin" / "control_bench"
    raw = ROOT / "build" / "bench"
    raw.mkdir(parents=True, exist_ok=True)
    console.run(console.as_root([program, "--json", raw / "control.json", *arguments]))  # As root it has a cgroup.


def run(arguments):
    """One of them, by its name; further arguments are its own."""
    what, *extra = arguments or [None]
    if what == "plugin" and not extra:
        _plugin()
    elif what == "engine":
        console.run(_as_root("engine.py", "--program", build.build_program(), *extra))
    elif what == "sources":
        runs.for_scenarios()
        client = build.build("release", ["list_blocks"]) / "bin" / "list_blocks"
        console.run(_as_root("sources.py", "--list-blocks", client, *extra),
                    env=entry.bed_environment())
    elif what in ("mover", "group"):
        runs.for_scenarios()
        console.run(_as_root(f"{what}.py", *extra), env=entry.bed_environment())
    elif what in ROWS:
        console.run(_as_root(f"engine_{what}.py", *extra))
    elif what == "control":
        _control(extra)
    elif what == "line":
        build.build("release", ["csi-delta", "csi-delta-fast"])
        console.run(_as_root("slow_line.py", *extra))
    elif what == "worker":
        console.run([build.build("release", ["worker_bench"]) / "bin" / "worker_bench", *extra])
    elif what == "micro":
        console.run([build.build("release", ["engine_micro"]) / "bin" / "engine_micro", *extra])
    else:
        raise Failure(USAGE)
