#include "objects/copy_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "objects/keys.h"

namespace csidelta::objects::copy_record_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

PersistentVolumeClaim PvcWith(const std::string& text) {
  PersistentVolumeClaim pvc = PersistentVolumeClaim::Make("shop", "data");
  pvc.SetAnnotation(kCopyRecordAnnotation, text);
  return pvc;
}

TEST(CopyRecordTest, WhatIsWrittenIsRead) {
  const absl::Time at = absl::FromUnixSeconds(1'780'000'000);
  const auto read = ParseCopyRecord(PvcWith(FormatCopyRecord({.from = "velero/x",
                                                              .id = "5f3a",
                                                              .upload = "nightly",
                                                              .at = at,
                                                              .has_begun = true,
                                                              .has_ended = true,
                                                              .has_written = true})));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->from, "velero/x");
  EXPECT_EQ(read->id, "5f3a");
  EXPECT_EQ(read->upload, "nightly");
  EXPECT_EQ(read->at, at);
  EXPECT_TRUE(read->has_begun);
  EXPECT_TRUE(read->has_ended);
  EXPECT_TRUE(read->has_written);
  EXPECT_FALSE(ParseCopyRecord(PvcWith("")).has_value());
}

// Another version reads it: its form stays.
TEST(CopyRecordTest, ItsFormIsThatOfEveryVersion) {
  const absl::StatusOr<Json> json =
      ParseJsonObject(FormatCopyRecord({.from = "velero/x",
                                        .id = "uid-1",
                                        .upload = "nightly",
                                        .at = absl::FromUnixSeconds(1'780'000'000),
                                        .has_begun = true,
                                        .has_ended = true,
                                        .has_written = true}));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(GetString(*json, {"from"}), "velero/x");
  EXPECT_EQ(GetString(*json, {"id"}), "uid-1");
  EXPECT_EQ(GetString(*json, {"upload"}), "nightly");
  EXPECT_TRUE(GetBool(*json, {"begun"}));
  EXPECT_TRUE(GetBool(*json, {"ended"}));
  EXPECT_TRUE(GetBool(*json, {"writes"}));
  EXPECT_EQ(json->size(), 7U);
}

// Who changed the PVC meanwhile may have begun another restore.
TEST(CopyRecordTest, ItIsWrittenOnThePvcAsItWasRead) {
  const PersistentVolumeClaim pvc = *PersistentVolumeClaim::Of(
      {{"metadata", {{"name", "data"}, {"uid", "data-uid"}, {"resourceVersion", "7"}}}});
  const CopyRecord record{.from = "velero/x"};
  for (const CopyRecord* written : {&record, static_cast<const CopyRecord*>(nullptr)}) {
    const Json patch = CopyRecordPatch(pvc, written).json();
    EXPECT_EQ(GetString(patch, {"metadata", "uid"}), "data-uid");
    EXPECT_EQ(GetString(patch, {"metadata", "resourceVersion"}), "7");
    const Json* value = FindJson(patch, {"metadata", "annotations", kCopyRecordAnnotation});
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(value->is_null(), written == nullptr);
    EXPECT_EQ(GetString(patch, {"metadata", "annotations", kCopyRecordAnnotation}),
              written == nullptr ? "" : FormatCopyRecord(record));
  }
}

TEST(CopyRecordTest, AnUnreadableRecordBlocksNoRestore) {
  for (const char* text : {"x", "[]", "{}", R"({"from":7})"}) {
    SCOPED_TRACE(text);
    const auto read = ParseCopyRecord(PvcWith(text));
    ASSERT_TRUE(read.has_value());
    EXPECT_FALSE(IsWrittenByMover(*read, ""));
  }
}

TEST(CopyRecordTest, TheMoverKeepsOthersAwayUntilItHasEnded) {
  CopyRecord record{.from = "velero/x", .id = "uid-1"};
  EXPECT_TRUE(IsWrittenByMover(record, ""));
  EXPECT_TRUE(IsWrittenByMover(record, "uid-2"));
  EXPECT_FALSE(IsWrittenByMover(record, "uid-1"));
  record.has_ended = true;
  EXPECT_FALSE(IsWrittenByMover(record, ""));
  EXPECT_TRUE(IsWrittenByMover({.id = "uid-1"}, ""));  // Half a record.
}

// People paste it, and every client that may patch a PVC may write the record.
TEST(CopyRecordTest, TheCommandHasNoNameThatIsAnotherCommand) {
  const PersistentVolumeClaim pvc = PvcWith("");
  EXPECT_EQ(CopyCommand({.upload = "nightly"}, pvc),
            "csi-delta restore --upload nightly --into shop/data");
  const std::string too_long(254, 'a');
  for (const std::string& name : std::vector<std::string>{"$(reboot)", "a; reboot", "--yes", "a b",
                                                          "`x`", "\n", "", too_long}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(CopyCommand({.upload = name}, pvc), HasSubstr("--upload DATAUPLOAD "));
    EXPECT_THAT(WrittenByMoverText({.from = "velero/" + name}, pvc),
                AllOf(HasSubstr("for a DataDownload;"), Not(HasSubstr("reboot"))));
  }
}

}  // namespace
}  // namespace csidelta::objects::copy_record_test
