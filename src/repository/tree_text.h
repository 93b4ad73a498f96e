#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "repository/blob.h"

namespace csidelta::repository {

// Writes the canonical text of a tree, node by node. restic writes trees again and refuses when a
// byte comes out differently: the order of the fields, their presence and the final newline are the
// format. Names are [0-9a-z._-], which need no escapes, and come in ascending order. A value.
class TreeText {
 public:
  explicit TreeText(std::size_t bytes_expected) {
    text_.reserve(bytes_expected + 32);
    text_ = "{\"nodes\":[";
  }

  void AddFile(absl::string_view name, uint64_t size_bytes, absl::Span<const BlobId> content) {
    AddHead(name, "file", kFileMode);
    if (size_bytes > 0) {
      absl::StrAppend(&text_, ",\"size\":", size_bytes);
    }
    text_.append(",\"content\":[");
    const std::size_t begin = text_.size();
    text_.resize(begin + content.size() * kQuotedIdBytes);
    char* out = text_.data() + begin;
    for (const BlobId& id : content) {
      *out++ = '"';
      id.WriteHex(out);
      out += Id::kHexDigits;
      *out++ = '"';
      *out++ = ',';
    }
    if (!content.empty()) {
      text_.pop_back();
    }
    text_.append("]}");
  }

  void AddDir(absl::string_view name, const BlobId& subtree) {
    AddHead(name, "dir", kDirMode);
    absl::StrAppend(&text_, ",\"content\":null,\"subtree\":\"", subtree.Hex(), "\"}");
  }

  std::string Finish() && {
    text_.append("]}\n");
    return std::move(text_);
  }

 private:
  static constexpr std::size_t kQuotedIdBytes = Id::kHexDigits + 3;  // Quotes and comma.
  // Go's file modes: 0600, and 0700 with the bit of a directory.
  static constexpr uint32_t kFileMode = 0600;
  static constexpr uint32_t kDirMode = (uint32_t{1} << 31) | 0700;

  void AddHead(absl::string_view name, absl::string_view type, uint32_t mode) {
    absl::StrAppend(&text_, text_.back() == '[' ? "" : ",", "{\"name\":\"", name, "\",\"type\":\"",
                    type, "\",\"mode\":", mode);
    text_.append(
        ",\"mtime\":\"1970-01-01T00:00:00Z\",\"atime\":\"1970-01-01T00:00:00Z\","
        "\"ctime\":\"1970-01-01T00:00:00Z\",\"uid\":0,\"gid\":0");
  }

  std::string text_;
};

}  // namespace csidelta::repository
