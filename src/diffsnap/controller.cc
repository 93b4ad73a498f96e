#include "diffsnap/controller.h"

#include <utility>

#include "k8s/object.h"

namespace csidelta::diffsnap {
namespace {

std::pair<std::string, std::string> KeyOf(const Json& object) {
  return {k8s::Namespace(object), k8s::Name(object)};
}

}  // namespace

Controller::Controller(std::string driver, PairTable& pairs, Reconciler& reconciler,
                       std::function<bool()> leads, const Clock& clock)
    : driver_(std::move(driver)),
      pairs_(pairs),
      loop_({.type = DifferentialSnapshotType(), .namespace_name = "", .label_selector = ""},
            reconciler, std::move(leads), clock) {}

absl::Status Controller::Follow(const CallContext& ctx, k8s::ApiClient& api) {
  return k8s::Follow(
      ctx, api, {.type = DifferentialSnapshotType(), .namespace_name = "", .label_selector = ""},
      *this);
}

void Controller::OnPage(const std::vector<Json>& objects, bool is_first) {
  if (is_first) {
    unlisted_ = served_;
  }
  for (const Json& object : objects) {
    unlisted_.erase(KeyOf(object));
    Serve(object);
  }
  loop_.OnPage(objects, is_first);
}

void Controller::OnListed() {
  for (const Key& key : std::exchange(unlisted_, {})) {
    Withdraw(key);
  }
  pairs_.SetSynced();
  loop_.OnListed();
}

void Controller::OnEvent(const k8s::WatchEvent& event) {
  if (event.kind == k8s::WatchEvent::Kind::kDeleted) {
    Withdraw(KeyOf(event.object));
  } else {
    Serve(event.object);
  }
  loop_.OnEvent(event);
}

void Controller::Serve(const Json& object) {
  const Key key = KeyOf(object);
  if (StateOf(object) == RequestState::kSuccess && ResolvedOf(object).driver == driver_ &&
      !k8s::BeingDeleted(object)) {
    served_.insert(key);
    pairs_.Put(key.first, key.second, PairOf(object));
  } else {
    Withdraw(key);
  }
}

void Controller::Withdraw(const Key& key) {
  served_.erase(key);
  pairs_.Remove(key.first, key.second);
}

}  // namespace csidelta::diffsnap
