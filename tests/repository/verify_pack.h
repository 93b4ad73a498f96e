#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "repository/blob_codec.h"
#include "repository/pack_reader.h"

namespace csidelta::repository {

// Verifies a whole pack: its hash is its name, its header reads, every blob opens and hashes to its
// id, nothing lies between them. `damaged` is called for each blob that does not read.
inline absl::StatusOr<std::vector<PackEntry>> VerifyPack(
    const PackId& id, absl::string_view bytes, BlobCodec& codec,
    absl::FunctionRef<void(const PackEntry&, const absl::Status&)> damaged) {
  ASSIGN_OR_RETURN(std::vector<PackEntry> entries,
                   OpenPackTail(bytes, static_cast<int64_t>(bytes.size()), codec.sealer()));
  absl::Status status;
  for (const PackEntry& entry : entries) {
    const absl::string_view envelope =
        bytes.substr(entry.span.offset_bytes, entry.span.sealed_bytes);
    if (const auto decoded = codec.Decode(entry.handle, entry.span, envelope); !decoded.ok()) {
      damaged(entry, decoded.status());
      status.Update(absl::DataLossError("a damaged blob"));
    }
  }
  RETURN_IF_ERROR(status);
  if (Id::Of(bytes) != id) {
    return absl::DataLossError(absl::StrCat("pack ", id.ShortHex(), " does not hash to its name"));
  }
  return entries;
}

}  // namespace csidelta::repository
