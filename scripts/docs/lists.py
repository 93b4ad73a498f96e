"""Markdown lists as GitHub allows them, in the form that Python-Markdown needs: a blank line before, nested by four columns each."""

import re

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_MARKER = re.compile(r"^( *)([-*+]|\d{1,9}[.)])( +)(?=\S)")
_BLOCK = re.compile(r"^\s*(#{1,6} |[-*_]{3,}\s*$|\||>|<)")


class _Lists:
    """Gives lists the form that Python-Markdown needs: a blank line before, nested by four columns each."""

    def __init__(self):
        self._columns = []  # Where the text of each open item begins, in the source.
        self._before = ""  # The last line, as it is written.

    def _base(self):
        return self._columns[-1] if self._columns else 0

    def _close(self, column):
        while self._columns and column < self._columns[-1]:
            self._columns.pop()

    def _shift(self, line):
        column = len(line) - len(line.lstrip(" "))
        return " " * (4 * len(self._columns) + max(column - self._base(), 0)) + line.lstrip(" ")

    def fenced(self, line):
        """A line of a fenced block, which belongs to the item that its first line belongs to."""
        self._before = line
        return [self._shift(line)] if line.strip() else [""]

    def fence(self, line):
        self._close(len(line) - len(line.lstrip(" ")))
        return self.fenced(line)

    def line(self, line):
        """The lines that stand for a line of the source."""
        before, self._before = self._before, line
        if not line.strip():
            return [""]
        column, marker = len(line) - len(line.lstrip(" ")), _MARKER.match(line)
        if marker and not before.strip() and column - self._base() > 3 and not self._columns:
            marker = None  # Indented code.
        if marker and before.strip() and not self._columns and marker[2][0].isdigit() and marker[2][:-1] != "1":
            marker = None  # A number at the beginning of a line of prose.
        if not before.strip() or marker or _BLOCK.match(line):
            self._close(column)
        if not marker or column - self._base() > 3:
            return [self._shift(line)]
        is_first = before.strip() and not _MARKER.match(before) and not self._columns and not before.startswith(" ")
        lead = " " * (4 * len(self._columns))
        self._columns.append(len(marker[0]))
        return [*([""] if is_first else []), f"{lead}{marker[2]} {line[len(marker[0]):]}"]

    @staticmethod
    def _was_prose(before):
        return not before.startswith(" ")


def for_python_markdown(text, rewrite=lambda line: line):
    """The text with its lists in that form. `rewrite` gets each line that is not in a fenced block, and returns what stands for it."""
    written, lists, fence = [], _Lists(), None
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            written += lists.fenced(line)
            if found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
        elif found:
            fence = found[1]
            written += lists.fence(line)
        else:
            written += lists.line(rewrite(line))
    return "\n".join(written) + "\n"
