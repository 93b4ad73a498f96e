"""Fixtures of the tests that talk to a real S3 server, and to emulators of other clouds."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import emulators  # noqa: E402  pylint: disable=wrong-import-position
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
                "RESTIC_REPOSITORY": self.server.repository(name, url or self.url),
                **self.server.environment(self.url if url is None else url), **trust}

    def run_restic(self, name, *words):
        """Stock restic on the repository `name`; it knows neither proxy of faults nor STORAGE_EMULATOR_HOST."""
        trust = ["--cacert", self.authority.certificate] if self.authority else []
        return run(self.environment(name, self.server.url), "restic", "--no-cache", *trust, *words)


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
    return gateway.Authority(tmp_path_factory.mktemp("authority") / "own", *emulators.HOSTS)


@pytest.fixture(name="secure_server", scope="session")
def fixture_secure_server(tmp_path_factory, authority):
    with gateway.Gateway(tmp_path_factory.mktemp("s3-tls"), authority) as server:
        yield server


def _emulated(emulator, folder, authority):
    with emulator(folder, authority) as server:
        place = Place(server, getattr(server, "plain_url", server.url), authority=authority)
        place.run_restic("first", "init")
        yield place


@pytest.fixture(name="azure", scope="session")
def fixture_azure(tmp_path_factory, authority):
    yield from _emulated(emulators.Azurite, tmp_path_factory.mktemp("azure"), authority)


@pytest.fixture(name="google", scope="session")
def fixture_google(tmp_path_factory, authority):
    yield from _emulated(emulators.Google, tmp_path_factory.mktemp("google"), authority)


@pytest.fixture(name="place", params=["plain", "faulty", "tls", "azure", "google"])
def fixture_place(request):
    """One S3 server, plainly, through the proxy that fails a tenth of the requests, and over TLS; and the other clouds."""
    if request.param in ("azure", "google"):
        yield request.getfixturevalue(request.param)
        return
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
