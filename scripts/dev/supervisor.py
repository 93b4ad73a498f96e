"""Runs a program's work in a child, so that whatever way it ends, nothing that it started lives on.

The parent does nothing but wait: it adopts orphans, passes signals on, and when the child has ended it ends all that
is left, also what had made a session of its own (a `go build` below a script, a daemon).
"""

import contextlib
import os
import signal
import sys
import traceback

import process_tree

GRACE_SECONDS = 90  # A test bed goes down in order.
_LEFT_SECONDS = 10
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _worker(work, on_signal):
    """The child: a process group of its own, so that a terminal's Ctrl-C reaches the parent alone."""
    os.setpgid(0, 0)
    process_tree.end_with_parent(signal.SIGTERM)

    def interrupted(number, frame):
        del frame
        for other in _PASSED_ON:  # Once: what tidies up now is not to be interrupted as well.
            signal.signal(other, signal.SIG_IGN)
        on_signal()
        raise KeyboardInterrupt(signal.Signals(number).name)
    for number in _PASSED_ON:
        signal.signal(number, interrupted)
    code = 1
    try:
        code = work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()  # os._exit() prints nothing.
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(work, on_signal=lambda: None):
    """Calls work() in a child and returns its code; afterwards none of its descendants runs.

    A signal calls on_signal() there, which tells threads, and then interrupts what the main thread does.
    """
    process_tree.adopt_orphans()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _worker(work, on_signal)
    received = []

    def pass_on(number, frame):
        del frame
        received.append(number)
        if len(received) > 1:  # Asked twice: at once.
            number = signal.SIGKILL
        elif number == signal.SIGALRM:
            number = signal.SIGKILL
        else:
            signal.alarm(GRACE_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)
    for number in (*_PASSED_ON, signal.SIGALRM):
        signal.signal(number, pass_on)
    status = 0
    while True:
        pid, status = os.waitpid(-1, 0)  # Orphans that end are reaped here, too.
        if pid == child:
            break
    signal.alarm(0)
    left = process_tree.descendants(os.getpid())
    if left:
        print(f"dev: ending what was left: {'; '.join(process_tree.names(left))}", file=sys.stderr, flush=True)
        process_tree.end(lambda: process_tree.descendants(os.getpid()), _LEFT_SECONDS, reap=True)
    return 128 + received[0] if received else os.waitstatus_to_exitcode(status)
