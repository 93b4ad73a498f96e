"""The site, built once, and a browser that reads it."""

import functools
import http.server
import pathlib
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "dev"), str(ROOT / "scripts" / "docs")]

import docs  # noqa: E402  pylint: disable=wrong-import-position


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
    """A page of a headless browser. It reads this checkout alone, so it may run as root without a sandbox; hosts do not resolve."""
    sys.path += map(str, docs.ensure_mkdocs().parent.glob("lib/python3*/site-packages"))
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=f"/usr/bin/{docs.BROWSER}", chromium_sandbox=False,
                                         args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]).new_page()
