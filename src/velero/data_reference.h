#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace csidelta::velero {

// What status.snapshotID of a DataUpload says: all that a restore on an empty cluster needs beside
// the location and its keys. Nothing else reaches a DataDownload.
//
//   csi-delta/1/<cluster>/<namespace>/<claim uid>/<64 digits>/<16 digits>
struct DataReference {
  std::string cluster;         // uid of its namespace kube-system
  std::string namespace_name;  // of the claim
  std::string claim_uid;
  std::string snapshot_id;  // of the repository, 64 hexadecimal digits
  std::string key;          // fingerprint of the key it was written with, 16 of them

  friend bool operator==(const DataReference&, const DataReference&) = default;
};

// REQUIRES parts that ParseDataReference() would take.
std::string FormatDataReference(const DataReference& reference);

// INVALID_ARGUMENT, saying which part is wrong: the text may come from anybody, and names a place
// in a bucket. Pure.
absl::StatusOr<DataReference> ParseDataReference(absl::string_view text);

// Whether `text` may stand for a part of the path: a uid as Kubernetes makes them.
bool IsUid(absl::string_view text);
// A namespace's name.
bool IsNamespaceName(absl::string_view text);

// Below which all repositories are, in a location's prefix.
inline constexpr char kRepositoryRoot[] = "plugins/csi-delta";

// Where the volume's repository is, below the prefix of its location.
std::string RepositoryPath(const DataReference& reference);

}  // namespace csidelta::velero
