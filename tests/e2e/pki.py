"""Keys, certificates and kubeconfig files of a bed, made with openssl."""

import json
import pathlib
import subprocess

SERVER_PORT = 6443
DAYS = "7"
EC_CURVE = "ec_paramgen_curve:P-256"
EC_KEY = ("-newkey", "ec", "-pkeyopt", EC_CURVE)

# Name of each client to its subject.
IDENTITIES = {
    "admin": "/O=system:masters/CN=admin",
    "kcm": "/CN=system:kube-controller-manager",
    "velero": "/O=system:masters/CN=velero-server",
    "snapshot-controller": "/O=system:masters/CN=snapshot-controller",
    "csi-snapshotter": "/O=system:masters/CN=csi-snapshotter",
    "csi-provisioner": "/O=system:masters/CN=csi-provisioner",
    "csi-resizer": "/O=system:masters/CN=csi-resizer",
    "longhorn-manager": "/O=system:masters/CN=longhorn-manager",
}
SERVER_NAMES = ("DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
                "IP:127.0.0.1,IP:10.96.0.1,IP:10.88.0.1,IP:10.99.0.1")


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def _make_leaf(folder, name, subject, usage):
    _openssl("req", "-x509", *EC_KEY, "-nodes", "-keyout", f"{folder}/{name}.key",
             "-out", f"{folder}/{name}.crt", "-days", DAYS, "-subj", subject,
             "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key",
             "-addext", "basicConstraints=critical,CA:FALSE", *usage)


def make_server(folder, name, names=SERVER_NAMES):
    """A pair for a server: on this machine, unless it has other names."""
    _make_leaf(folder, name, f"/CN={name}", ["-addext", "extendedKeyUsage=serverAuth",
                                             "-addext", f"subjectAltName={names}"])


def make_client(folder, name, subject):
    """A pair for the user that `subject` names, and a kubeconfig with it."""
    folder = pathlib.Path(folder)
    _make_leaf(folder, name, subject, ["-addext", "extendedKeyUsage=clientAuth"])
    write_kubeconfig(folder / f"{name}.conf", folder / "ca.crt", {
        "client-certificate": f"{folder}/{name}.crt", "client-key": f"{folder}/{name}.key"})


def make_pki(folder):
    """Fills an empty folder with the CA, every identity's pair, and the service account pair."""
    folder = pathlib.Path(folder)
    folder.mkdir(mode=0o700)
    _openssl("req", "-x509", *EC_KEY, "-nodes", "-keyout", f"{folder}/ca.key",
             "-out", f"{folder}/ca.crt", "-days", DAYS, "-subj", "/CN=bed-ca",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature")
    make_server(folder, "apiserver")
    for name, subject in IDENTITIES.items():
        make_client(folder, name, subject)
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", EC_CURVE, "-out", f"{folder}/sa.key")
    _openssl("pkey", "-in", f"{folder}/sa.key", "-pubout", "-out", f"{folder}/sa.pub")


def write_kubeconfig(path, ca, user, namespace="default", port=SERVER_PORT):
    """Writes a kubeconfig with one context. JSON is YAML, so no YAML writer is needed."""
    path = pathlib.Path(path)
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "bed",
        "clusters": [{"name": "bed",
                      "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(ca)}}],
        "users": [{"name": "bed", "user": user}],
        "contexts": [{"name": "bed",
                      "context": {"cluster": "bed", "user": "bed", "namespace": namespace}}],
    }, indent=1))
    path.chmod(0o600)
