#!/usr/bin/python3
"""A log-in program for kubeconfigs (client.authentication.k8s.io/v1), whose tokens the API server accepts for seconds only.

    login.py FOLDER

prints an ExecCredential with a token that it has just signed with the key of the bed's API server, which gives none
that ends sooner than in ten minutes. FOLDER was filled by `prepare`; a line of FOLDER/calls says when each call was.
"""

import base64
import json
import pathlib
import subprocess
import sys
import time

import pki

LEEWAY_SECONDS = 60  # How long an API server still accepts a token that has ended: clocks differ.
INTEGER_BYTES = 32  # Of P-256.


def prepare(folder, bed, account, namespace, *, seconds, tells_end):
    """What `login.py FOLDER` will answer for a service account. Without `tells_end` only a refusal shows that a token has ended."""
    token = bed.api.token(account, namespace, 600)
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({
        "key": str(bed.pki / "sa.key"), "parts": [_decoded(part) for part in token.split(".")[:2]],
        "seconds": seconds, "tells_end": tells_end}))
    (folder / "calls").touch()
    config = folder / "config"
    pki.write_kubeconfig(config, bed.pki / "ca.crt", {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "interactiveMode": "Never",
        "args": [str(pathlib.Path(__file__).resolve()), str(folder)]}}, namespace)
    return config


def calls(folder):
    """When the program was called, in seconds since the epoch."""
    return [float(line) for line in (folder / "calls").read_text().splitlines()]


def _decoded(part):
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def _encoded(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _integers(der):
    """The two integers of a signature in DER, as JSON web tokens have them."""
    raw, at = b"", 2
    for _ in range(2):
        length = der[at + 1]
        raw += der[at + 2:at + 2 + length].lstrip(b"\0").rjust(INTEGER_BYTES, b"\0")
        at += 2 + length
    return raw


def sign(settings, now):
    """A token that the API server accepts for the seconds of the settings."""
    header, claims = settings["parts"]
    claims = {**claims, "iat": now - LEEWAY_SECONDS, "nbf": now - LEEWAY_SECONDS,
              "exp": now + settings["seconds"] - LEEWAY_SECONDS}
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", settings["key"]], input=text.encode(), check=True,
                         capture_output=True).stdout
    return f"{text}.{_encoded(_integers(der))}"


def main(folder):
    settings, now = json.loads((folder / "settings.json").read_text()), int(time.time())
    status = {"token": sign(settings, now)}
    if settings["tells_end"]:
        status["expirationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + settings["seconds"]))
    with open(folder / "calls", "a", encoding="ascii") as log:
        log.write(f"{time.time()}\n")
    print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
