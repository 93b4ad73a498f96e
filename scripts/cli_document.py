#!/usr/bin/python3
"""Renews the blocks of docs/cli.md that hold what --help prints.

    cli_document.py PROGRAM

The block of the heading "# Verbs" is "help --all", that of "## VERB" the verb's without the flags
of all verbs. A unit test compares them, so run this after a flag or a sentence of a help text was changed.
"""

import pathlib
import re
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "cli.md"
_BLOCK = re.compile(r"^(?P<head>#{1,2} (?P<verb>.+)\n\n```text\n)(?:.*\n)*?(?P<tail>```\n)", re.MULTILINE)


def renewed(block):
    """A block with what the program prints now for its verb, or of itself."""
    of_all = block["verb"] == "Verbs"
    words = ["help", "--all"] if of_all else [*block["verb"].split(), "--help"]
    text = subprocess.run([sys.argv[1], *words], check=True, capture_output=True, text=True).stdout
    return block["head"] + (text if of_all else text.partition("\nFlags of ")[0]) + block["tail"]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    DOCUMENT.write_text(_BLOCK.sub(renewed, DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
