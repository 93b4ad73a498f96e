#include "tests/support/longhorn/fake_longhorn.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "tests/support/longhorn/admission.h"
#include "tests/support/longhorn/kinds.h"

namespace csidelta::longhorn_stand_in {
namespace {

using Follow = k8s::ObjectEventHandler& (Controller::*)();

struct WatchedKind {
  k8s::ResourceType type;
  Follow follow;
};

std::vector<WatchedKind> WatchedKinds() {
  return {{VolumeType(), &Controller::volumes},
          {EngineType(), &Controller::engines},
          {AttachmentType(), &Controller::attachments},
          {SnapshotType(), &Controller::snapshots}};
}

}  // namespace

FakeLonghorn::FakeLonghorn(ControllerOptions options) : options_(std::move(options)) {
  for (const WatchedKind& kind : WatchedKinds()) {
    api_.SetStatusSubresource(kind.type.plural, true);
    api_.OnEvent(kind.type.plural, [this, follow = kind.follow](support::FakeApiClient&,
                                                                const k8s::WatchEvent& event) {
      if (controller_ != nullptr) {
        k8s::Informer({}, {&(*controller_.*follow)()}).OnEvent(event);
      }
    });
  }
  api_.SetAdmission([this](const auto& request) { return Admit(request); });
  StartManager();
}

void FakeLonghorn::StartManager() {
  controller_ = std::make_unique<Controller>(api_, engines_, clock_, options_);
  controller_->SetSwitches(switches_);
  for (const WatchedKind& kind : WatchedKinds()) {
    k8s::Informer({}, {&(*controller_.*kind.follow)()}).OnAll(api_.All(kind.type));
  }
}

void FakeLonghorn::SetSwitches(const Switches& switches) {
  switches_ = switches;
  if (controller_ != nullptr) {
    controller_->SetSwitches(switches);
  }
}

void FakeLonghorn::Pass(absl::Duration time) {
  const absl::Time end = clock_.Now() + time;
  while (controller_ != nullptr) {
    const absl::Time next =
        controller_->Work({.deadline = absl::InfiniteDuration(), .stop = {}, .clock = &clock_});
    if (next > end) {
      break;
    }
    clock_.Advance(std::max(next - clock_.Now(), absl::ZeroDuration()));
  }
  clock_.Advance(end - clock_.Now());
}

// The rules of the two webhook configurations: main registers the same on a real API server.
absl::StatusOr<Json> FakeLonghorn::Admit(
    const support::FakeApiClient::AdmissionRequest& request) const {
  const bool is_snapshot = request.type.group == kGroup && request.type.plural == "snapshots";
  const bool is_other_update =
      request.operation == "UPDATE" &&
      (request.type.group.empty()
           ? request.type.plural == "persistentvolumeclaims"
           : request.type.group == kGroup && request.type.plural == "volumes");
  Json object = request.object;
  for (const Webhook webhook : {Webhook::kMutator, Webhook::kValidator}) {
    const bool is_asked = is_snapshot
                              ? webhook == Webhook::kValidator || request.operation != "DELETE"
                              : webhook == Webhook::kValidator && is_other_update;
    if (!is_asked) {
      continue;
    }
    if (controller_ == nullptr) {
      return UnreachableError(webhook);
    }
    const Json review = {{"request",
                          {{"uid", "r-1"},
                           {"operation", request.operation},
                           {"resource",
                            {{"group", request.type.group},
                             {"version", request.type.version},
                             {"resource", request.type.plural}}},
                           {"namespace", request.namespace_name},
                           {"name", request.name},
                           {"object", object},
                           {"oldObject", request.old_object}}}};
    ASSIGN_OR_RETURN(const Json answer, AnswerReview(webhook, review, *controller_,
                                                     {.as_proposed = options_.as_proposed}));
    ASSIGN_OR_RETURN(object, ApplyAnswer(webhook, answer, std::move(object)));
  }
  return object;
}

void FakeLonghorn::AddVolume(const std::string& name, int64_t size_bytes) {
  const absl::StatusOr<Json> made =
      api_.Create({}, VolumeType(), options_.namespace_name,
                  {{"apiVersion", kApiVersion},
                   {"kind", "Volume"},
                   {"metadata", {{"name", name}}},
                   {"spec", {{"size", absl::StrCat(size_bytes)}, {"snapshotMaxCount", 250}}}});
  CSIDELTA_CHECK(made.ok());
  Pass(absl::Seconds(1));
}

void FakeLonghorn::SetTicket(const std::string& volume, const Json& ticket) {
  const Json patch = {{"spec", {{"attachmentTickets", {{kTicket, ticket}}}}}};
  const absl::StatusOr<Json> patched = api_.Patch(
      {}, {AttachmentType(), options_.namespace_name, volume}, k8s::PatchKind::kMerge, patch, "");
  CSIDELTA_CHECK(patched.ok());
}

}  // namespace csidelta::longhorn_stand_in
