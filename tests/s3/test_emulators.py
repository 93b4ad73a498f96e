"""Azure and Google as emulators have them: what they do of their own."""

import emulators
import gateway
import pytest
from conftest import run

MICROSOFT, GOOGLE = "https://learn.microsoft.com/en-us/rest/api/storageservices", "https://cloud.google.com/storage/docs/json_api"
OBJECTS = f"/storage/v1/b/{gateway.BUCKET}/o"
PUT = ("--request", "PUT", "--header", "x-ms-blob-type: BlockBlob", "--data-binary")


# What an emulator answers otherwise than its cloud: what is asked of an object "hello" and how (words of curl), what must be
# in the answer or be its status, and what is documented, where. The fakes of the unit tests follow the documentation.
SIGNED_BY_ANOTHER = ("Authorization: SharedKey deltaaccount:AAAA", "x-ms-date: Mon, 30 Nov 2026 00:00:00 GMT")
MANNERS = [
    ("azure", "a range from the end on", "blob?SAS", ["--header", "Range: bytes=5-5"], "206",
     f"416 InvalidRange: {MICROSOFT}/specifying-the-range-header-for-blob-service-operations"),
    ("azure", "a wrong MD5", "blob?SAS", [*PUT, "other", "--header", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA=="],
     "<Code>InvalidOperation<", f"400 Md5Mismatch: {MICROSOFT}/common-rest-api-error-codes"),
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
