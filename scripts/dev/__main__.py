"""The verbs of ./dev."""

import dataclasses
import pathlib
import shutil
import sys
import typing

import build
import ci
import console
import debian
import fuzz
import interop
import lint
import mutants
import packages
import sweep
import tiers
from console import ROOT, Failure, say

PYTHON = "/usr/bin/python3"
HELP_FLAGS = ("-h", "--help")


@dataclasses.dataclass(frozen=True)
class Verb:
    """One word after ./dev: its arguments and what it does, as ./dev help prints them."""

    arguments: str
    text: str
    run: typing.Callable  # (arguments) -> None or False; raises Failure.
    setup: bool = True  # Must everything be installed first?


def _at_most(arguments, count, usage):
    if len(arguments) > count:
        raise Failure(f"too many arguments; usage: ./dev {usage}")
    return list(arguments) + [None] * (count - len(arguments))


def do_setup(arguments):
    _at_most(arguments, 0, "setup")
    packages.ensure_all()
    debian.ensure_restics(newest=True)
    for line in debian.describe_restics():
        say(f"setup: {line}")
    say("setup: everything is installed")


def do_build(arguments):
    preset = _at_most(arguments, 1, "build [preset]")[0] or "release"
    if preset == "release":
        for program in build.build_release():
            say(f"{program.relative_to(ROOT)}: {program.stat().st_size / (1 << 20):.1f} MiB")
    else:
        build.build(preset)


def do_image(arguments):
    output = _at_most(arguments, 1, "image [file]")[0] or ROOT / "build" / "image" / f"{build.PLUGIN}.tar"
    plugin, program = build.build_release()
    console.run([PYTHON, ROOT / "scripts" / "image.py", "--plugin", plugin, "--program", program,
                 "--output", pathlib.Path(output).absolute()])


def do_test(arguments):
    pattern = _at_most(arguments, 1, "test [filter]")[0]
    return ci.test_matching(pattern) if pattern else ci.test()


def do_e2e(arguments):
    into = []
    groups = arguments[:1] == ["group"]
    extra = list(arguments[1:] if groups else arguments)
    if "--csi-driver" in extra[:-1]:
        place = extra.index("--csi-driver") + 1
        extra[place] = str(pathlib.Path(extra[place]).absolute())
    if groups:
        tiers.run_groups(into, extra)
    else:
        tiers.run_e2e(into, extra=extra)
    return ci.account_of(into, skips_allowed=bool(extra))


def do_demo(arguments):
    if arguments not in ([], ["--cluster"]):
        raise Failure("usage: ./dev demo [--cluster]")
    if not arguments:
        console.run([PYTHON, ROOT / "scripts" / "demo.py", "--program", build.build_program()])
        return
    tiers.prepare_bed()
    console.run(console.as_root([PYTHON, ROOT / "scripts" / "demo_cluster.py"]), env=tiers.bed_environment())


def do_bench(arguments):
    what, *extra = arguments or [None]
    if what == "plugin" and not extra:
        _bench_plugin()
    elif what == "engine":
        console.run(console.as_root([PYTHON, ROOT / "tests" / "bench" / "engine.py", "--program",
                                     build.build_program(), *extra]))
    elif what == "sources":
        tiers.prepare_bed()
        client = build.build("release", ["list_blocks"]) / "bin" / "list_blocks"
        console.run(console.as_root([PYTHON, ROOT / "tests" / "bench" / "sources.py", "--list-blocks", client, *extra]),
                    env=tiers.bed_environment())
    elif what == "mover":
        tiers.prepare_bed()
        console.run(console.as_root([PYTHON, ROOT / "tests" / "bench" / "mover.py", *extra]), env=tiers.bed_environment())
    elif what == "group":
        tiers.prepare_bed()
        console.run(console.as_root([PYTHON, ROOT / "tests" / "bench" / "group.py", *extra]), env=tiers.bed_environment())
    elif what == "micro":
        console.run([build.build("release", ["engine_micro"]) / "bin" / "engine_micro", *extra])
    else:
        raise Failure("usage: ./dev bench plugin | engine [--quick] [--row NAME]... | sources [--quick] [--row NAME]... | mover [--quick] [--row NAME]... | group [--quick] [--row N]... | micro")


def _bench_plugin():
    tiers.prepare_bed()
    missed = []
    for script in sorted((ROOT / "tests" / "bench").glob("plugin_*.py")):
        with console.stage(f"bench {script.stem}"):
            code, _ = console.execute(console.as_root([PYTHON, script]), env=tiers.bed_environment())
            missed += [script.stem] if code != 0 else []
    if missed:
        raise Failure(f"not as promised: {' '.join(missed)}")


def do_interop(arguments):
    _at_most(arguments, 0, "interop")
    return interop.run()


def do_sweep(arguments):
    return sweep.run(_at_most(arguments, 1, "sweep [seed]")[0])


def do_mutants(arguments):
    return mutants.run(arguments)


