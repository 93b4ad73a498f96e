"""What a proxy does once it has accepted a CONNECT."""

import contextlib
import socket
import threading


def join(client, server):
    """Tells the client that the tunnel is there, then passes bytes both ways until both sides have ended."""
    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    back = threading.Thread(target=_pass, args=(server, client))
    back.start()
    _pass(client, server)
    back.join()


def _pass(source, target):
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
