#include "diffsnap/controller.h"

#include <utility>

#include "base/log.h"

namespace csidelta::diffsnap {
namespace {

using objects::DifferentialSnapshot;

}  // namespace

Controller::Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
                       std::function<bool()> leads, const Clock& clock)
    : driver_(std::move(driver)),
      pairs_(pairs),
      loop_(DifferentialSnapshot::Type(), reconciler, std::move(leads), clock),
      informer_({.type = DifferentialSnapshot::Type()}, {this, &loop_}) {}

void Controller::OnChanged(const DifferentialSnapshot& object) {
  if (object.state() != objects::RequestState::kSuccess || object.resolved().driver != driver_ ||
      object.is_being_deleted()) {
    pairs_.Remove(object.namespace_name(), object.name());
  } else if (!pairs_.Put(object.namespace_name(), object.name(), PairOf(object))) {
    CSIDELTA_LOG(kWarn, "too many DifferentialSnapshots are served; this one is not",
                 {"namespace", object.namespace_name()}, {"name", object.name()});
  }
}

}  // namespace csidelta::diffsnap
