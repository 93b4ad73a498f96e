#!/usr/bin/python3
"""Stands before an API server and shows one version of groupsnapshot.storage.k8s.io, or none.

    group_proxy.py --ca FILE --cert FILE --key FILE --port N --port-behind N --version v1|v1beta2|v1beta1|none

The other versions are missing from discovery, and what is asked below them is not found, as if no server served
them. All else passes as it is: who asks (by bearer token), watches, and connections that become something else.
Objects are what the API server makes of them: an owner reference keeps the version it was written with.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import select
import ssl
import threading

import processes

GROUP = "groupsnapshot.storage.k8s.io"
PORT = 6444
NO_VERSION = "none"
ALL_VERSIONS = ""
OF_ONE_HOP = ("connection", "content-length", "expect", "keep-alive", "transfer-encoding")
PIECE_BYTES = 64 << 10
REQUEST_SECONDS_MAX = 1800  # A watch may be quiet for long.


# --------------------------------------------------------------------------------------------------
# What is shown: pure functions of paths and documents.

def hidden_by_path(path, version):
    """Whether a request is below a version that is not shown, or at the group when none is."""
    if version == ALL_VERSIONS:
        return False
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[:2] != ["apis", GROUP]:
        return False
    return version == NO_VERSION if len(parts) == 2 else parts[2] != version


def is_discovery(path):
    """Whether the answer names the versions of the group."""
    return path.partition("?")[0].strip("/") in ("apis", f"apis/{GROUP}")


def show_one_version(document, version):
    """A discovery document (APIGroup, APIGroupList, APIGroupDiscoveryList) without the versions that are not shown."""
    if document.get("kind") == "APIGroup":
        return _group(document, version) or document
    for member in ("groups", "items"):
        if isinstance(document.get(member), list):
            shown = [_group(group, version) for group in document[member]]
            document = {**document, member: [group for group in shown if group]}
    return document


def _group(group, version):
    """One group of a list, however old the list's form; None when nothing of it is left."""
    if group.get("name", group.get("metadata", {}).get("name")) != GROUP:
        return group
    versions = [v for v in group.get("versions", []) if v.get("version") == version]
    if not versions:
        return None
    group = {**group, "versions": versions}
    if "preferredVersion" in group:
        group["preferredVersion"] = versions[0]
    return group


def json_only(accept):
    """What a client accepts, without the alternatives to JSON: a discovery document is to be read."""
    kinds = [kind.strip() for kind in accept.split(",")]
    readable = [kind for kind in kinds if "protobuf" not in kind and "cbor" not in kind]
    return ",".join(readable) or "application/json"


# --------------------------------------------------------------------------------------------------
# The server.

