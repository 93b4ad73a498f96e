"""./dev fmt and ./dev lint: are form, layers, style and what clang-tidy sees as they should be? Cheapest first."""

import concurrent.futures
import json
import pathlib
import re
import shlex
import sys
import time

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("dev", "docs", "")]
import build  # noqa: E402  pylint: disable=wrong-import-position
import console  # noqa: E402  pylint: disable=wrong-import-position
from console import ROOT, Failure, say, stage  # noqa: E402  pylint: disable=wrong-import-position
import style  # noqa: E402  pylint: disable=wrong-import-position
import versions  # noqa: E402  pylint: disable=wrong-import-position

CLANG_FORMAT, CLANG_TIDY = "clang-format-14", "clang-tidy-14"
WRAPPER = ROOT / "scripts" / "lint" / "tidy.sh"
PLUGIN_SOURCE = ROOT / "scripts" / "lint" / "own_sources.cc"
PYTHON = "/usr/bin/python3"
SHOWN_SECONDS = 5  # A source that is judged, and not found in the cache, takes longer.
_UNITED = "_united.cc"  # How a source that includes those of a folder ends: csidelta_unite() in cmake/Targets.cmake.


def format_sources(check):
    """Formats C++ in place, or only says what would change."""
    with concurrent.futures.ThreadPoolExecutor(console.jobs()) as pool:
        sources = [path for path in style.project_files(ROOT) if path.suffix in style.CPP]
        flags = ["--dry-run", "-Werror"] if check else ["-i"]
        shares = [sources[at::console.jobs()] for at in range(min(console.jobs(), len(sources)))]
        if any(pool.map(lambda share: console.execute([CLANG_FORMAT, *flags, *share])[0], shares)):
            raise Failure("the form of the files above is not clang-format's: run ./dev fmt")


def _shellcheck():
    scripts = [path for path in style.project_files(ROOT) if (ROOT / path).read_bytes().startswith((b"#!/bin/bash", b"#!/bin/sh"))]
    console.run(["shellcheck", *scripts])


CHECKS = {"fmt": lambda: format_sources(check=True),
          "layers": lambda: console.run([PYTHON, ROOT / "scripts" / "check_layers.py"]),
          "style": lambda: console.run([PYTHON, ROOT / "scripts" / "style.py"]),
          "versions": versions.check, "shellcheck": _shellcheck}  # Entries of ctest, too: cmake/Runs.cmake.


def plugin(folder):
    """Compiles the plugin that keeps clang-tidy to our own files; returns its path in the folder."""
    made = folder / "own_sources.o"
    console.run(["ccache", "clang++-14", "-std=c++17", "-fno-rtti", "-fPIC", "-isystem", "/usr/lib/llvm-14/include",
                 "-c", PLUGIN_SOURCE, "-o", made])
    console.run(["clang++-14", "-shared", made, "-o", made.with_suffix(".so")])
    return made.with_suffix(".so")


def environment(folder):
    """What makes ccache run clang-tidy in place of the compiler, and keep what it said by all that it depends on."""
    rules = [ROOT / ".clang-tidy", *sorted(ROOT.glob("*/.clang-tidy")), PLUGIN_SOURCE, WRAPPER,
             f"/var/lib/dpkg/info/{CLANG_TIDY}.md5sums"]
    return {"CCACHE_PREFIX": WRAPPER, "CCACHE_DEPEND": "1", "TIDY_PLUGIN": plugin(folder),
            "CCACHE_COMPILERCHECK": f"cat {' '.join(map(str, rules))}"}


def names_of(source, folder):
    """What a source is called, with those that it unites; none for what is generated."""
    if source.name.endswith(_UNITED):
        united = re.findall(r'^#include "([^"]+)"', source.read_text(), re.MULTILINE)
        return [str(source.relative_to(folder)), *(name if name.startswith("tests/") else f"src/{name}" for name in united)]
    return [] if source.is_relative_to(folder) else [str(source.relative_to(ROOT))]


def _judge(folder, own, name, command):
    """None, or the name of a source with which clang-tidy is not content. Its object is the line that tidy.sh writes."""
    start = time.monotonic()
    made = folder / re.search(r" -o (\S+)", command)[1]
    made.parent.mkdir(parents=True, exist_ok=True)
    made.unlink(missing_ok=True)
    _, lines = console.execute(["ccache", *shlex.split(command)], cwd=folder, env=own, keep=True, quiet=True)
    if made.is_file() and made.read_bytes() == b"\n":
        if time.monotonic() - start > SHOWN_SECONDS:
            say(f"{name}: {time.monotonic() - start:.0f} s")
        return None
    say("\n".join(lines))
    return name


def clang_tidy(pattern=None):
    """clang-tidy, and clang's own warnings, on every source of the project; ccache keeps results by content."""
    with stage("clang-tidy"), concurrent.futures.ThreadPoolExecutor(console.jobs()) as pool:
        build.configure("tidy")
        folder, units = build.folder("tidy"), []
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            names = names_of(pathlib.Path(entry["file"]), folder)
            if any(re.search(pattern or "", name) for name in names):
                units.append((names[0], re.sub(r" -o \S+", r"\g<0>.tidy", entry["command"], count=1)))
        if not units:
            raise Failure(f"no source of the project matches {pattern}")
        generated = [name for name in build.targets("tidy") if name.endswith((".pb.h", ".pch"))]
        console.run(["ninja", "-C", folder, *generated])
        own = environment(folder)
        say(f"clang-tidy: {len(units)} sources")
        bad = sorted(filter(None, pool.map(lambda unit: _judge(folder, own, *unit), sorted(units))))
        if bad:
            raise Failure(f"clang-tidy is not content with {len(bad)} sources: {' '.join(bad)}")


def lint(pattern=None):
    """Everything, cheapest first."""
    for name, check in CHECKS.items():
        with stage(name):
            check()
    clang_tidy(pattern)


if __name__ == "__main__":
    try:
        sys.exit(CHECKS[sys.argv[1]]() if sys.argv[1] in CHECKS else clang_tidy(sys.argv[2]))
    except Failure as failure:
        sys.exit(f"lint: {failure}")
