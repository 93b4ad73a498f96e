// The bytes of a watch, as a broken or hostile server may send them: however they are cut, the same
// events come out, or an error that the seam knows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/json.h"
#include "k8s/stream_decoder.h"

namespace csidelta::k8s::watch_stream_fuzz {
namespace {

struct Outcome {
  std::vector<std::string> events;
  absl::StatusCode code = absl::StatusCode::kOk;

  bool operator==(const Outcome&) const = default;
};

Outcome Decode(absl::string_view bytes, std::size_t piece_bytes) {
  Outcome outcome;
  WatchDecoder decoder;
  while (!bytes.empty() && outcome.code == absl::StatusCode::kOk) {
    const absl::string_view piece = bytes.substr(0, piece_bytes);
    bytes.remove_prefix(piece.size());
    outcome.code = decoder
                       .Feed(piece,
                             [&](const WatchEvent& event) {
                               CSIDELTA_CHECK(event.object.is_object());
                               outcome.events.push_back(DumpJson(event.object));
                               return true;
                             })
                       .status()
                       .code();
  }
  return outcome;
}

}  // namespace
}  // namespace csidelta::k8s::watch_stream_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto whole =
      csidelta::k8s::watch_stream_fuzz::Decode(text, std::max<std::size_t>(bytes, 1));
  CSIDELTA_CHECK(whole == csidelta::k8s::watch_stream_fuzz::Decode(text, 7));
  return 0;
}
