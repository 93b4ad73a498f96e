#include "restoreitemactions/content_readiness.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "csi/static_content.h"
#include "k8s/wait.h"

namespace csidelta::restoreitemactions {
namespace {

k8s::ObjectKey ContentKeyOf(const Json& snapshot) {
  std::string name = GetString(snapshot, {"spec", "source", "volumeSnapshotContentName"});
  if (name.empty()) {
    name = csi::BoundContentName(snapshot);
  }
  return csi::VolumeSnapshotContentKey(name);
}

}  // namespace

bool SaysSnapshotIsGone(absl::string_view message) {
  const std::string text = absl::AsciiStrToLower(message);
  return absl::StrContains(text, "can not find snapshot for snapshotid") ||
         absl::StrContains(text, "code = notfound");
}

ContentState StateOfContent(const Json& content) {
  ContentState state;
  state.driver = GetString(content, {"spec", "driver"});
  state.handle = csi::HandleOf(content);
  state.message = csi::ErrorMessage(content);
  if (csi::ReadyToUse(content)) {
    state.kind = ContentState::Kind::kReady;
  } else if (SaysSnapshotIsGone(state.message)) {
    state.kind = ContentState::Kind::kGone;
  }
  return state;
}

absl::StatusOr<ContentState> LookAtContent(const CallContext& ctx, const csi::Environment& env,
                                           const Json& snapshot) {
  const k8s::ObjectKey key = ContentKeyOf(snapshot);
  if (key.name.empty()) {
    return ContentState();
  }
  const absl::StatusOr<Json> content = env.api.Get(ctx, key);
  if (absl::IsNotFound(content.status())) {
    return ContentState();
  }
  RETURN_IF_ERROR(content.status());
  return StateOfContent(*content);
}

absl::StatusOr<ContentState> AwaitContent(const CallContext& ctx, const csi::Environment& env,
                                          const Json& snapshot) {
  ContentState state;
  const k8s::ObjectKey key = ContentKeyOf(snapshot);
  if (key.name.empty()) {
    return state;
  }
  const absl::Status status =
      k8s::WaitFor(ctx, env.api, key, [&state](const Json* content) -> absl::StatusOr<bool> {
        state = content == nullptr ? ContentState() : StateOfContent(*content);
        return state.kind != ContentState::Kind::kPending;
      });
  if (!status.ok() && !absl::IsDeadlineExceeded(status)) {
    return status;
  }
  return state;
}

}  // namespace csidelta::restoreitemactions
