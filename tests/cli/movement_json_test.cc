#include "cli/mover/movement_json.h"

#include <gtest/gtest.h>

namespace csidelta::cli::movement_json_test {
namespace {

TEST(MovementJson, HasWhatIsKnown) {
  datamover::Movement movement;
  movement.kind = "upload";
  movement.message = "waits for u1";
  movement.total_bytes = 7;
  const Json unknown = ToJson(movement);
  EXPECT_EQ(unknown["kind"], "upload");
  EXPECT_EQ(unknown["message"], "waits for u1");
  EXPECT_EQ(unknown["total_bytes"], 7);
  for (const char* field : {"created_at", "bytes_per_second", "seconds_left", "waits_for"}) {
    EXPECT_FALSE(unknown.contains(field)) << field;
  }
  movement.waits_for = datamover::WaitReason::kVolume;
  movement.left = absl::Seconds(30);
  EXPECT_EQ(ToJson(movement)["waits_for"], "volume");
  EXPECT_EQ(ToJson(movement)["seconds_left"], 30);
}

}  // namespace
}  // namespace csidelta::cli::movement_json_test
