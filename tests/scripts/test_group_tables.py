"""Every row of the tables in docs/volume-groups.md is a promise, and names the tests that prove it."""

import re

import pytest
import scenarios
from console import ROOT

# The headings of the page; below each the first cell of each row | Suite.Case of unit tests, or file::test below tests/e2e.
PROVEN_BY = r"""
## See which PVCs are members
a volume policy skips, or gives to another plugin | LeftOutTest.TheOthersAreCutWithoutIt
is to be moved where the others are to be kept as snapshots, or the reverse |
    MovedVolumeGroupTest.ThoseThatAreKeptAreAGroupByThemselves
has no volume, or none of a CSI driver | LeftOutTest.TheOthersAreCutWithoutIt
    VolumeGroupTest.AnUnboundClaimIsNeitherAMemberNorTakenAlone
is of another driver than the first claim of the group that is backed up | VolumeGroupTest.AClaimOfAnotherDriverIsTakenAlone
is being deleted, or is labelled `velero.io/exclude-from-backup` | LeftOutTest.TheOthersAreCutWithoutIt
Velero's own action took in this backup | LeftOutTest.TheOthersAreCutWithoutIt
gains the label when the group was made already | VolumeGroupTest.AClaimThatGainsTheLabelMeanwhileIsTakenAlone
loses the label before its group is made | VolumeGroupTest.AClaimThatLostTheLabelMeanwhileIsTakenAlone
loses the label after its group was made | VolumeGroupTest.AClaimThatLosesTheLabelLaterIsTakenAloneToo
is the only one with its label value | VolumeGroupTest.TheOnlyClaimOfItsLabelIsAGroupOfOne
## See what happens when a group cannot be made
the kinds are not installed, or may not be listed | GroupFallbackTest.EachClaimAlone GroupFallbackTest.OrAnErrorThatNamesTheGroup
    test_groups.py::test_without_groups_each_is_taken_alone
the driver has no VolumeGroupSnapshotClass | GroupFallbackTest.EachClaimAlone GroupFallbackTest.OrAnErrorThatNamesTheGroup
it has several and none is chosen | VolumeGroupTest.TwoClassesAreAnErrorThatNamesBoth
a class that is named does not fit | VolumeGroupTest.AClassOfAnotherDriverIsNotTaken ChooseGroupSnapshotClassTest.Picks
more than 100 members, the most that the KEP allows | VolumeGroupTest.AHundredAreAGroupAndAHundredAndOneAreNot
a claim may not be labelled for the time of the snapshot, or the label is taken off | GroupFallbackTest.EachClaimAlone
    TakeGroupTest.LabelsThatDoNotStayAreNamed
the driver answers Unimplemented | TakeGroupTest.ADriverWithoutGroupsIsToldAtOnce
no claim has the label any more when the group is to be made | VolumeGroupTest.AnUnusedLabelMakesNoGroup
the controller, the driver or its sidecar never answers: one is older than the others, or its gate is off |
    TakeGroupTest.ADriverThatNeverAnswersIsWaitedForSoLong VolumeGroupTest.AControllerWhoseGateIsOffIsWaitedForOnceAndNothingIsLeft
the driver cuts the group, which never becomes ready | GroupActionsTest.AGroupThatNeverBecomesReadyIsVelerosToCancel
the driver refuses, in a way that asking again does not change, for a minute |
    GroupLifecycleTest.AnErrorThatNamesAVolumeNamesItsClaim
one volume of three fails | GroupLifecycleTest.AFailingMemberIsNamed
the group or a member is deleted meanwhile | TakeGroupTest.ItsDeletionByAnotherClientEndsTheWait
    test_groups_faults.py::test_a_group_that_is_deleted_while_it_is_made
    test_groups_faults.py::test_a_group_that_is_deleted_before_it_is_ready VolumeGroupTest.AGroupThatWasRemovedIsInNoClaim
the snapshot controller is restarted | test_groups_faults.py::test_a_controller_that_is_restarted_while_a_group_is_made
the plugin is killed | test_groups_faults.py::test_a_kill_between_two_calls_leaves_nothing
    GroupActionsTest.ClaimsOfAGroupThatIsNotInTheArchiveFail
the group cannot be saved | VolumeGroupTest.AGroupThatWasRemovedIsInNoClaim
Velero is killed | test_groups_faults.py::test_a_kill_between_two_calls_leaves_nothing
the backup is deleted | test_groups_faults.py::test_a_backup_that_is_deleted_while_its_group_is_made
the plugin is killed while the backup is deleted | test_groups_faults.py::test_a_kill_while_a_backup_is_deleted_leaves_nothing
Velero is killed while the backup is deleted | test_groups_faults.py::test_a_kill_while_a_backup_is_deleted_leaves_nothing
## Which groups can be restored
`complete` | GroupListingTest.GroupsAreFoundOverTheRepositoriesOfTheirMembers
`incomplete` | VolumeGroupsTest.AMissingMemberMakesItIncomplete
    test_mover_groups.py::test_a_member_that_falls_behind_loses_its_base_with_the_group
`unknown` | VolumeGroupsTest.NumbersThatAreNoneLeaveItUnknown
## Move a group into a bucket
the plugin, before the group has its record | DyingPluginTest.WhereverItDiesTheOthersAreMovedAndTheNextBackupLeavesOneGroup
the plugin, after that | DyingPluginTest.WhereverItDiesTheOthersAreMovedAndTheNextBackupLeavesOneGroup
the plugin, and no claim of the group comes after | MovedGroupTest.AnAbandonedRecordIsDeletedLater
    MovedGroupTest.AMemberWithoutAVolumeSnapshotIsGivenUpOnceItsBackupIsOver
the data mover | MovedGroupTest.AMoverThatDiesWhileItFinalizesIsFollowedByOneThatContinues
    test_mover_groups_kills.py::test_a_controller_that_is_killed_between_two_writes_goes_on_with_its_groups
## Compare with stock Velero and the KEP
API version | GroupKindsTest.AreThoseThatTheClusterServes
    test_groups.py::test_a_group_comes_back_from_one_instant_and_goes_with_its_backup
members are told by | DropSnapshotTest.MembersOfAnotherVersionAreDeletedToo
selector | GroupLifecycleTest.TheSelectorIsALabelOfThisBackupAlone LeftOutTest.TheOthersAreCutWithoutIt
class | ChooseGroupSnapshotClassTest.Picks VolumeGroupTest.TheDefaultClassIsTaken
claims of several drivers | VolumeGroupTest.AClaimOfAnotherDriverIsTakenAlone
no group to be had | GroupFallbackTest.EachClaimAlone GroupFallbackTest.OrAnErrorThatNamesTheGroup
an error after the group was asked for | TakeGroupTest.NoFailingCallLeavesAnythingBehind
    VolumeGroupTest.AGroupThatFailsFailsForEveryMember
a failing member | GroupLifecycleTest.AFailingMemberIsNamed
members until the end of the backup | GroupActionsTest.AMemberIsNotRemovedAlone
    GroupActionsTest.AtTheEndTheDriverKeepsTheGroupAndNothingElseIsLeft
what the archive says of the group | GroupActionsTest.AContentIsArchivedWithTheMembersOfItsGroup
    GroupRestoreTest.AClassBringsTheSecretsThatTheArchiveHolds
waits | GroupLifecycleTest.NothingPollsWhileTheDriverTakesItsTime
deletion | GroupDeletionTest.TheTemporaryContentCarriesAllThatDeletionNeeds GroupDeletionActionsTest.MembersAreNotDeletedOneByOne
restore | GroupRestoreTest.ManagedGroupsAreLeftOut GroupRestoreTest.OnRequestTheGroupComesBackBeforeItsMembers
    GroupRestoreTest.AUsersGroupComesBackUnderItsName GroupRestoreTest.ArchivesOfOneVersionComeBackWhereAnotherIsServed
"""


def sections(text):
    """(heading, what is below it) of the parts of a text."""
    parts = re.split(r"^## (.+)\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


PROOFS = sections(PROVEN_BY.replace("\n    ", " "))


@pytest.mark.parametrize("title", PROOFS)
def test_every_row_is_proven(title):
    page = sections((ROOT / "docs" / "volume-groups.md").read_text())[title]
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("|")][2:]
    proven = [line.split(" | ") for line in PROOFS[title].splitlines()]
    assert rows == [row for row, _ in proven]
    assert [name for _, names in proven for name in names.split() if not scenarios.is_declared(name)] == []
