#include "net/gzip.h"

#include <zlib.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"

namespace csidelta::net {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // 16: a gzip header instead of zlib's.
constexpr int kMemoryLevel = 8;

bool IsRefused(absl::string_view parameters) {
  for (const absl::string_view parameter : absl::StrSplit(parameters, ';')) {
    absl::string_view text = absl::StripAsciiWhitespace(parameter);
    double quality = 1;
    if ((absl::ConsumePrefix(&text, "q=") || absl::ConsumePrefix(&text, "Q=")) &&
        (!absl::SimpleAtod(text, &quality) || !(quality > 0))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool AcceptsGzip(absl::string_view accept_encoding) {
  bool any = false;
  for (const absl::string_view coding : absl::StrSplit(accept_encoding, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(coding, absl::MaxSplits(';', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    if (absl::EqualsIgnoreCase(name, "gzip")) {
      return !IsRefused(parts.second);
    }
    any = any || (name == "*" && !IsRefused(parts.second));
  }
  return any;
}

std::string Gzip(absl::string_view bytes) {
  z_stream stream{};
  CSIDELTA_CHECK(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                              Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // Only read.
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CSIDELTA_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace csidelta::net
