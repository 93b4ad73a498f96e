"""The lifecycle rules in deploy/buckets are of the form that each cloud takes. What they do is a test of the fakes: LifecycleTest.

The forms are written from what the clouds publish: the model of PutBucketLifecycleConfiguration of S3 (botocore, data/s3/2006-03-01),
learn.microsoft.com/azure/templates/microsoft.storage/storageaccounts/managementpolicies, and the resource "buckets" of
storage.googleapis.com/storage/v1 ($discovery/rest). Only what the files use is here: a name that is not is refused.
"""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
S3 = {"Rules": [{"ID": str, "Status": ("Enabled", "Disabled"), "Filter": {"Prefix": str},
                 "NoncurrentVersionExpiration?": {"NoncurrentDays": int}, "Expiration?": {"ExpiredObjectDeleteMarker": bool},
                 "AbortIncompleteMultipartUpload?": {"DaysAfterInitiation": int}}]}
_OLD = {"delete": {"daysAfterCreationGreaterThan": int}}
AZURE = {"rules": [{"enabled": bool, "name": str, "type": ("Lifecycle",), "definition": {
    "filters": {"blobTypes": [("blockBlob", "appendBlob")], "prefixMatch": [str]}, "actions": {"version": _OLD, "snapshot": _OLD}}}]}
GOOGLE = {"lifecycle": {"rule": [{"action": {"type": ("Delete", "SetStorageClass", "AbortIncompleteMultipartUpload")},
                                  "condition": {"age?": int, "daysSinceNoncurrentTime?": int, "isLive?": bool, "matchesPrefix": [str]}}]}}


def faults(value, form, where=""):
    """What of a value is not of the form: names, types, and texts that are one of several."""
    if isinstance(form, dict):
        known = {name.rstrip("?"): part for name, part in form.items()}
        missing = {name for name in form if not name.endswith("?")} - set(value)
        return [f"{where}: {name}" for name in missing | set(value) - set(known)] + [
            fault for name in set(value) & set(known) for fault in faults(value[name], known[name], f"{where}/{name}")]
    if isinstance(form, list):
        return [fault for one in value for fault in faults(one, form[0], where)] if isinstance(value, list) and value else [where]
    return [] if (value in form if isinstance(form, tuple) else type(value) is form) else [f"{where}: {value!r}"]  # A bool is an int.


def rules(cloud):
    return json.loads((ROOT / "deploy" / "buckets" / f"{cloud}-lifecycle.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("cloud, form", [("s3", S3), ("azure", AZURE), ("google", GOOGLE)])
def test_the_rules_have_the_form_that_the_cloud_takes(cloud, form):
    assert not faults(rules(cloud), form)


def test_a_form_refuses_other_names_types_and_texts():
    wrong = {"Rules": [{"ID": 1, "Status": "On", "Filter": {}, "Expiration": {"Days": 1}}]}
    assert len(faults(wrong, S3)) == 5
