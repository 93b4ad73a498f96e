"""Repositories in a real S3 server (versitygw): well, with a tenth of the requests failing, and over TLS. In emulators of
Azure and Google."""

import hashlib
import json
import os
import pathlib
import random
import subprocess

import gateway
import pytest
from conftest import PROGRAM, ROOT, run

MIB = 1 << 20
CHUNK_BYTES = MIB
IMAGE_CHUNKS = 40
BUILT = pathlib.Path(os.environ.get("CSI_DELTA_TESTS") or ROOT / "build/release/bin")
CONTRACT_TEST = BUILT / "contract_test"
OBJECTS = 10_000
LOCKED = ("-o", "s3.object-lock-mode=COMPLIANCE", "-o", "s3.object-lock-days=1")
RETENTION = "user.object-retention"  # Where versitygw notes it.


def csi_delta(environment, *words, expected=0):
    """Runs the program and returns its result document."""
    done = run(environment, PROGRAM, *words, "--json", expected=expected)
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {}


class Volume:
    """An image file that changes chunk by chunk."""

    def __init__(self, folder):
        self.path, self.extents = folder / "volume.img", folder / "extents"
        self._random = random.Random(1)
        self.path.write_bytes(self._random.randbytes(IMAGE_CHUNKS * CHUNK_BYTES))

    def change(self, chunks, base):
        """Writes new bytes into some chunks and lists them, as changes since a snapshot."""
        with open(self.path, "r+b") as file:
            for chunk in chunks:
                file.seek(chunk * CHUNK_BYTES)
                file.write(self._random.randbytes(CHUNK_BYTES))
        lines = [{"base": base}, *({"offset": chunk * CHUNK_BYTES, "length": CHUNK_BYTES} for chunk in chunks),
                 {"end": True}]
        self.extents.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def digest(self):
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def restored(environment, snapshot, folder):
    """The digest of a snapshot restored onto a file that holds something else."""
    target = folder / "target.img"
    target.write_bytes(b"\xa5" * IMAGE_CHUNKS * CHUNK_BYTES)
    csi_delta(environment, "restore", snapshot, "--target", target)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def proves_that_requests_failed(place):
    """A proxy that drew nothing would prove nothing."""
    return place.proxy is None or (place.proxy.requests >= 20 and sum(place.proxy.faults.values()) >= 2)


def test_contract(place, tmp_path):
    """The suite that the directory store passes."""
    environment = place.environment("contract")
    environment["CSI_DELTA_TEST_STORE"] = environment["RESTIC_REPOSITORY"]
    report = tmp_path / "report.json"
    run(environment, CONTRACT_TEST, "--gtest_filter=*/Real", f"--gtest_output=json:{report}")
    assert json.loads(report.read_text())["tests"] >= 20
    assert proves_that_requests_failed(place)


def test_story(place, tmp_path, request):
    """From init to prune, each generation restored, and stock restic as judge."""
    name = f"story-{request.node.callspec.id}"
    environment, volume = place.environment(name), Volume(tmp_path)
    csi_delta(environment, "init")
    full = csi_delta(environment, "backup", volume.path, "--chunk-size", "1MiB")
    assert full["mode_done"] == "full"
    first = volume.digest()
    volume.change([3, 17, 18], full["snapshot_id"])
    increment = csi_delta(environment, "backup", volume.path, "--extents", volume.extents)
    assert (increment["mode_done"], increment["base"]) == ("incremental", full["snapshot_id"])
    assert increment["read_bytes"] == 3 * CHUNK_BYTES
    assert restored(environment, full["snapshot_id"], tmp_path) == first
    assert restored(environment, increment["snapshot_id"], tmp_path) == volume.digest()
    csi_delta(environment, "forget", "--keep-last", "1")
    csi_delta(environment, "prune", "--max-unused", "0")
    csi_delta(environment, "check", "--read-data")
    assert restored(environment, "latest", tmp_path) == volume.digest()
    place.run_restic(name, "check", "--read-data")
    assert proves_that_requests_failed(place)


