"""Fixtures of the tests that talk to a real S3 server."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import faulty_proxy  # noqa: E402  pylint: disable=wrong-import-position
import gateway  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = pathlib.Path(os.environ.get("CSI_DELTA_PROGRAM") or ROOT / "build/release/bin/csi-delta")
FAULTY_SHARE, FAULTY_SEED = 0.1, 20


class Place:
    """A bucket as one kind of client sees it: through which URL, with which further environment."""

    def __init__(self, server, url, proxy=None, authority=None):
        self.server, self.url, self.proxy, self.authority = server, url, proxy, authority

    def environment(self, name, url=None):
        """What a program needs to find and open the repository `name`."""
        trust = {"SSL_CERT_FILE": str(self.authority.certificate)} if self.authority else {}
        return {"PATH": os.environ["PATH"], "RESTIC_PASSWORD": "secret",
                "RESTIC_REPOSITORY": self.server.repository(name, url or self.url), **gateway.ENVIRONMENT, **trust}


def run(environment, *words, expected=0):
    """Runs a program to its end and returns it; the test fails if the exit code is another."""
    done = subprocess.run([str(word) for word in words], env=environment, check=False, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert done.returncode == expected, f"{words}: {done.returncode}: {done.stdout} {done.stderr}"
    return done


@pytest.fixture(name="server", scope="session")
def fixture_server(tmp_path_factory):
    with gateway.Gateway(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(name="authority", scope="session")
def fixture_authority(tmp_path_factory):
    return gateway.Authority(tmp_path_factory.mktemp("authority") / "own")


@pytest.fixture(name="secure_server", scope="session")
def fixture_secure_server(tmp_path_factory, authority):
    with gateway.Gateway(tmp_path_factory.mktemp("s3-tls"), authority) as server:
        yield server


@pytest.fixture(name="place", params=["plain", "faulty", "tls"])
def fixture_place(request):
    """The same server, plainly, through the proxy that fails a tenth of the requests, and over TLS."""
    if request.param == "tls":
        authority = request.getfixturevalue("authority")
        server = request.getfixturevalue("secure_server")
        yield Place(server, server.url, authority=authority)
        return
    server = request.getfixturevalue("server")
    if request.param == "plain":
        yield Place(server, server.url)
        return
    with faulty_proxy.FaultyProxy(server.port, FAULTY_SHARE, FAULTY_SEED) as proxy:
        yield Place(server, proxy.url, proxy=proxy)
        print(f"seed {FAULTY_SEED}: {proxy.requests} requests, {dict(proxy.faults)}")
