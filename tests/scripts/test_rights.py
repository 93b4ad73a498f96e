"""The rights that the manifests give are those of tests/golden/rights.txt, not one more and not one less.

Whether each is used, and none is missing, is what the audit log of a real API server shows (test_privileges.py,
test_differential.py and test_people.py below tests/e2e): run those after changing the list. Of longhorn-rbac.yaml and
longhorn-roles.yaml longhorn_rights_test.cc below tests/restoreitemactions and tests/cli show it.
"""

import collections
import pathlib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "rights.txt"
MANIFESTS = ("deploy/rbac.yaml", "deploy/longhorn-rbac.yaml", "deploy/diffsnap.yaml", "deploy/snapshot-roles.yaml",
             "deploy/longhorn-roles.yaml")


def _lines(manifest):
    verbs = collections.defaultdict(set)
    for document in yaml.safe_load_all((ROOT / manifest).read_text()):
        for rule in (document or {}).get("rules", []):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    where = document["metadata"].get("namespace", "everywhere")
                    verbs[f"{manifest} {where} {resource}.{group or 'core'}"] |= set(rule["verbs"])
    return [f"{of}: {' '.join(sorted(some))}" for of, some in sorted(verbs.items())]


def test_the_manifests_give_the_rights_that_are_listed_and_no_other():
    given = [line for manifest in MANIFESTS for line in _lines(manifest)]
    listed = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    assert given == listed, f"{GOLDEN.relative_to(ROOT)} differs; test_privileges.py says whether a right is used"


def test_nothing_is_given_by_a_wildcard():
    assert "*" not in GOLDEN.read_text()