def do_fuzz(arguments):
    target, seconds = _at_most(arguments, 2, "fuzz <target>|all [seconds]")
    if not target:
        raise Failure(f"usage: ./dev fuzz <target>|all [seconds]; targets: {' '.join(fuzz.targets())}")
    try:
        duration = int(seconds or 60)
    except ValueError as error:
        raise Failure(f"not a number of seconds: {seconds}") from error
    if target == "all":
        fuzz.run_all(duration)
    else:
        fuzz.run(target, duration)


def do_fmt(arguments):
    _at_most(arguments, 0, "fmt")
    lint.format_sources(check=False)


def do_lint(arguments):
    lint.lint(_at_most(arguments, 1, "lint [filter]")[0])


def _sanitized(preset):
    def do(arguments):
        into = []
        tiers.run_sanitized(into, preset, _at_most(arguments, 1, f"{preset} [filter]")[0])
        return ci.account_of(into)
    return do


def do_cover(arguments):
    _at_most(arguments, 0, "cover")
    packages.ensure_debian(["gcovr"])
    folder = build.build("coverage")
    for stale in folder.rglob("*.gcda"):
        stale.unlink()
    into = []
    with tiers.tier("coverage", into) as this:
        tiers.run_ctest(this, "coverage", labels=["-L", "^unit$"])
    report = folder / "report"
    shutil.rmtree(report, ignore_errors=True)
    report.mkdir()
    console.run(["gcovr", "-r", ROOT, "-f", "src/", "--exclude-throw-branches", "-j", console.jobs(),
                 "--html-details", report / "index.html", "--print-summary", folder])
    say(f"cover: {report.relative_to(ROOT)}/index.html")
    return ci.account_of(into)


def do_size(arguments):
    _at_most(arguments, 0, "size")
    build.build_release()
    console.run([PYTHON, ROOT / "scripts" / "size.py"])


def do_ci(arguments):
    if arguments not in ([], ["--keep-going"]):
        raise Failure("usage: ./dev ci [--keep-going]")
    return ci.ci(keep_going=bool(arguments))


def _usage_line(name):
    return f"{f'{name} {VERBS[name].arguments}'.strip():<28}{VERBS[name].text}"


def do_help(arguments):
    del arguments
    say("usage: ./dev VERB [arguments]\n")
    for name in VERBS:
        say(f"  {_usage_line(name)}")
    say("\nPresets: " + " ".join(build.presets()) +
        "\nCSI_DELTA_CACHE (default ~/.cache/csi-delta) holds build products, CSI_DELTA_JOBS is how many"
        "\nthings are compiled at once (default: as many as there are processors).")


VERBS = {
    "setup": Verb("", "install what is missing: Debian packages, Go; quick if nothing is", do_setup, False),
    "build": Verb("[preset]", "build; without a preset the release one, stripped: build/release/bin/", do_build),
    "image": Verb("[file]", "make the container image as an archive, without a container daemon", do_image),
    "test": Verb("[filter]", "run every test there is, or those whose name matches", do_test),
    "demo": Verb("[--cluster]", "a volume backed up by its changes and judged by restic; with --cluster a backup and a "
                 "restore by Velero, on a cluster of plain processes", do_demo),
    "e2e": Verb("[group] [--csi-driver PATH]", "run the scenarios on the real stack, or those of volume groups with all that is "
                "too long for CI; other arguments go to pytest", do_e2e),
    "bench": Verb("plugin | engine | sources | mover | group | micro", "measure the plugin beside what Velero has, the engine beside "
                  "restic and kopia, lists of changed blocks beside upstream's client, parts of the engine alone",
                  do_bench),
    "interop": Verb("", "repositories shared with the restic of three Debian releases, and with rustic", do_interop),
    "sweep": Verb("[seed]", "every crash point, fault and seed of which CI sees a sample; or the sample of a seed",
                  do_sweep),
    "mutants": Verb("[name] | --generated MINUTES", "break the program on purpose, expect a test to fail", do_mutants),
    "fuzz": Verb("<target>|all [seconds]", "feed a parser what it never saw (60 s)", do_fuzz),
    "fmt": Verb("", "format the C++ sources in place", do_fmt),
    "lint": Verb("[filter]", "form, layers, house rules, shellcheck, clang-tidy", do_lint),
    "asan": Verb("[filter]", "unit tests under the address and undefined-behaviour sanitizers", _sanitized("asan")),
    "tsan": Verb("[filter]", "unit tests with threads under the thread sanitizer", _sanitized("tsan")),
    "cover": Verb("", "line and branch coverage of the unit tests, per file", do_cover),
    "size": Verb("", "what the shipped program's bytes are made of", do_size),
    "ci": Verb("[--keep-going]", "what guards main: lint, every test, sanitizers, fuzzing, image", do_ci),
    "help": Verb("", "this", do_help, False),
}

def main(arguments):
    name, *rest = arguments or ["help"]
    if name in HELP_FLAGS:
        name = "help"
    if name not in VERBS:
        print(f"dev: no such verb: {name}; ./dev help lists them", file=sys.stderr)
        return 2
    if rest and rest[0] in HELP_FLAGS:
        say(f"./dev {_usage_line(name)}")
        return 0
    verb = VERBS[name]
    try:
        if verb.setup:
            packages.ensure_all()
        return 1 if verb.run(rest) is False else 0
    except Failure as error:
        print(f"dev: {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"dev: {name}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
