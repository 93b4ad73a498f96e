"""What the tests of a bed leave behind is judged, whether one of them failed or not."""

import subprocess

import leftovers
import pytest
from conftest import PYTHON, ROOT

# A pool with one bed, in which tests come and go; its world is tests/e2e, where other modules have the same names.
POOL = """
import conftest, processes, sys

class Bed:
    name, driver, there = "b", type("Driver", (), {"clear_faults": lambda self: None})(), {"a"}
    def things(self):
        return {"backups": sorted(self.there)}
    inventory = things
    def wait_gone(self, condition, timeout_seconds, what):
        if not condition():
            raise processes.LeftBehind(what())
    def save_logs(self):
        return "nowhere"
    def down(self):
        pass

conftest.BedPool._revive = conftest.BedPool._requests_in = staticmethod(lambda bed: {})
pool, bed = conftest.BedPool(None), Bed()
pool._beds["key"], pool._leftovers["key"] = bed, conftest.leftovers.Leftovers(bed.things())
for words in sys.argv[1:]:
    *made, outcome = words.split()
    pool.begin()
    bed.there = bed.there | set(made)
    if outcome == "failed":
        pool.failed()
pool.down()
"""


@pytest.mark.parametrize("tests,left", [(["passed", "c failed", "passed"], None), (["b passed", "c failed"], "['b']"),
                                        (["failed", "b c passed", "d failed"], "['b', 'c']")])
def test_a_test_that_failed_excuses_no_other(tests, left):
    command = [PYTHON, "-c", POOL, *tests]
    done = subprocess.run(command, cwd=ROOT / "tests/e2e", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (1 if left else 0), done.stderr
    assert not left or "LeftBehind" in done.stderr and f"{{'backups': {left}}}" in done.stderr


def test_late_deletions_of_a_failed_test_are_ignored():
    bed = leftovers.Leftovers({"backups": ["a"]})
    bed.begin({"backups": ["a"]}, failed=False)
    bed.begin({"backups": ["a", "late"]}, failed=True)
    assert bed.left({"backups": ["a", "late"]}) == bed.left({"backups": []}) == {}
    assert bed.left({"backups": ["a", "b", "late"]}) == {"backups": ["b"]}
