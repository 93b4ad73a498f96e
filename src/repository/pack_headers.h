#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/repository.h"

namespace csidelta::repository {

// Called with a pack and the entries of its header, or why none exist.
using PackHeaderSink = absl::FunctionRef<absl::Status(
    const FileInfo& pack, absl::StatusOr<std::vector<PackEntry>> entries)>;

// Whether a pack is first read as a whole and its bytes compared with its name, as befits one of
// which nothing is known: one that is not what it says has no entries then, but DATA_LOSS.
enum class PackProof { kHeader, kWhole };

// Reads the headers of stored packs, several at a time. `sink` is called once for each, in no
// order, by one thread at a time; its error ends the reading and is returned.
absl::Status ReadPackHeaders(const CallContext& ctx, const Repository& repository,
                             absl::Span<const FileInfo> packs, PackProof proof,
                             PackHeaderSink sink);

}  // namespace csidelta::repository
