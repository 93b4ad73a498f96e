"""An S3 server on loopback: versitygw, with its buckets as folders.

    with gateway.Gateway(folder) as server:
        subprocess.run([...], env={**os.environ, **gateway.ENVIRONMENT,
                                   "RESTIC_REPOSITORY": server.repository("name")})

The program is a product of the test bed (tests/e2e/build.py), built by the first who asks. The server ends with
the process that started it, even when that is killed.
"""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUCKET = "bucket"
REGION = "eu-test-1"
ACCESS_KEY, SECRET_KEY = "AKIDGATEWAY", "secret/of+the=gateway"
READY_SECONDS_MAX = 120  # Node.js beside compilers takes its time; a program that ended is seen at once.
POLL_SECONDS = 0.02
PR_SET_PDEATHSIG = 1

# What a client needs to be let in, and to look nowhere else for keys.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION,
               "AWS_DEFAULT_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"}

_libc = ctypes.CDLL(None)


def program():
    """The path of versitygw; built if need be."""
    product = subprocess.run([sys.executable, ROOT / "tests" / "e2e" / "build.py", "s3"], check=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout.strip()
    return pathlib.Path(product) / "bin" / "versitygw"


def free_port():
    """A port of loopback without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_with_parent():
    """Run in a child: it gets SIGKILL when the thread that started it is gone."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority that is not trusted, with one certificate for loopback and these names. Files in a folder."""

    def __init__(self, folder, *names):
        self.certificate = folder / "ca.crt"
        self.server_certificate, self.server_key = folder / "server.crt", folder / "server.key"
        folder.mkdir()
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7")
        _openssl("req", "-x509", *key, "-keyout", folder / "ca.key", "-out", self.certificate, "-subj", "/CN=test-ca",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature")
        _openssl("req", "-x509", *key, "-keyout", self.server_key, "-out", self.server_certificate,
                 "-subj", "/CN=server", "-CA", self.certificate, "-CAkey", folder / "ca.key",
                 "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth",
                 "-addext", ",".join(["subjectAltName=DNS:localhost", "IP:127.0.0.1", *(f"DNS:{name}" for name in names)]))


class Server:
    """A program that listens on a port of loopback. It ends with the process that started it, even when that is killed."""

    def __init__(self, folder):
        self.log = pathlib.Path(folder) / "server.log"
        self.port = free_port()
        self._process = None

    def _start(self, command, environment=None):
        """Runs the program; returns when it listens."""
        with self.log.open("ab") as log:
            # pylint: disable-next=consider-using-with,subprocess-popen-preexec-fn
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                             cwd=self.log.parent, preexec_fn=end_with_parent)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not start: {self.log.read_text()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(POLL_SECONDS)

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()


class Gateway(Server):
    """The running S3 server. `folder` is made if it is not there, and stays; with `locks` the bucket has object locks."""

    def __init__(self, folder, authority=None, locks=False):
        super().__init__(folder)
        self.bucket_folder = pathlib.Path(folder) / "buckets" / BUCKET
        self.url = f"{'https' if authority else 'http'}://127.0.0.1:{self.port}"
        self._authority = authority
        self.versions = pathlib.Path(folder) / "versions" if locks else None

    def repository(self, name, url=None):
        """The location of a repository in the bucket, as restic writes it."""
        return f"s3:{url or self.url}/{BUCKET}/{name}"

    def environment(self, _=None):
        """What lets a client in."""
        return ENVIRONMENT

    def __enter__(self):
        self.bucket_folder.mkdir(parents=True, exist_ok=True)
        tls = [f"--cert={self._authority.server_certificate}",
               f"--key={self._authority.server_key}"] if self._authority else []
        command = [program(), "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION,
                   "--port", f"127.0.0.1:{self.port}", "--quiet", *tls, "posix", *self._make_locks(),
                   self.bucket_folder.parent]
        self._start(command)
        return self

    def _make_locks(self):
        """What CreateBucket leaves when it is asked for object locks; returns words of the command line."""
        if self.versions is None:
            return []
        self.versions.mkdir(exist_ok=True)
        os.setxattr(self.bucket_folder, "user.versioning", b"\x01")
        os.setxattr(self.bucket_folder, "user.bucket-lock",
                    json.dumps({"Enabled": True, "CreatedAt": "2026-01-01T00:00:00Z"}).encode())
        return ["--versioning-dir", self.versions]
