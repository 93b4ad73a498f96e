#include "plugin/host_version.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

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

// The first releases of grpc-go that a Velero minor carries.
constexpr int kGrpcGoOfVelero112 = 54;
constexpr int kGrpcGoOfVelero113 = 58;
constexpr int kGrpcGoOfVelero114And115 = 63;
constexpr int kGrpcGoOfVelero116 = 69;

struct Version {
  int major_number;
  int minor_number;
};

// "1.63.2", "v1.18.1-rc.1", "1.80.0 extra": the first two numbers.
std::optional<Version> ParseVersion(absl::string_view text) {
  absl::ConsumePrefix(&text, "v");
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  Version version{};
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &version.major_number)) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> minor_words =
      absl::StrSplit(parts[1], absl::ByAnyChar("-+ "));
  if (!absl::SimpleAtoi(minor_words[0], &version.minor_number) || version.minor_number < 0) {
    return std::nullopt;
  }
  return version;
}

// The minor release of grpc-go; a later major counts as the newest, anything else as unknown.
std::optional<int> GrpcGoMinor(absl::string_view user_agent) {
  const std::size_t start = user_agent.find("grpc-go/");
  if (start == absl::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<Version> version = ParseVersion(user_agent.substr(start + 8));
  if (!version || version->major_number < 1) {
    return std::nullopt;
  }
  return version->major_number > 1 ? kGrpcGoOfVelero116 : version->minor_number;
}

// Velero 1.14 has the actions that the placeholders stand for; whatever may be 1.14 must not see
// them.
bool TakesPlaceholders(ArgumentForm form, std::optional<int> grpc_go,
                       std::optional<Version> declared) {
  if (form != ArgumentForm::kLevelAndFeatures) {
    return false;
  }
  if (declared) {
    return declared->major_number == 1 && declared->minor_number >= 12 &&
           declared->minor_number <= 13 && grpc_go.value_or(0) < kGrpcGoOfVelero114And115;
  }
  return grpc_go && *grpc_go >= kGrpcGoOfVelero112 && *grpc_go <= kGrpcGoOfVelero113;
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

HostKinds DetectHostKinds(ArgumentForm form, absl::string_view user_agent,
                          absl::string_view declared_version) {
  const std::optional<Version> declared = ParseVersion(declared_version);
  const std::optional<int> grpc_go = GrpcGoMinor(user_agent);
  const bool placeholders = TakesPlaceholders(form, grpc_go, declared);
  if (declared) {
    const bool newer_major = declared->major_number > 1;
    return {.v2 = newer_major || declared->minor_number >= 11,
            .item_block = newer_major || declared->minor_number >= 15,
            .placeholders = placeholders};
  }
  if (!grpc_go) {
    const bool since_115 = form == ArgumentForm::kServerArguments;
    return {.v2 = since_115, .item_block = since_115};
  }
  if (*grpc_go >= kGrpcGoOfVelero116) {
    return {.v2 = true, .item_block = true};
  }
  // 1.14 and 1.15 carry the same library, but only 1.15 passes the server's own arguments, or none.
  const bool since_115 =
      *grpc_go >= kGrpcGoOfVelero114And115 && form != ArgumentForm::kLevelAndFeatures;
  return {
      .v2 = *grpc_go >= kGrpcGoOfVelero112, .item_block = since_115, .placeholders = placeholders};
}

}  // namespace csidelta::plugin
