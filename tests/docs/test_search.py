"""The site's own search, in a browser: each question of questions.tsv finds its page among the first results."""

import pathlib

import search

FILE = pathlib.Path(__file__).with_name("questions.tsv")
QUESTIONS_MIN, FIRST = 40, 3


def questions():
    """(what is typed, the page) of each line."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


def test_each_question_finds_its_page(reader, address):
    reader.open(f"{address}/index.html")
    missed = []
    for text, page in questions():
        found = search.search(reader, text)[:FIRST]
        if page.replace(".md", ".html") not in found:
            missed.append(f"{text!r} finds {found}, not {page}")
    assert not missed, "\n".join(missed)


def test_there_are_enough_questions_and_each_is_asked_once(site):
    asked = [text for text, _ in questions()]
    assert len(asked) >= QUESTIONS_MIN and len(set(asked)) == len(asked)
    assert [page for _, page in questions() if not (site / page.replace(".md", ".html")).is_file()] == []
