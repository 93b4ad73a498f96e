#include "diffsnap/page_query.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "incremental/sources/differential_wire.h"

namespace csidelta::diffsnap {
namespace {

constexpr std::size_t kNameBytesMax = 253;

// What Kubernetes lets be part of a path as the name of an object or namespace.
bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax && text[0] != '.' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == text.npos;
}

absl::Status Wrong(absl::string_view parameter, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameter \"", absl::CHexEscape(parameter.substr(0, 64)), "\" ", what));
}

absl::StatusOr<std::string> PercentDecode(absl::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded.push_back(text[at]);
      continue;
    }
    const absl::string_view digits = text.substr(at + 1, 2);
    int value = 0;
    if (digits.size() != 2 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit) ||
        !absl::SimpleHexAtoi(digits, &value)) {
      return absl::InvalidArgumentError("malformed percent-encoding");
    }
    decoded.push_back(static_cast<char>(value));
    at += 2;
  }
  return decoded;
}

absl::StatusOr<std::map<std::string, std::string>> ParseParameters(absl::string_view text) {
  std::map<std::string, std::string> parameters;
  for (const absl::string_view part : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string name(halves.first);
    if (name != "startOffset" && name != "nextOffset" && name != "maxEntries") {
      return Wrong(name, "is unknown: there are startOffset and maxEntries");
    }
    absl::StatusOr<std::string> value = PercentDecode(halves.second);
    if (!value.ok()) {
      return Wrong(name, "has a malformed percent-encoding");
    }
    if (!parameters.emplace(name, *std::move(value)).second) {
      return Wrong(name, "is said twice");
    }
  }
  return parameters;
}

absl::StatusOr<int64_t> EntriesOf(const std::string& text) {
  if (text.find_first_not_of("0123456789") != text.npos) {
    return Wrong("maxEntries", "is no whole number");
  }
  int64_t entries = 0;
  if (!text.empty() && !absl::SimpleAtoi(text, &entries)) {
    return incremental::kPageEntriesMax;  // Digits only: it is larger than any limit.
  }
  return entries == 0 ? incremental::kPageEntriesDefault
                      : std::min(entries, incremental::kPageEntriesMax);
}

}  // namespace

absl::StatusOr<PageQuery> ParsePageQuery(absl::string_view target) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  const std::vector<absl::string_view> steps = absl::StrSplit(parts.first, '/');
  if (steps.size() != 3 || !steps[0].empty() || !IsName(steps[1]) || !IsName(steps[2])) {
    return absl::NotFoundError("no such path: pages are at /{namespace}/{name}");
  }
  ASSIGN_OR_RETURN(auto parameters, ParseParameters(parts.second));
  PageQuery query;
  query.namespace_name = std::string(steps[1]);
  query.name = std::string(steps[2]);
  query.start_offset = parameters["startOffset"];
  const std::string& alias = parameters["nextOffset"];
  if (!alias.empty() && !query.start_offset.empty() && alias != query.start_offset) {
    return Wrong("nextOffset", "is not what startOffset says: give one of them");
  }
  if (!alias.empty()) {
    query.start_offset = alias;
  }
  ASSIGN_OR_RETURN(query.entries_max, EntriesOf(parameters["maxEntries"]));
  return query;
}

}  // namespace csidelta::diffsnap
