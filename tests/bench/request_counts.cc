#include "tests/bench/request_counts.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace csidelta::bench {
namespace {

std::string VerbOf(const support::ServedRequest& request, bool is_named) {
  static const std::map<std::string, std::string> verbs = {
      {"POST", "create"}, {"PUT", "update"}, {"PATCH", "patch"}, {"DELETE", "delete"}};
  if (const auto verb = verbs.find(request.method); verb != verbs.end()) {
    return verb->second;
  }
  if (absl::StrContains(request.target, "watch=true")) {
    return "watch";
  }
  return is_named ? "get" : "list";
}

}  // namespace

std::string RequestName(const support::ServedRequest& request) {
  const std::vector<std::string> halves = absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  const std::vector<std::string> steps = absl::StrSplit(halves.front(), '/', absl::SkipEmpty());
  // /api/VERSION/... or /apis/GROUP/VERSION/..., each perhaps with namespaces/NAME/ before the
  // kind.
  std::size_t kind = !steps.empty() && steps.front() == "api" ? 2 : 3;
  if (kind + 2 < steps.size() && steps[kind] == "namespaces") {
    kind += 2;
  }
  if (kind >= steps.size()) {
    return absl::StrCat(request.method, " ", halves.front());
  }
  const bool is_named = kind + 1 < steps.size();
  return absl::StrCat(VerbOf(request, is_named), " ", steps[kind],
                      kind + 2 < steps.size() ? "/" : "",
                      kind + 2 < steps.size() ? steps[kind + 2] : "");
}

}  // namespace csidelta::bench
