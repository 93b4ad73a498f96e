#include "velero/data_reference.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"

namespace csidelta::velero {
namespace {

constexpr absl::string_view kName = "csi-delta";
constexpr absl::string_view kVersion = "1";
constexpr std::size_t kPartsCount = 7;
constexpr std::size_t kLabelBytesMax = 63;
constexpr std::size_t kSnapshotDigits = 64;
constexpr std::size_t kKeyDigits = 16;
constexpr std::size_t kShownBytesMax = 200;

bool IsLowerAlnum(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); }

bool IsDnsLabel(absl::string_view text) {
  return !text.empty() && text.size() <= kLabelBytesMax && IsLowerAlnum(text.front()) &&
         IsLowerAlnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

absl::Status Malformed(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("snapshot id \"", absl::CHexEscape(text.substr(0, kShownBytesMax)), "\": ", what,
                   "; csi-delta writes csi-delta/1/CLUSTER/NAMESPACE/CLAIM-UID/SNAPSHOT/KEY"));
}

}  // namespace

bool IsUid(absl::string_view text) { return IsDnsLabel(text); }

bool IsNamespaceName(absl::string_view text) { return IsDnsLabel(text); }

std::string FormatDataReference(const DataReference& reference) {
  return absl::StrJoin(
      {kName, kVersion, absl::string_view(reference.cluster),
       absl::string_view(reference.namespace_name), absl::string_view(reference.claim_uid),
       absl::string_view(reference.snapshot_id), absl::string_view(reference.key)},
      "/");
}

absl::StatusOr<DataReference> ParseDataReference(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  if (parts.front() != kName) {
    return Malformed(text, "another data mover wrote it");
  }
  if (parts.size() < 2 || parts[1] != kVersion) {
    return Malformed(text, "its version is not 1: use the csi-delta that wrote it, or a newer one");
  }
  if (parts.size() != kPartsCount) {
    return Malformed(text, absl::StrCat("it has ", parts.size(), " parts"));
  }
  if (!IsUid(parts[2])) {
    return Malformed(text, "the cluster is no uid");
  }
  if (!IsNamespaceName(parts[3])) {
    return Malformed(text, "the namespace is no namespace's name");
  }
  if (!IsUid(parts[4])) {
    return Malformed(text, "the claim is no uid");
  }
  if (!IsLowerHex(parts[5], kSnapshotDigits)) {
    return Malformed(text, "the snapshot is not 64 hexadecimal digits");
  }
  if (!IsLowerHex(parts[6], kKeyDigits)) {
    return Malformed(text, "the key is not 16 hexadecimal digits");
  }
  return DataReference{.cluster = std::string(parts[2]),
                       .namespace_name = std::string(parts[3]),
                       .claim_uid = std::string(parts[4]),
                       .snapshot_id = std::string(parts[5]),
                       .key = std::string(parts[6])};
}

std::string RepositoryPath(const DataReference& reference) {
  return absl::StrCat(kRepositoryRoot, "/", reference.cluster, "/", reference.namespace_name, "/",
                      reference.claim_uid);
}

}  // namespace csidelta::velero
