"""Commands: their output, their limits, and the end of all that they started."""

import os
import signal
import subprocess
import sys
import threading
import time

import console
import process_tree
import pytest

WAIT_SECONDS_MAX = 20
# Starts a child, and in a session of its own a grandchild that ignores polite signals; writes their ids.
TREE = """sleep 600 & child=$!
setsid sh -c 'trap "" TERM INT HUP; echo $$ > {words}.grandchild; sleep 600 & wait; wait' &
while [ ! -s {words}.grandchild ]; do sleep 0.02; done
echo $child $(cat {words}.grandchild) > {words}.new; mv {words}.new {words}; echo ready; wait"""


def _await_words(path):
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not path.exists():
        assert time.monotonic() < deadline, f"nothing wrote {path}"
        time.sleep(0.02)
    return [int(word) for word in path.read_text().split()]


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_ends_with_all_that_it_started(tmp_path, monkeypatch):
    stop = console._stop
    monkeypatch.setattr(console, "_stop", lambda process, first, grace_period: stop(process, first, 1))
    monkeypatch.setattr(console, "INTERRUPTED", threading.Event())
    words = tmp_path / "words"
    with pytest.raises(console.Stopped):
        console.execute(["sh", "-c", TREE.format(words=words)], quiet=True,
                        watch=lambda line: console.INTERRUPTED.set())
    assert not [pid for pid in _await_words(words) if _is_alive(pid)]


def test_a_command_that_takes_too_long_is_out_of_time():
    with pytest.raises(console.OutOfTime, match="sleep 600"):
        console.execute(["sleep", "600"], limit_seconds=0.1)


def test_a_program_that_is_left_behind_with_the_output_is_ended_and_told(monkeypatch):
    monkeypatch.setattr(console, "_HELD_SECONDS_MAX", 0.1)
    words = []
    with pytest.raises(console.OutOfTime, match="holds its output"):
        console.execute(["sh", "-c", "sleep 600 & echo $!"], watch=words.append)
    assert not [pid for pid in words if _is_alive(pid)]


def test_an_abandoned_command_ends_when_the_run_stops(monkeypatch):
    monkeypatch.setattr(console, "STOPPING", threading.Event())
    told = []

    def work():
        console.here.is_abandoned = True
        try:
            console.execute(["sleep", "600"])
        except console.Stopped as error:
            told.append(str(error))
    thread = threading.Thread(target=work)
    thread.start()
    console.STOPPING.set()
    thread.join(WAIT_SECONDS_MAX)
    assert len(told) == 1


def test_the_log_holds_everything_and_the_watcher_sees_each_line(tmp_path):
    seen = []
    code, kept = console.execute(["sh", "-c", "echo one; echo two >&2; exit 3"], log=tmp_path / "log", keep=True, quiet=True,
                                 watch=seen.append)
    assert (code, kept, seen) == (3, ["one", "two"], ["one", "two"])
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_work_and_all_that_it_started(tmp_path, sig):
    words = tmp_path / "words"
    work = (f"import sys; sys.path.insert(0, {str(console.ROOT / 'scripts' / 'dev')!r})\n"
            "import console, supervisor\n"
            "stop = console._stop\n"
            "console._stop = lambda process, first, grace_period: stop(process, first, 1)\n"
            f"supervisor.run(lambda: console.execute(['sh', '-c', {TREE.format(words=words)!r}])[0])\n")
    with subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as dev:
        started = _await_words(words)
        everything = {dev.pid: 0, **process_tree.descendants(dev.pid)}
        assert set(started) < set(everything) and len(everything) >= 5
        dev.send_signal(sig)
        dev.communicate(timeout=WAIT_SECONDS_MAX)
    assert not [pid for pid in everything if _is_alive(pid)]


def test_processes_left_behind_are_ended_and_named(tmp_path):
    words = tmp_path / "words"
    work = (f"import sys; sys.path.insert(0, {str(console.ROOT / 'scripts' / 'dev')!r})\n"
            "import subprocess, supervisor\n"
            "def work():\n"
            f"    subprocess.run(['sh', '-c', 'setsid sleep 600 & echo $! > {words}'], check=True)\n"
            "    return 7\n"
            "sys.exit(supervisor.run(work))\n")
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, timeout=WAIT_SECONDS_MAX, check=False)
    assert done.returncode == 7
    assert "sleep 600" in done.stderr
    assert not _is_alive(_await_words(words)[0])


def test_a_fault_of_the_work_itself_is_told():
    work = (f"import sys; sys.path.insert(0, {str(console.ROOT / 'scripts' / 'dev')!r})\n"
            "import supervisor\n"
            "sys.exit(supervisor.run(lambda: 1 / 0))\n")
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, timeout=WAIT_SECONDS_MAX, check=False)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


def test_a_signal_s_code_is_the_shell_s(tmp_path):
    words = tmp_path / "words"
    work = (f"import sys; sys.path.insert(0, {str(console.ROOT / 'scripts' / 'dev')!r})\n"
            "import console, supervisor\n"
            f"sys.exit(supervisor.run(lambda: console.execute(['sh', '-c', 'echo $$ > {words}; exec sleep 600'])[0]))\n")
    with subprocess.Popen([sys.executable, "-c", work], stderr=subprocess.DEVNULL) as dev:
        _await_words(words)
        dev.send_signal(signal.SIGTERM)
        dev.wait(WAIT_SECONDS_MAX)
    assert dev.returncode == 128 + signal.SIGTERM


def test_a_process_id_that_was_given_out_again_is_another_process():
    assert process_tree.alive({os.getpid(): 1}) == {}
