#!/usr/bin/python3
"""Runs the commands of a documentation page, and compares what they print with the page.

    run_page.py PAGE --program FILE [--write]

Each block ```sh is run in one shell, in a folder of its own; a block ```text that follows it at once is what it prints.
Blocks after a comment `<!-- not run: REASON -->` are left out. Ids, times, sizes and counts may differ. --write puts the
real output into the page. Exits 1 when a command fails or prints something else.
"""

import argparse
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```sh\n(?P<commands>.*?)```\n(?P<gap>\n)?(?:```text\n(?P<shown>.*?)```\n)?", re.DOTALL)
LOCKING = re.compile(r"<!-- run with a bucket that locks -->\n```sh\n(.*?)```\n", re.DOTALL)  # By tests/s3/test_pages.py.
MARK = "end-of-a-block-of-the-page"
HOST = "vm"  # Stands for the machine's name.
FIGURES = re.compile(r"\b[0-9a-f]{8,}\b|[0-9][0-9.:-]*( [KMG]?i?B\b)?")


def blocks(text):
    """The blocks of a page that are run, as matches."""
    found = []
    for match in BLOCK.finditer(text):
        if match["reason"]:
            print(f"not run: {match['commands'].splitlines()[0]}: {match['reason']}", file=sys.stderr)
        else:
            found.append(match)
    return found


def shape(output):
    """Output without what differs from run to run."""
    return re.sub(r"#( *#)*", "#", re.sub(r"[ -]{2,}", " ", FIGURES.sub("#", output))).strip()


def run(page, program):
    """What each block of the page prints; raises CalledProcessError when one fails."""
    with tempfile.TemporaryDirectory() as folder:
        script = "".join(f"{match['commands']}echo {MARK}\n" for match in blocks(page.read_text()))
        done = subprocess.run(["bash", "-euc", script], cwd=folder, check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{program.resolve().parent}:{os.environ['PATH']}", "TMPDIR": folder})
        printed = done.stdout.replace(folder, "/tmp/try").replace(socket.gethostname(), HOST)
    if done.returncode != 0:
        sys.exit(f"{page}: a command ended with {done.returncode}:\n{printed[-2000:]}")
    return printed.split(f"{MARK}\n")[:-1]


def written(text, outputs):
    """The page with these outputs."""
    outputs = iter(outputs)

    def replace(match):
        if match["reason"]:
            return match[0]
        output = next(outputs)
        shown = f"\n```text\n{output.rstrip()}\n```\n" if output.strip() else ""
        rest = "" if match["shown"] is not None or not match["gap"] else match["gap"]
        return f"```sh\n{match['commands']}```\n{shown}{rest}"
    return BLOCK.sub(replace, text)


def differences(text, outputs):
    """A sentence for each block whose output is not what the page shows."""
    for match, output in zip(blocks(text), outputs, strict=True):
        shown = match["shown"] or ""
        if shape(shown) != shape(output):
            yield f"after {match['commands'].strip().splitlines()[-1]!r} the page shows\n{shown}and the program prints\n{output}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    outputs = run(arguments.page, arguments.program)
    text = arguments.page.read_text()
    if arguments.write:
        arguments.page.write_text(written(text, outputs))
        return 0
    found = list(differences(text, outputs))
    print("\n".join(found) or f"{arguments.page}: {len(outputs)} blocks, as they are printed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
