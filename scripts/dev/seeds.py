"""The random seed of the day: samples of sweeps are drawn by it, so that each day draws others."""

import os
import time

VARIABLE = "CSI_DELTA_SWEEP"


def of_today(now=None):
    """The date in UTC as a number: 20261125."""
    return time.strftime("%Y%m%d", time.gmtime(now))


def set_once(environment=os.environ):
    """Gives every test the seed, unless the caller chose one; returns it."""
    environment.setdefault(VARIABLE, of_today())
    return environment[VARIABLE]


def replay(test_id, seed, verb="test"):
    """The command that runs one failed test again with the same seed."""
    quoted = f"'{test_id}'" if set(test_id) & set("[]*()$&;| ") else test_id
    return f"{VARIABLE}={seed} ./dev {verb} {quoted}"
