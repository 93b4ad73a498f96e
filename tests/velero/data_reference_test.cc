#include "velero/data_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace csidelta::velero::data_reference_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

DataReference Some() {
  return {.cluster = "0f0d4a5e-4e5c-4d0f-8a58-9d0e4e4b6f11",
          .namespace_name = "app",
          .claim_uid = "7c1b1b0a-83a4-4e4e-a2f1-0b1c2d3e4f50",
          .snapshot_id = std::string(64, 'a'),
          .key = "0123456789abcdef"};
}

TEST(DataReference, SaysWhatItWasMadeFrom) {
  const std::string text = FormatDataReference(Some());
  EXPECT_EQ(text, absl::StrCat("csi-delta/1/0f0d4a5e-4e5c-4d0f-8a58-9d0e4e4b6f11/app/"
                               "7c1b1b0a-83a4-4e4e-a2f1-0b1c2d3e4f50/",
                               std::string(64, 'a'), "/0123456789abcdef"));
  EXPECT_THAT(ParseDataReference(text), IsOkAndHolds(Some()));
  EXPECT_EQ(RepositoryPath(Some()),
            "plugins/csi-delta/0f0d4a5e-4e5c-4d0f-8a58-9d0e4e4b6f11/app/"
            "7c1b1b0a-83a4-4e4e-a2f1-0b1c2d3e4f50");
}

// A text that names a place in a bucket: nothing of it may lead elsewhere.
TEST(DataReference, HostilePartsAreRefusedByName) {
  const auto with = [](auto change) {
    DataReference reference = Some();
    change(reference);
    return ParseDataReference(FormatDataReference(reference));
  };
  const auto refused = [](const char* words) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words));
  };
  EXPECT_THAT(with([](DataReference& r) { r.cluster = ".."; }), refused("the cluster"));
  EXPECT_THAT(with([](DataReference& r) { r.cluster = ""; }), refused("the cluster"));
  EXPECT_THAT(with([](DataReference& r) { r.namespace_name = ".."; }), refused("the namespace"));
  EXPECT_THAT(with([](DataReference& r) { r.namespace_name = "App"; }), refused("the namespace"));
  EXPECT_THAT(with([](DataReference& r) { r.claim_uid = "a?b"; }), refused("the claim"));
  EXPECT_THAT(with([](DataReference& r) { r.claim_uid = std::string(64, 'a'); }),
              refused("the claim"));
  EXPECT_THAT(with([](DataReference& r) { r.snapshot_id.back() = 'g'; }), refused("the snapshot"));
  EXPECT_THAT(with([](DataReference& r) { r.snapshot_id.pop_back(); }), refused("the snapshot"));
  EXPECT_THAT(with([](DataReference& r) { r.key = "--------------"; }), refused("the key"));
  EXPECT_THAT(with([](DataReference& r) { r.claim_uid = "a/b"; }), refused("8 parts"));
}

TEST(DataReference, TextsOfOthersAreTold) {
  EXPECT_THAT(ParseDataReference(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another data mover")));
  EXPECT_THAT(ParseDataReference("k1b2c3d4"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another data mover")));
  EXPECT_THAT(ParseDataReference("csi-delta/2/x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("or a newer one")));
  EXPECT_THAT(ParseDataReference("csi-delta"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("or a newer one")));
  EXPECT_THAT(ParseDataReference("\x1b[2J"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\\x1b[2J")));
}

}  // namespace
}  // namespace csidelta::velero::data_reference_test
