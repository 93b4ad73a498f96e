#include "objects/copy_record.h"

#include <gtest/gtest.h>

#include <string>

#include "objects/keys.h"

namespace csidelta::objects::copy_record_test {
namespace {

using Method = CopyRecord::Method;

PersistentVolumeClaim PvcWith(const std::string& text) {
  PersistentVolumeClaim pvc = PersistentVolumeClaim::Make("shop", "data");
  pvc.SetAnnotation(kCopyRecordAnnotation, text);
  return pvc;
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

// Who changed the PVC meanwhile may have begun another restore.
TEST(CopyRecordTest, ItIsWrittenOnThePvcAsItWasRead) {
  const PersistentVolumeClaim pvc = *PersistentVolumeClaim::Of(
      {{"metadata", {{"name", "data"}, {"uid", "data-uid"}, {"resourceVersion", "7"}}}});
  const CopyRecord record{.method = Method::kMover, .from = "velero/x"};
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

}  // namespace
}  // namespace csidelta::objects::copy_record_test
