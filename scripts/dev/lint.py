"""./dev fmt and ./dev lint: form, layers, style rules and clang-tidy, cheapest first."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import time

import build
import console
import progress
from console import ROOT, Failure, say, stage

CLANG_FORMAT = "clang-format-14"
CLANG_TIDY = "clang-tidy-14"
PLUGIN_SOURCE = ROOT / "scripts" / "lint" / "own_sources.cc"
LLVM_INCLUDE = "/usr/lib/llvm-14/include"
PYTHON = "/usr/bin/python3"
_UNITED = "_united.cc"  # How a source that includes those of a folder ends: csidelta_unite() in cmake/Targets.cmake.


def our_files(*suffixes):
    """Files of the project with one of these endings: tracked, or new and not ignored."""
    listing = console.output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    paths = [ROOT / name for name in listing.split("\0") if name.endswith(suffixes)]
    return sorted(path for path in paths if path.is_file())


def format_sources(check):
    """Formats C++ in place, or only says what would change."""
    with stage("fmt"):
        sources = our_files(".h", ".cc")
        flags = ["--dry-run", "-Werror"] if check else ["-i"]
        shares = [share for share in (sources[at::console.jobs()] for at in range(console.jobs())) if share]
        with progress.pool() as pool:
            codes = list(pool.map(lambda share: console.execute([CLANG_FORMAT, *flags, *share])[0], shares))
        if any(codes):
            raise Failure("the form of the files above is not clang-format's: run ./dev fmt")


def check_house():
    """Layers, style rules, words, shell scripts."""
    with stage("layers"):
        console.run([PYTHON, ROOT / "scripts" / "check_layers.py"])
    with stage("tidy"):
        console.run([PYTHON, ROOT / "scripts" / "tidy.py"])
    with stage("words"):
        console.run([PYTHON, ROOT / "scripts" / "words.py"])
    with stage("shellcheck"):
        scripts = [path for path in our_files("") if path.read_bytes().startswith((b"#!/bin/bash", b"#!/bin/sh"))]
        console.run(["shellcheck", *scripts])


def _name(folder, path):
    """What a source is called in reports; one that unites others by its folder: src/csi/csi_united.cc."""
    return str(path.relative_to(folder if path.is_relative_to(folder) else ROOT))


def _units(folder):
    """The compile commands of our own sources, by file; a library's as one, where they are compiled as one."""
    commands = json.loads((folder / "compile_commands.json").read_text())
    ours = {}
    for entry in commands:
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT) and (path.name.endswith(_UNITED) or not path.is_relative_to(ROOT / "build")):
            ours[entry["file"]] = entry
    return [ours[name] for name in sorted(ours)]


_INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class _Digest:
    """Names the state of all project files that one source's lint depends on."""

    def __init__(self, folder):
        self._folder = folder
        self._roots = [ROOT, ROOT / "src", *folder.glob("proto/*/gen")]
        self._seen = {}
        version = console.output([CLANG_TIDY, "--version"])
        rules = [ROOT / ".clang-tidy", *sorted(ROOT.glob("*/.clang-tidy")), PLUGIN_SOURCE,
                 ROOT / "cmake" / "Precompiled.cmake"]
        self._common = (version + "".join(path.read_text() for path in rules)).encode()

    def _direct(self, path):
        """(content, project headers that it includes)."""
        if path not in self._seen:
            content = path.read_bytes()
            found = []
            for name in _INCLUDE.findall(content):
                candidates = [path.parent / name.decode(), *(root / name.decode() for root in self._roots)]
                found += [candidate for candidate in candidates if candidate.is_file()][:1]
            self._seen[path] = (content, found)
        return self._seen[path]

    def of(self, entry):
        digest = hashlib.sha256(self._common)
        digest.update(entry["command"].replace(str(ROOT), "").encode())
        pending, done = [pathlib.Path(entry["file"])], set()
        while pending:
            path = pending.pop().resolve()
            if path in done:
                continue
            done.add(path)
            pending += self._direct(path)[1]
        for path in sorted(done):
            digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + self._direct(path)[0])
        return digest.hexdigest()


