"""The bed's proxy that shows one version of the group snapshots' kinds."""

import contextlib
import http.client
import http.server
import json
import socket
import ssl
import sys
import threading

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "tests" / "e2e"))

import group_proxy  # noqa: E402
import pki  # noqa: E402

VERSIONS = [{"groupVersion": f"{group_proxy.GROUP}/{v}", "version": v} for v in ("v1", "v1beta2", "v1beta1")]
GROUP = {"kind": "APIGroup", "name": group_proxy.GROUP, "versions": VERSIONS, "preferredVersion": VERSIONS[0]}
OTHER = {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
         "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}
BELOW = f"/apis/{group_proxy.GROUP}"
EVENTS = [b'{"type":"ADDED"}\n', b'{"type":"MODIFIED"}\n']


@pytest.mark.parametrize("path, version, hidden", [
    (f"{BELOW}/v1/volumegroupsnapshots", "v1beta1", True),
    (f"{BELOW}/v1/namespaces/a/volumegroupsnapshots/b/status", "v1beta1", True),
    (f"{BELOW}/v1", "v1beta2", True),
    (f"{BELOW}/v1?timeout=32s", "v1beta2", True),
    (f"{BELOW}/v1beta1/volumegroupsnapshots?watch=true", "v1beta1", False),
    (BELOW, "v1beta1", False),
    (f"{BELOW}/", "none", True),
    (f"{BELOW}/v1", "none", True),
    (f"{BELOW}/v1", group_proxy.ALL_VERSIONS, False),
    ("/apis", "none", False),
    ("/apis/snapshot.storage.k8s.io/v1/volumesnapshots", "v1beta1", False),
    (f"/api/v1/namespaces/{group_proxy.GROUP}/v1", "v1beta1", False),
])
def test_paths_of_other_versions_are_hidden(path, version, hidden):
    assert group_proxy.hidden_by_path(path, version) is hidden


def test_group_has_the_one_version():
    shown = group_proxy.show_one_version(GROUP, "v1beta2")
    assert shown["versions"] == [VERSIONS[1]]
    assert shown["preferredVersion"] == VERSIONS[1]
    assert GROUP["preferredVersion"] == VERSIONS[0]


def test_list_of_groups_has_the_one_version_and_all_other_groups():
    shown = group_proxy.show_one_version({"kind": "APIGroupList", "groups": [OTHER, GROUP]}, "v1beta1")
    assert shown["groups"][0] == OTHER
    assert shown["groups"][1]["versions"] == [VERSIONS[2]]


def test_aggregated_list_has_the_one_version():
    item = {"metadata": {"name": group_proxy.GROUP}, "versions": [
        {"version": v, "resources": [{"resource": "volumegroupsnapshots"}]} for v in ("v1", "v1beta1")]}
    shown = group_proxy.show_one_version({"kind": "APIGroupDiscoveryList", "items": [item]}, "v1beta1")
    assert shown["items"] == [{**item, "versions": item["versions"][1:]}]


def test_group_without_a_version_is_not_there():
    shown = group_proxy.show_one_version({"kind": "APIGroupList", "groups": [GROUP, OTHER]}, "none")
    assert shown["groups"] == [OTHER]


@pytest.mark.parametrize("accept, want", [
    ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
     "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"),
    ("application/vnd.kubernetes.protobuf, application/json", "application/json"),
    ("application/vnd.kubernetes.protobuf", "application/json"),
    ("application/cbor,*/*", "*/*"),
])
def test_discovery_is_asked_for_in_json(accept, want):
    assert group_proxy.json_only(accept) == want


class Behind(http.server.BaseHTTPRequestHandler):
    """An API server for these tests. What it was asked is in `server.asked`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        if self.path.endswith("watch=true"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in EVENTS:
                self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
                self.server.go_on.wait(30)
            self.wfile.write(b"0\r\n\r\n")
        elif self.headers.get("Upgrade"):
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            self.wfile.write(self.rfile.read1(100).upper())
            self.close_connection = True
        elif self.path.startswith("/apis/missing"):
            self._answer(404, b'{"kind":"Status"}')
        else:
            self._answer(200, json.dumps({"kind": "APIGroupList", "groups": [GROUP]}).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        self._answer(201, body)

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki") / "keys"
    pki.make_pki(folder)
    return folder


@contextlib.contextmanager
def running(server):
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def behind(keys):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Behind)
    server.asked, server.go_on = [], threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "apiserver.crt", keys / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server):
        yield server
        server.go_on.set()


@pytest.fixture
def client(behind, keys):
    proxy = group_proxy.Proxy("127.0.0.1", 0, behind.server_address[1], "v1beta1", keys / "ca.crt",
                              keys / "apiserver.crt", keys / "apiserver.key")
    with running(proxy):
        connection = http.client.HTTPSConnection("127.0.0.1", proxy.server_address[1], timeout=30,
                                                 context=ssl.create_default_context(cafile=keys / "ca.crt"))
        with contextlib.closing(connection):
            yield connection


def ask(client, method, path, body=None, headers=None):
    client.request(method, path, body=body, headers=headers or {})
    answer = client.getresponse()
    return answer.status, answer.read()


def test_discovery_is_filtered_on_its_way(client, behind):
    status, body = ask(client, "GET", "/apis?timeout=32s", headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert status == 200
    assert json.loads(body)["groups"][0]["versions"] == [VERSIONS[2]]
    assert behind.asked[0][2]["Accept"] == "application/json"


def test_hidden_versions_are_not_found_and_never_asked_for(client, behind):
    assert ask(client, "GET", f"{BELOW}/v1/volumegroupsnapshots") == (404, b"404 page not found\n")
    assert ask(client, "POST", f"{BELOW}/v1/namespaces/a/volumegroupsnapshots", b"{}")[0] == 404
    assert behind.asked == []


def test_all_else_passes_with_its_token_and_its_body(client, behind):
    headers = {"Authorization": "Bearer t", "Content-Type": "application/json"}
    assert ask(client, "POST", f"{BELOW}/v1beta1/namespaces/a/volumegroupsnapshots", b'{"a":1}',
               headers) == (201, b'{"a":1}')
    assert ask(client, "GET", "/apis/missing.io/v1") == (404, b'{"kind":"Status"}')
    assert behind.asked[0][2]["Authorization"] == "Bearer t"
    assert [asked[1] for asked in behind.asked] == [f"{BELOW}/v1beta1/namespaces/a/volumegroupsnapshots",
                                                    "/apis/missing.io/v1"]


def test_events_of_a_watch_come_one_by_one(client, behind):
    client.request("GET", f"{BELOW}/v1beta1/volumegroupsnapshots?watch=true")
    answer = client.getresponse()
    assert answer.readline() == EVENTS[0]  # The next one is not written yet.
    behind.go_on.set()
    assert answer.readline() == EVENTS[1]
    assert answer.readline() == b""


def test_connection_can_become_something_else(client):
    client.connect()
    client.sock.sendall(b"GET /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: x\r\n"
                        b"Connection: Upgrade\r\nUpgrade: echo\r\n\r\n")
    told = b""
    while b"\r\n\r\n" not in told:
        told += client.sock.recv(1000)
    assert told.startswith(b"HTTP/1.1 101 ")
    client.sock.sendall(b"hello")
    assert client.sock.recv(100) == b"HELLO"
    with contextlib.suppress(OSError, socket.timeout):
        assert client.sock.recv(100) == b""
