// A request with any key, query and headers: what is signed is one text, whatever the order of its
// parts, from which a server finds the same key again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "net/url.h"
#include "storage/s3_signer.h"

namespace {

using csidelta::net::PercentDecode;
using csidelta::net::PercentEncode;

constexpr char kHash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

bool IsHeaderText(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c != '\x7f'; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  const std::vector<std::string> parts = absl::StrSplit(text, '\n');
  const std::string& key = parts.front();
  csidelta::storage::RequestToSign request{.method = "PUT",
                                           .target = absl::StrCat("/", PercentEncode(key)),
                                           .headers = {},
                                           .sha256_hex = kHash};
  std::vector<std::string> query;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (i % 2 == 1) {
      query.push_back(absl::StrCat(PercentEncode(parts[i]), "=", i));
    } else if (IsHeaderText(parts[i])) {
      request.headers.emplace_back(absl::StrCat("x-amz-meta-", i), parts[i]);
    }
  }
  const std::string path = request.target;
  absl::StrAppend(&request.target, query.empty() ? "" : "?", absl::StrJoin(query, "&"));
  const std::string canonical = CanonicalRequest(request);

  const std::vector<std::string> lines = absl::StrSplit(canonical, '\n');
  CSIDELTA_CHECK(lines.size() == request.headers.size() + 6);
  CSIDELTA_CHECK(lines[0] == "PUT" && lines[1] == path && lines.back() == kHash);
  CSIDELTA_CHECK(PercentDecode(lines[1].substr(1)) == key);

  csidelta::storage::RequestToSign turned = request;
  std::reverse(turned.headers.begin(), turned.headers.end());
  std::reverse(query.begin(), query.end());
  turned.target = absl::StrCat(path, query.empty() ? "" : "?", absl::StrJoin(query, "&"));
  CSIDELTA_CHECK(CanonicalRequest(turned) == canonical);
  turned.target = absl::StrCat(path, lines[2].empty() ? "" : "?", lines[2]);
  CSIDELTA_CHECK(CanonicalRequest(turned) == canonical);
  return 0;
}
