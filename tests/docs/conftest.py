"""The site, built once, and a browser that reads it."""

import pathlib
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "dev"), str(ROOT / "scripts" / "docs")]

import browser  # noqa: E402  pylint: disable=wrong-import-position
import docs  # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture(scope="session", name="site")
def fixture_site(tmp_path_factory):
    """The folder of the site's version, below one with nothing else."""
    return docs.build(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="session", name="address")
def fixture_address(site):
    """Where the folder is served, on this machine alone."""
    with docs.server(site.parent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{docs.LOOPBACK}:{server.server_port}/{site.name}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session", name="reader")
def fixture_reader(tmp_path_factory):
    """A headless browser."""
    with browser.launch(tmp_path_factory.mktemp("browser")) as reader:
        yield reader
