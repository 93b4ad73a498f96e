#include "csi/snapshot_types.h"

#include <gtest/gtest.h>

#include "base/rfc3339.h"

namespace csidelta::csi::snapshot_types_test {
namespace {

TEST(SnapshotTypesTest, SizeZeroIsUnknown) {
  EXPECT_EQ(RestoreSizeBytes({{"status", {{"restoreSize", 4096}}}}), 4096);
  EXPECT_EQ(RestoreSizeBytes({{"status", {{"restoreSize", 0}}}}), std::nullopt);
  EXPECT_EQ(RestoreSizeBytes({{"status", {{"restoreSize", -1}}}}), std::nullopt);
  EXPECT_EQ(RestoreSizeBytes({{"status", {{"restoreSize", "4096"}}}}), std::nullopt);
  EXPECT_EQ(RestoreSizeBytes(Json::object()), std::nullopt);
  EXPECT_EQ(RestoreSizeBytes(Json()), std::nullopt);
}

TEST(SnapshotTypesTest, CutTimeKeepsNanoseconds) {
  const auto cut_at = CutTime({{"status", {{"creationTime", 1'700'000'000'123'456'789}}}});
  ASSERT_TRUE(cut_at.has_value());
  EXPECT_EQ(FormatRfc3339(*cut_at), "2023-11-14T22:13:20.123456789Z");
  EXPECT_EQ(CutTime({{"status", {{"creationTime", 0}}}}), std::nullopt);
}

TEST(SnapshotTypesTest, AnErrorWithoutAMessageIsStillAnError) {
  EXPECT_EQ(ErrorMessage({{"status", {{"error", {{"message", "no space"}}}}}}), "no space");
  EXPECT_NE(ErrorMessage({{"status", {{"error", Json::object()}}}}), "");
  EXPECT_EQ(ErrorMessage({{"status", {{"error", nullptr}}}}), "");
  EXPECT_EQ(ErrorMessage({{"status", Json::object()}}), "");
}

TEST(SnapshotTypesTest, ReadyTimeIsThatOfTheFieldsWriter) {
  const Json writer = {{"time", "2024-01-02T03:04:05Z"},
                       {"fieldsV1", {{"f:status", {{"f:readyToUse", Json::object()}}}}}};
  const Json other = {{"time", "2024-01-01T00:00:00Z"},
                      {"fieldsV1", {{"f:metadata", Json::object()}}}};
  Json snapshot = {{"metadata", {{"managedFields", Json::array({other, writer})}}},
                   {"status", {{"readyToUse", true}}}};
  ASSERT_TRUE(ReadyTime(snapshot).has_value());
  EXPECT_EQ(FormatRfc3339(*ReadyTime(snapshot)), "2024-01-02T03:04:05Z");
  snapshot["status"]["readyToUse"] = false;
  EXPECT_EQ(ReadyTime(snapshot), std::nullopt);
  snapshot = {{"metadata", {{"managedFields", "odd"}}}, {"status", {{"readyToUse", true}}}};
  EXPECT_EQ(ReadyTime(snapshot), std::nullopt);
}

}  // namespace
}  // namespace csidelta::csi::snapshot_types_test
