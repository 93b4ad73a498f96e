#include "datamover/outcome.h"

#include <string>

#include "base/check.h"
#include "repository/lock.h"
#include "repository/repository.h"
#include "storage/object_rules.h"

namespace csidelta::datamover {
namespace {

OutcomeCause CauseOf(const absl::Status& status) {
  if (repository::IsNoRepository(status)) {
    return OutcomeCause::kNoRepository;
  }
  if (repository::IsLocked(status)) {
    return OutcomeCause::kLocked;
  }
  if (repository::IsWrongPassword(status)) {
    return OutcomeCause::kNoKey;
  }
  return storage::IsRetained(status) ? OutcomeCause::kRetained : OutcomeCause::kNone;
}

}  // namespace

Outcome OutcomeOf(const absl::Status& status) {
  CSIDELTA_CHECK(!status.ok());
  Outcome outcome{.code = absl::IsCancelled(status) ? OutcomeCode::kStopped : OutcomeCode::kFailed,
                  .cause = CauseOf(status),
                  .message = std::string(status.message())};
  if (outcome.cause == OutcomeCause::kLocked) {
    outcome.locks = repository::LocksOf(status);
  }
  return outcome;
}

}  // namespace csidelta::datamover
