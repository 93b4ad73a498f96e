"""A proxy before an S3 server that fails a share of the requests, in the ways that networks and servers have.

A client talks to it as if it were the server; it keeps the Host header, so that signatures stay right. Which
request fails, and how, is drawn from a seed in the order in which requests come.
"""

import collections
import contextlib
import random
import socket
import struct
import threading
import time

HEAD_BYTES_MAX = 64 << 10
PIECE_BYTES = 64 << 10
DELAY_SECONDS = 0.3
SILENCE_SECONDS_MAX = 60  # A connection on which nothing moves for so long is closed.
ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>drawn by the proxy</Message></Error>'


class _Gone(Exception):
    """One side has closed the connection."""


class _Reset(Exception):
    """The connection is to be reset here."""


class _Stream:
    """One side's bytes, buffered, so that a head can be told from what follows it."""

    def __init__(self, peer):
        self.peer = peer
        self._buffer = b""

    def read_head(self):
        """Everything up to the empty line. _Gone when the other side closes before."""
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def pieces(self, length_bytes):
        """So many bytes of a body, piece by piece."""
        while length_bytes > 0:
            if not self._buffer:
                self._more()
            piece, self._buffer = self._buffer[:length_bytes], self._buffer[length_bytes:]
            length_bytes -= len(piece)
            yield piece

    def _more(self):
        piece = self.peer.recv(PIECE_BYTES)
        if not piece or len(self._buffer) > HEAD_BYTES_MAX:
            raise _Gone
        self._buffer += piece


def _fields(head):
    """The fields of a head, names in lower case."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


def _reset(peer):
    """Closes a connection so that the other side sees it reset."""
    with contextlib.suppress(OSError):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()


def _is_body_less(method, answer_head):
    status = int(answer_head.split(b" ", 2)[1])
    return method == "HEAD" or status in (204, 304) or status < 200


class FaultyProxy:
    """The running proxy: `with FaultyProxy(port, share=0.1, seed=7) as proxy: ... proxy.url`."""

    FAULTS = ("internal-error", "slow-down", "reset-in-request", "reset-in-answer", "answer-lost", "delay")

    def __init__(self, server_port, share, seed):
        self._server_port = server_port
        self._share = share
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._open = set()
        self._threads = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests = 0
        self.faults = collections.Counter()

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for peer in self._open:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _draw(self):
        """The fault of the next request, or None."""
        with self._lock:
            self.requests += 1
            if self._random.random() >= self._share:
                return None
            fault = self._random.choice(self.FAULTS)
            self.faults[fault] += 1
            return fault

    def _serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self._server_port))
        except OSError:
            _reset(client)
            return
        with self._lock:
            self._open |= {client, server}
        for peer in (client, server):
            peer.settimeout(SILENCE_SECONDS_MAX)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            streams = _Stream(client), _Stream(server)
            while self._exchange(*streams):
                pass
        except _Reset:
            _reset(client)
        except (_Gone, OSError):
            pass
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _exchange(self, client, server):
        """One request and its answer. False: the connection ends here."""
        head = client.read_head()
        fields, method = _fields(head), head.split(b" ", 1)[0].decode()
        length_bytes = int(fields.get("content-length", 0))
        fault = self._draw()
        if fault == "delay":
            time.sleep(DELAY_SECONDS)
        if fault in ("internal-error", "slow-down"):
            self._refuse(client, length_bytes, method, fault)
            return True
        if fault == "reset-in-request":
            # Half of the body arrives here, and none of it there.
            for _ in client.pieces(length_bytes // 2):
                pass
            raise _Reset
        if fields.get("expect", "").lower() == "100-continue":
            client.peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:"))
        server.peer.sendall(head)
        for piece in client.pieces(length_bytes):
            server.peer.sendall(piece)
        return self._pass_answer(client, server, method, fault)

    @staticmethod
    def _refuse(client, length_bytes, method, fault):
        for _ in client.pieces(length_bytes):
            pass
        code, status = {"internal-error": ("InternalError", "500 Internal Server Error"),
                        "slow-down": ("SlowDown", "503 Slow Down")}[fault]
        body = ERROR.format(code=code).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
        client.peer.sendall(head.encode() + (b"" if method == "HEAD" else body))

    @staticmethod
    def _pass_answer(client, server, method, fault):
        head = server.read_head()
        fields = _fields(head)
        if fault == "answer-lost":  # The server has done it, and the client does not know.
            raise _Reset
        length_bytes = 0 if _is_body_less(method, head) else int(fields["content-length"])
        if fault == "reset-in-answer":
            client.peer.sendall(head[: len(head) // 2] if length_bytes == 0 else head)
            for piece in server.pieces(length_bytes // 2):
                client.peer.sendall(piece)
            raise _Reset
        client.peer.sendall(head)
        for piece in server.pieces(length_bytes):
            client.peer.sendall(piece)
        return fields.get("connection", "").lower() != "close"
