"""Velero takes groups, too: of one of the two, never of both."""

import pytest

import objects
from groups import CLAIMS, LABEL, MIB, Database

pytestmark = pytest.mark.group


def made_by(bed, user, since):
    """The creations of VolumeGroupSnapshots that a user asked the API server for."""
    return [e for e in bed.audit_events(user, since) if e["verb"] == "create"
            and e["objectRef"]["resource"] == "volumegroupsnapshots"]


@pytest.mark.journey
def test_a_managed_group_is_taken_once(bed, workspace):
    """Velero's default for the label is that of the claims, and its own action comes first."""
    database = Database(bed, workspace)
    position = bed.audit_position()
    database.back_up()
    assert len(bed.driver.groups()) == 1
    assert len(made_by(bed, bed.plugin_user, position)) == 1
    assert not made_by(bed, "velero-server", position)


@pytest.fixture
def velero_knows_the_class(bed):
    """Velero takes no class that is not labelled so."""
    def label(value):
        bed.api.patch("volumegroupsnapshotclasses", objects.GROUP_CLASS,
                      {"metadata": {"labels": {"velero.io/csi-volumegroupsnapshot-class": value}}})
    label("true")
    yield
    label(None)


@pytest.mark.long
@pytest.mark.usefixtures("velero_knows_the_class")
def test_a_group_that_velero_takes_is_not_taken_again(bed, workspace):
    """Whatever becomes of it: with this snapshot controller Velero 1.18.3 does not find the members, and fails."""
    app = workspace.namespace(bed)
    bed.create_claims(CLAIMS, app, MIB, labels={LABEL: "db"})
    position = bed.audit_position()
    workspace.backup(bed, "--include-namespaces", app, "--csi-snapshot-timeout", "5s", expect="PartiallyFailed")
    theirs = made_by(bed, "velero-server", position)
    assert theirs
    assert 0 < len(bed.driver.groups()) <= len(theirs)
    assert not made_by(bed, bed.plugin_user, position)
    assert not [e for e in bed.audit_events(bed.plugin_user, position) if e["verb"] in ("create", "patch", "update")
                and e["objectRef"]["resource"].startswith(("volume", "persistentvolume"))]
