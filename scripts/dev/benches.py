"""./dev bench: measures, and says what is not as promised."""

import build
import console
import prepare
import tiers
from console import ROOT, Failure

FOLDER = ROOT / "tests" / "bench"
USAGE = ("usage: ./dev bench plugin | engine [--quick] [--row NAME]... | sources [--quick] [--row NAME]... | "
         "mover [--quick] [--row NAME]... | control [--row NAME]... [--runs N] [--programs FOLDER] [--assert] | "
         "group [--quick] [--row N]... | line [--mbit N]... [--runs N] [--unscaled] | "
         "worker [--runs N] [--cores N,N] [--mib N,N] | micro | "
         "packs [--chunks-per-pack N]... [--entries N] [--limit-mib N] | "
         "verbs [--quick] [--pack-mib N]... [--limit-mib N]...")
# What verbs do in the memory of a worker: they end well, or the row is a Failure.
ROWS = ("packs", "verbs")
MILLION_PACKS = ("packs", "--chunks-per-pack", "8")  # 1.25 million.
OTHER_ROWS = (("packs", "--chunks-per-pack", "64"), ("packs", "--chunks-per-pack", "1"), ("verbs",))


def _as_root(script, *arguments):
    return console.as_root([tiers.PYTHON, FOLDER / script, *arguments])


def _plugin():
    prepare.for_scenarios()
    missed = []
    for script in sorted(FOLDER.glob("plugin_*.py")):
        with console.stage(f"bench {script.stem}"):
            code, _ = console.execute(_as_root(script.name), env=tiers.bed_environment())
            missed += [script.stem] if code != 0 else []
    if missed:
        raise Failure(f"not as promised: {' '.join(missed)}")


def _control(arguments):
    program = build.build("release", ["control_bench"]) / "bin" / "control_bench"
    raw = ROOT / "build" / "bench"
    raw.mkdir(parents=True, exist_ok=True)
    console.run(console.as_root([program, "--json", raw / "control.json", *arguments]))  # As root it has a cgroup.


def build_line():
    """What the bench of slow lines runs."""
    build.build("release", ["csi-delta", "csi-delta-fast"])


def line_command(*arguments):
    return _as_root("slow_line.py", *arguments)


def run(arguments):
    """One of them, by its name; further arguments are its own."""
    what, *extra = arguments or [None]
    if what == "plugin" and not extra:
        _plugin()
    elif what == "engine":
        console.run(_as_root("engine.py", "--program", build.build_program(), *extra))
    elif what == "sources":
        prepare.for_scenarios()
        client = build.build("release", ["list_blocks"]) / "bin" / "list_blocks"
        console.run(_as_root("sources.py", "--list-blocks", client, *extra), env=tiers.bed_environment())
    elif what in ("mover", "group"):
        prepare.for_scenarios()
        console.run(_as_root(f"{what}.py", *extra), env=tiers.bed_environment())
    elif what in ROWS:
        console.run(_as_root(f"engine_{what}.py", *extra))
    elif what == "control":
        _control(extra)
    elif what == "line":
        build_line()
        console.run(line_command(*extra))
    elif what == "worker":
        console.run([build.build("release", ["worker_bench"]) / "bin" / "worker_bench", *extra])
    elif what == "micro":
        console.run([build.build("release", ["engine_micro"]) / "bin" / "engine_micro", *extra])
    else:
        raise Failure(USAGE)
