"""Taking the data mover out: nothing of it is left, and what was to be kept can be used."""

import json

import pytest

import components
import data
import mover
import objects
from moving import MIB, await_base, await_nothing_left, back_up, restored_checksum, undone

VOLUME_BYTES = 8 * MIB
FOREIGN = "c2000000-0000-4000-8000-000000000002"  # Another cluster's folder.

pytestmark = pytest.mark.moves


def program(bed, *words, **kwargs):
    return bed.run([components.program_path(), *words, "--mover-namespace", mover.NAMESPACE], **kwargs)


def uninstall(bed, *flags):
    """What it prints of each object, by its action, and its result."""
    told = program(bed, "uninstall", "--json", "--velero-namespace", bed.namespace, *flags)
    *things, result = map(json.loads, told.stdout.splitlines())
    actions = {}
    for thing in things:
        actions.setdefault(thing["fate"], []).append(f"{thing['kind']} {thing['name']}")
    return actions, result


def root(bed):
    return bed.s3_dir / objects.BUCKET / "plugins" / "csi-delta"


def folders(bed):
    """The clusters that have objects in the bucket."""
    return {path.relative_to(root(bed)).parts[0] for path in root(bed).rglob("*") if path.is_file()}


def ours(bed):
    """What there is of the mover in cluster and driver: its volume snapshots are all there are in these tests."""
    contents = bed.api.list("volumesnapshotcontents", labelSelector="mover.csi-delta.io/task")
    return [*bed.driver.snapshots(), *contents, *mover.left_behind(bed), *mover.bases(bed)]


@pytest.fixture(autouse=True)
def tidy(bed, workspace):
    yield
    mover.serve(bed)
    workspace.clear()
    # The data is gone with its keys, so that nothing is left to delete.
    for deletion in bed.api.list("datadeletions", bed.namespace):
        bed.api.delete("datadeletions", deletion["metadata"]["name"], bed.namespace)
    assert not undone(bed)


@pytest.mark.journey
def test_nothing_managed_is_left_and_all_of_another_cluster(bed, workspace):
    app, _ = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    back_up(bed, workspace, app, "moved")
    await_nothing_left(bed)
    foreign = root(bed) / FOREIGN / "shop" / "u" / "config"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("foreign")
    own = bed.api.get("namespaces", "kube-system")["metadata"]["uid"]
    others = folders(bed) - {own}  # Other tests may have left some.
    assert FOREIGN in others
    assert await_base(bed, app) and mover.keyring(bed)

    everything = ("--delete-data", own)
    actions, result = uninstall(bed, *everything)
    assert set(actions) == {"goes", "stays"} and result["dry_run"] and own in folders(bed)
    mover.uninstall(bed)
    actions, result = uninstall(bed, *everything, "--yes")
    assert "failed" not in actions and result["things"] == len(actions["gone"]) >= 3, actions
    assert not ours(bed)
    assert folders(bed) == others
    assert not [s for s in bed.api.list("secrets", mover.NAMESPACE) if s["metadata"]["name"].startswith("csi-delta-")]
    actions, result = uninstall(bed, *everything, "--yes")
    assert result["things"] == 0 and set(actions) == {"stays"}, actions
    foreign.unlink()
    mover.install(bed)


def test_data_that_was_kept_comes_back_with_the_exported_key(bed, workspace):
    app, written = workspace.volume(bed, VOLUME_BYTES, labels=mover.RESTRICTED)
    backup, _ = back_up(bed, workspace, app, "moved")
    await_nothing_left(bed)
    keys = bed.scratch / "kept.keys"
    place = ("--velero-namespace", bed.namespace, "--location", "default")
    keys.write_text(program(bed, "mover-key", "export", *place).stdout)

    actions, _ = uninstall(bed, "--yes")
    assert "failed" not in actions and any(thing.startswith("Secret") for thing in actions["stays"]), actions
    assert not ours(bed) and mover.repositories(bed)
    mover.uninstall(bed)
    bed.delete_namespace(mover.NAMESPACE)
    mover.serve(bed)
    program(bed, "mover-key", "import", keys, *place)
    data.same(restored_checksum(bed, workspace, app, backup, "again"), written)
