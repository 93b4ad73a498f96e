#include "longhorn/volume_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/typed.h"
#include "velero/volume_decision.h"

namespace csidelta::longhorn::volume_data_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using velero::kLonghornDriver;

objects::VolumeSnapshotClass ClassOf(const std::string& driver, const Json& parameters) {
  return support::As<objects::VolumeSnapshotClass>(
      {{"metadata", {{"name", "nightly"}}}, {"driver", driver}, {"parameters", parameters}});
}

TEST(CheckClassOfMoveTest, ASnapshotCanBeMoved) {
  EXPECT_THAT(CheckClassOfMove(ClassOf(kLonghornDriver, {{"type", "snap"}})), IsOk());
}

TEST(CheckClassOfMoveTest, ABackupOfLonghornWouldBeUploadedTwice) {
  for (const Json& parameters : {Json(), Json::object(), Json{{"type", ""}}}) {
    EXPECT_THAT(CheckClassOfMove(ClassOf(kLonghornDriver, parameters)),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("VolumeSnapshotClass nightly without the parameter type"),
                               HasSubstr("uploaded twice"), HasSubstr("type: snap"))));
  }
  for (const char* const type : {"bak", "Snap"}) {
    EXPECT_THAT(CheckClassOfMove(ClassOf(kLonghornDriver, {{"type", type}})),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("\"" + std::string(type) + "\""), HasSubstr("twice"))));
  }
}

TEST(CheckClassOfMoveTest, ABackingImageIsACopyOfAll) {
  EXPECT_THAT(CheckClassOfMove(ClassOf("Driver.Longhorn.io", {{"type", "bi"}})),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("backing image")));
}

TEST(CheckClassOfMoveTest, ClassesOfOtherDriversAreTheirOwn) {
  EXPECT_THAT(CheckClassOfMove(ClassOf("ebs.csi.aws.com", {{"type", "bak"}})), IsOk());
}

}  // namespace
}  // namespace csidelta::longhorn::volume_data_test
