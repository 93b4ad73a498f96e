"""./dev and a command end with all that they started, in whatever session that is, and name what was left."""

import signal

import console
import psutil
import pytest
from conftest import PROJECT, PYTHON, lives_on, write

# ./dev, one of whose verbs does something else.
DEV = """import runpy, sys
import console, runs
dev = runpy.run_path("scripts/dev/__main__.py", run_name="dev")
dev["VERBS"]["setup"] = dev["Verb"]("", "", lambda: {work})
sys.argv = ["dev", "setup"]
sys.exit(dev["supervised"]())
"""


@pytest.mark.parametrize("sig,want", [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 130)])
def test_a_signal_ends_ctest_its_entries_and_all_that_they_started_in_order(checkout, sig, want):
    write(checkout.folder, {"CMakeLists.txt": PROJECT + "csidelta_entry(NAME x TIER t KIND lines COMMAND sh tree.sh)\n"})
    printed, code = checkout.run(PYTHON, "-c", DEV.format(work="runs.ctest('x')"), sig=sig)
    assert code == want and "dev: setup: interrupted" in printed


@pytest.mark.parametrize("work,want,words", [
    ("console.run(['sh', '-c', 'setsid sleep 600 > own 2>&1 &'])", 0, "dev: ending what was left: "), ("1 == 2", 1, ""),
    ("console.run(['sh', '-c', 'exit 3'])", 1, "dev: setup: `sh -c exit 3` failed with code 3\n"), ("1 / 0", 1, "ZeroDivision")])
def test_the_work_s_own_end_is_told(checkout, work, want, words):
    printed, code = checkout.run(PYTHON, "-c", DEV.format(work=work))
    assert code == want and words in printed and ("sleep 600" in printed) == ("sleep" in work)


def test_a_command_that_takes_too_long_ends_with_all_that_it_started():
    seen, command = [], ["sh", "-c", "setsid sleep 600 > /dev/null 2>&1 & echo $!; wait"]
    with pytest.raises(console.OutOfTime, match="sh -c .* did not end within 3 s"):
        console.execute(command, limit_seconds=3, quiet=True, watch=lambda line: seen.append(psutil.Process(int(line))))
    assert len(seen) == 1 and not lives_on(seen[0])
