#include "objects/client.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace csidelta::objects {

absl::Status RemoveLabelIf(const CallContext& ctx, k8s::ApiClient& api, const k8s::ObjectKey& key,
                           absl::string_view label, absl::string_view value) {
  // In a JSON pointer "/" is written "~1".
  const std::string path =
      absl::StrCat("/metadata/labels/", absl::StrReplaceAll(label, {{"/", "~1"}}));
  const Json patch = Json::array({{{"op", "test"}, {"path", path}, {"value", std::string(value)}},
                                  {{"op", "remove"}, {"path", path}}});
  const absl::Status status = api.Patch(ctx, key, k8s::PatchKind::kJson, patch, "").status();
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace csidelta::objects
