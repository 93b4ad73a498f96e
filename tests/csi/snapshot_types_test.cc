#include "csi/snapshot_types.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(ToRfc3339(*cut_at), "2023-11-14T22:13:20.123456789Z");
  EXPECT_EQ(CutTime({{"status", {{"creationTime", 0}}}}), std::nullopt);
}

TEST(SnapshotTypesTest, TimesComeBackAsTheyWent) {
  for (const char* text : {"2023-11-14T22:13:20Z", "2023-11-14T22:13:20.5Z"}) {
    const auto time = FromRfc3339(text);
    ASSERT_TRUE(time.has_value()) << text;
    EXPECT_EQ(ToRfc3339(*time), text);
  }
  for (const char* text : {"", "yesterday", "2023-11-14", "2023-13-14T22:13:20Z"}) {
    EXPECT_EQ(FromRfc3339(text), std::nullopt) << text;
  }
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
  EXPECT_EQ(ToRfc3339(*ReadyTime(snapshot)), "2024-01-02T03:04:05Z");
  snapshot["status"]["readyToUse"] = false;
  EXPECT_EQ(ReadyTime(snapshot), std::nullopt);
  snapshot = {{"metadata", {{"managedFields", "odd"}}}, {"status", {{"readyToUse", true}}}};
  EXPECT_EQ(ReadyTime(snapshot), std::nullopt);
}

}  // namespace
}  // namespace csidelta::csi::snapshot_types_test