class Passage(http.server.BaseHTTPRequestHandler):
    """One connection of a client; each of its requests has a connection of its own behind."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def _pass(self):
        if not self.server.admits(self.command, self.path):
            self.close_connection = True
        elif hidden_by_path(self.path, self.server.version):
            self._read_body()
            self._answer(404, [("Content-Type", "text/plain; charset=utf-8")], b"404 page not found\n")
        elif self.headers.get("Upgrade"):
            self._become_a_tunnel()
        else:
            self._forward(self._read_body())

    def _read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while True:
            length = int(self.rfile.readline().partition(b";")[0], 16)
            body += self.rfile.read(length)
            self.rfile.readline()
            if length == 0:
                return body

    def path_behind(self):
        """What is asked for instead."""
        return self.path

    def _forward(self, body):
        discovers = self.server.version != ALL_VERSIONS and is_discovery(self.path)
        behind = self.server.connect_behind()
        with contextlib.closing(behind):
            behind.putrequest(self.command, self.path_behind(), skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if discovers and name.lower() == "accept":
                    value = json_only(value)
                if name.lower() not in OF_ONE_HOP and not (discovers and name.lower() == "accept-encoding"):
                    behind.putheader(name, value)
            if body or self.command in ("POST", "PUT", "PATCH"):
                behind.putheader("Content-Length", str(len(body)))
            behind.endheaders(body or None)
            answer = behind.getresponse()
            headers = [(n, v) for n, v in answer.getheaders() if n.lower() not in OF_ONE_HOP]
            if discovers and answer.status == 200:
                document = show_one_version(json.loads(answer.read()), self.server.version)
                self._answer(200, headers, json.dumps(document).encode())
            elif answer.length is not None or self.command == "HEAD":
                self._answer(answer.status, headers, answer.read())
            else:
                self._stream(answer, headers)

    def _answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, answer, headers):
        """Passes on each piece when it comes: an event of a watch is whole then."""
        self.send_response_only(answer.status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in self.pieces(answer):
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def pieces(self, answer):
        """The bytes of an answer without an end, each when it is to be passed on."""
        while piece := answer.read1(PIECE_BYTES):
            yield piece

    def _become_a_tunnel(self):
        """`kubectl exec` and its like: after the request both sides say what they want until one ends."""
        self.close_connection = True
        behind = self.server.connect_behind()
        with contextlib.closing(behind):
            head = [f"{self.command} {self.path} HTTP/1.1", *(f"{n}: {v}" for n, v in self.headers.items())]
            behind.sock.sendall("\r\n".join([*head, "", ""]).encode())
            _exchange(self.connection, behind.sock)

    do_DELETE = do_GET = do_HEAD = do_OPTIONS = do_PATCH = do_POST = do_PUT = _pass


def _exchange(one, other):
    """Gives each TLS connection what the other one says, until one ends. In one thread: TLS is not for two."""
    across = {one: other, other: one}
    while True:
        ready = [link for link in across if link.pending()] or select.select(list(across), [], [])[0]
        for link in ready:
            piece = link.recv(PIECE_BYTES)
            if not piece:
                return
            across[link].sendall(piece)


class Proxy(http.server.ThreadingHTTPServer):
    """Serves from construction on, once `serve_forever` runs. Clients that hang up are no news."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host, port, port_behind, version, ca, cert, key, passage=Passage):
        super().__init__((host, port), passage)
        self.version = version
        self._port_behind = port_behind
        self._server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_context.load_cert_chain(cert, key)
        self._client_context = ssl.create_default_context(cafile=ca)

    def admits(self, method, path):  # pylint: disable=unused-argument
        """Called with each request; where it says no, it is not forwarded, and the client no answer."""
        return True

    def finish_request(self, request, client_address):
        # In the thread of the connection: a client that is slow to greet keeps no other client waiting.
        with self._server_context.wrap_socket(request, server_side=True) as link:
            super().finish_request(link, client_address)

    def handle_error(self, request, client_address):
        pass

    def connect_behind(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self._port_behind, context=self._client_context,
                                                 timeout=REQUEST_SECONDS_MAX)
        connection.connect()
        return connection


class BedProxy(Proxy):
    """Shows all versions, in a bed's network, while the body of `with` runs."""

    def __init__(self, bed, passage=Passage):
        self._bed = bed
        pair = f"{bed.pki}/apiserver"
        with processes.inside(bed.name):
            super().__init__("127.0.0.1", 0, bed.client_port, ALL_VERSIONS, f"{bed.pki}/ca.crt", f"{pair}.crt", f"{pair}.key",
                             passage)
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        self._thread.join()

    def connect_behind(self):
        with processes.inside(self._bed.name):
            return super().connect_behind()

    def lead(self, config):
        """A copy of a kubeconfig that comes here."""
        led = config.with_suffix(f".{self.server_address[1]}")
        led.write_text(config.read_text().replace(f":{self._bed.client_port}", f":{self.server_address[1]}"))
        led.chmod(0o600)
        return led


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ca", "cert", "key", "version"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "port-behind"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    Proxy("0.0.0.0", given.port, given.port_behind, given.version, given.ca, given.cert, given.key).serve_forever()


if __name__ == "__main__":
    main()
