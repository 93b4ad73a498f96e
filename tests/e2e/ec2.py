"""As much of EC2 as Velero's AWS plugin needs to take a native snapshot of a volume."""

import contextlib
import http.server
import threading
import urllib.parse

import processes

PORT = 7071
URL = f"http://127.0.0.1:{PORT}"
_NAMESPACE = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        query = {key: values[0] for key, values in urllib.parse.parse_qs(body).items()}
        answer = self.server.answer(query["Action"], query)
        self.send_response(200 if answer else 400)
        self.end_headers()
        self.wfile.write(f"<{query['Action']}Response {_NAMESPACE}>{answer}"
                         f"</{query['Action']}Response>".encode())

    def log_message(self, *_):
        pass


class Ec2(http.server.ThreadingHTTPServer):
    """Remembers the volumes that snapshots were asked of, in order."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", PORT), _Handler)
        self.snapshot_of = []

    def answer(self, action, query):
        """What stands inside the answer to a call; "" to one that is not known here."""
        if action == "DescribeVolumes":
            return (f"<volumeSet><item><volumeId>{query['VolumeId.1']}</volumeId>"
                    "<volumeType>gp3</volumeType></item></volumeSet>")
        if action == "CreateSnapshot":
            self.snapshot_of.append(query["VolumeId"])
            return f"<snapshotId>snap-{len(self.snapshot_of)}</snapshotId>"
        return "<return>true</return>" if action == "DeleteSnapshot" else ""


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
