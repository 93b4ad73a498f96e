"""The verbs of ./dev."""

import dataclasses
import functools
import pathlib
import shutil
import signal
import sys
import textwrap
import time
import typing

import benches
import build
import console
import debian
import entry
import packages
import process_tree
import runs
from console import ROOT, Failure, say

sys.path += [str(ROOT / "scripts" / name) for name in ("docs", "fuzz", "lint", "mutants")]
import docs  # noqa: E402  pylint: disable=wrong-import-position
import fuzz  # noqa: E402  pylint: disable=wrong-import-position
import lint  # noqa: E402  pylint: disable=wrong-import-position
import mutants  # noqa: E402  pylint: disable=wrong-import-position
import mutate  # noqa: E402  pylint: disable=wrong-import-position
import versions  # noqa: E402  pylint: disable=wrong-import-position

PYTHON = "/usr/bin/python3"
HELP_FLAGS = ("-h", "--help")
SETUP_SECONDS_SHOWN = 1.0
HELP_COLUMNS, HELP_INDENT = 110, 30
GRACE_SECONDS = 100  # A test bed goes down in order.
ANY = 1 << 16  # Arguments: the verb judges them itself.


@dataclasses.dataclass(frozen=True)
class Verb:
    """One word after ./dev: its arguments and what it does, as ./dev help prints them."""

    arguments: str
    text: str
    run: typing.Callable  # (*arguments) -> None or False; raises Failure.
    most: int = 0  # Arguments that it takes.
    words: tuple = ()  # The only ones, where any are named.


def do_setup():
    packages.ensure_all()
    debian.ensure_restics(newest=True)
    docs.ensure_mkdocs()
    packages.ensure_debian([docs.BROWSER])
    mutate.parser()
    for line in debian.describe_restics():
        say(f"setup: {line}")
    say("setup: everything is installed")


def do_build(preset="release"):
    if preset == "release":
        for program in build.build_release():
            say(f"{program.relative_to(ROOT)}: {program.stat().st_size / (1 << 20):.1f} MiB")
    else:
        build.build(preset, ["csidelta_tsan_tests"] if preset == "tsan" else ())


def do_image(output=ROOT / "build" / "image" / f"{build.PLUGIN}.tar"):
    plugin, program = build.build_release()
    console.run([PYTHON, ROOT / "scripts" / "image.py", "--plugin", plugin, "--program", program,
                 "--output", pathlib.Path(output).absolute()])


def do_test(word=None, part=None):
    if part and word != "--all":
        raise Failure(f"too many arguments; usage: ./dev test {VERBS['test'].arguments}")
    if word == "--all":
        return runs.test_all(part)
    if word == "--changed":
        return runs.test_changed()
    return runs.test_matching(word) if word else runs.test()


def do_demo(cluster=None):
    if not cluster:
        console.run([ROOT / "scripts" / "demo.sh", build.build_program()])
        return
    runs.for_scenarios()
    console.run(console.as_root([PYTHON, ROOT / "scripts" / "demo_cluster.py"]),
                env=entry.bed_environment())


def do_docs(serve=None):
    folder = docs.build()
    say(f"docs: {folder.relative_to(ROOT)}/index.html; read it with ./dev docs --serve, its search needs a web server")
    if serve:
        docs.serve()


def do_fuzz(target=None, seconds="60"):
    if not target:
        raise Failure(f"usage: ./dev fuzz {VERBS['fuzz'].arguments}; targets: {' '.join(fuzz.targets())}")
    if seconds == "--keep":
        fuzz.keep(target)
    elif seconds.isdigit():
        fuzz.run(target, int(seconds))
    else:
        raise Failure(f"not a number of seconds: {seconds}")


def do_cover():
    packages.ensure_debian(["gcovr"])
    folder = build.folder("coverage")
    for stale in folder.rglob("*.gcda"):
        stale.unlink()
    report = folder / "report"
    shutil.rmtree(report, ignore_errors=True)
    is_good = runs.sanitized("coverage")
    report.mkdir()
    console.run(["gcovr", "-r", ROOT, "-f", "src/", "--exclude-throw-branches", "-j", console.jobs(),
                 "--html-details", report / "index.html", "--print-summary", folder])
    say(f"cover: {report.relative_to(ROOT)}/index.html")
    return is_good


def do_size():
    build.build_release()
    console.run([PYTHON, ROOT / "scripts" / "size.py"])


def do_help():
    say("usage: ./dev VERB [arguments]\n")
    for name, verb in VERBS.items():
        head = f"  {name} {verb.arguments}".rstrip()
        first, *more = textwrap.wrap(verb.text, HELP_COLUMNS - HELP_INDENT)
        say(f"{head:<{HELP_INDENT}}{first}" if len(head) < HELP_INDENT else f"{head}\n{'':<{HELP_INDENT}}{first}")
        for line in more:
            say(f"{'':<{HELP_INDENT}}{line}")
    say("\nPresets: " + " ".join(build.presets()) +
        "\nCSI_DELTA_CACHE (default ~/.cache/csi-delta) holds build products, CSI_DELTA_JOBS is how many"
        "\nthings are compiled at once (default: as many as there are processors).")