def test_ten_thousand_objects(server):
    """A listing of many pages: every object counts, once."""
    environment = {**os.environ, **gateway.ENVIRONMENT, "RESTIC_PASSWORD": "secret",
                   "RESTIC_REPOSITORY": server.repository("many")}
    csi_delta(environment, "init")
    for number in range(OBJECTS):
        name = hashlib.sha256(str(number).encode()).hexdigest()
        folder = server.bucket_folder / "many" / "data" / name[:2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * 100)
    plan = csi_delta(environment, "prune", "--dry-run")
    assert plan["packs_unindexed"] == OBJECTS


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_object_lock(tmp_path):
    """All but locks is retained; what is forgotten stays as a version, and what remains is whole."""
    volume = Volume(tmp_path)
    with gateway.Gateway(tmp_path / "server", locks=True) as server:
        environment = {**os.environ, **gateway.ENVIRONMENT, "RESTIC_PASSWORD": "secret",
                       "RESTIC_REPOSITORY": server.repository("locked")}
        csi_delta(environment, "init", *LOCKED)
        first = csi_delta(environment, "backup", volume.path, *LOCKED)
        volume.change(range(IMAGE_CHUNKS // 2), first["snapshot_id"])
        csi_delta(environment, "backup", volume.path, *LOCKED)
        objects = files(server.bucket_folder)
        assert {path.relative_to(server.bucket_folder).parts[1] for path in objects
                if RETENTION not in os.listxattr(path)} <= {"locks"}
        csi_delta(environment, "forget", first["snapshot_id"], "--prune", "--max-unused", "0", *LOCKED)
        versions = [path for path in files(server.versions) if RETENTION in os.listxattr(path)]
        stored = sum(path.stat().st_size for path in versions)
        assert stored > IMAGE_CHUNKS // 2 * CHUNK_BYTES and len(versions) >= 3, versions
        assert restored(environment, "latest", tmp_path) == volume.digest()
        csi_delta(environment, "check", "--read-data")


def attack(server, name, method, key, body=None):
    """One request with the worker's credentials; returns the status."""
    command = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--request", method,
               "--aws-sigv4", f"aws:amz:{gateway.REGION}:s3", "--user", f"{gateway.ACCESS_KEY}:{gateway.SECRET_KEY}",
               "--header", f"x-amz-content-sha256: {hashlib.sha256((body or '').encode()).hexdigest()}"]
    if body is not None:
        command += ["--data-binary", body, "--header", "Content-Type: application/octet-stream"]
    return int(subprocess.run([*command, f"{server.url}/{gateway.BUCKET}/{name}/{key}"], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=60).stdout)


def test_extended_locks(tmp_path):
    """Locks are extended on a real server, and then hold there: an attacker only hides what they protect."""
    volume = Volume(tmp_path)
    with gateway.Gateway(tmp_path / "server", locks=True) as server:
        environment = {**os.environ, **gateway.ENVIRONMENT, "RESTIC_PASSWORD": "secret",
                       "RESTIC_REPOSITORY": server.repository("extended")}
        month = ["-o", "s3.object-lock-mode=COMPLIANCE", "-o", "s3.object-lock-days=30"]
        csi_delta(environment, "init", *month)
        csi_delta(environment, "backup", volume.path, *month)
        first = csi_delta(environment, "extend-locks", *month)
        assert (first["extended"], first["failed"], first["undecided"]) == (0, 0, ""), first
        assert first["skipped"] == first["objects"] >= 6
        longer = ["-o", "s3.object-lock-mode=COMPLIANCE", "-o", "s3.object-lock-days=90"]
        second = csi_delta(environment, "extend-locks", *longer)
        assert second["extended"] == second["objects"] == first["objects"]
        assert second["earliest"] > first["earliest"]
        again = csi_delta(environment, "extend-locks", "--renewed-at", "2020-01-01T00:00:00Z", *month)
        assert again["skipped"] == first["objects"], again  # versitygw would take the earlier date
        keys = [path.relative_to(server.bucket_folder / "extended") for path in
                files(server.bucket_folder / "extended") if "locks" not in path.parts]
        for key in keys:
            assert attack(server, "extended", "DELETE", key) in (200, 204)
        for key in keys:
            name = hashlib.sha256(f"extended/{key}".encode()).hexdigest()
            version, = [path.name for path in files(server.versions) if path.parent.name == name]
            assert attack(server, "extended", "DELETE", f"{key}?versionId={version}") == 403
        # versitygw gives an older version the time at which it was written over, so none is of a time before that.
        csi_delta(environment, "snapshots", expected=10)
        done = csi_delta(environment, "repair", "versions", "--as-of", "2020-01-01T00:00:00Z", "--dry-run")
        assert (done["objects"], done["failed"]) == (0, 0), done


def test_rules_of_object_lock(tmp_path):
    """The suite that the fake bucket with object lock passes, on a real server."""
    with gateway.Gateway(tmp_path / "server", locks=True) as server:
        environment = {**os.environ, **gateway.ENVIRONMENT,
                       "CSI_DELTA_TEST_LOCKED_STORE": server.repository("rules")}
        report = tmp_path / "report.json"
        run(environment, CONTRACT_TEST, "--gtest_filter=*LockedStoreContract*/Real", f"--gtest_output=json:{report}")
        assert json.loads(report.read_text())["tests"] >= 10


@pytest.mark.parametrize("by", ["flag", "RESTIC_CACERT", "AWS_CA_BUNDLE"])
def test_private_authority(secure_server, authority, by):
    """A client that names the authority is let in."""
    environment = {**os.environ, **gateway.ENVIRONMENT, "RESTIC_PASSWORD": "secret",
                   "RESTIC_REPOSITORY": secure_server.repository(f"trust-{by}")}
    flags = ["--cacert", authority.certificate] if by == "flag" else []
    if by != "flag":
        environment[by] = str(authority.certificate)
    csi_delta(environment, "init", *flags)
    assert csi_delta(environment, "snapshots", *flags) == []


def test_wrong_authority(secure_server, authority, tmp_path):
    """Another authority of the same name is refused at once, in a sentence that names the server."""
    other = gateway.Authority(tmp_path / "other")
    environment = {**os.environ, **gateway.ENVIRONMENT, "RESTIC_PASSWORD": "secret",
                   "RESTIC_REPOSITORY": secure_server.repository("untrusted")}
    for flags in (["--cacert", other.certificate], []):
        done = run(environment, PROGRAM, "init", *flags, expected=1)
        assert "127.0.0.1 is not trusted" in done.stderr
        assert "add its CA to those to trust" in done.stderr
    assert not (secure_server.bucket_folder / "untrusted").exists()
    csi_delta(environment, "init", "--cacert", authority.certificate)
