"""Locations of Azure and Google in a bed's network, each with an emulator, and backups of the data mover there.

Velero makes those of Google, with its own plugin. Its plugin for Azure is in no package registry: the test makes what Velero
1.18.3 makes (newDataUpload, newDataDownload), and what the delete action of csi-delta does.
"""

import contextlib
import http.server
import json
import pathlib
import shutil
import ssl
import sys
import threading
import types

import mover
import objects
import pki
import places
import processes
from moving import begin, begin_restore

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "s3"))

import emulators  # noqa: E402  pylint: disable=wrong-import-position
import gateway  # noqa: E402  pylint: disable=wrong-import-position

KEY_LINE = "AZURE_STORAGE_ACCOUNT_ACCESS_KEY"
TOKEN = json.dumps({"access_token": "token", "token_type": "Bearer", "expires_in": 3600}).encode()
PLUGIN = "velero-plugin-for-gcp"


class _Location:
    """A BackupStorageLocation, and the emulator that it leads to."""

    def __init__(self, bed, name, emulator):
        self.bed, self.name, self.emulator = bed, name, emulator

    def curl(self, *words):
        """One request that makes something in the emulator."""
        self.bed.run(["curl", "--silent", "--show-error", "--fail", "--cacert", self.bed.pki / "ca.crt", "--request", *words])

    def restic(self, repository, password, *words):
        """What stock restic says of a repository, which it reaches by the name of its host."""
        settings = {**self.emulator.environment(), "RESTIC_PASSWORD": password}
        return self.bed.run(["/usr/bin/env", *(f"{name}={value}" for name, value in settings.items()), "/usr/bin/restic",
                             "--no-cache", "--cacert", self.bed.pki / "ca.crt", "-r", self.emulator.repository(repository),
                             *words]).stdout

    def restic_of(self, stored, *words):
        """The same of the repository that a DataUpload names, with the operator's key."""
        key, = mover.keyring(self.bed, self.name).values()
        parts = stored["status"]["snapshotID"].split("/")
        return self.restic("/".join(("plugins", "csi-delta", *parts[2:5])), key, "--no-lock", *words)


@contextlib.contextmanager
def _location(kind, emulator, bed, name):
    with contextlib.ExitStack() as stack:
        pki.make_server(bed.pki, name, ",".join([pki.SERVER_NAMES, *(f"DNS:{host}" for host in emulators.HOSTS)]))
        pair = types.SimpleNamespace(server_certificate=bed.pki / f"{name}.crt", server_key=bed.pki / f"{name}.key")
        folder = bed.state / name
        folder.mkdir()
        with processes.inside(bed.name):
            place = kind(bed, name, stack.enter_context(emulator(folder, pair, "0.0.0.0")))
        config, credentials = place.enter(stack)
        places.make_location(bed, name, kind.provider, gateway.BUCKET, config, credentials, (bed.pki / "ca.crt").read_text())
        stack.callback(bed.api.delete, "secrets", f"csi-delta-keys-{bed.namespace}.{name}", mover.NAMESPACE)
        stack.callback(places.remove_location, bed, name)
        place.await_available()
        yield place


class Azure(_Location):
    """Velero stores nothing there."""

    provider = "azure"

    def enter(self, _):
        """Makes the container. Settings and credentials of the location."""
        url = f"https://{self.bed.host}:{self.emulator.port}/{emulators.ACCOUNT}"
        self.curl("PUT", "--data", "", f"{url}/{gateway.BUCKET}?restype=container&{emulators.sas()}")
        return ({"storageAccount": emulators.ACCOUNT, "storageAccountKeyEnvVar": KEY_LINE, "storageAccountURI": url},
                f"AZURE_CLOUD_NAME=AzurePublicCloud\n{KEY_LINE}={emulators.ACCOUNT_KEY}\n")

    def await_available(self):
        """Velero has no plugin that could look at it."""

    def _of_velero(self, plural, kind, name, spec):
        """A Backup or Restore, as it is when Velero is done with it."""
        return self.bed.api.create(plural, {
            "apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": name, "namespace": self.bed.namespace},
            "spec": spec, "status": {"phase": "Completed"}})

    def _transfer(self, plural, kind, owner, labels, spec):
        """The name of a DataUpload or DataDownload, made for a Backup or Restore."""
        meta, word = owner["metadata"], owner["kind"].lower()
        made = self.bed.api.create(plural, {
            "apiVersion": "velero.io/v2alpha1", "kind": kind,
            "metadata": {"namespace": self.bed.namespace, "generateName": f"{meta['name']}-",
                         "labels": {f"velero.io/{word}-name": meta["name"], f"velero.io/{word}-uid": meta["uid"], **labels},
                         "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": owner["kind"], "name": meta["name"],
                                              "uid": meta["uid"], "controller": True}]},
            "spec": {"datamover": mover.NAME, "backupStorageLocation": self.name, "operationTimeout": "10m0s", **spec}})
        return made["metadata"]["name"]

    def begin_backup(self, workspace, app, stem):
        """The names of a backup and of its DataUpload."""
        bed, name = self.bed, workspace.name(stem)
        workspace.expect_backup(bed, name)
        backup = self._of_velero("backups", "Backup", name, {
            "storageLocation": self.name, "includedNamespaces": [app], "snapshotMoveData": True, "datamover": mover.NAME})
        bed.create_snapshot(name, app, "data")
        claim = bed.api.get("persistentvolumeclaims", "data", app)
        return name, self._transfer("datauploads", "DataUpload", backup, {
            "velero.io/pvc-uid": claim["metadata"]["uid"], "velero.io/async-operation-id": f"du-{backup['metadata']['uid']}"}, {
                "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": app, "csiSnapshot": {
                    "volumeSnapshot": name, "storageClass": claim["spec"]["storageClassName"], "driver": bed.driver.name,
                    "snapshotClass": objects.SNAPSHOT_CLASS}})

    def begin_restore(self, workspace, app, backup, stored):
        """The names of a restore and of the namespace that gets the volume."""
        bed, target = self.bed, workspace.namespace(self.bed, f"to-{self.provider}", mover.RESTRICTED)
        bytes_moved = stored["status"]["progress"]["totalBytes"]
        claim = objects.claim("data", target, bytes_moved)
        claim["spec"]["selector"] = {"matchLabels": {"velero.io/dynamic-pv-restore": f"{target}.data.abcde"}}
        bed.api.create("persistentvolumeclaims", claim)
        name = workspace.name(f"r-{self.provider}")
        restore = self._of_velero("restores", "Restore", name, {"backupName": backup, "namespaceMapping": {app: target}})
        operation = {"velero.io/async-operation-id": f"dd-{restore['metadata']['uid']}"}
        self._transfer("datadownloads", "DataDownload", restore, operation, {
            "targetVolume": {"pvc": "data", "namespace": target, "pv": ""}, "snapshotID": stored["status"]["snapshotID"],
            "snapshotSize": bytes_moved, "sourceNamespace": app, "nodeOS": "linux"})
        return name, target

    def delete(self, backup, stored):
        """Does what the delete action of csi-delta does, and then Velero."""
        self.bed.api.create("datadeletions", {
            "apiVersion": "mover.csi-delta.io/v1alpha1", "kind": "DataDeletion",
            "metadata": {"name": f"delete-{backup}", "namespace": self.bed.namespace,
                         "labels": {"velero.io/backup-name": backup, "velero.io/exclude-from-backup": "true"}},
            "spec": {"backupStorageLocation": self.name, "snapshotID": stored["status"]["snapshotID"], "backup": backup}})
        self.bed.api.delete("backups", backup, self.bed.namespace)


