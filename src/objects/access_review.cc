#include "objects/access_review.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace csidelta::objects {
namespace {

Json Question(const KindName& kind, Json spec) {
  return {{"apiVersion", kind.ApiVersion()},
          {"kind", kind.kind},
          {"metadata", Json::object()},
          {"spec", std::move(spec)}};
}

}  // namespace

TokenReview TokenReview::Ask(absl::string_view token, absl::string_view audience) {
  return Unchecked(
      Question(kKind, {{"token", std::string(token)}, {"audiences", {std::string(audience)}}}));
}

bool TokenReview::IsFor(absl::string_view audience) const {
  const std::vector<std::string> audiences = Texts({"status", "audiences"});
  return std::find(audiences.begin(), audiences.end(), audience) != audiences.end();
}

SubjectAccessReview SubjectAccessReview::Ask(const TokenReview& whose, const ReadRight& right) {
  Json attributes{{"verb", "get"},
                  {"group", right.group},
                  {"resource", right.resource},
                  {"namespace", right.namespace_name}};
  if (!right.name.empty()) {
    attributes["name"] = right.name;
  }
  Json spec{{"user", whose.user()}, {"resourceAttributes", std::move(attributes)}};
  for (const char* const member : {"groups", "uid", "extra"}) {
    if (const Json* value = FindJson(whose.json(), {"status", "user", member}); value != nullptr) {
      spec[member] = *value;
    }
  }
  return Unchecked(Question(kKind, std::move(spec)));
}

}  // namespace csidelta::objects
