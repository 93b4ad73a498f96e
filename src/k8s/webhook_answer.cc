#include "k8s/webhook_answer.h"

#include <cstddef>

#include "absl/strings/match.h"

namespace csidelta::k8s {

bool IsDeniedByWebhook(absl::string_view message) {
  constexpr absl::string_view kBegin = "admission webhook \"";
  const std::size_t begin = message.find(kBegin);
  if (begin == absl::string_view::npos) {
    return false;
  }
  const absl::string_view rest = message.substr(begin + kBegin.size());
  const std::size_t end = rest.find('"');
  return end != absl::string_view::npos &&
         absl::StartsWith(rest.substr(end + 1), " denied the request");
}

bool IsWebhookAway(absl::string_view message) {
  // What denies may say of its reasons what it likes.
  return absl::StrContains(message, "failed calling webhook \"") && !IsDeniedByWebhook(message);
}

bool IsNamespaceTerminating(absl::string_view message) {
  return absl::StrContains(message, "because it is being terminated");
}

}  // namespace csidelta::k8s
