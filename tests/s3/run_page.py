#!/usr/bin/python3
"""Runs the commands of a documentation page, and compares what they print with the page.

    run_page.py PAGE --program FILE [--write]

Each fence ```sh is run in one shell, in a folder of its own; a fence ```text that follows it at once is what it prints.
Fences below a comment `<!-- not run: REASON -->` are left out. Ids, times, sizes and counts may differ. --write puts the
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

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "docs"))
import commands  # noqa: E402  pylint: disable=wrong-import-position

END = "end-of-a-block-of-the-page"
HOST = "vm"  # Stands for the machine's name.
FIGURES = re.compile(r"\b[0-9a-f]{8,}\b|[0-9][0-9.:-]*( [KMG]?i?B\b)?")


def shape(output):
    """Output without what differs from run to run."""
    return re.sub(r"#( *#)*", "#", re.sub(r"[ -]{2,}", " ", FIGURES.sub("#", output))).strip()


def run(blocks, program):
    """What each block prints."""
    with tempfile.TemporaryDirectory() as folder:
        script = "".join(f"{block.text}\necho {END}\n" for block in blocks)
        done = subprocess.run(["bash", "-euc", script], cwd=folder, check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{program.resolve().parent}:{os.environ['PATH']}", "TMPDIR": folder})
        printed = done.stdout.replace(folder, "/tmp/try").replace(socket.gethostname(), HOST)
    if done.returncode != 0:
        sys.exit(f"a command ended with {done.returncode}:\n{printed[-2000:]}")
    return printed.split(f"{END}\n")[:-1]


def written(text, blocks, outputs):
    """The page with these outputs."""
    lines = text.splitlines(keepends=True)
    for block, output in reversed(list(zip(blocks, outputs, strict=True))):
        lines[block.end:block.shown_end or block.end] = [f"\n```text\n{output.rstrip()}\n```\n"] if output.strip() else []
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = arguments.page.read_text()
    blocks = [block for block in commands.blocks_of(arguments.page, text) if block.kind == commands.FENCED and not block.mark]
    outputs = run(blocks, arguments.program)
    if arguments.write:
        arguments.page.write_text(written(text, blocks, outputs))
        return 0
    wrong = [f"{block.where}: the page shows\n{block.shown}\nand the program prints\n{output}"
             for block, output in zip(blocks, outputs, strict=True) if shape(block.shown) != shape(output)]
    print("\n".join(wrong) or f"{arguments.page}: {len(outputs)} blocks, as they are printed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
