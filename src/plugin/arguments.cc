#include "plugin/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace csidelta::plugin {
namespace {

constexpr absl::string_view kTextFlags[] = {"log-level",    "features",   "client-qps",
                                            "client-burst", "kubeconfig", "kubecontext",
                                            "namespace"};
constexpr absl::string_view kLogLevels[] = {"panic",   "fatal", "error", "warn",
                                            "warning", "info",  "debug", "trace"};

bool TakesValue(absl::string_view name) {
  return std::find(std::begin(kTextFlags), std::end(kTextFlags), name) != std::end(kTextFlags);
}

// "--name", "-name": the name; "" when `token` is no flag.
absl::string_view FlagName(absl::string_view token) {
  if (token.size() < 2 || token[0] != '-') {
    return "";
  }
  return token.substr(token[1] == '-' ? 2 : 1);
}

void SetFlag(absl::string_view name, absl::string_view value, Arguments& into) {
  if (name == "log-level") {
    into.log_level = std::string(value);
  } else if (name == "features") {
    into.features = absl::StrSplit(value, ',', absl::SkipWhitespace());
  } else if (name == "client-qps") {
    double qps = 0;
    into.client_qps =
        absl::SimpleAtod(value, &qps) && std::isfinite(qps) && qps > 0 ? qps : into.client_qps;
  } else if (name == "client-burst") {
    int burst = 0;
    into.client_burst = absl::SimpleAtoi(value, &burst) && burst > 0 ? burst : into.client_burst;
  } else if (name == "kubeconfig") {
    into.kubeconfig = std::string(value);
  } else if (name == "kubecontext") {
    into.kubecontext = std::string(value);
  } else if (name == "namespace") {
    into.namespace_name = std::string(value);
  }
}

// Velero up to 1.14 writes exactly this, in this order, as separate words.
ArgumentForm FormOf(const std::vector<std::string>& words) {
  if (words.empty()) {
    return ArgumentForm::kEmpty;
  }
  const bool level_first =
      words.size() >= 2 && words[0] == "--log-level" &&
      std::find(std::begin(kLogLevels), std::end(kLogLevels), words[1]) != std::end(kLogLevels);
  const bool nothing_else = words.size() == 2 || (words.size() == 4 && words[2] == "--features");
  return level_first && nothing_else ? ArgumentForm::kLevelAndFeatures
                                     : ArgumentForm::kServerArguments;
}

}  // namespace

bool Arguments::HasFeature(absl::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

Arguments ParseArguments(const std::vector<std::string>& arguments) {
  Arguments parsed;
  parsed.form = FormOf(arguments);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view token = arguments[i];
    absl::string_view name = FlagName(token);
    const bool short_namespace = token.size() >= 2 && token[0] == '-' && token[1] == 'n';
    const std::size_t equals = name.find('=');
    if (equals != absl::string_view::npos && TakesValue(name.substr(0, equals))) {
      SetFlag(name.substr(0, equals), name.substr(equals + 1), parsed);
    } else if (TakesValue(name) || name == "n") {
      if (i + 1 < arguments.size()) {
        SetFlag(name == "n" ? "namespace" : name, arguments[++i], parsed);
      }
    } else if (short_namespace) {
      name.remove_prefix(name.size() > 1 && name[1] == '=' ? 2 : 1);
      SetFlag("namespace", name, parsed);
    }
  }
  return parsed;
}

}  // namespace csidelta::plugin
