"""The mover's daily check of a repository: what it verified stands in the volume's record, and so does damage."""

import datetime

import pytest

import mover
import runbook
from moving import MIB, PHASE_SECONDS_MAX, annotation, await_nothing_left, back_up, reason, repository_of

VOLUME_BYTES = 16 * MIB
CHECKED_SECONDS_MAX = 180
ALL_AT_ONCE = {"checks": {"percentPerDay": 100}}  # So that one check reads each pack.

pytestmark = pytest.mark.moves


def verification(bed, app):
    return mover.record_of(bed, app).get("status", {}).get("verification") or {}


def set_verified(bed, record, days_ago):
    """Makes a record one that was verified so long ago; returns when, as it stands there."""
    at = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    bed.api.patch("protectedvolumes", record["metadata"]["name"], {"status": {"verification": {"at": at}}}, bed.namespace, "status")
    return at


def spare_others(bed, app):
    """No check of the volumes that other tests have left begins within a day."""
    for record in bed.api.list("protectedvolumes", bed.namespace):
        if record["spec"]["namespace"] != app:
            set_verified(bed, record, 0)


def check_now(bed, app):
    """Makes the check of a volume due, and returns the verification that it writes."""
    before = set_verified(bed, mover.record_of(bed, app), 2)
    bed.wait_for(lambda: verification(bed, app).get("at", before) != before, CHECKED_SECONDS_MAX,
                 lambda: f"a check of {app}: {mover.record_of(bed, app)}\n{mover.tell(bed)}")
    return verification(bed, app)


def flip_one_bit(pack):
    """In the middle of a pack, whose file is written in place: it keeps its mode and owner."""
    with pack.open("r+b") as file:
        file.seek(pack.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def findings(bed, app):
    """What the metric says of a namespace's volume; None where it has no sample."""
    values = [value for series, value in mover.metrics(bed).items()
              if series.startswith("csi_delta_mover_verification_findings{") and f'namespace="{app}"' in series]
    return values[0] if values else None


def await_event(bed, app, reason):
    name = mover.record_of(bed, app)["metadata"]["name"]

    def reasons():
        return [e["reason"] for e in bed.api.list("events", bed.namespace) if e["involvedObject"].get("name") == name]
    bed.wait_for(lambda: reason in reasons(), PHASE_SECONDS_MAX, lambda: f"the Event {reason}: {reasons()}")


def test_a_check_verifies_a_repository_and_names_the_backup_that_damage_breaks(bed, workspace):
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    backup, upload = back_up(bed, workspace, app, "checked")
    mover.await_recorded(bed, app, backup)
    assert not verification(bed, app), "checks are off"
    spare_others(bed, app)
    with mover.configured(bed, ALL_AT_ONCE):
        good = check_now(bed, app)
        assert not good.get("finding") and not good.get("brokenBackups"), good
        assert good["readBytes"] > 0 and good["parts"] == 1 and good["allSince"], good
        bed.wait_for(lambda: findings(bed, app) == 0, PHASE_SECONDS_MAX, lambda: f"the metric: {mover.metrics(bed)}")

        pack = max((repository_of(bed, upload) / "data").glob("*/*"), key=lambda file: file.stat().st_size)
        flip_one_bit(pack)
        bad = check_now(bed, app)
        assert bad["finding"] and bad["brokenBackups"] == [backup], bad
        assert "cannot be restored" in bad["finding"] and backup in bad["finding"], bad
        await_event(bed, app, "VerificationFailed")
        bed.wait_for(lambda: mover.record_of(bed, app)["status"].get("nextStep", "").startswith("a check found: "),
                     PHASE_SECONDS_MAX, lambda: f"a next step: {mover.record_of(bed, app)}")
        bed.wait_for(lambda: findings(bed, app) == 1, PHASE_SECONDS_MAX, lambda: f"the metric: {mover.metrics(bed)}")

        flip_one_bit(pack)
        mended = check_now(bed, app)
        assert not mended.get("finding") and not mended.get("brokenBackups"), mended
        await_event(bed, app, "Verified")
        bed.wait_for(lambda: not mover.record_of(bed, app)["status"].get("nextStep"), PHASE_SECONDS_MAX,
                     lambda: f"no next step: {mover.record_of(bed, app)}")
        await_nothing_left(bed)


def test_the_runbook_ends_a_finding(bed, workspace, tmp_path):
    alert = "CsiDeltaVerificationFinding"
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    _, upload = back_up(bed, workspace, app, "damaged")
    pack = max((repository_of(bed, upload) / "data").glob("*/*"), key=lambda file: file.stat().st_size)
    flip_one_bit(pack)
    spare_others(bed, app)
    with mover.configured(bed, ALL_AT_ONCE):
        found = check_now(bed, app)
        assert found["brokenBackups"] and pack.name in found["finding"], found
        bed.wait_for(lambda: findings(bed, app) == 1, PHASE_SECONDS_MAX, lambda: f"the metric: {mover.metrics(bed)}")
        runbook.expect(tmp_path, {}, mover.metrics(bed), alert, runbook.SOON, fires=True, namespace=app)
        assert found["damage"]["packs"] == [pack.name], found
        # The backup first, which is good by itself: so the repair loses nothing.
        for command in runbook.commands(alert)[1]:
            runbook.run(bed, tmp_path, command, NS=app, PACK=pack.name)
        again, = [b["metadata"]["name"] for b in bed.api.list("backups", bed.namespace)
                  if b["metadata"]["name"].startswith("again-") and b["spec"]["includedNamespaces"] == [app]]
        workspace.expect_backup(bed, again)
        after = mover.upload_of(bed, again)
        assert reason(after) == "parent-damaged", after
        assert "which a check found damaged" in annotation(after, "reason"), after
        good = check_now(bed, app)
        assert not good.get("finding") and not good.get("damage"), good
        bed.wait_for(lambda: findings(bed, app) == 0, PHASE_SECONDS_MAX, lambda: f"the metric: {mover.metrics(bed)}")
        runbook.expect(tmp_path, {}, mover.metrics(bed), alert, runbook.SOON, fires=False, namespace=app)
        await_nothing_left(bed)