def _plugin():
    """The plugin that keeps clang-tidy to our own files; compiled once per state of its source."""
    digest = hashlib.sha256(PLUGIN_SOURCE.read_bytes()).hexdigest()
    library = console.cache_dir() / "tidy" / f"own_sources-{digest}.so"
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        draft = library.with_suffix(f".{os.getpid()}")
        console.run(["clang++-14", "-std=c++17", "-fno-rtti", "-shared", "-fPIC", "-isystem", LLVM_INCLUDE,
                     PLUGIN_SOURCE, "-o", draft])
        draft.replace(library)
    return library


def _united(path):
    """The sources that a source of the build unites, as they are called there; none for any other."""
    return [name.decode() for name in _INCLUDE.findall(path.read_bytes())] if path.name.endswith(_UNITED) else []


def config_of(path):
    """The options for a source whose rules are not those of the folders above it: one that unites tests lies in build/."""
    is_of_tests = any(name.startswith("tests/") for name in _united(path))
    return [f"--config-file={ROOT / 'tests' / '.clang-tidy'}"] if is_of_tests else []


def _tidy_one(plugin, folder, entry):
    """(clean?, words) of clang-tidy on one source."""
    rules = config_of(pathlib.Path(entry["file"]))
    command = [CLANG_TIDY, *rules, "-load", plugin, "-p", folder, "--quiet", entry["file"]]
    code, lines = console.execute(command, keep=True, quiet=True)
    return code == 0, "\n".join(lines)


def _generate(preset):
    """Makes what sources include, and nothing else: generated and precompiled headers."""
    generated = [name for name in build.targets(preset) if name.endswith((".pb.h", ".pb.cc", ".pch"))]
    if generated:
        console.run(["ninja", "-C", build.folder(preset), *generated])


def _matches(folder, entry, pattern):
    """Is it, or one of the sources that it unites, what the caller wants to see?"""
    path = pathlib.Path(entry["file"])
    united = [name if name.startswith("tests/") else f"src/{name}" for name in _united(path)]
    names = [_name(folder, path), *united]
    return any(re.search(pattern, name) for name in names)


def clang_tidy(pattern=None):
    """clang-tidy, and clang's own warnings, on every source of the project; results are kept by content."""
    with stage("clang-tidy"):
        build.configure("tidy")
        _generate("tidy")
        folder = build.folder("tidy")
        clean = console.cache_dir() / "tidy"
        clean.mkdir(parents=True, exist_ok=True)
        digest = _Digest(folder)
        units = [(entry, clean / digest.of(entry)) for entry in _units(folder)
                 if not pattern or _matches(folder, entry, pattern)]
        if not units:
            raise Failure(f"no source of the project matches {pattern}")
        pending = [(entry, mark) for entry, mark in units if not mark.is_file()]
        say(f"clang-tidy: {len(pending)} of {len(units)} sources are new or changed")
        bad = _tidy_all(folder, pending)
        if bad:
            raise Failure(f"clang-tidy is not content with {len(bad)} sources: {' '.join(bad)}")


def _tidy_all(folder, pending):
    bad = []
    shown = time.monotonic()
    part = progress.part()
    part.done, part.total = 0, len(pending)
    plugin = _plugin()
    with progress.pool() as pool:
        futures = {pool.submit(_tidy_one, plugin, folder, entry): (entry, mark) for entry, mark in pending}
        for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
            entry, mark = futures[future]
            clean, words = future.result()
            name = _name(folder, pathlib.Path(entry["file"]))
            if clean:
                mark.touch()
            else:
                bad.append(name)
                say(words)
            part.step()
            if not part.name and time.monotonic() - shown > console.PROGRESS_EVERY_SECONDS:
                shown = time.monotonic()
                say(f"clang-tidy: {count}/{len(pending)} {name}")
    return sorted(bad)


def lint(pattern=None):
    """Everything, cheapest first."""
    if not shutil.which(CLANG_TIDY):
        sys.exit(f"dev: {CLANG_TIDY} is missing: run ./dev setup")
    format_sources(check=True)
    check_house()
    clang_tidy(pattern)
