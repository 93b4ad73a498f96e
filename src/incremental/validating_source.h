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
  bool lists_allocated() const override { return inner_.lists_allocated(); }
  bool compares() const override { return inner_.compares(); }
  bool lists_changes() const override { return inner_.lists_changes(); }
  int64_t memory_bytes() const override { return inner_.memory_bytes(); }

  absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                           ExtentSink sink) override;

 private:
  ChangedBlockSource& inner_;
};

}  // namespace csidelta::incremental
