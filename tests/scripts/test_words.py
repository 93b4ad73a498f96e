"""One word for one thing: what words.py must find, and what it must leave alone."""

import pytest
import words


def phrases(name, text):
    """(line, phrase) of each fault."""
    return [(int(line.split(":")[1]), line.split("`")[1]) for line in words.faults(name, text)]


@pytest.mark.parametrize("text,phrase", [
    ("// Whoever holds it writes.\n", "whoever"), ("nobody reads it", "nobody"), ("a snapshot of ours", "of ours"),
    ("it is not ours", "not ours"), ("it waits in vain", "in vain"), ("bytes behind the volume", "behind the volume"),
    ("the run begins anew", "anew"), ("until it comes to its end", "comes to its end"), ("the driver lets go of it", "lets go"),
    ("the snapshot is cut", "snapshot is cut"), ("the group is handed over", "handed over"),
    ("The lists that lie are refused.", "lists that lie")])
def test_a_phrase_is_found_in_prose(text, phrase):
    assert phrases("docs/a.md", text) == [(1, phrase)]


@pytest.mark.parametrize("text,phrase", [
    ("class VolumeTurn {", "volume turn"), ("TEST(A, WhatNobodyWroteStays) {", "nobody"), ("bool let_go = false;", "let go")])
def test_a_phrase_is_found_in_identifiers(text, phrase):
    assert (1, phrase) in phrases("src/csi/a.h", text)


@pytest.mark.parametrize("text", ["// Waits in\n// vain.\n", 'Print("waits in "\n      "vain");\n', "# in\n# vain\n"])
def test_a_phrase_is_found_across_a_line_break(text):
    assert phrases("src/csi/a.cc", text) == [(1, "in vain")]


def test_a_fault_says_where_what_and_what_instead():
    assert list(words.faults("README.md", "one\nhas patience\n")) == ["README.md:2: `patience`: say grace period, timeout; retry"]


@pytest.mark.parametrize("name,text", [
    ("docs/a.md", "It turns on the room and is judged by who wakes, follows or moves it."),
    ("src/k8s/a.cc", "// What may stand in a header line.\n"), ("docs/a.md", "there is no volume snapshot"),
    ("docs/cluster-objects.md", "`mover.csi-delta.io/handing-over-at`")])
def test_common_words_and_what_is_a_contract_are_left_alone(name, text):
    assert not list(words.faults(name, text))


def test_rules_and_exceptions_are_few_and_those_have_reasons_and_still_match():
    assert len(words.RULES) <= 12 and len(words.EXCEPTIONS) <= 30
    names = [str(path) for path in words.tidy.project_files(words.ROOT)]
    for files, _, reason in words.EXCEPTIONS:
        assert len(reason.split()) >= 3
        assert any(words.fnmatch.fnmatch(name, files) for name in names), f"no file is {files}"
