#pragma once

#include "incremental/changed_block_source.h"

namespace csidelta::incremental {

// The whole volume as one extent of data: every byte is read and hashes decide what is new.
// Stateless; thread-safe.
class FullScanSource : public ChangedBlockSource {
 public:
  absl::string_view name() const override { return "full-scan"; }
  bool compares() const override { return false; }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override {
    if (absl::Status status = ctx.Check(); !status.ok()) {
      return status;
    }
    if (request.size_bytes == 0) {
      return absl::OkStatus();
    }
    return sink({.extent = {0, request.size_bytes}, .kind = ExtentKind::kData});
  }
};

}  // namespace csidelta::incremental
