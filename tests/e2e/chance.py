"""What a run draws by chance: kill points, faults, versions. Another sample each day, and any of them again by its seed.

CSI_DELTA_SWEEP is the seed, an integer; "all" draws nothing and takes everything; unset, it is today's date.
"""

import datetime
import os
import random

_ASKED = os.environ.get("CSI_DELTA_SWEEP", "")
EVERYTHING = _ASKED == "all"
if _ASKED and not EVERYTHING and not _ASKED.isdecimal():
    raise ValueError(f"CSI_DELTA_SWEEP={_ASKED}: want an integer or \"all\"")
# Of a run of everything it decides the bytes that are written and no more.
SEED = 1 if EVERYTHING else int(_ASKED or datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d"))


def draw(*what):
    """The generator of one decision, which no other decision shifts."""
    return random.Random(" ".join(map(str, (SEED, *what))))


def one_of(*choices):
    """Of several that take the same way a sample has one."""
    names = [getattr(choice, "__name__", choice) for choice in choices]
    return list(choices) if EVERYTHING else [draw(*names).choice(choices)]


def replay(node_id):
    """The command that runs a test with what was drawn for it."""
    return f"CSI_DELTA_SWEEP={'all' if EVERYTHING else SEED} ./dev test '{node_id}'"
