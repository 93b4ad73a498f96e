#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/blob_codec.h"
#include "repository/sealer.h"
#include "storage/object_store.h"

namespace csidelta::repository {

// The length of the pack file that holds exactly these blobs.
int64_t PackBytes(absl::Span<const PackEntry> entries);

// The plaintext of a header for `entries`, in pack order.
std::string EncodePackHeader(absl::Span<const PackEntry> entries);

// Entries with their offsets. DATA_LOSS unless the header is whole, its types are known, its
// lengths possible and their sum, header included, is exactly `pack_bytes`.
absl::StatusOr<std::vector<PackEntry>> DecodePackHeader(absl::string_view header,
                                                        int64_t pack_bytes);

// Reads the header of a stored pack from its end: two requests at most.
absl::StatusOr<std::vector<PackEntry>> ReadPackHeader(const CallContext& ctx,
                                                      storage::ObjectStore& store, const PackId& id,
                                                      int64_t pack_bytes, Sealer& sealer);

// Proves a whole pack: its hash is its name, its header reads, every blob opens and hashes to its
// id, nothing lies between them. Returns the entries. `damaged` is called for each blob that does
// not read; then the result is DATA_LOSS, after all were tried.
absl::StatusOr<std::vector<PackEntry>> VerifyPack(
    const PackId& id, absl::string_view bytes, BlobCodec& codec,
    absl::FunctionRef<void(const PackEntry&, const absl::Status&)> damaged);

}  // namespace csidelta::repository
