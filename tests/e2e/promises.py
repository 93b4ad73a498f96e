"""Promises of seconds. They are asserted where nothing else runs beside; elsewhere a wait has room, and the run says so."""

import os

QUIET = os.environ.get("CSI_DELTA_QUIET") == "1"
BUSY_SECONDS = 120  # Long enough on a machine that compiles beside.
not_asserted = set()


def within(seconds, what):
    """The seconds that a wait for `what` may take: the promised ones on a quiet machine."""
    if QUIET:
        return seconds
    not_asserted.add(f"{what} within {seconds} s")
    return max(seconds, BUSY_SECONDS)
