#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "repository/blob.h"
#include "repository/repository.h"

namespace csidelta::repository {

// What one pass over a stored pack shows, beside its blobs.
struct PackScan {
  bool has_its_hash = false;                        // its bytes hash to its name
  absl::StatusOr<std::vector<PackEntry>> header{};  // as DecodePackHeader()
};

// Takes a blob of those that were asked for, by its number: its plaintext, valid during the call,
// or why it does not read.
using PackBlobSink = absl::FunctionRef<absl::Status(
    std::size_t number, const absl::StatusOr<absl::string_view>& plaintext)>;

// Reads a pack once, piece by piece, and decodes these blobs, whose offsets ascend, on the way.
// Memory: that of ScanBytes(), which is the caller's to take; of blobs that do not fit into
// `piece_bytes` one at a time, by `alone`, whose memory is taken from the budget here. Damage is in
// the result and told to `sink`, whose error ends the scan; other errors of the store are returned.
absl::StatusOr<PackScan> ScanPack(const CallContext& ctx, const Repository& repository,
                                  const FileInfo& pack, absl::Span<const PackEntry> blobs,
                                  int64_t piece_bytes, Mutex& alone, PackBlobSink sink);

// What a scan holds: a piece, and a blob of at most as many bytes twice.
constexpr int64_t ScanBytes(int64_t piece_bytes) { return 3 * piece_bytes; }

}  // namespace csidelta::repository
