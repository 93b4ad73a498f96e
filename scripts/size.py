#!/usr/bin/python3
"""What the shipped programs weigh: their sizes against the limits, and the ten parts that contribute most.

    size.py [--build FOLDER]

Links the release objects once more, unstripped, and adds up the bytes of code and data in the final
executables by the place that each symbol comes from: an archive of the distribution, or a folder of csi-delta. Prints megabytes of 2^20 bytes. Exits with 1 when a stripped program is over its limit.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# csi-delta speaks gRPC, to clusters over TLS and to CSI drivers.
SIZE_MIB_MAX = {"velero-plugin-for-csi-delta": 16, "csi-delta": 20}
PARTS_SHOWN = 10


def link_command(build, name):
    """The release's own link command, as the build system has it."""
    listing = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", f"bin/{name}"],
                             check=True, capture_output=True, text=True)
    return listing.stdout.strip().splitlines()[-1]


def symbol_sizes(program):
    """{mangled name: bytes} of everything that occupies the file."""
    sizes = {}
    listing = subprocess.run(["nm", "--print-size", program], check=True, capture_output=True,
                             text=True)
    for line in listing.stdout.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] not in "bB":
            sizes[words[3]] = int(words[1], 16)
    return sizes


def place_of(path):
    """A name for an archive or object: ours by folder, others by library."""
    ours = re.search(r"libcsidelta_(\w+)\.a$", path) or re.search(r"src/(\w+)/CMakeFiles", path)
    if ours:
        return f"ours: {ours[1]}"
    name = pathlib.PurePath(path).name
    return re.sub(r"^lib(absl)_\w+\.a$", r"libabsl_*.a", name)


def defined_symbols(path):
    """Names that an archive or object defines, weak ones included."""
    listing = subprocess.run(["nm", "--defined-only", "--format=posix", path], check=False,
                             capture_output=True, text=True)
    return {line.split()[0] for line in listing.stdout.splitlines()
            if line and not line.endswith(":")}


def contributors(build, name, command):
    """Bytes by place; the first on the link line owns a shared symbol."""
    with tempfile.TemporaryDirectory(prefix="size-") as folder:
        program = pathlib.Path(folder, name)
        relink = command.replace("-Wl,--strip-all", "").replace(f"-o bin/{name}", f"-o {program}")
        subprocess.run(relink, shell=True, cwd=build, check=True)
        sizes = symbol_sizes(program)
    inputs = list(dict.fromkeys(re.findall(r"\S+\.(?:a|o)(?=\s|$)", command)))
    compiler = re.search(r"\S*(?:g|c|clang)\+\+\S*", command)[0]
    for name in ("libstdc++.a", "libc.a", "libm.a", "libgcc.a", "libgcc_eh.a"):
        found = subprocess.run([compiler, f"-print-file-name={name}"], check=True,
                               capture_output=True, text=True)
        inputs.append(found.stdout.strip())
    total = collections.Counter()
    for path in inputs:
        for symbol in defined_symbols(build / path) & sizes.keys():
            total[place_of(path)] += sizes.pop(symbol)
    return total


def weigh(build, name):
    """Prints what one program is made of; whether it keeps to its limit."""
    program = build / "bin" / name
    if not program.is_file():
        raise SystemExit(f"size: no {program}: ./dev build makes it")
    total = contributors(build, name, link_command(build, name))
    file_bytes = program.stat().st_size
    total["tables, strings, unnamed"] = max(file_bytes - sum(total.values()), 0)
    print(f"{name}:")
    for place, count in total.most_common(PARTS_SHOWN):
        print(f"{count / 2**20:8.2f} MiB  {100 * count / file_bytes:5.1f} %  {place}")
    mib = file_bytes / 2**20
    print(f"{mib:8.2f} MiB  in all, of at most {SIZE_MIB_MAX[name]} MiB")
    return mib <= SIZE_MIB_MAX[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    build = parser.parse_args().build.resolve()
    kept = [weigh(build, name) for name in SIZE_MIB_MAX]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
