#include "tests/support/selectors.h"

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "k8s/object.h"

namespace csidelta::support {
namespace {

constexpr std::size_t kAnnotationBytesMax = std::size_t{256} << 10;

using Labels = std::map<std::string, std::string>;

// Splits at commas outside of parentheses.
std::vector<std::string> SplitRequirements(absl::string_view selector) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : selector) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

absl::StatusOr<bool> MatchesRequirement(const Labels& labels, const std::string& requirement) {
  static const std::regex set_form(R"(([^\s!=]+)\s+(in|notin)\s+\(([^()]*)\))");
  static const std::regex equal_form(R"(([^\s!=]+)\s*(==|=|!=)\s*([^\s=!]*))");
  static const std::regex exists_form(R"((!?)\s*([^\s!=(),]+))");
  std::smatch match;
  if (std::regex_match(requirement, match, set_form)) {
    bool found = false;
    const auto label = labels.find(match[1]);
    for (const absl::string_view value : absl::StrSplit(match[3].str(), ',')) {
      found |= label != labels.end() && label->second == absl::StripAsciiWhitespace(value);
    }
    return found == (match[2] == "in");
  }
  if (std::regex_match(requirement, match, equal_form)) {
    const auto label = labels.find(match[1]);
    const bool equal = label != labels.end() && label->second == match[3].str();
    return equal == (match[2] != "!=");
  }
  if (std::regex_match(requirement, match, exists_form)) {
    return labels.contains(match[2]) == (match[1] != "!");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unable to parse requirement of label selector: ", requirement));
}

bool IsLabelValue(const std::string& value) {
  static const std::regex form("([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?");
  return value.size() <= 63 && std::regex_match(value, form);
}

bool IsSubdomain(const std::string& name) {
  static const std::regex form(
      R"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)");
  return name.size() <= 253 && std::regex_match(name, form);
}

bool IsQualifiedName(const std::string& key) {
  const std::vector<std::string> parts = absl::StrSplit(key, absl::MaxSplits('/', 1));
  const std::string& name = parts.back();
  return !name.empty() && IsLabelValue(name) && (parts.size() == 1 || IsSubdomain(parts.front()));
}

absl::Status Invalid(absl::string_view field, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": Invalid value: \"", value, "\""));
}

absl::Status CheckStringMap(const Json& object, absl::string_view field) {
  const Json* found = FindJson(object, {"metadata", field});
  if (found == nullptr || found->is_null()) {
    return absl::OkStatus();
  }
  if (!found->is_object()) {
    return Invalid(absl::StrCat("metadata.", field), DumpJson(*found));
  }
  std::size_t total_bytes = 0;
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string() || !IsQualifiedName(key)) {
      return Invalid(absl::StrCat("metadata.", field), key);
    }
    total_bytes += key.size() + value.get_ref<const std::string&>().size();
    if (field == "labels" && !IsLabelValue(value)) {
      return Invalid("metadata.labels", value.get<std::string>());
    }
  }
  if (field == "annotations" && total_bytes > kAnnotationBytesMax) {
    return absl::InvalidArgumentError("metadata.annotations: Too long: at most 262144 bytes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> MatchesLabels(const Json& object, absl::string_view selector) {
  if (absl::StripAsciiWhitespace(selector).empty()) {
    return true;
  }
  const Labels labels = GetStringMap(object, {"metadata", "labels"});
  for (const std::string& part : SplitRequirements(selector)) {
    const absl::StatusOr<bool> matches =
        MatchesRequirement(labels, std::string(absl::StripAsciiWhitespace(part)));
    if (!matches.ok() || !*matches) {
      return matches;
    }
  }
  return true;
}

absl::StatusOr<bool> MatchesFields(const Json& object, absl::string_view selector) {
  if (selector.empty()) {
    return true;
  }
  static const std::regex form(R"(([A-Za-z.]+)(==|=|!=)(.*))");
  for (const absl::string_view part : absl::StrSplit(selector, ',')) {
    std::smatch match;
    const std::string text(part);
    if (!std::regex_match(text, match, form)) {
      return absl::InvalidArgumentError(absl::StrCat("invalid field selector: ", text));
    }
    const Json* value = &object;
    for (const absl::string_view step : absl::StrSplit(match[1].str(), '.')) {
      value = value == nullptr ? nullptr : FindJson(*value, {step});
    }
    const std::string actual =
        value != nullptr && value->is_string() ? value->get<std::string>() : "";
    if ((actual == match[3].str()) != (match[2] != "!=")) {
      return false;
    }
  }
  return true;
}

absl::Status ValidateMetadata(const Json& object) {
  const std::string name = k8s::Name(object);
  // RBAC names may hold colons; the kinds with free names are not told apart here.
  if (!IsSubdomain(name) && name.find(':') == std::string::npos) {
    return Invalid("metadata.name", name);
  }
  for (const absl::string_view field : {"labels", "annotations"}) {
    if (absl::Status status = CheckStringMap(object, field); !status.ok()) {
      return status;
    }
  }
  if (const Json* finalizers = FindJson(object, {"metadata", "finalizers"});
      finalizers != nullptr && finalizers->is_array()) {
    for (const Json& finalizer : *finalizers) {
      if (!finalizer.is_string() || !IsQualifiedName(finalizer)) {
        return Invalid("metadata.finalizers", DumpJson(finalizer));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateEvent(const Json& event) {
  const std::string involved = GetString(event, {"involvedObject", "namespace"});
  if (k8s::Namespace(event) == (involved.empty() ? "default" : involved)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("involvedObject.namespace: \"", involved, "\" does not match event.namespace"));
}

}  // namespace csidelta::support
