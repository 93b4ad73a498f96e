"""The verbs of ./dev."""

import dataclasses
import pathlib
import shutil
import sys
import textwrap
import time
import typing

import account
import benches
import build
import ci
import console
import debian
import docs
import fuzz
import interop
import lint
import mutants
import packages
import prepare
import supervisor
import sweep
import tiers
import whole
from console import ROOT, Failure, say

PYTHON = "/usr/bin/python3"
HELP_FLAGS = ("-h", "--help")
SETUP_SECONDS_SHOWN = 1.0
HELP_COLUMNS, HELP_INDENT = 110, 30


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
    docs.ensure_mkdocs()
    docs.ensure_browser()
    for line in debian.describe_restics():
        say(f"setup: {line}")
    say("setup: everything is installed")


def do_build(arguments):
    preset = _at_most(arguments, 1, "build [preset]")[0] or "release"
    if preset == "release":
        for program in build.build_release():
            say(f"{program.relative_to(ROOT)}: {program.stat().st_size / (1 << 20):.1f} MiB")
    else:
        build.build(preset, ["csidelta_tsan_tests"] if preset == "tsan" else ())


def do_image(arguments):
    output = _at_most(arguments, 1, "image [file]")[0] or ROOT / "build" / "image" / f"{build.PLUGIN}.tar"
    plugin, program = build.build_release()
    console.run([PYTHON, ROOT / "scripts" / "image.py", "--plugin", plugin, "--program", program,
                 "--output", pathlib.Path(output).absolute()])


def do_test(arguments):
    word, *rest = arguments or [None]
    if word == "--all":
        return whole.run(_at_most(rest, 1, "test --all [N/4]")[0])
    if word == "--changed":
        _at_most(rest, 0, "test --changed")
        return ci.test_changed()
    _at_most(rest, 0, "test [--all [N/4] | --changed | FILTER]")
    return ci.test_matching(word) if word else ci.test()


def do_e2e(arguments):
    groups = arguments[:1] == ["group"]
    extra = list(arguments[1:] if groups else arguments)
    if "--csi-driver" in extra[:-1]:
        place = extra.index("--csi-driver") + 1
        extra[place] = str(pathlib.Path(extra[place]).absolute())
    prepare.for_scenarios()

    def work(into):
        if groups:
            tiers.run_e2e(into, "e2e group", extra=["-m", "group", *extra], env={"CSI_DELTA_SWEEP": "all"})
        else:
            tiers.run_e2e(into, "e2e", extra=extra)
    return account.of_one("e2e", work, skips_allowed=bool(extra))


def do_demo(arguments):
    if arguments not in ([], ["--cluster"]):
        raise Failure("usage: ./dev demo [--cluster]")
    if not arguments:
        console.run([PYTHON, ROOT / "scripts" / "demo.py", "--program", build.build_program()])
        return
    prepare.for_scenarios()
    console.run(console.as_root([PYTHON, ROOT / "scripts" / "demo_cluster.py"]), env=tiers.bed_environment())


def do_docs(arguments):
    if arguments not in ([], ["--serve"]):
        raise Failure("usage: ./dev docs [--serve]")
    folder = docs.build()
    say(f"docs: {folder.relative_to(ROOT)}/index.html; read it with ./dev docs --serve, its search needs a web server")
    if arguments:
        docs.serve()


def do_bench(arguments):
    benches.run(arguments)


def do_interop(arguments):
    _at_most(arguments, 0, "interop")
    return interop.run()


def do_sweep(arguments):
    return sweep.run(_at_most(arguments, 1, "sweep [seed | storm]")[0])


def do_mutants(arguments):
    return mutants.run(arguments)


def do_fuzz(arguments):
    usage = "fuzz <target>|all [seconds | --keep]"
    target, seconds = _at_most(arguments, 2, usage)
    if not target:
        raise Failure(f"usage: ./dev {usage}; targets: {' '.join(fuzz.targets())}")
    if seconds == "--keep":
        fuzz.keep(target)
        return
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
        pattern = _at_most(arguments, 1, f"{preset} [filter]")[0]
        build.build(preset, [prepare.TSAN if preset == "tsan" else prepare.UNIT])
        return account.of_one(preset, lambda into: tiers.run_sanitized(into, preset, pattern))
    return do


def do_cover(arguments):
    _at_most(arguments, 0, "cover")
    packages.ensure_debian(["gcovr"])
    folder = build.build("coverage", [prepare.UNIT])
    for stale in folder.rglob("*.gcda"):
        stale.unlink()

    def work(into):
        tiers.run_sanitized(into, "coverage")
    report = folder / "report"
    shutil.rmtree(report, ignore_errors=True)
    is_good = account.of_one("cover", work)
    report.mkdir()
    console.run(["gcovr", "-r", ROOT, "-f", "src/", "--exclude-throw-branches", "-j", console.jobs(),
                 "--html-details", report / "index.html", "--print-summary", folder])
    say(f"cover: {report.relative_to(ROOT)}/index.html")
    return is_good


