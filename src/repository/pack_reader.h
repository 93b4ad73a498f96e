#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/repository.h"
#include "repository/sealer.h"

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

// The same from the last bytes of a pack, of which the header is in `tail`; OUT_OF_RANGE where it
// begins before them.
absl::StatusOr<std::vector<PackEntry>> OpenPackTail(absl::string_view tail, int64_t pack_bytes,
                                                    Sealer& sealer);

// Called with a pack and the entries of its header, or why none exist.
using PackHeaderSink = absl::FunctionRef<absl::Status(
    const FileInfo& pack, absl::StatusOr<std::vector<PackEntry>> entries)>;

// Reads the headers of stored packs, several at a time. `sink` is called once for each, in no
// order, by one thread at a time; its error ends the reading and is returned.
absl::Status ReadPackHeaders(const CallContext& ctx, const Repository& repository,
                             absl::Span<const FileInfo> packs, PackHeaderSink sink);

}  // namespace csidelta::repository
