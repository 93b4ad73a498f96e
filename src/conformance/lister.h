#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/call_context.h"
#include "conformance/driver_link.h"
#include "conformance/listing.h"

namespace csidelta::conformance {

struct PageMark {
  std::string start_offset;  // of the page
  std::string next_offset;
  uint64_t timeout_s = 0;
};

// A driver's answers to one question, whichever service gives them.
struct Answer {
  Listing listing;
  std::vector<PageMark> pages = {};  // of a service that answers in pages, one per message
  std::string cursor_fault = {};     // why there was no going on
};

// Asks one of the two services. Thread-safe.
class Lister {
 public:
  virtual ~Lister() = default;

  // "SnapshotMetadata".
  virtual absl::string_view name() const = 0;
  // Whether a list has as many calls as pages, and the driver's own cursors between them.
  virtual bool in_pages() const = 0;
  // The whole list from `from_bytes` on. `results_max`: in one message or page; 0: the driver
  // chooses.
  virtual Answer Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
                     int64_t results_max) = 0;
};

std::unique_ptr<Lister> MakeMetadataLister(DriverLink& link);

// Also begins in the middle, at a driver's own cursor.
class PageLister : public Lister {
 public:
  explicit PageLister(DriverLink& link) : link_(link) {}

  absl::string_view name() const override { return "DifferentialSnapshot"; }
  bool in_pages() const override { return true; }
  Answer Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
             int64_t results_max) override;
  Answer AskFrom(const CallContext& ctx, const Pair& pair, const std::string& start_offset,
                 int64_t results_max);

 private:
  DriverLink& link_;
};

}  // namespace csidelta::conformance
