"""The site's own search, in a browser: each question of questions.tsv finds its page among the first results."""

import pathlib

FILE = pathlib.Path(__file__).with_name("questions.tsv")
QUESTIONS_MIN, FIRST = 40, 3
# The pages that the search box lists for a text, best first. It is emptied before, so that nothing is left of an earlier search.
SEARCH = """async text => {
  const box = document.querySelector('.md-search__input'), meta = document.querySelector('.md-search-result__meta');
  const links = () => [...document.querySelectorAll('.md-search-result__item > a:first-child')];
  const type = value => { box.focus(); box.value = value; box.dispatchEvent(new Event('keyup')); };
  const until = async holds => {
    for (const end = Date.now() + 60000; !holds(); await new Promise(requestAnimationFrame))
      if (Date.now() > end) throw new Error('the search does not end');
  };
  type('');
  await until(() => !/matching/.test(meta.textContent));
  type(text);
  await until(() => /No matching/.test(meta.textContent) || (/matching/.test(meta.textContent) && links().length));
  return links().map(link => new URL(link.href).pathname.split('/').slice(2).join('/'));
}"""


def questions():
    """(what is typed, the page) of each line."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


def test_each_question_finds_its_page(reader, address):
    reader.goto(f"{address}/index.html")
    missed = []
    for text, page in questions():
        found = reader.evaluate(SEARCH, text)[:FIRST]
        if page.replace(".md", ".html") not in found:
            missed.append(f"{text!r} finds {found}, not {page}")
    assert not missed, "\n".join(missed)


def test_there_are_enough_questions_and_each_is_asked_once(site):
    asked = [text for text, _ in questions()]
    assert len(asked) >= QUESTIONS_MIN and len(set(asked)) == len(asked)
    assert [page for _, page in questions() if not (site / page.replace(".md", ".html")).is_file()] == []
