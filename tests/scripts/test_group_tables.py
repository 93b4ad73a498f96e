"""Every row of the tables in docs/volume-groups.md is a promise, and names the scenarios that prove it."""

import re

import pytest
import scenarios
from console import ROOT

# The first cell of each row: the scenarios of tests/scenarios.txt.
PROVEN_BY = {
    "Who is a member": {
        "a volume policy skips, or gives to somebody else": "61d",
        "is to be moved where the others are to be kept as snapshots, or the reverse": "66p",
        "has no volume, or none of a CSI driver": "61d 65n",
        "is of another driver than the first claim of the group that is backed up": "61e",
        "is being deleted, or is labelled `velero.io/exclude-from-backup`": "61d",
        "Velero's own action took in this backup": "61d",
        "gains the label when the group was made already": "61f",
        "loses the label before its group is made": "65o",
        "loses the label after its group was made": "65p",
        "is the only one with its label value": "65j",
    },
    "What happens when there is no group": {
        "the kinds are not installed, or may not be listed": "61g 61h 63f",
        "the driver has no VolumeGroupSnapshotClass": "61g 61h",
        "it has several and none is chosen": "61w",
        "a class that is named does not fit": "65q 65h",
        "more than 100 members, the most that the KEP allows": "61i",
        "a claim may not be labelled for the time of the snapshot, or somebody takes the label off": "61g 61n",
        "the driver answers Unimplemented": "61j",
        "no claim has the label any more when the group is to be made": "65m",
        "the controller, the driver or its sidecar never answers: one is older than the others, or its gate is off": "61k 65k",
        "the driver cuts the group, which never becomes ready": "65l",
        "the driver refuses, in a way that asking again does not change, for a minute": "65y",
        "one volume of three fails": "61l 63e",
        "somebody deletes the group or a member meanwhile": "65x 64f 64g 64m",
        "the snapshot controller is restarted": "64e",
        "the plugin is killed": "64i 64l",
        "the group cannot be saved": "64m",
        "Velero is killed": "64i",
        "the backup is deleted": "64h",
        "the plugin is killed while the backup is deleted": "64n",
        "Velero is killed while the backup is deleted": "64p",
    },
    "Which groups can be restored": {
        "`complete`": "67a",
        "`incomplete`": "67b 67k",
        "`unknown`": "67d",
    },
    "Groups that are moved": {
        "the plugin, before the group has its record": "66r 66u",
        "the plugin, after that": "66r 66u",
        "the plugin, and no claim of the group comes after": "66j 66t",
        "the data mover": "66s 66v",
    },
    "What stock Velero does, what the KEP promises, what ours does": {
        "API version": "65r 63b",
        "members are told by": "61o",
        "selector": "65s 61d",
        "class": "65h 65i",
        "claims of several drivers": "61e",
        "no group to be had": "61g 61h",
        "an error after the group was asked for": "61q 61m",
        "a failing member": "61l 63e",
        "members until the end of the backup": "61s 61r",
        "what the archive says of the group": "61u 62r",
        "waits": "65t",
        "deletion": "62a 62b",
        "restore": "62n 62o 62p 62q",
    },
}


def rows_of(title):
    """The first cells of the table below a heading, without those of its head."""
    text = (ROOT / "docs" / "volume-groups.md").read_text()
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    return [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("title", PROVEN_BY)
def test_every_row_is_proven(title):
    assert rows_of(title) == list(PROVEN_BY[title])
    known = {scenario.id for scenario in scenarios.read()}
    assert {id for ids in PROVEN_BY[title].values() for id in ids.split()} <= known