class _Tokens(http.server.BaseHTTPRequestHandler):
    """Answers every request with a token."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        """The only method of token services."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(TOKEN)))
        self.end_headers()
        self.wfile.write(TOKEN)


class Google(_Location):
    """Velero's plugin stores there as well, with the same key of a service account."""

    provider = "gcp"

    def enter(self, stack):
        """Gives Velero its plugin, and makes the bucket. Settings and credentials of the location."""
        bed = self.bed
        shutil.copy2(bed.program("gcpplugin", PLUGIN), bed.plugin_dir)
        stack.callback(bed.configure_velero)
        stack.callback((bed.plugin_dir / PLUGIN).unlink)
        bed.configure_velero(server_env={"SSL_CERT_FILE": str(bed.pki / "ca.crt")})  # The plugin ignores caCert.
        self.answer_at(bed.host)
        self.curl("POST", "--data", json.dumps({"name": gateway.BUCKET}), f"{self.emulator.plain_url}/storage/v1/b")
        with processes.inside(bed.name):
            tokens = http.server.ThreadingHTTPServer((bed.host, 0), _Tokens)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(bed.pki / f"{self.name}.crt", bed.pki / f"{self.name}.key")
        tokens.socket = context.wrap_socket(tokens.socket, server_side=True)
        threading.Thread(target=tokens.serve_forever, daemon=True).start()
        stack.callback(tokens.shutdown)
        key = bed.run(["openssl", "genpkey", "-quiet", "-algorithm", "RSA"]).stdout
        account = {"type": "service_account", "client_email": "mover@project.iam.gserviceaccount.com", "private_key_id": "1",
                   "private_key": key, "token_uri": f"https://{bed.host}:{tokens.server_address[1]}/token"}
        return {"storeEndpoint": f"{bed.host}:{self.emulator.port}"}, json.dumps(account)

    def answer_at(self, host):
        """Sets the one host under which objects are read over XML, as restic and Velero's plugin do."""
        self.curl("PUT", "--data", json.dumps({"publicHost": host}), f"{self.emulator.plain_url}/_internal/config")

    def restic(self, repository, password, *words):
        self.answer_at(emulators.GOOGLE_HOST)
        try:
            return super().restic(repository, password, *words)
        finally:
            self.answer_at(self.bed.host)

    def await_available(self):
        """Until Velero's plugin has listed the bucket."""
        places.await_available(self.bed, self.name)

    def begin_backup(self, workspace, app, stem):
        """The names of a backup and of its DataUpload."""
        return begin(self.bed, workspace, app, stem, "--storage-location", self.name)

    def begin_restore(self, workspace, app, backup, _):
        """The names of a restore and of the namespace that gets the volume."""
        return begin_restore(self.bed, workspace, backup, app, self.provider)[:2]

    def delete(self, backup, _):
        """By Velero's own deletion of a backup."""
        self.bed.delete_backup(backup)


def azure(bed, workspace):
    """A location in Azurite, for a `with`."""
    emulators.install_azurite()  # Here, for there is no way out of a bed's network.
    return _location(Azure, emulators.Azurite, bed, workspace.name("azure"))


def google(bed, workspace):
    """A location in fake-gcs-server, for a `with`."""
    emulators.build_google()
    return _location(Google, emulators.Google, bed, workspace.name("google"))
