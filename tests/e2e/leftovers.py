"""What the tests of one bed leave behind, told apart from what a test that failed had no chance to delete."""


def _more(things, before):
    return {kind: set(names) - set(before[kind]) for kind, names in things.items()}


class Leftovers:
    """Of one bed; `things` are what Bed.things() returns, {kind: names}."""

    def __init__(self, at_start):
        self._at_start = self._before = at_start
        self._excused = {kind: set() for kind in at_start}

    def begin(self, things, failed):
        """A test begins. Had the one before `failed`, then what has appeared since that one began is its own."""
        if failed:
            for kind, names in _more(things, self._before).items():
                self._excused[kind] |= names
        self._before = things

    def left(self, things):
        """What is there more than at the start, but for what belongs to tests that failed: {kind: sorted names}."""
        return {kind: sorted(names) for kind, more in _more(things, self._at_start).items() if (names := more - self._excused[kind])}
