#!/usr/bin/python3
"""Renews the blocks of docs/cli.md that hold what --help prints.

    cli_document.py PROGRAM

The block of the heading "# Verbs" is the program's own help, that of "## VERB" the verb's without the flags
of all verbs. A unit test compares them, so run this after a flag or a sentence of a help text was changed.
"""

import pathlib
import re
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "cli.md"
_BLOCK = re.compile(r"^(?P<head>#{1,2} (?P<verb>.+)\n\n```text\n)(?:.*\n)*?(?P<tail>```\n)", re.MULTILINE)


def help_text(program, verb):
    """What the program prints for a verb, or of itself."""
    words = [] if verb == "Verbs" else verb.split()
    text = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout
    return text.partition("\nFlags of ")[0] if words else text


def renew(text, program):
    """The document's text with new blocks."""
    return _BLOCK.sub(lambda match: match["head"] + help_text(program, match["verb"]) + match["tail"], text)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(renew(text, arguments[0]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
