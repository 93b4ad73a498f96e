"""Very many objects in a bed's API server at once: copies of real ones, written into its etcd as the API server stores them."""

import base64
import contextlib
import http.client
import json
import uuid

import processes

ETCD_PORT = 2379
PUTS_MAX, DELETED_MAX = 100, 1000  # Of one transaction.
SEEN_SECONDS_MAX = 300
_SNAPSHOTS, _CONTENTS = (f"/registry/snapshot.storage.k8s.io/{plural}/" for plural in ("volumesnapshots", "volumesnapshotcontents"))
CONTROLLERS = ("csi-snapshotter", "snapshot-controller")


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """The key-value store below a bed's API server, which sees what is written here as it sees its own writes."""

    def __init__(self, bed):
        with processes.inside(bed.name):
            self._connection = http.client.HTTPConnection("127.0.0.1", ETCD_PORT, timeout=60)
            self._connection.connect()

    def _ask(self, what, body):
        self._connection.request("POST", f"/v3/kv/{what}", json.dumps(body))
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return json.loads(text)

    def get(self, key):
        value, = self._ask("range", {"key": _encoded(key)})["kvs"]
        return base64.b64decode(value["value"]).decode()

    def put(self, pairs, at_once=PUTS_MAX):
        """What is put at once has one revision. A watch that breaks goes on after the revision of the last object that it
        brought, and never brings the others: what is watched is put one at a time."""
        pairs = list(pairs)
        for first in range(0, len(pairs), at_once):
            self._ask("txn", {"success": [{"requestPut": {"key": _encoded(key), "value": _encoded(value)}}
                                          for key, value in pairs[first:first + at_once]]})

    def delete_range(self, first, end):
        """In pieces: of thousands at once a busy machine answers that it took too long."""
        part = {"key": _encoded(first), "range_end": _encoded(end), "limit": DELETED_MAX, "keys_only": True}
        while keys := self._ask("range", part).get("kvs"):
            behind = base64.b64encode(base64.b64decode(keys[-1]["key"]) + b"\0").decode()
            self._ask("deleterange", {"key": part["key"], "range_end": behind})


def _copy(text, replaced):
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def copies(bed, name, namespace, snapshots, others):
    """While the body runs there are so many copies of a VolumeSnapshot and its content in the namespace, named many-N and
    many-content-N, and so many other contents, each of a VolumeSnapshot that is not there. No controller looks at them."""
    snapshot = bed.api.get("volumesnapshots", name, namespace)
    content = snapshot["status"]["boundVolumeSnapshotContentName"]
    uid = snapshot["metadata"]["uid"]
    content_uid = bed.api.get("volumesnapshotcontents", content)["metadata"]["uid"]
    etcd = Etcd(bed)
    of_snapshot, of_content = etcd.get(f"{_SNAPSHOTS}{namespace}/{name}"), etcd.get(_CONTENTS + content)

    def pairs():
        for number in range(snapshots + others):
            # The content's name first: it is made of the VolumeSnapshot's uid.
            replaced = {content: f"many-content-{number:06}", uid: str(uuid.uuid4()), content_uid: str(uuid.uuid4()),
                        f'"{name}"': f'"many-{number:06}"'}
            yield f"{_CONTENTS}many-content-{number:06}", _copy(of_content, replaced)
            if number < snapshots:
                yield f"{_SNAPSHOTS}{namespace}/many-{number:06}", _copy(of_snapshot, replaced)

    def seen():
        """The last of them, out of the memory from which the API server answers controllers."""
        last = f"many-content-{snapshots + others - 1:06}"
        return bed.api.list("volumesnapshotcontents", fieldSelector=f"metadata.name={last}", resourceVersion="0")

    for controller in CONTROLLERS:
        bed.stop(controller)
    try:
        etcd.put(pairs())
        bed.wait_for(seen, SEEN_SECONDS_MAX, "the API server to see all contents")
        yield
    finally:
        etcd.delete_range(f"{_SNAPSHOTS}{namespace}/many-", f"{_SNAPSHOTS}{namespace}/many.")
        etcd.delete_range(f"{_CONTENTS}many-content-", f"{_CONTENTS}many-content.")
        bed.wait_for(lambda: not seen(), SEEN_SECONDS_MAX, "the API server to see that all contents are gone")
        for controller in reversed(CONTROLLERS):
            bed.start(controller)
