#pragma once

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "k8s/api_client.h"

namespace csidelta::k8s {

// Longest event that a watch may send. The API server stores at most 1.5 MiB per object.
inline constexpr std::size_t kWatchEventBytesMax = std::size_t{8} << 20;

// Turns the bytes of a watch's answer, cut anywhere, into events: one JSON object per line. Pure.
// Not thread-safe.
class WatchDecoder {
 public:
  using Sink = absl::FunctionRef<bool(const WatchEvent&)>;

  // Hands every event that is complete now to `sink`. Returns false when `sink` did: no more events
  // are wanted. An ERROR event is returned as the error it carries (OUT_OF_RANGE: list again);
  // bytes that are no watch events are UNAVAILABLE, because another watch may do better; an event
  // above the limit is INTERNAL. After an error the decoder is of no more use.
  absl::StatusOr<bool> Feed(absl::string_view bytes, Sink sink);

 private:
  std::string line_;  // The start of an event whose end has not come yet.
};

// What a refusal means to the caller: an HTTP status and the body that came with it, which should
// be a Kubernetes Status object. What an admission webhook denied with a 5xx is
// FAILED_PRECONDITION. REQUIRES http_status is no success. Pure.
absl::Status StatusFromAnswer(int http_status, absl::string_view body);
absl::Status StatusFromObject(int http_status, const Json& status);

}  // namespace csidelta::k8s
