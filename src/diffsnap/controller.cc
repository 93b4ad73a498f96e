#include "diffsnap/controller.h"

#include <utility>

#include "base/log.h"
#include "k8s/list_watch.h"

namespace csidelta::diffsnap {
namespace {

using objects::DifferentialSnapshot;

std::pair<std::string, std::string> KeyOf(const DifferentialSnapshot& object) {
  return {object.namespace_name(), object.name()};
}

k8s::WatchedObjects AllOfTheCluster() {
  return {.type = DifferentialSnapshot::Type(), .namespace_name = ""};
}

}  // namespace

Controller::Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
                       std::function<bool()> leads, const Clock& clock)
    : EventHandler(&loop_),
      driver_(std::move(driver)),
      pairs_(pairs),
      loop_(AllOfTheCluster(), reconciler, std::move(leads), clock) {}

absl::Status Controller::Follow(const CallContext& ctx, k8s::ApiClient& api) {
  return k8s::ListAndWatch(ctx, api, AllOfTheCluster(), *this);
}

void Controller::OnObjects(std::vector<DifferentialSnapshot> page, bool is_first) {
  if (is_first) {
    unlisted_ = served_;
  }
  for (const DifferentialSnapshot& object : page) {
    unlisted_.erase(KeyOf(object));
    OnChanged(object);
  }
}

void Controller::OnListComplete() {
  for (const Key& key : std::exchange(unlisted_, {})) {
    Withdraw(key);
  }
  pairs_.SetSynced();
}

void Controller::OnChanged(const DifferentialSnapshot& object) {
  const Key key = KeyOf(object);
  if (object.state() == objects::RequestState::kSuccess && object.resolved().driver == driver_ &&
      !object.is_being_deleted()) {
    if (pairs_.Put(key.first, key.second, PairOf(object))) {
      served_.insert(key);
    } else {
      CSIDELTA_LOG(kWarn, "too many DifferentialSnapshots are served; this one is not",
                   {"namespace", key.first}, {"name", key.second});
    }
  } else {
    Withdraw(key);
  }
}

void Controller::OnDeleted(const DifferentialSnapshot& object) { Withdraw(KeyOf(object)); }

void Controller::Withdraw(const Key& key) {
  served_.erase(key);
  pairs_.Remove(key.first, key.second);
}

}  // namespace csidelta::diffsnap
