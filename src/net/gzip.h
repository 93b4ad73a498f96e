#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace csidelta::net {

// Whether an Accept-Encoding header (RFC 9110 §12.5.3) takes gzip.
bool AcceptsGzip(absl::string_view accept_encoding);

// `bytes` as one gzip member, packed for speed.
std::string Gzip(absl::string_view bytes);

}  // namespace csidelta::net
