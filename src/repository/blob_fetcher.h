#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/repository.h"

namespace csidelta::repository {

struct BlobToFetch {
  BlobHandle handle;
  BlobLocation location;  // The copy to begin with.
};

// Takes a blob: its plaintext, valid during the call, or why no copy reads.
using BlobSink = absl::FunctionRef<absl::Status(
    const BlobHandle& handle, const absl::StatusOr<absl::string_view>& plaintext)>;

// Reads many blobs with few requests: what lies close together in a pack comes in one range. Each
// blob is proven by its hash; when the copy named does not read, every other copy of the index is
// tried. `sink` is called once per blob, in no order and by several threads at the same time; an
// error of it, or one that is not damage, ends the run and is returned.
//
// REQUIRES a loaded index. Memory: kMaintenanceThreads * 40 MiB, and twice the largest blob: of
// those beyond kLargeBlobBytes there is one at a time.
absl::Status FetchBlobs(const CallContext& ctx, const Repository& repository,
                        std::vector<BlobToFetch> blobs, BlobSink sink);

}  // namespace csidelta::repository
