"""Snapshots for people: the stories of the original proposal, on the real snapshot controller and driver."""

import pytest

import objects
import people

MIB = 1 << 20


@pytest.fixture
def bed(beds):
    return beds.get()


@pytest.mark.journey
@pytest.mark.own_driver("needs a snapshot that becomes ready late")
def test_alice_locks_takes_unlocks_copies_and_deletes(bed, workspace):
    """She holds the lock of her database for as long as it takes to take the snapshot, and no longer."""
    app = workspace.namespace(bed)
    bed.create_claim("claim-mysql", app, MIB)
    with people.Ledger(bed.volume_path("claim-mysql", app)) as ledger:
        with bed.driver.faults({"method": "*", "lie": "not_ready"}):  # It is uploading for long.
            with ledger.locked() as locked_ms:
                taken, = people.ask(bed, app, "create", "claim-mysql", "--name", "mysql-snapshot")
                number = ledger.number
            print(f"locked for {locked_ms():.0f} ms, {taken['asked_to_taken_ms']} of them until it was taken")
            assert (taken["state"], taken["name"]) == ("Uploading", "mysql-snapshot")
            assert taken["handle"] in bed.driver.snapshots()
            early = people.run(bed, app, "promote", "mysql-snapshot", "early", check=False)
            assert early.returncode == 1 and "mysql-snapshot" in early.stderr, early.stderr
            assert not bed.api.get("persistentvolumeclaims", "early", app)
        bed.wait_snapshot_ready("mysql-snapshot", app)
        bed.wait_for(lambda: ledger.number > number + 1, 30, "the application going on")

    people.run(bed, app, "promote", "mysql-snapshot", "snapshot-data-claim", "--wait")
    assert people.numbers(bed.volume_path("snapshot-data-claim", app)) == [number, number]
    shown = people.ask(bed, app, "list")
    assert [(one["name"], one["state"], one["used_by"]) for one in shown] == [
        ("mysql-snapshot", "Ready", ["snapshot-data-claim"])]

    bed.delete_claim("snapshot-data-claim", app)
    refused = people.run(bed, app, "delete", "mysql-snapshot", check=False)
    assert refused.returncode == 23 and "--last-too" in refused.stderr, refused.stderr
    people.run(bed, app, "delete", "mysql-snapshot", "--last-too", "--wait")
    assert taken["handle"] not in bed.driver.snapshots()
    assert not bed.api.list("leases", app)
