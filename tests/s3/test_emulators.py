"""Azure and Google as emulators have them: beside stock restic, by another way to sign in, and what they do of their own."""

import hashlib
import json
import os

import emulators
import gateway
import pytest
from conftest import run
from test_s3 import CONTRACT_TEST, Volume, csi_delta, restored

MICROSOFT, GOOGLE = "https://learn.microsoft.com/en-us/rest/api/storageservices", "https://cloud.google.com/storage/docs/json_api"
OBJECTS = f"/storage/v1/b/{gateway.BUCKET}/o"
PUT = ("--request", "PUT", "--header", "x-ms-blob-type: BlockBlob", "--data-binary")


@pytest.mark.parametrize("cloud", ["azure", "google"])
def test_stock_restic_and_csi_delta_in_turn(cloud, tmp_path, request):
    """What one of both stores in a bucket of another cloud, the other lists, reads, checks and removes."""
    place = request.getfixturevalue(cloud)
    volume, here = Volume(tmp_path), {**os.environ, "RESTIC_REPOSITORY": str(tmp_path / "here"), "RESTIC_PASSWORD": "secret"}
    csi_delta(here, "init")
    csi_delta(here, "backup", volume.path, "--chunk-size", "1MiB", "--path", "/volume")
    password = tmp_path / "password"
    password.write_text("secret")
    place.run_restic("turns", "init")
    place.run_restic("turns", "copy", "--from-repo", tmp_path / "here", "--from-password-file", password)
    environment = place.environment("turns", place.server.url)  # Of Google by its name and with a token, as restic does.
    assert restored(environment, "latest", tmp_path) == volume.digest()
    copied, = csi_delta(environment, "snapshots")
    volume.change([5, 6], copied["id"])
    done = csi_delta(environment, "backup", volume.path, "--extents", volume.extents, "--path", "/volume")
    assert (done["mode_done"], done["base"]) == ("incremental", copied["id"])
    listed = json.loads(place.run_restic("turns", "snapshots", "--json").stdout)
    assert [snapshot["id"] for snapshot in listed] == [copied["id"], done["snapshot_id"]]
    place.run_restic("turns", "restore", done["snapshot_id"], "--target", tmp_path / "back")
    parts = sorted((tmp_path / "back").glob("*/*/*/data"))
    assert hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest() == volume.digest()
    place.run_restic("turns", "forget", copied["id"], "--prune", "--max-unused", "0")
    csi_delta(environment, "check", "--read-data")
    assert restored(environment, "latest", tmp_path) == volume.digest()


def test_a_sas_in_place_of_the_key(azure, tmp_path):
    """The suite of stores, where the account's key is not known."""
    environment = {**azure.environment("sas"), "CSI_DELTA_TEST_STORE": azure.server.repository("sas"),
                   "AZURE_ACCOUNT_SAS": emulators.sas()}
    del environment["AZURE_ACCOUNT_KEY"]
    report = tmp_path / "report.json"
    run(environment, CONTRACT_TEST, "--gtest_filter=*/Real", f"--gtest_output=json:{report}")
    assert json.loads(report.read_text())["tests"] >= 20


# What an emulator answers otherwise than its cloud: what is asked of an object "hello" and how (words of curl), what must be
# in the answer or be its status, and what is documented, where. The fakes of the unit tests follow the documentation.
SIGNED_BY_ANOTHER = ("Authorization: SharedKey deltaaccount:AAAA", "x-ms-date: Mon, 30 Nov 2026 00:00:00 GMT")
MANNERS = [
    ("azure", "a range from the end on", "blob?SAS", ["--header", "Range: bytes=5-5"], "206",
     f"416 InvalidRange: {MICROSOFT}/specifying-the-range-header-for-blob-service-operations"),
    ("azure", "a wrong MD5", "blob?SAS", [*PUT, "other", "--header", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA=="],
     "<Code>InvalidOperation<", f"400 Md5Mismatch: {MICROSOFT}/common-rest-api-error-codes"),
    ("azure", "a CRC64", "blob?SAS", [*PUT, "other", "--header", "x-ms-content-crc64: AAAAAAAAAAA="], "FeatureNotSupported",
     f"400 Crc64Mismatch: {MICROSOFT}/put-blob"),
    ("azure", "a wrong key", "blob", [word for header in SIGNED_BY_ANOTHER for word in ("--header", header)],
     "<Code>AuthorizationFailure<", f"403 AuthenticationFailed: {MICROSOFT}/common-rest-api-error-codes"),
    ("google", "fields that were not asked for", f"{OBJECTS}/blob?fields=size", [], '"bucket":',
     f"left out: {GOOGLE}#partial-response"),
    ("google", "more folders than a page has", f"{OBJECTS}?delimiter=%2F&maxResults=1&prefix=folders/", [],
     '["folders/a/","folders/b/"]', f"one in each page: {GOOGLE}/v1/objects/list"),
    ("google", "a deletion", f"{OBJECTS}/blob", ["--request", "DELETE"], "200", f"204: {GOOGLE}/v1/objects/delete"),
    ("google", "no such bucket", "/storage/v1/b/absent/o", [], '"message":"Not Found"',
     f"The specified bucket does not exist: {GOOGLE}/v1/status-codes"),
]


def ask(place, target, *words):
    """What curl is answered: a body, and the status at its end."""
    url = f"{place.url}{target}"
    if place.server.scheme == "azure":
        url = f"https://{emulators.AZURE_HOST}:{emulators.AZURE_PORT}/{gateway.BUCKET}/{target}".replace("SAS", emulators.sas())
    return run(place.environment("none"), "curl", "--silent", "--cacert", place.authority.certificate, "--write-out",
               "%{http_code}", *words, url).stdout


@pytest.mark.parametrize(("cloud", "what", "target", "words", "answer", "documented"), MANNERS, ids=[row[1] for row in MANNERS])
def test_manners(cloud, what, target, words, answer, documented, request):
    """A row that fails has to go, with what rests on it."""
    place = request.getfixturevalue(cloud)
    for name in ("blob", "folders/a/x", "folders/b/x"):
        if cloud == "azure":
            ask(place, f"{name}?SAS", *PUT, "hello")
        else:
            ask(place, f"/upload{OBJECTS}?uploadType=media&name={name}", "--data-binary", "hello")
    assert answer in ask(place, target, *words), f"{what}: {documented}"
