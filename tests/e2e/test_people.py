"""Snapshots for people: the stories of the original proposal, on the real snapshot controller and driver."""

import pytest

import data
import people
import stamps

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
    assert refused.returncode == 23 and "--last-too" in refused.stdout, refused
    people.run(bed, app, "delete", "mysql-snapshot", "--last-too", "--wait")
    assert taken["handle"] not in bed.driver.snapshots()
    assert not bed.api.list("leases", app)


@pytest.mark.journey
@pytest.mark.group
def test_a_stateful_set_is_taken_at_one_instant_and_promoted_as_a_set(bed, workspace):
    app = workspace.namespace(bed)
    pvcs = [f"data-db-{ordinal}" for ordinal in range(3)]
    bed.create_claims(pvcs, app, MIB)
    bed.api.create("statefulsets", people.stateful_set("db", app, "data"))
    with stamps.Writer(bed, [bed.volume_path(pvc, app) for pvc in pvcs]):
        taken = people.ask(bed, app, "create", "--statefulset", "db", "--name", "week", "--group", "always")
    assert [one["pvc"] for one in taken] == pvcs
    assert {one["set"] for one in taken} == {"week"} and {one["workload"] for one in taken} == {"StatefulSet/db"}
    assert len({one["taken_at"] for one in taken}) == 1, taken
    assert not [pvc for pvc in bed.api.list("persistentvolumeclaims", app) if pvc["metadata"].get("labels")]

    for one in taken:
        bed.wait_snapshot_ready(one["name"], app)
    people.run(bed, app, "promote", "--set", "week", "--replica-of", "copy", "--wait")
    copies = [bed.volume_path(f"data-copy-{ordinal}", app) for ordinal in range(3)]
    assert stamps.spread(copies) <= 1
    bed.api.delete("volumegroupsnapshots", "week", app)
    for ordinal in range(3):
        bed.delete_claim(f"data-copy-{ordinal}", app)
    bed.wait_snapshots_gone(app)


@pytest.mark.journey
def test_another_namespace_needs_rights_on_both_ends(bed, workspace):
    shop, team = workspace.namespace(bed, "shop"), workspace.namespace(bed, "team")
    bed.create_claim("data", shop, MIB)
    written = data.fill(bed.volume_path("data", shop), 1, MIB)
    people.run(bed, shop, "create", "data", "--name", "monday", "--wait", "ready")
    with people.roles(bed):
        words = ("promote", "monday", "copy", "--from-namespace", shop)
        here = [(team, "csi-delta-snapshot-user"), (team, "csi-delta-snapshot-viewer"), ("", "csi-delta-snapshot-reader")]
        neither = people.Person(bed, workspace.name("neither"), team, here)
        refused = neither.run(team, *words, check=False)
        assert refused.returncode == 1 and "may not get volumesnapshots" in refused.stderr, refused.stderr
        both = people.Person(bed, workspace.name("both"), shop, [*here, (shop, "csi-delta-snapshot-viewer")])
        refused = both.run(team, *words, check=False)
        assert refused.returncode == 1 and "ask for the ClusterRole csi-delta-snapshot-admin" in refused.stderr, refused.stderr
        assert not bed.api.list("persistentvolumeclaims", team)
        assert not bed.api.list("volumesnapshots", team)

    people.run(bed, team, *words, "--wait")
    data.expect(bed.volume_path("copy", team), written)
    assert not bed.api.list("volumesnapshots", team), "the pair that lent the snapshot is gone"
    shown, = people.ask(bed, shop, "list")
    assert shown["state"] == "Ready"
    people.run(bed, shop, "delete", "monday", "--last-too", "--wait")
