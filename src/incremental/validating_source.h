#pragma once

#include "incremental/changed_block_source.h"

namespace csidelta::incremental {

// Holds another source to the contract: the first extent that is empty, negative, outside of the
// volume, or not behind the one before ends the listing with FAILED_PRECONDITION naming the extent
// and the source. The caller then trusts nothing of that source and scans. As thread-safe as the
// inner source, which is borrowed.
class ValidatingSource : public ChangedBlockSource {
 public:
  explicit ValidatingSource(ChangedBlockSource& inner) : inner_(inner) {}

  absl::string_view name() const override { return inner_.name(); }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  ChangedBlockSource& inner_;
};

}  // namespace csidelta::incremental
