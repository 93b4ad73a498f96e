"""docs/troubleshooting.md: each entry has a title in plain words, a part of a message of the programs, and an anchor."""

import functools
import re

import pytest
from console import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
ENTRY = re.compile(r'^<a id="([a-z0-9-]+)"></a>\n### ([^`\n]+)\n\nMessage: `(.+)`\n\n((?:.+\n)+)\n\*\*Next\*\*: ', re.MULTILINE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ENTRIES_MIN = 40


@functools.cache
def messages():
    """All string literals of src/, one a line; those that the compiler joins are joined."""
    joined = (re.sub(r'"\s*\n\s*"', "", file.read_text()) for file in sorted((ROOT / "src").rglob("*.[ch]*")))
    return "\n".join(literal.replace('\\"', '"') for text in joined for literal in LITERAL.findall(text))


def test_the_page_has_an_anchor_a_cause_and_a_next_step_for_each_message():
    anchors, titles = ({entry[part] for entry in ENTRY.findall(PAGE)} for part in (0, 1))
    assert len(anchors) == len(titles) == PAGE.count("\nMessage: `") >= ENTRIES_MIN


@pytest.mark.parametrize("message", [message for _, _, message, _ in ENTRY.findall(PAGE)])
def test_a_heading_is_part_of_a_message(message):
    assert message in messages(), f"no message of src/ has {message!r}: change the page with the message"
