#!/usr/bin/python3
"""An S3 server whose packs are computed: a repository of millions of packs without a file for each.

    seeded_store.py --folder FOLDER --port PORT [--packs N --pack-bytes B] [--hollow]

Objects lie in FOLDER, as a folder repository has them; beside them there are N packs of B bytes below data/, whose ids
follow from their numbers as in generate_repository.cc, and whose bytes are zeros. They can be listed, read and deleted.
--hollow: of a pack that is put only the length is kept.
No signature is checked, and no request is logged. One bucket, path style: get, head, put, delete, ListObjectsV2.
"""

import argparse
import array
import bisect
import contextlib
import http.server
import os
import pathlib
import socketserver
import threading
import urllib.parse
import xml.sax.saxutils

MASK = (1 << 64) - 1
FIRST = 0x9E3779B97F4A7C15
FACTORS = (1, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
PAGE = 1000
PIECE = 1 << 20
DATED = "2020-01-01T00:00:00.000Z"


def key_of(first):
    """The key of the pack whose id begins with these 64 bits."""
    name = "".join(f"{first * factor & MASK:016x}" for factor in FACTORS)
    return f"data/{name[:2]}/{name}"


class Packs:
    """The packs that are computed, in order of their keys."""

    def __init__(self, count, pack_bytes):
        self.pack_bytes = pack_bytes
        self._firsts = array.array("Q", sorted((number + 1) * FIRST & MASK for number in range(count)))
        self._deleted = set()

    def _place(self, key):
        """Where a key is or would be."""
        digits = key.rpartition("/")[2][:16] if key.startswith("data/") else ""
        if len(digits) < 16:
            return 0 if key < "data/~" else len(self._firsts)
        return bisect.bisect_left(self._firsts, int(digits, 16))

    def __contains__(self, key):
        try:
            place = self._place(key)
        except ValueError:
            return False
        return place < len(self._firsts) and key_of(self._firsts[place]) == key and key not in self._deleted

    def delete(self, key):
        self._deleted.add(key)

    def after(self, prefix, marker):
        """Keys below a prefix that come after another key."""
        if not "data/".startswith(prefix) and not prefix.startswith("data/"):
            return
        begin = prefix if len(prefix) > 5 else "data/"
        digits = begin[5:7].ljust(16, "0") if len(begin) > 5 else "0" * 16
        place = bisect.bisect_left(self._firsts, int(digits, 16))
        if marker:
            place = max(place, self._place(marker))
        for at in range(place, len(self._firsts)):
            key = key_of(self._firsts[at])
            if not key.startswith(prefix):
                return
            if key > marker and key not in self._deleted:
                yield key


class Store:
    """What is served."""

    def __init__(self, folder, packs, hollow):
        self.folder, self.packs, self.hollow = pathlib.Path(folder), packs, hollow
        self.lock = threading.Lock()
        self.keys = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def path(self, key):
        return self.folder / key

    def put(self, key, data):
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.hollow and key.startswith("data/"):
            path.touch()
            os.truncate(path, len(data))
        else:
            path.write_bytes(data)
        with self.lock:
            place = bisect.bisect_left(self.keys, key)
            if self.keys[place:place + 1] != [key]:
                self.keys.insert(place, key)

    def delete(self, key):
        if key in self.packs:
            self.packs.delete(key)
            return
        with contextlib.suppress(OSError):
            self.path(key).unlink()
        with self.lock:
            place = bisect.bisect_left(self.keys, key)
            if self.keys[place:place + 1] == [key]:
                del self.keys[place]

    def page(self, prefix, marker, delimiter):
        """Up to PAGE keys with their sizes, the prefixes among them, and whether there are more."""
        with self.lock:
            place = max(bisect.bisect_left(self.keys, prefix), bisect.bisect_right(self.keys, marker))
            stored = []
            for at in range(place, len(self.keys)):
                if not self.keys[at].startswith(prefix) or (len(stored) > PAGE and not delimiter):
                    break
                stored.append(self.keys[at])
        computed = [] if delimiter else [key for key, _ in zip(self.packs.after(prefix, marker), range(PAGE + 1))]
        computed_set = set(computed)
        found, folders = [], set()
        for key in sorted(stored + computed):
            head, mark, _ = key[len(prefix):].partition("/")
            if delimiter and mark:
                folders.add(f"{prefix}{head}/")
            else:
                found.append((key, self.packs.pack_bytes if key in computed_set else self._size(key)))
        return found[:PAGE], sorted(folders), len(found) > PAGE

    def _size(self, key):
        with contextlib.suppress(OSError):
            return self.path(key).stat().st_size
        return 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store = None

    def log_message(self, *_):
        pass

    def _target(self):
        parts = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(parts.path).lstrip("/")
        return path.partition("/")[2], dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))

    def _answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self):
        self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _list(self, query):
        found, folders, more = self.store.page(query.get("prefix", ""), query.get("continuation-token", ""),
                                               query.get("delimiter", ""))
        escape = xml.sax.saxutils.escape
        body = [f"<ListBucketResult><IsTruncated>{'true' if more else 'false'}</IsTruncated>"]
        body += [f"<Contents><Key>{escape(key)}</Key><LastModified>{DATED}</LastModified><Size>{size}</Size></Contents>"
                 for key, size in found]
        body += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders]
        if more:
            body.append(f"<NextContinuationToken>{escape(found[-1][0])}</NextContinuationToken>")
        self._answer(200, "".join([*body, "</ListBucketResult>"]).encode(), [("Content-Type", "application/xml")])

    def do_GET(self):  # noqa: N802
        key, query = self._target()
        if not key:
            self._list(query)
            return
        computed = key in self.store.packs
        try:
            size = self.store.packs.pack_bytes if computed else self.store.path(key).stat().st_size
        except OSError:
            self._missing()
            return
        begin, end = 0, size
        asked = self.headers.get("Range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(size, int(last) + 1 if last else size)
            if begin >= size:
                self._answer(416, b"<Error><Code>InvalidRange</Code></Error>")
                return
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(end - begin))
        self.send_header("ETag", '"0"')
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if computed:
            for at in range(begin, end, PIECE):
                self.wfile.write(bytes(min(PIECE, end - at)))
            return
        with open(self.store.path(key), "rb") as file:
            file.seek(begin)
            for at in range(begin, end, PIECE):
                self.wfile.write(file.read(min(PIECE, end - at)))

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self):  # noqa: N802
        key, _ = self._target()
        length = int(self.headers.get("Content-Length", "0"))
        data = self.rfile.read(length)
        if len(data) < length:  # The client gave up, and may have put it again by now.
            self.close_connection = True
            return
        if self.headers.get("If-None-Match") == "*" and self.store.path(key).is_file():
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        self.store.put(key, data)
        self._answer(200, headers=[("ETag", '"0"')])

    def do_DELETE(self):  # noqa: N802
        self.store.delete(self._target()[0])
        self._answer(204)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--packs", type=int, default=0)
    parser.add_argument("--pack-bytes", type=int, default=0)
    parser.add_argument("--hollow", action="store_true")
    options = parser.parse_args()
    server = Server(("127.0.0.1", options.port), Handler)  # Who connects now waits for the packs to be sorted.
    Handler.store = Store(options.folder, Packs(options.packs, options.pack_bytes), options.hollow)
    server.serve_forever()


if __name__ == "__main__":
    main()
