"""The site, built once, and a browser that reads it."""

import functools
import http.server
import pathlib
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "dev"), str(ROOT / "scripts" / "docs"), str(ROOT / "docs")]

import docs  # noqa: E402  pylint: disable=wrong-import-position
import pictures  # noqa: E402  pylint: disable=wrong-import-position


PAGE_SECONDS_MAX = 300  # Other work may stop everything for minutes.


@pytest.fixture(scope="session", name="site")
def fixture_site(tmp_path_factory):
    """The folder of the site's version, below one with nothing else."""
    return docs.build(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="session", name="address")
def fixture_address(site):
    """Where the folder is served, on this machine alone."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{site.name}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session", name="reader")
def fixture_reader():
    """A page of a headless browser."""
    with pictures.browser() as browser:
        page = browser.new_page()
        page.set_default_timeout(PAGE_SECONDS_MAX * 1000)
        yield page
