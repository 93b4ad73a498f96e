#include "datamover/worker/task_runner.h"

#include <gtest/gtest.h>

#include "repository/repository.h"
#include "storage/object_rules.h"

namespace csidelta::datamover::outcome_test {
namespace {

TEST(OutcomeTest, AFailureIsTakenApartByWhatItIsMarkedWith) {
  EXPECT_EQ(
      OutcomeOf(absl::InternalError("an object lock, WORM")),
      (objects::Outcome{.code = objects::OutcomeCode::kFailed, .message = "an object lock, WORM"}));
  EXPECT_EQ(OutcomeOf(absl::CancelledError("interrupted")).code, objects::OutcomeCode::kStopped);
  EXPECT_EQ(OutcomeOf(storage::AsRetained(absl::PermissionDeniedError("no"))).cause,
            objects::OutcomeCause::kRetained);
  EXPECT_EQ(OutcomeOf(repository::AsWrongPassword(absl::UnauthenticatedError("no"))).cause,
            objects::OutcomeCause::kNoKey);
}

}  // namespace
}  // namespace csidelta::datamover::outcome_test
