#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/repository.h"

namespace csidelta::repository {

// A stored pack, and the blobs to look for in it, whose offsets ascend.
struct PackToScan {
  FileInfo file;
  std::vector<PackEntry> blobs;
};

// What one pass over a pack shows.
struct PackFindings {
  std::string detail = {};                // what is wrong with it; "" for nothing
  std::vector<std::size_t> damaged = {};  // blobs that do not read, by their numbers
  bool is_listed_so = false;              // its header lists these blobs
  std::vector<PackEntry> header = {};     // else what it lists, if it reads
};
using PackFindingsSink = absl::FunctionRef<absl::Status(std::size_t pack, PackFindings found)>;

// Takes a blob of those to look for, by its number: its plaintext, valid during the call, or why it
// does not read.
using ScannedBlobSink = std::function<absl::Status(
    std::size_t number, const absl::StatusOr<absl::string_view>& plaintext)>;

// Reads packs, several at a time, in pieces of at most `piece_bytes_max`, or of their longest blob.
// Each byte is read once: while it is in memory it is hashed for the name of the pack, and its blob
// for the id. Both sinks are called by several threads, `sink`, which may be null, by one at a time
// for each pack.
//
// Memory is taken from the repository's budget. Blobs that are much longer than others, or overlap,
// are read besides, one at a time. Damage is in the findings; other errors, and those of sinks, end
// the scan and are returned.
absl::Status ScanPacks(const CallContext& ctx, const Repository& repository,
                       absl::Span<const PackToScan> packs, int64_t piece_bytes_max,
                       PackFindingsSink done, const ScannedBlobSink& sink = nullptr);

}  // namespace csidelta::repository
