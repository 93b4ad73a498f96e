#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/extent.h"

namespace csidelta::incremental {

// What a source claims of an extent's bytes in the target.
enum class ExtentKind {
  kData,     // may hold anything: read it
  kZero,     // reads as zeros
  kUnknown,  // the source cannot tell: handled as data, counted apart
};

struct ListedExtent {
  Extent extent;
  ExtentKind kind = ExtentKind::kData;

  friend bool operator==(const ListedExtent&, const ListedExtent&) = default;
};

// What to compare. `base` and `target` are names that the source understands (snapshot handles);
// sources that look at one place alone leave them unread.
struct DiffRequest {
  std::string base;  // "": no base, list what is allocated
  std::string target;
  int64_t size_bytes = 0;  // of the target volume
  // Other names of the base, by which a list that was made beforehand may know it.
  std::vector<std::string> base_names = {};
  // Gets the storage vendor's own context of the extent that the sink gets next. Extents with a
  // context are not joined then. Without it contexts are dropped.
  std::function<void(const std::string& context)> on_context = {};
};

using ExtentSink = absl::FunctionRef<absl::Status(const ListedExtent&)>;

// Answers one question: which extents differ between two volume snapshots of one volume?
//
// A source may over-report (a clean extent costs bandwidth) but must never under-report (a missed
// one is silent data loss, against which the audit samples). With a base, what is not listed is
// called unchanged; without one it is called zero. Extents are non-empty, ascending, disjoint and
// inside the volume; ListChecked() enforces this. Owns nothing it is given. Thread-safe.
class ChangedBlockSource {
 public:
  virtual ~ChangedBlockSource() = default;

  // "full-scan", "extent-list", "image-extents": for results and messages.
  virtual absl::string_view name() const = 0;

  // Whether it also lists what is allocated when a base was meant: then a base that is of no use
  // costs the reading of what is allocated, not of everything.
  virtual bool lists_allocated() const { return false; }

  // Whether it compares with the base: what it leaves out, and what turns out to be the same, is
  // then the base's. False where it lists what there is, and the reader compares.
  virtual bool compares() const { return true; }

  // Whether it lists what changed since a base. False: only what is allocated, whatever the base.
  virtual bool lists_changes() const { return true; }

  // What it holds in memory, beside what a listing takes.
  virtual int64_t memory_bytes() const { return 0; }

  // Feeds `sink` every extent of `request.target` that differs from `request.base`, or every
  // allocated one when there is no base. Blocks until done. An error from `sink` stops the listing
  // and is returned unchanged. Errors of its own:
  //   FAILED_PRECONDITION  these two cannot be compared: fall back to a full scan.
  //   NOT_FOUND            a volume snapshot is gone.
  //   UNAVAILABLE          transport failed: call again from the end of the last extent delivered.
  //   INVALID_ARGUMENT     the list itself is malformed.
  virtual absl::Status ListExtents(const CallContext& ctx, const DiffRequest& request,
                                   ExtentSink sink) = 0;
};

}  // namespace csidelta::incremental
