"""Reports to look at: what `csi-delta report --json` would print of a shop with an ordinary month, or with a bad week."""

import datetime
import random

MADE_AT = datetime.datetime(2026, 11, 30, 8, 12, tzinfo=datetime.timezone.utc)
GIB = 1 << 30
APPS = ("shop/orders", "shop/pictures", "shop/search", "billing/ledger", "billing/invoices", "mail/boxes", "wiki/pages", "ci/artifacts",
        "ci/cache", "auth/users", "metrics/tsdb", "chat/history")
EVICTED = "volume {}: transfer: the worker Pod was evicted from node worker-{}; give it a memory limit of 1Gi in the settings"
NO_ROOM = "volume {}: store pack: PUT data/3f/3f81: 507 Insufficient Storage; free room in the bucket, or run csi-delta prune"


def _time(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _backup(name, night, at, state, chance):
    size = (20 + 7 * (len(name) % 9)) * GIB
    if state is not None:
        number = at.strftime("%Y%m%d") + "020000"
        return {"at": _time(at), "state": "failed", "backup": f"nightly-{number}", "message": state.format(name, chance.randrange(9))}
    is_full = night == 0 or chance.random() < 0.01
    changed = size if is_full else int(size * chance.uniform(0.002, 0.02) * (1.8 if at.weekday() < 5 else 0.6))
    return {"at": _time(at), "state": "good", "backup": f"nightly-{at:%Y%m%d}020000", "snapshot": f"{chance.getrandbits(32):08x}",
            "base": "" if is_full else f"{chance.getrandbits(32):08x}", "mode": "full" if is_full else "incremental",
            "reason": ("no-parent" if night == 0 else "base-snapshot-gone") if is_full else "", "size_bytes": size, "changed_bytes": changed,
            "read_bytes": changed, "audit_bytes": 0 if is_full else 256 << 19, "stored_bytes": int(changed * 0.55)}


def report(bad, days=30, volumes=12, seed=1):
    """`bad`: the last week had a full bucket, evicted workers, a paused schedule and a damaged pack."""
    chance = random.Random(seed)
    begin = MADE_AT - datetime.timedelta(days=days)
    names = [f"{APPS[i % len(APPS)]}{'' if i < len(APPS) else f'-{i // len(APPS)}'}" for i in range(volumes)]
    entries = []
    for i, name in enumerate(names):
        backups = []
        for night in range(days):
            at = begin.replace(hour=2, minute=0) + datetime.timedelta(days=night + 1, seconds=20 * i)
            left, state = days - 1 - night, None
            if bad and i == 1 and left < 6 or not bad and i == 4 and left == 11:
                state = EVICTED
            if bad and 2 <= left <= 3 and i % 3 != 2:
                state = NO_ROOM
            if not (bad and i == 4 and left < 5):
                backups.append(_backup(name, night, at, state, chance))
        entry = {"name": name, "location": "velero/default", "schedules": ["0 2 * * *"], "known_since": _time(begin),
                 "verified_at": _time(MADE_AT - datetime.timedelta(days=3 + i % 4)), "backups": backups}
        if bad and i == 6:
            entry["finding"] = "pack 6e0ca2f1 is damaged: the hash of blob 91b2 is wrong"
            for backup in backups[:9]:
                backup["state"] = "broken"
        entries.append(entry)
    return {"schema_version": 1, "made_at": _time(MADE_AT), "since": _time(begin), "subject": "the cluster prod", "notes": [], "volumes": entries}
