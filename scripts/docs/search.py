"""The search box of the site, as a reader uses it in a browser."""

# The pages that are listed, once the search has ended (or is empty: of an earlier one nothing is left).
_STATE = """new Promise(resolve => {
  const result = document.querySelector('.md-search-result');
  const meta = result.querySelector('.md-search-result__meta');
  const watcher = new MutationObserver(look);
  function look() {
    const has = / matching /.test(` ${meta.textContent} `);
    const pages = [...result.querySelectorAll('.md-search-result__item')].map(item => item.querySelector('a'));
    if (has !== %s || (has && !/^\\s*No /.test(meta.textContent) && !pages.length)) return;
    watcher.disconnect();
    resolve(pages.map(page => new URL(page.href).pathname.split('/').slice(2).join('/')));
  }
  watcher.observe(result, {childList: true, subtree: true, characterData: true});
  look();
})"""


def search(reader, text):
    """The pages that the search box of the open page lists, best first."""
    reader.evaluate("(box => { box.focus(); box.value = ''; box.dispatchEvent(new Event('keyup')); })"
                    "(document.querySelector('.md-search__input'))")
    reader.evaluate(_STATE % "false")
    reader.call("Input.insertText", text=text)
    reader.evaluate("document.querySelector('.md-search__input').dispatchEvent(new Event('keyup'))")
    return reader.evaluate(_STATE % "true")
