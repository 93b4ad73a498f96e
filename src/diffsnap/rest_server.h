#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "diffsnap/access.h"
#include "diffsnap/page_service.h"
#include "diffsnap/pair_table.h"
#include "net/http_server.h"

namespace csidelta::diffsnap {

// What the REST server answers, whatever carries the bytes:
//
//   GET /{namespace}/{name}?startOffset=..&maxEntries=..   a page, for who may read it
//   GET /openapi.json                                      the above, for programs
//   GET /healthz  /readyz  /metrics                        alive, synced, counted; for anybody
//
// Errors are {"code","message"}. Thread-safe.
class RestServer {
 public:
  // Borrows all three. No page has more than `entries_max` blocks, whatever a client asks for.
  RestServer(const PairTable& pairs, AccessReviewer& access, PageService& pages,
             int64_t entries_max = incremental::kPageEntriesMax)
      : pairs_(pairs), access_(access), pages_(pages), entries_max_(entries_max) {}

  // A net::HttpHandler.
  net::HttpResponse Handle(const CallContext& ctx, const net::HttpCall& call);

 private:
  net::HttpResponse HandlePage(const CallContext& ctx, const net::HttpCall& call);
  PageResult GetPage(const CallContext& ctx, const net::HttpCall& call);
  void Count(absl::string_view code, int64_t blocks, absl::Duration taken);
  std::string Metrics() const;

  const PairTable& pairs_;
  AccessReviewer& access_;
  PageService& pages_;
  const int64_t entries_max_;
  std::atomic<int64_t> in_flight_ = 0;
  mutable Mutex mutex_;
  std::map<std::string, int64_t> answers_ ABSL_GUARDED_BY(mutex_);  // By code, "OK" for pages.
  int64_t blocks_ ABSL_GUARDED_BY(mutex_) = 0;
  double page_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The interface as an OpenAPI 3.0 document.
absl::string_view OpenApiDocument();

}  // namespace csidelta::diffsnap