def do_size(arguments):
    _at_most(arguments, 0, "size")
    build.build_release()
    console.run([PYTHON, ROOT / "scripts" / "size.py"])


def do_ci(arguments):
    if arguments not in ([], ["--keep-going"]):
        raise Failure("usage: ./dev ci [--keep-going]")
    return ci.ci(keep_going=bool(arguments))


def _do_setup_first():
    """Installs what is missing; its time is no part of a verb's."""
    start = time.monotonic()
    packages.ensure_all()
    took = time.monotonic() - start
    if took > SETUP_SECONDS_SHOWN:
        say(f"setup: {took:.0f} s")


def _usage_line(name):
    return f"{f'{name} {VERBS[name].arguments}'.strip():<27} {VERBS[name].text}"


def _usage_block(name):
    """A verb's lines in ./dev help."""
    head = f"  {name} {VERBS[name].arguments}".rstrip()
    text = textwrap.wrap(VERBS[name].text, HELP_COLUMNS - HELP_INDENT)
    lines = [f"{'':<{HELP_INDENT}}{line}" for line in text]
    return [f"{head:<{HELP_INDENT}}{text[0]}", *lines[1:]] if len(head) < HELP_INDENT else [head, *lines]


def do_help(arguments):
    del arguments
    say("usage: ./dev VERB [arguments]\n")
    for name in VERBS:
        say("\n".join(_usage_block(name)))
    say("\nPresets: " + " ".join(build.presets()) +
        "\nCSI_DELTA_CACHE (default ~/.cache/csi-delta) holds build products, CSI_DELTA_JOBS is how many"
        "\nthings are compiled at once (default: as many as there are processors).")


VERBS = {
    "setup": Verb("", "install what is missing: Debian packages, Go, MkDocs; quick if nothing is", do_setup, False),
    "build": Verb("[preset]", "build; without a preset the release one, stripped: build/release/bin/", do_build),
    "image": Verb("[file]", "make the container image as an archive, without a container daemon", do_image),
    "test": Verb("[--all [N/4] | --changed | FILTER]", "checks, unit tests, Velero's plugin managers, stores and about forty "
                 "journeys on the real stack. FILTER: what a failure printed, the number of a scenario, a tier, a program, "
                 "a file, or a part of a test's name; builds only what that needs. --changed: what the change since origin "
                 "can touch; for src/ that includes the journeys. --all: everything, or one of its four parts", do_test),
    "demo": Verb("[--cluster]", "a volume backed up by its changes and checked by restic; with --cluster a backup and a "
                 "restore by Velero, on a cluster of plain processes", do_demo),
    "e2e": Verb("[group] [--csi-driver PATH]", "run the scenarios on the real stack, or those of volume groups with all that is "
                "too long for CI; other arguments go to pytest", do_e2e),
    "bench": Verb("plugin | engine | sources | mover | control | group | line | worker | micro | packs | verbs",
                  "measure the plugin beside what Velero has, the engine beside restic and kopia, lists of changed blocks beside "
                  "upstream's client, the data mover's controller at hundreds of volumes, uploads over slow lines, parts of the "
                  "engine alone, verbs in the memory of a worker",
                  do_bench),
    "docs": Verb("[--serve]", "build the documentation site into build/docs; --serve: read it in a browser of this machine", do_docs),
    "interop": Verb("", "repositories shared with the restic of three Debian releases, and with rustic; killed restores of each format", do_interop),
    "sweep": Verb("[seed | storm]", "every crash point, fault and seed of which CI sees a sample; or the sample of a seed; storm: "
                  "its seeds alone, with their ledger",
                  do_sweep),
    "mutants": Verb("[--generated MINUTES]", "break the program on purpose, expect a test to fail", do_mutants),
    "fuzz": Verb("<target>|all [seconds | --keep]", "feed a parser what it never saw (60 s); --keep adds what earlier runs "
                 "found to tests/fuzz/corpus", do_fuzz),
    "fmt": Verb("", "format the C++ sources in place", do_fmt),
    "lint": Verb("[filter]", "form, layers, style rules, shellcheck, clang-tidy", do_lint),
    "asan": Verb("[filter]", "unit tests under the address and undefined-behaviour sanitizers", _sanitized("asan")),
    "tsan": Verb("[filter]", "unit tests with threads under the thread sanitizer", _sanitized("tsan")),
    "cover": Verb("", "line and branch coverage of the unit tests, per file", do_cover),
    "size": Verb("", "what the shipped program's bytes are made of", do_size),
    "ci": Verb("[--keep-going]", "what guards main: ./dev test, then sanitizers, clang-tidy, the image", do_ci),
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
            _do_setup_first()
        return 1 if verb.run(rest) is False else 0
    except Failure as error:
        print(f"dev: {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"dev: {name}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(supervisor.run(lambda: main(sys.argv[1:]), console.INTERRUPTED.set))
