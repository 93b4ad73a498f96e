#include "tests/support/longhorn/control.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "net/url.h"
#include "tests/support/longhorn/kinds.h"
#include "tests/support/longhorn/records.h"

namespace csidelta::longhorn_stand_in {
namespace {

constexpr char kTicket[] = "csi-stand-in";

}  // namespace

Control::Control(k8s::ApiClient& api, Engines& engines, Manager& manager,
                 std::string namespace_name)
    : api_(api), engines_(engines), manager_(manager), namespace_(std::move(namespace_name)) {}

net::HttpResponse Control::Handle(const CallContext& ctx, const net::HttpCall& call) {
  Segments segments;
  for (const absl::string_view segment : absl::StrSplit(call.target, '/', absl::SkipEmpty())) {
    segments.push_back(net::PercentDecode(segment));
  }
  const absl::StatusOr<std::string> answer = Perform(ctx, segments, call.body);
  return {.status = answer.ok() ? 200 : 400,
          .headers = {{"content-type", "text/plain"}},
          .body = absl::StrCat(answer.ok() ? *answer : answer.status().ToString(), "\n")};
}

absl::StatusOr<std::string> Control::Perform(const CallContext& ctx, const Segments& segments,
                                             const std::string& body) {
  const std::string op = segments.empty() ? "" : segments[0];
  if (op == "manager-stop") {
    manager_.Stop();
    return "";
  }
  if (op == "manager-start") {
    RETURN_IF_ERROR(manager_.Start());
    return "";
  }
  if (op == "switches") {
    return SetSwitches(body);
  }
  if (op == "queued") {
    return absl::StrCat(manager_.queued());
  }
  if (segments.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("unknown request, or no volume: /", op));
  }
  return PerformOnVolume(ctx, segments);
}

absl::StatusOr<std::string> Control::PerformOnVolume(const CallContext& ctx,
                                                     const Segments& segments) {
  const std::string& volume = segments[1];
  if (segments[0] == "attach" || segments[0] == "detach") {
    return SetTicket(ctx, volume, segments[0] == "attach");
  }
  if (segments[0] == "calls") {
    return absl::StrCat(engines_.call_count(volume));
  }
  std::string answer;
  bool is_known = true;
  const bool is_there = engines_.Handle(volume, [&](Engine& engine) {
    int64_t block = 0;
    if (segments[0] == "engine-snapshots") {
      answer = DumpJson(EntriesJson(engine.Entries()));
    } else if (segments[0] == "write" && segments.size() == 4 &&
               absl::SimpleAtoi(segments[2], &block)) {
      engine.Write(block, segments[3]);
    } else if (segments[0] == "read" && segments.size() == 4 &&
               absl::SimpleAtoi(segments[3], &block)) {
      answer = engine.Read(segments[2], block);
    } else {
      is_known = false;
    }
  });
  if (!is_known) {
    return absl::InvalidArgumentError(absl::StrCat("unknown request: ", segments[0]));
  }
  return is_there ? absl::StatusOr<std::string>(answer)
                  : absl::NotFoundError(absl::StrCat("volume ", volume, " has no engine"));
}

absl::StatusOr<std::string> Control::SetTicket(const CallContext& ctx, const std::string& volume,
                                               bool is_wanted) {
  const Json ticket = is_wanted ? Json{{"id", kTicket}, {"type", "csi-attacher"}} : Json();
  const Json patch = {{"spec", {{"attachmentTickets", {{kTicket, ticket}}}}}};
  RETURN_IF_ERROR(
      api_.Patch(ctx, {AttachmentType(), namespace_, volume}, k8s::PatchKind::kMerge, patch, "")
          .status());
  return "";
}

absl::StatusOr<std::string> Control::SetSwitches(const std::string& body) {
  ASSIGN_OR_RETURN(const Json wanted, ParseJsonObject(body));
  const std::string end = GetString(wanted, {"restoredStatusEnd"});
  manager_.SetSwitches({.attaches_to_delete = GetBool(wanted, {"attachesToDelete"}),
                        .purge_is_disabled = GetBool(wanted, {"purgeIsDisabled"}),
                        .holds_clones_at = wanted.contains("holdsClonesAt")
                                               ? std::optional(GetString(wanted, {"holdsClonesAt"}))
                                               : std::nullopt,
                        .restored_status_end = end == "replaced"  ? RestoredStatusEnd::kReplaced
                                               : end == "removed" ? RestoredStatusEnd::kRemoved
                                                                  : RestoredStatusEnd::kStays});
  return "";
}

}  // namespace csidelta::longhorn_stand_in
