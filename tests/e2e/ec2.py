"""As much of EC2 as Velero's AWS plugin needs to take a native snapshot of a volume."""

import contextlib
import http.server
import threading
import urllib.parse

import processes

PORT = 7071
URL = f"http://127.0.0.1:{PORT}"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        query = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        answer = self.server.answer(query["Action"][0], query["Id"][0])
        self.send_response(200 if answer else 400)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


class Ec2(http.server.ThreadingHTTPServer):
    """Remembers the volumes that snapshots were asked of, in order."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", PORT), _Handler)
        self.snapshot_of = []

    def answer(self, action, asked_of):
        """The one word that modules/cluster/ec2 takes for an answer; "" to a call that is not known here."""
        if action == "CreateSnapshot":
            self.snapshot_of.append(asked_of)
            return f"snap-{len(self.snapshot_of)}"
        return {"DescribeVolumes": "gp3", "DeleteSnapshot": "done"}.get(action, "")


@contextlib.contextmanager
def running(bed):
    """An Ec2 at URL inside the bed, for the body."""
    with processes.inside(bed.name):  # A socket belongs to the namespace it is made in.
        server = Ec2()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
