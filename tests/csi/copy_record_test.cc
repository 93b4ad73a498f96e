#include "csi/copy_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "objects/keys.h"
#include "tests/support/snapshot_objects.h"

namespace csidelta::csi::copy_record_test {
namespace {

using objects::PersistentVolumeClaim;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Method = CopyRecord::Method;

PersistentVolumeClaim PvcWith(const std::string& text) {
  Json pvc = support::MakeObject("v1", "PersistentVolumeClaim", "shop", "data");
  if (!text.empty()) {
    SetJson(pvc, {"metadata", "annotations", objects::kCopyRecordAnnotation}, text);
  }
  return *PersistentVolumeClaim::Of(pvc);
}

TEST(CopyRecordTest, WhatIsWrittenIsRead) {
  const absl::Time at = absl::FromUnixSeconds(1'780'000'000);
  for (const Method method : {Method::kSnapshot, Method::kRepository, Method::kMover}) {
    const auto read = ParseCopyRecord(PvcWith(FormatCopyRecord({.method = method,
                                                                .from = "velero/x",
                                                                .id = "5f3a",
                                                                .upload = "nightly",
                                                                .at = at,
                                                                .has_begun = true,
                                                                .has_ended = true,
                                                                .has_written = true})));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->method, method);
    EXPECT_EQ(read->from, "velero/x");
    EXPECT_EQ(read->id, "5f3a");
    EXPECT_EQ(read->upload, "nightly");
    EXPECT_EQ(read->at, at);
    EXPECT_TRUE(read->has_begun);
    EXPECT_TRUE(read->has_ended);
    EXPECT_TRUE(read->has_written);
  }
  EXPECT_FALSE(ParseCopyRecord(PvcWith("")).has_value());
}

// Another version reads it: its form stays.
TEST(CopyRecordTest, ItsFormIsThatOfEveryVersion) {
  const absl::StatusOr<Json> json =
      ParseJsonObject(FormatCopyRecord({.method = Method::kMover,
                                        .from = "velero/x",
                                        .id = "uid-1",
                                        .upload = "nightly",
                                        .at = absl::FromUnixSeconds(1'780'000'000),
                                        .has_begun = true,
                                        .has_ended = true,
                                        .has_written = true}));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(GetString(*json, {"method"}), "mover");
  EXPECT_EQ(GetString(*json, {"from"}), "velero/x");
  EXPECT_EQ(GetString(*json, {"id"}), "uid-1");
  EXPECT_EQ(GetString(*json, {"upload"}), "nightly");
  EXPECT_TRUE(GetBool(*json, {"begun"}));
  EXPECT_TRUE(GetBool(*json, {"ended"}));
  EXPECT_TRUE(GetBool(*json, {"writes"}));
  EXPECT_EQ(json->size(), 8U);
  const auto read = ParseCopyRecord(
      PvcWith(R"({"method":"repository","from":"creds","id":"5f3a","at":"2026-05-28T20:26:40Z"})"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->method, Method::kRepository);
  EXPECT_EQ(read->at, absl::FromUnixSeconds(1'780'000'000));
}

TEST(CopyRecordTest, WhatCannotBeReadKeepsNobodyAway) {
  for (const char* text : {"x", "[]", "{}", R"({"method":7})", R"({"method":"spell"})"}) {
    SCOPED_TRACE(text);
    const auto read = ParseCopyRecord(PvcWith(text));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->method, Method::kUnknown);
    EXPECT_FALSE(IsWrittenByMover(*read, ""));
  }
}

TEST(CopyRecordTest, TheMoverKeepsOthersAwayUntilItHasEnded) {
  CopyRecord record{.method = Method::kMover, .from = "velero/x", .id = "uid-1"};
  EXPECT_TRUE(IsWrittenByMover(record, ""));
  EXPECT_TRUE(IsWrittenByMover(record, "uid-2"));
  EXPECT_FALSE(IsWrittenByMover(record, "uid-1"));
  record.has_ended = true;
  EXPECT_FALSE(IsWrittenByMover(record, ""));
  record = {.method = Method::kSnapshot, .from = "monday"};
  EXPECT_FALSE(IsWrittenByMover(record, ""));
  EXPECT_TRUE(IsWrittenByMover({.method = Method::kMover}, ""));  // Half a record.
}

// Who changed the PVC meanwhile may have begun another restore.
TEST(CopyRecordTest, ItIsWrittenOnThePvcAsItWasRead) {
  Json pvc = PvcWith("").json();
  pvc["metadata"]["uid"] = "data-uid";
  pvc["metadata"]["resourceVersion"] = "7";
  const CopyRecord record{.method = Method::kMover, .from = "velero/x"};
  for (const CopyRecord* written : {&record, static_cast<const CopyRecord*>(nullptr)}) {
    const Json patch = CopyRecordPatch(*PersistentVolumeClaim::Of(pvc), written);
    EXPECT_EQ(GetString(patch, {"metadata", "uid"}), "data-uid");
    EXPECT_EQ(GetString(patch, {"metadata", "resourceVersion"}), "7");
    const Json* value =
        FindJson(patch, {"metadata", "annotations", objects::kCopyRecordAnnotation});
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(value->is_null(), written == nullptr);
  }
}

TEST(CopyRecordTest, APodKeepsTheMoverAwayUntilItHasEnded) {
  const PersistentVolumeClaim pvc = PvcWith("");
  CopyRecord record{.method = CopyRecord::Method::kRepository, .from = "creds", .id = "5f3a"};
  EXPECT_TRUE(IsWrittenByPod(record));
  EXPECT_THAT(WrittenByPodText(record, pvc),
              AllOf(HasSubstr("restore 5f3a --into shop/data"), HasSubstr("kubectl annotate")));
  record.has_ended = true;
  EXPECT_FALSE(IsWrittenByPod(record));
  EXPECT_FALSE(IsWrittenByPod({.method = CopyRecord::Method::kMover}));
  EXPECT_TRUE(IsWrittenByPod({}));  // One that cannot be read.
  EXPECT_THAT(WrittenByPodText({}, pvc), HasSubstr("cannot be read"));
}

TEST(CopyRecordTest, TheCommandFinishesIt) {
  const PersistentVolumeClaim pvc = PvcWith("");
  EXPECT_EQ(CopyCommand({.method = Method::kSnapshot, .from = "monday"}, pvc),
            "csi-delta snapshot restore monday --into data -n shop --method copy --image IMAGE");
  EXPECT_EQ(CopyCommand({.method = Method::kRepository, .from = "creds", .id = "5f3a"}, pvc),
            "csi-delta restore 5f3a --into shop/data --repository-secret creds --image IMAGE");
  EXPECT_EQ(CopyCommand({.method = Method::kMover, .upload = "nightly"}, pvc),
            "csi-delta restore --upload nightly --into shop/data");
}

// People paste it, and who may patch a PVC may write the record.
TEST(CopyRecordTest, NoWordOfTheRecordBecomesAnotherCommand) {
  const PersistentVolumeClaim pvc = PvcWith("");
  const std::string too_long(254, 'a');
  for (const std::string& word : std::vector<std::string>{"$(reboot)", "a; reboot", "--yes", "a b",
                                                          "`x`", "\n", "", too_long}) {
    SCOPED_TRACE(word);
    EXPECT_THAT(CopyCommand({.method = Method::kSnapshot, .from = word}, pvc),
                HasSubstr("restore NAME --into"));
    EXPECT_THAT(CopyCommand({.method = Method::kRepository, .from = word, .id = word}, pvc),
                AllOf(HasSubstr("restore ID "), HasSubstr("--repository-secret SECRET ")));
    EXPECT_THAT(CopyCommand({.method = Method::kMover, .upload = word}, pvc),
                HasSubstr("--upload DATAUPLOAD "));
    EXPECT_THAT(WrittenByMoverText({.method = Method::kMover, .from = "velero/" + word}, pvc),
                AllOf(HasSubstr("for a DataDownload;"), Not(HasSubstr("reboot"))));
  }
}

}  // namespace
}  // namespace csidelta::csi::copy_record_test
