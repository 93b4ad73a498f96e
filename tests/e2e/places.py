"""Buckets of a test's own: an S3 server in a bed's network, a gate before it that refuses what the test says, and
the BackupStorageLocation that leads there."""

import base64
import contextlib
import http.client
import http.server
import socket
import socketserver
import subprocess
import threading
import time

import components
import objects
import processes
import tunnel

BUCKET = "bucket"
READY_SECONDS_MAX = 60
AVAILABLE_SECONDS_MAX = 120
REFUSAL = "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>refused by the test</Message></Error>"
OF_ONE_HOP = ("connection", "content-length", "expect", "keep-alive", "transfer-encoding")


def free_port(bed):
    with processes.inside(bed.name):
        probe = socket.socket()
    with probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


def shared_file(keys):
    """Credentials for S3: a pair of access key and secret key."""
    return f"[default]\naws_access_key_id={keys[0]}\naws_secret_access_key={keys[1]}\n"


def make_location(bed, name, provider, bucket, config, credentials, ca_pem=""):
    """A BackupStorageLocation, and the Secret with its credentials, of the same name."""
    metadata = {"name": name, "namespace": bed.namespace}
    bed.api.create("secrets", {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata,
                               "data": {"cloud": _encoded(credentials)}})
    bed.api.create("backupstoragelocations", {
        "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": metadata,
        "spec": {"provider": provider, "objectStorage": {"bucket": bucket, **({"caCert": _encoded(ca_pem)} if ca_pem else {})},
                 "credential": {"name": name, "key": "cloud"}, "config": config}})


def remove_location(bed, name):
    """Deletes what make_location() made."""
    for plural in ("backupstoragelocations", "secrets"):
        bed.api.delete(plural, name, bed.namespace)


def await_available(bed, name):
    """Until Velero has looked at a location and found it in order."""
    def status():
        return bed.api.get("backupstoragelocations", name, bed.namespace).get("status", {})
    bed.wait_for(lambda: status().get("phase") == "Available", AVAILABLE_SECONDS_MAX,
                 lambda: f"location {name} available: {status()}")


