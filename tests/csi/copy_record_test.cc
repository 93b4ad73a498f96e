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

TEST(CopyRecordTest, AnUnreadableRecordBlocksNoRestore) {
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
