#pragma once

#include <cstdint>
#include <optional>
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

struct BlobToFetch {
  BlobHandle handle;
  BlobLocation location;  // The copy to begin with.
};

// A blob that was looked for; valid during a call.
struct FetchedBlob {
  BlobHandle handle;
  absl::StatusOr<absl::string_view> plaintext;  // or why no copy reads
  // The bytes that were verified, as the pack has them; empty where another copy than the one named
  // was read.
  std::optional<PackEntry> entry = {};
  absl::string_view envelope = {};
  absl::Span<const uint8_t> frame = {};  // BlobCodec::frame() of these
};
using BlobSink = absl::FunctionRef<absl::Status(const FetchedBlob& blob)>;

struct FetchOptions {
  bool sink_writes =
      false;  // The sink adds blobs to a BlobWriter, which compresses and seals them.
};

// Reads many blobs with few requests: what lies close together in a pack comes in one range. Each
// blob is proven by its hash; when the copy named does not read, every other copy of the index is
// tried. `sink` is called once per blob, in no order and by several threads at the same time; an
// error of it, or one that is not damage, ends the run and is returned.
//
// REQUIRES a loaded index. Memory is taken from the repository's budget: what the ranges and
// threads take follows from what is free, and of blobs beyond kLargeBlobBytes there is one at a
// time. RESOURCE_EXHAUSTED, with the budget that would do, where one blob does not fit.
absl::Status FetchBlobs(const CallContext& ctx, const Repository& repository,
                        std::vector<BlobToFetch> blobs, BlobSink sink,
                        const FetchOptions& options = {});

}  // namespace csidelta::repository
