// The JSON of csi-delta report, in pieces, and the page that is drawn of it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "report/page.h"
#include "report/report.h"

namespace {

absl::StatusOr<csidelta::report::Report> ReadInPieces(absl::string_view text) {
  return csidelta::report::ReadJson([&]() -> absl::StatusOr<absl::string_view> {
    const absl::string_view piece = text.substr(0, 61);
    text.remove_prefix(piece.size());
    return piece;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const auto report = ReadInPieces({reinterpret_cast<const char*>(data), size});
  if (!report.ok()) {
    return 0;
  }
  const auto write = [](const csidelta::report::Report& of) {
    std::string text;
    csidelta::report::WriteJson(
        of, [&](absl::string_view part) { text.append(part.data(), part.size()); });
    return text;
  };
  const std::string text = write(*report);
  const auto again = ReadInPieces(text);
  CSIDELTA_CHECK(again.ok() && write(*again) == text);
  CSIDELTA_CHECK(csidelta::report::RenderPage(*report).find("<script") == std::string::npos);
  return 0;
}
