"""A small client of the bed's API server, for tests: JSON in, JSON out, through the bed's network.

Paths are made from plural names (`path("backups", name="b1", namespace="velero")`); the table below
says where each kind lives. Nothing is cached and nothing is retried, so a test sees what happened.
"""

import http.client
import json
import ssl
import threading
import urllib.parse

import processes

HOST, PORT = "127.0.0.1", 6443
REQUEST_SECONDS_MAX, WATCH_SECONDS_MAX = 60, 1800
MERGE_PATCH = "application/merge-patch+json"

_SNAPSHOT = "apis/snapshot.storage.k8s.io/v1"
GROUP_SNAPSHOT = "groupsnapshot.storage.k8s.io"
_GROUP_SNAPSHOT = f"apis/{GROUP_SNAPSHOT}/v1"
_VELERO = "apis/velero.io/v1"
_MOVER = "apis/mover.csi-delta.io/v1alpha1"
_RBAC = "apis/rbac.authorization.k8s.io/v1"
CLUSTER_WIDE = {
    "clusterrolebindings": _RBAC,
    "clusterroles": _RBAC,
    "csidrivers": "apis/storage.k8s.io/v1",
    "csinodes": "apis/storage.k8s.io/v1",
    "customresourcedefinitions": "apis/apiextensions.k8s.io/v1",
    "namespaces": "api/v1",
    "nodes": "api/v1",
    "persistentvolumes": "api/v1",
    "snapshotmetadataservices": "apis/cbt.storage.k8s.io/v1beta1",
    "storageclasses": "apis/storage.k8s.io/v1",
    "validatingadmissionpolicies": "apis/admissionregistration.k8s.io/v1",
    "validatingadmissionpolicybindings": "apis/admissionregistration.k8s.io/v1",
    "volumegroupsnapshotclasses": _GROUP_SNAPSHOT,
    "volumegroupsnapshotcontents": _GROUP_SNAPSHOT,
    "volumesnapshotclasses": _SNAPSHOT,
    "volumesnapshotcontents": _SNAPSHOT,
}
NAMESPACED = {
    "backuprepositories": _VELERO,
    "backups": _VELERO,
    "backupstoragelocations": _VELERO,
    "configmaps": "api/v1",
    "datadeletions": _MOVER,
    "datadownloads": "apis/velero.io/v2alpha1",
    "datauploads": "apis/velero.io/v2alpha1",
    "deletebackuprequests": _VELERO,
    "deployments": "apis/apps/v1",
    "differentialsnapshots": "apis/diffsnap.csi-delta.io/v1alpha1",
    "downloadrequests": _VELERO,
    "events": "api/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "networkpolicies": "apis/networking.k8s.io/v1",
    "persistentvolumeclaims": "api/v1",
    "poddisruptionbudgets": "apis/policy/v1",
    "pods": "api/v1",
    "protectedvolumes": _MOVER,
    "restores": _VELERO,
    "rolebindings": _RBAC,
    "roles": _RBAC,
    "schedules": _VELERO,
    "secrets": "api/v1",
    "serverstatusrequests": _VELERO,
    "serviceaccounts": "api/v1",
    "services": "api/v1",
    "statefulsets": "apis/apps/v1",
    "volumegroupsnapshots": _GROUP_SNAPSHOT,
    "volumetasks": _MOVER,
    "volumesnapshotlocations": _VELERO,
    "volumesnapshots": _SNAPSHOT,
}


class ApiError(Exception):
    """The API server refused. `code` is the HTTP status, `reason` the Kubernetes reason."""

    def __init__(self, code, body, request):
        try:
            status = json.loads(body)
        except ValueError:
            status = {}
        self.code = code
        self.reason = status.get("reason", "")
        super().__init__(f"{request}: {code} {self.reason}: {status.get('message', body[:300])}")


class NetnsConnection(http.client.HTTPSConnection):
    """An HTTPS connection whose socket belongs to the bed's network namespace."""

    def __init__(self, netns, host, port, **kwargs):
        super().__init__(host, port, **kwargs)
        self._netns = netns

    def connect(self):
        with processes.inside(self._netns):
            super().connect()


