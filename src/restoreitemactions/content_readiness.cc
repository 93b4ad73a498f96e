#include "restoreitemactions/content_readiness.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "objects/client.h"

namespace csidelta::restoreitemactions {
namespace {

using objects::VolumeSnapshot;
using objects::VolumeSnapshotContent;

k8s::ObjectKey ContentKeyOf(const VolumeSnapshot& snapshot) {
  const std::string name = snapshot.source_content();
  return VolumeSnapshotContent::Key("", name.empty() ? snapshot.bound_content() : name);
}

}  // namespace

bool ReportsMissingSnapshot(absl::string_view message) {
  const std::string text = absl::AsciiStrToLower(message);
  return absl::StrContains(text, "can not find snapshot for snapshotid") ||
         absl::StrContains(text, "code = notfound");
}

ContentState StateOfContent(const VolumeSnapshotContent& content) {
  ContentState state;
  state.driver = content.driver();
  state.handle = content.handle_or_source();
  state.message = content.error_message();
  if (content.is_ready()) {
    state.kind = ContentState::Kind::kReady;
  } else if (ReportsMissingSnapshot(state.message)) {
    state.kind = ContentState::Kind::kGone;
  }
  return state;
}

absl::StatusOr<ContentState> InspectContent(const CallContext& ctx, const csi::Environment& env,
                                            const VolumeSnapshot& snapshot) {
  const k8s::ObjectKey key = ContentKeyOf(snapshot);
  if (key.name.empty()) {
    return ContentState();
  }
  ASSIGN_OR_RETURN(const std::optional<VolumeSnapshotContent> content,
                   objects::Find<VolumeSnapshotContent>(ctx, env.api, key));
  return content.has_value() ? StateOfContent(*content) : ContentState();
}

absl::StatusOr<ContentState> AwaitContent(const CallContext& ctx, const csi::Environment& env,
                                          const VolumeSnapshot& snapshot) {
  ContentState state;
  const k8s::ObjectKey key = ContentKeyOf(snapshot);
  if (key.name.empty()) {
    return state;
  }
  const absl::Status status = objects::WaitFor<VolumeSnapshotContent>(
      ctx, env.api, key, [&state](const VolumeSnapshotContent* content) -> absl::StatusOr<bool> {
        state = content == nullptr ? ContentState() : StateOfContent(*content);
        return state.kind != ContentState::Kind::kPending;
      });
  if (!status.ok() && !absl::IsDeadlineExceeded(status)) {
    return status;
  }
  return state;
}

}  // namespace csidelta::restoreitemactions
