"""The rights that the manifests give are those of tests/golden/rights.txt, not one more and not one less.

Whether each is used, and none is missing, is what the audit log of a real API server shows (test_privileges.py,
test_differential.py and test_people.py below tests/e2e): run those after changing the list. Of longhorn-rbac.yaml and
longhorn-roles.yaml longhorn_rights_test.cc below tests/restoreitemactions and tests/cli show it.
"""

import collections
import itertools

import yaml
from console import ROOT

GOLDEN = ROOT / "tests" / "golden" / "rights.txt"
MANIFESTS = ("deploy/rbac.yaml", "deploy/longhorn-rbac.yaml", "deploy/diffsnap.yaml", "deploy/snapshot-roles.yaml",
             "deploy/longhorn-roles.yaml")


def _rights(manifest):
    verbs = collections.defaultdict(set)
    for document in filter(None, yaml.safe_load_all((ROOT / manifest).read_text())):
        where = document["metadata"].get("namespace", "everywhere")
        for rule in document.get("rules", []):
            for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
                verbs[f"{manifest} {where} {resource}.{group or 'core'}"] |= set(rule["verbs"])
    return [f"{of}: {' '.join(sorted(some))}" for of, some in sorted(verbs.items())]


def test_the_manifests_give_the_rights_that_are_listed_and_no_other():
    listed = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    assert [line for manifest in MANIFESTS for line in _rights(manifest)] == listed, "test_privileges.py says whether a right is used"
    assert "*" not in GOLDEN.read_text()
