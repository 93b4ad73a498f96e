#include "plugin/host_version.h"

#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace csidelta::plugin {
namespace {

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