class Server:
    """versitygw with one bucket. With `tls`, the pair that pki.make_server made under this name."""

    def __init__(self, bed, folder, keys, tls=None):
        self._bed, self._keys, self._tls = bed, keys, tls
        self.folder = folder / BUCKET
        self.folder.mkdir(parents=True)
        self.port = free_port(bed)
        self.url = f"{'https' if tls else 'http'}://{bed.host}:{self.port}"
        self._log = folder.with_suffix(".log")
        self._process = None
        self.start()

    def start(self):
        pair = [f"--cert={self._bed.pki}/{self._tls}.crt", f"--key={self._bed.pki}/{self._tls}.key"] if self._tls else []
        command = [self._bed.program("s3", "versitygw"), "--access", self._keys[0], "--secret", self._keys[1],
                   "--region", objects.REGION, "--port", f":{self.port}", "--quiet", *pair, "posix",
                   self.folder.parent]
        with self._log.open("ab") as log:
            # pylint: disable-next=consider-using-with
            self._process = subprocess.Popen(self._bed.inside(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        processes.wait_until(lambda: components.port_open(self._bed, self.port), READY_SECONDS_MAX,
                             f"an S3 server: {self._log.read_text()}")

    def stop(self):
        self._process.kill()
        self._process.wait()

    def take_only(self, keys):
        """From now on these are the keys, and no others."""
        self.stop()
        self._keys = keys
        self.start()


class _Passage(http.server.BaseHTTPRequestHandler):
    """One connection through a gate."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _pass(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        refusal = self.server.gate.judge(self.command, self.path)
        if refusal:
            status, code = refusal
            self._answer(status, [("Content-Type", "application/xml")], REFUSAL.format(code=code).encode())
        else:
            self._forward(body)

    def _forward(self, body):
        gate = self.server.gate
        inner = http.client.HTTPConnection("127.0.0.1", gate.port_behind, timeout=60)
        with processes.inside(gate.bed.name):
            inner.connect()
        with contextlib.closing(inner):
            inner.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in OF_ONE_HOP:
                    inner.putheader(name, value)
            inner.putheader("Content-Length", str(len(body)))
            inner.endheaders(body)
            answer = inner.getresponse()
            told = answer.read()
            self._answer(answer.status, answer.getheaders(), told, answer.getheader("Content-Length"))

    def _answer(self, status, headers, body, told_bytes=None):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in OF_ONE_HOP:
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", told_bytes if is_head and told_bytes else str(len(body)))
        self.end_headers()
        if not is_head:
            self.wfile.write(body)

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _pass


class _GateServer(http.server.ThreadingHTTPServer):
    """Clients that hang up are no news."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Gate:
    """Stands before an S3 server of a bed. `rule(method, path)` answers (status, code) to refuse a request, or None.

    Host is passed on as it came, so that signatures stay right.
    """

    def __init__(self, bed, port_behind):
        self.bed, self.port_behind = bed, port_behind
        self.rule = lambda method, path: None
        self.refused = []
        with processes.inside(bed.name):
            self._server = _GateServer((bed.host, 0), _Passage)
        self._server.gate = self
        self.url = f"http://{bed.host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def judge(self, method, path):
        refusal = self.rule(method, path)
        if refusal:
            self.refused.append((method, path))
        return refusal

    def refuse(self, status, code, *, method="PUT", part="/data/", seconds=None):
        """Refuses requests of the data mover from the first such one on, for so long, or until `open` is called."""
        begun = []

        def rule(asked, path):
            if "/plugins/csi-delta/" not in path or (not begun and (asked != method or part not in path)):
                return None
            begun.append(time.monotonic())
            return (status, code) if seconds is None or time.monotonic() < begun[0] + seconds else None
        self.rule = rule

    def open(self):
        self.rule = lambda method, path: None

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Tunnel(socketserver.BaseRequestHandler):
    """One CONNECT to the one host that the proxy knows, which no name service does."""

    def handle(self):
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += self.request.recv(4096) or b"\r\n\r\n"
        proxy = self.server.proxy
        method, target, *_ = asked.decode().split()
        proxy.asked.append(target)
        if method != "CONNECT" or target != f"{proxy.name}:{proxy.port_behind}":
            self.request.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        with processes.inside(proxy.bed.name):
            inner = socket.create_connection(("127.0.0.1", proxy.port_behind))
        with inner:
            tunnel.join(self.request, inner)


class Proxy:
    """An HTTP proxy in a bed's network: the only way to an S3 server, whose name it alone knows."""

    def __init__(self, bed, name, port_behind):
        self.bed, self.name, self.port_behind = bed, name, port_behind
        self.asked = []  # HOST:PORT of each tunnel
        with processes.inside(bed.name):
            self._server = socketserver.ThreadingTCPServer((bed.host, 0), _Tunnel)
        self._server.daemon_threads, self._server.proxy = True, self
        self.url = f"http://{bed.host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Place:
    """A location of a bed with a bucket of its own. `gate` is None with TLS, whose certificate is for `host`."""

    def __init__(self, bed, name, tls=None, host=None):
        self.bed, self.name = bed, name
        self.server = Server(bed, bed.state / name, ("firstaccess", "firstsecret"), tls)
        if host:
            self.server.url = f"https://{host}:{self.server.port}"
        self.gate = None if tls else Gate(bed, self.server.port)
        self.folder = bed.buckets[name] = self.server.folder
        make_location(bed, name, "aws", BUCKET, {"region": objects.REGION, "s3ForcePathStyle": "true",
                                                 "s3Url": self.server.url if tls else self.gate.url},
                      shared_file(("firstaccess", "firstsecret")), (bed.pki / "ca.crt").read_text() if tls else "")

    def await_available(self):
        await_available(self.bed, self.name)

    def hand_out(self, keys):
        """What the location's Secret says from now on."""
        self.bed.api.patch("secrets", self.name, {"data": {"cloud": _encoded(shared_file(keys))}}, self.bed.namespace)

    def objects(self):
        """All that lies in the bucket."""
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())

    def remove(self):
        del self.bed.buckets[self.name]
        remove_location(self.bed, self.name)
        if self.gate:
            self.gate.close()
        self.server.stop()
