#!/usr/bin/python3
"""What the shipped programs weigh: their sizes against the limits, and the ten parts that contribute most.

Links the release objects once more, and adds up the bytes that the linker's map names by the place that they come from:
an archive of the distribution, or a folder of csi-delta. Prints megabytes of 2^20 bytes. Exits with 1 when a program is
over its limit.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build" / "release"
# csi-delta speaks gRPC, to clusters over TLS and to CSI drivers; a twentieth of both is the price of one compiler, clang.
SIZE_MIB_MAX = {"velero-plugin-for-csi-delta": 16, "csi-delta": 24}
PARTS_SHOWN = 10
# Of mold's map: address, size, alignment and input section; those that occupy no byte of the file are left out.
_INPUT = re.compile(r"^ *0x\w+ +([1-9]\d*) +\d+ +(\S+?)(?:\(\S+\))?:\((?!\.t?bss)", re.MULTILINE)


def contributors(name):
    """Bytes by place: ours by folder, others by library."""
    command = ["ninja", "-C", BUILD, "-t", "commands", "-s", f"bin/{name}"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory(prefix="size-") as folder:
        link = listing.stdout.splitlines()[-1].replace(f"-o bin/{name}", f"-o {folder}/{name} -Wl,-Map={folder}/map")
        subprocess.run(link, shell=True, cwd=BUILD, check=True)
        total = collections.Counter()
        for count, path in _INPUT.findall(pathlib.Path(folder, "map").read_text(encoding="utf-8")):
            ours = re.search(r"libcsidelta_(\w+)\.a$|src/(\w+)/CMakeFiles", path)
            place = f"ours: {ours[1] or ours[2]}" if ours else re.sub(r"^libabsl_\w+", "libabsl_*", pathlib.PurePath(path).name)
            total[place] += int(count)
    return total


def main():
    too_large = False
    for name, limit in SIZE_MIB_MAX.items():
        total, size = contributors(name), (BUILD / "bin" / name).stat().st_size
        total["tables, shared strings"] = max(size - total.total(), 0)
        print(f"{name}:")
        for place, count in total.most_common(PARTS_SHOWN):
            print(f"{count / 2**20:8.2f} MiB  {100 * count / size:5.1f} %  {place}")
        print(f"{size / 2**20:8.2f} MiB  in all, of at most {limit} MiB")
        too_large |= size > limit * 2**20
    return too_large


if __name__ == "__main__":
    sys.exit(main())
