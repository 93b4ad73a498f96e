#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/mutex.h"
#include "diffsnap/access.h"
#include "diffsnap/page_service.h"
#include "diffsnap/pair_table.h"
#include "k8s/heartbeat.h"
#include "net/http_server.h"

namespace csidelta::diffsnap {

struct RestServerOptions {
  int64_t entries_max = incremental::kPageEntriesMax;  // of any page, whatever a client asks for
  // The loops that /healthz looks at, besides the answers to requests for pages.
  std::function<std::vector<k8s::LoopAge>()> loops = [] { return std::vector<k8s::LoopAge>(); };
  absl::Duration loop_age_max = k8s::kLoopAgeMax;  // older ones stand still
};

// What the REST server answers, whatever carries the bytes:
//
//   GET /{namespace}/{name}?startOffset=..&maxEntries=..   a page, for who may read it
//   GET /openapi.json                                      the above, for programs
//   GET /healthz  /readyz  /metrics                        no loop stands still, synced, counted;
//                                                          for anybody
//
// Errors are {"code","message"}. Thread-safe.
class RestServer {
 public:
  // Borrows all three.
  RestServer(const PairTable& pairs, AccessReviewer& access, PageService& pages,
             RestServerOptions options = {})
      : pairs_(pairs), access_(access), pages_(pages), options_(std::move(options)) {}

  // A net::HttpHandler.
  net::HttpResponse Handle(const CallContext& ctx, const net::HttpCall& call);

 private:
  net::HttpResponse HandlePage(const CallContext& ctx, const net::HttpCall& call);
  PageResult GetPage(const CallContext& ctx, const net::HttpCall& call);
  void Count(absl::string_view code, int64_t blocks, absl::Duration taken);
  std::string Metrics() const;
  net::HttpResponse Health(const Clock& clock) const;

  const PairTable& pairs_;
  AccessReviewer& access_;
  PageService& pages_;
  const RestServerOptions options_;
  mutable Mutex mutex_;
  // When the requests for pages began that are being answered, by Clock::Uptime().
  std::multiset<absl::Duration> in_flight_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> answers_ ABSL_GUARDED_BY(mutex_);  // By code, "OK" for pages.
  int64_t blocks_ ABSL_GUARDED_BY(mutex_) = 0;
  double page_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The interface as an OpenAPI 3.0 document.
absl::string_view OpenApiDocument();

}  // namespace csidelta::diffsnap