def path(plural, name=None, namespace=None, subresource=None, **query):
    """The URL path of a collection, an object, or a subresource. Query values are escaped."""
    if plural in CLUSTER_WIDE:
        parts = [CLUSTER_WIDE[plural]]
    else:
        parts = [NAMESPACED[plural]] + ([f"namespaces/{namespace}"] if namespace else [])
    parts += [plural] + ([name] if name else []) + ([subresource] if subresource else [])
    encoded = urllib.parse.urlencode(query)
    return "/" + "/".join(parts) + ("?" + encoded if encoded else "")


class ClusterApi:
    """Talks to one API server as one client certificate or bearer token. Thread-safe."""

    def __init__(self, netns, pki_folder, identity="admin", token=None):
        self._netns = netns
        self._token = token
        self._context = ssl.create_default_context(cafile=f"{pki_folder}/ca.crt")
        if not token:
            self._context.load_cert_chain(f"{pki_folder}/{identity}.crt",
                                          f"{pki_folder}/{identity}.key")
        self._local = threading.local()

    def _connection(self, fresh):
        connection = getattr(self._local, "connection", None)
        if connection is None or fresh:
            connection = NetnsConnection(self._netns, HOST, PORT, context=self._context,
                                         timeout=REQUEST_SECONDS_MAX)
            self._local.connection = connection
        return connection

    def raw(self, method, url, body=None, content_type="application/json"):
        """One request; returns (HTTP status, bytes). Raises OSError without an answer."""
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = content_type
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        # A kept connection may have died unseen. Only reading is safe to send twice.
        kept = method == "GET" and getattr(self._local, "connection", None) is not None
        for fresh in ((False, True) if kept else (True,)):
            connection = self._connection(fresh)
            try:
                connection.request(method, url, body=body, headers=headers)
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._local.connection = None
                last = error
        raise OSError(f"{method} {url}: {last}") from last

    def request(self, method, url, body=None, content_type="application/json"):
        """One request; returns the decoded answer. ApiError for anything but 2xx."""
        code, answer = self.raw(method, url, body, content_type)
        if not 200 <= code < 300:
            raise ApiError(code, answer.decode(errors="replace"), f"{method} {url}")
        try:
            return json.loads(answer)
        except ValueError:
            return answer.decode()

    def _found(self, method, url, absent=None):
        try:
            return self.request(method, url)
        except ApiError as error:
            if error.code == 404:
                return absent
            raise

    def get(self, plural, name, namespace=None):
        """The object, or None when none exists."""
        return self._found("GET", path(plural, name, namespace))

    def list(self, plural, namespace=None, **query):
        """All items; `labelSelector=` and `fieldSelector=` narrow it. An unknown kind has none."""
        return self._found("GET", path(plural, namespace=namespace, **query), {}).get("items", [])

    def watch(self, plural, namespace=None, **query):
        """A connection whose answer has a line for each write to the objects after those that are there now."""
        now = self.request("GET", path(plural, namespace=namespace, **query))["metadata"]["resourceVersion"]
        connection = NetnsConnection(self._netns, HOST, PORT, context=self._context, timeout=WATCH_SECONDS_MAX)
        connection.request("GET", path(plural, namespace=namespace, watch="true", resourceVersion=now, **query))
        return connection

    def create(self, plural, obj, namespace=None):
        namespace = namespace or obj["metadata"].get("namespace")
        return self.request("POST", path(plural, namespace=namespace), obj)

    def token(self, account, namespace, seconds=86400, **spec):
        """A token of a service account, for the API server unless `audiences` says otherwise."""
        return self.request("POST", path("serviceaccounts", account, namespace, "token"), {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds, **spec}})["status"]["token"]

    def patch(self, plural, name, change, namespace=None, subresource=None):
        """A JSON merge patch."""
        url = path(plural, name, namespace, subresource)
        return self.request("PATCH", url, change, MERGE_PATCH)

    def delete(self, plural, name, namespace=None):
        """Asks for deletion; an absent object is fine."""
        return self._found("DELETE", path(plural, name, namespace))