VERBS = {
    "setup": Verb("", "install what is missing: Debian packages, Go, MkDocs; quick if nothing is", do_setup),
    "build": Verb("[preset]", "build; without a preset the release one, stripped: build/release/bin/", do_build, 1),
    "image": Verb("[file]", "make the container image as an archive, without a container daemon", do_image, 1),
    "test": Verb("[--all [N/4] | --changed | FILTER]", "checks, unit tests, Velero's plugin managers, stores and about forty "
                 "journeys on the real stack. FILTER: what a failure printed, the number of a scenario, a tier, a program, "
                 "a file, or a part of a test's name; builds only what that needs. --changed: what the change since origin "
                 "can touch; for src/ that includes the journeys. --all: everything, or one of its four parts", do_test, 2),
    "demo": Verb("[--cluster]", "a volume backed up by its changes and checked by restic; with --cluster a backup and a "
                 "restore by Velero, on a cluster of plain processes", do_demo, 1, ("--cluster",)),
    "e2e": Verb("[group] [--csi-driver PATH]", "run the scenarios on the real stack, or those of volume groups with all that is "
                "too long for CI; other arguments go to pytest", runs.e2e, ANY),
    "bench": Verb("plugin | engine | sources | mover | control | group | line | network | worker | micro | packs | verbs",
                  "measure the plugin beside what Velero has, the engine beside restic and kopia, lists of changed blocks beside "
                  "upstream's client, the controller at hundreds of volumes, uploads over slow lines, Azure and Google beside "
                  "S3, parts of the engine alone, verbs in the memory of a worker", lambda *words: benches.run(words), ANY),
    "docs": Verb("[--serve]", "build the documentation site into build/docs; --serve: read it in a browser here", do_docs, 1,
                 ("--serve",)),
    "versions": Verb("[--record]", "which versions of other projects are pinned, are served, passed; --record: commit what "
                     "./dev test --all reported since, with docs/compatibility.md",
                     lambda option=None: (versions.record if option else versions.show)(), 1, ("--record",)),
    "interop": Verb("", "repositories shared with the restic of three Debian releases, and with rustic; killed restores of "
                    "each format", runs.interop),
    "sweep": Verb("[seed | storm]", "every crash point, fault and seed of which CI sees a sample; or the sample of a seed; storm: "
                  "its seeds alone, with their ledger", runs.sweep, 1),
    "mutants": Verb("[--generated MINUTES]", "break the program on purpose, expect a test to fail",
                    lambda *words: mutants.run(words), ANY),
    "fuzz": Verb("<target>|all [seconds | --keep]", "feed a parser what it never saw (60 s); --keep adds what earlier runs "
                 "found to tests/fuzz/corpus", do_fuzz, 2),
    "fmt": Verb("", "format the C++ sources in place", functools.partial(lint.format_sources, check=False)),
    "lint": Verb("[filter]", "form, layers, style rules, shellcheck, clang-tidy", lint.lint, 1),
    "asan": Verb("[filter]", "unit tests under the address and undefined-behaviour sanitizers",
                 functools.partial(runs.sanitized, "asan"), 1),
    "tsan": Verb("[filter]", "unit tests with threads under the thread sanitizer", functools.partial(runs.sanitized, "tsan"), 1),
    "cover": Verb("", "line and branch coverage of the unit tests, per file", do_cover),
    "size": Verb("", "what the shipped program's bytes are made of", do_size),
    "ci": Verb("[--keep-going]", "what guards main: ./dev test, then sanitizers, clang-tidy, the image",
               lambda option=None: runs.ci(keep_going=bool(option)), 1, ("--keep-going",)),
    "help": Verb("", "this", do_help),
}


def _do_setup_first():
    """Installs what is missing; its time is no part of a verb's."""
    start = time.monotonic()
    packages.ensure_all()
    if (took := time.monotonic() - start) > SETUP_SECONDS_SHOWN:
        say(f"setup: {took:.0f} s")


def main(arguments):
    name, *rest = arguments or ["help"]
    name = "help" if name in HELP_FLAGS else name
    if name not in VERBS:
        print(f"dev: no such verb: {name}; ./dev help lists them", file=sys.stderr)
        return 2
    verb = VERBS[name]
    if rest and rest[0] in HELP_FLAGS:
        say(f"./dev {f'{name} {verb.arguments}'.strip():<27} {verb.text}")
        return 0
    try:
        if len(rest) > verb.most:
            raise Failure(f"too many arguments; usage: ./dev {name} {verb.arguments}".rstrip())
        if verb.words and set(rest) - set(verb.words):
            raise Failure(f"usage: ./dev {name} {verb.arguments}")
        if name not in ("help", "setup"):
            _do_setup_first()
        return 1 if verb.run(*rest) is False else 0
    except Failure as error:
        print(f"dev: {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"dev: {name}: interrupted", file=sys.stderr, flush=True)
        return 143 if str(error) == "SIGTERM" else 130


def _interrupted(number, frame):
    """Once: what tidies up now is not to be interrupted as well."""
    del frame
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def supervised():
    """main(); whatever way it ends, nothing that it started lives on."""
    process_tree.adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    code = 1
    try:
        code = main(sys.argv[1:])
    finally:
        if left := process_tree.names():
            print(f"dev: ending what was left: {'; '.join(left)}", file=sys.stderr, flush=True)
            process_tree.end_all(GRACE_SECONDS)
    return code


if __name__ == "__main__":
    sys.exit(supervised())
