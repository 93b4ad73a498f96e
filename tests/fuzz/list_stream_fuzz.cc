// The answer to a LIST, as a broken or hostile server may send it: however it is cut, the same
// objects come out, and of those that are wanted none is left out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/json.h"
#include "k8s/stream_decoder.h"

namespace csidelta::k8s::list_stream_fuzz {
namespace {

struct Outcome {
  std::vector<std::string> objects;
  std::vector<std::string> wanted;  // of those, the ones named "one"
  absl::StatusCode code = absl::StatusCode::kOk;

  bool operator==(const Outcome&) const = default;
};

Outcome Decode(absl::string_view bytes, std::size_t piece_bytes,
               std::optional<NameFilter> is_wanted) {
  Outcome outcome;
  ListDecoder decoder(is_wanted);
  while (!bytes.empty() && outcome.code == absl::StatusCode::kOk) {
    const absl::string_view piece = bytes.substr(0, piece_bytes);
    bytes.remove_prefix(piece.size());
    const absl::Status fed = decoder.Feed(piece, [&](const Json& object) {
      CSIDELTA_CHECK(object.is_object());
      std::string text = DumpJson(object);
      if (GetString(object, {"metadata", "name"}) == "one") {
        outcome.wanted.push_back(text);
      }
      outcome.objects.push_back(std::move(text));
    });
    outcome.code = fed.code();
  }
  if (outcome.code == absl::StatusCode::kOk) {
    outcome.code = decoder.Finish().status().code();
  }
  return outcome;
}

}  // namespace
}  // namespace csidelta::k8s::list_stream_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(data), bytes);
  const std::size_t all = std::max<std::size_t>(bytes, 1);
  const auto is_one = [](absl::string_view name) { return name == "one"; };
  const auto whole = csidelta::k8s::list_stream_fuzz::Decode(text, all, std::nullopt);
  CSIDELTA_CHECK(whole == csidelta::k8s::list_stream_fuzz::Decode(text, 7, std::nullopt));
  const auto some = csidelta::k8s::list_stream_fuzz::Decode(text, 5, is_one);
  // What is left out is not parsed, so that nothing in it is an error.
  if (whole.code == absl::StatusCode::kOk) {
    CSIDELTA_CHECK(some.code == absl::StatusCode::kOk && some.wanted == whole.wanted);
  }
  return 0;
}
