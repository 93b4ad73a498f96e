#include "repository/tree.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_reader.h"
#include "base/json_text.h"
#include "base/status_macros.h"

namespace csidelta::repository {
namespace {

// As long as a whole path may be on Linux.
constexpr std::size_t kNameBytesMax = 4096;

// Takes `digits` hexadecimal digits from the front of `text`.
bool TakeHex(absl::string_view& text, std::size_t digits, uint32_t& value) {
  if (text.size() < digits) {
    return false;
  }
  value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const char c = text[i];
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      return false;
    }
  }
  text.remove_prefix(digits);
  return true;
}

// Takes what follows a backslash.
bool TakeEscape(absl::string_view& text, std::string& name) {
  constexpr absl::string_view kLetters = "abfnrtv\\\"'";
  constexpr absl::string_view kBytes = "\a\b\f\n\r\t\v\\\"'";
  if (text.empty()) {
    return false;
  }
  const char kind = text[0];
  text.remove_prefix(1);
  if (const std::size_t at = kLetters.find(kind); at != absl::string_view::npos) {
    name.push_back(kBytes[at]);
    return true;
  }
  uint32_t value = 0;
  if (kind == 'x') {
    if (!TakeHex(text, 2, value)) {
      return false;
    }
    name.push_back(static_cast<char>(value));
    return true;
  }
  const std::size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  const bool taken = digits > 0 && TakeHex(text, digits, value);
  if (!taken || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    return false;
  }
  AppendUtf8(name, value);
  return true;
}

NodeType TypeOf(absl::string_view name) {
  if (name == "file") {
    return NodeType::kFile;
  }
  if (name == "dir") {
    return NodeType::kDir;
  }
  return name == "symlink" ? NodeType::kSymlink : NodeType::kOther;
}

BlobId ReadBlobId(JsonReader& reader) {
  const absl::StatusOr<Id> id = Id::Parse(reader.String());
  if (!id.ok() || id->IsNull()) {
    reader.Fail("expected the id of a blob");
    return BlobId();
  }
  return *id;
}

std::vector<BlobId> ReadContent(JsonReader& reader) {
  std::vector<BlobId> content;
  reader.BeginArray();
  while (reader.NextElement()) {
    content.push_back(ReadBlobId(reader));
  }
  return content;
}

void ReadMember(JsonReader& reader, absl::string_view key, Node& node) {
  if (key == "name") {
    if (!UnquoteName(reader.String(), node.name)) {
      reader.Fail("malformed name");
    }
  } else if (key == "type") {
    node.type = TypeOf(reader.String());
  } else if (key == "size") {
    node.size_bytes = reader.Unsigned();
  } else if (key == "linktarget") {
    node.link_target = std::string(reader.String());
  } else if (key == "content" && !reader.TakeNull()) {
    node.content = ReadContent(reader);
  } else if (key == "subtree" && !reader.TakeNull()) {
    node.subtree = ReadBlobId(reader);
  } else if (key != "content" && key != "subtree") {
    reader.Skip();
  }
}

Node ReadNode(JsonReader& reader) {
  Node node;
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    ReadMember(reader, key, node);
  }
  if (node.name.empty() || node.name.size() > kNameBytesMax || node.name == "." ||
      node.name == ".." || node.name.find('/') != std::string::npos ||
      node.name.find('\0') != std::string::npos) {
    reader.Fail("impossible name");
  }
  return node;
}

absl::Status AsDamage(const absl::Status& status) {
  return status.ok() ? status : absl::DataLossError(absl::StrCat("tree: ", status.message()));
}

}  // namespace

bool UnquoteName(absl::string_view quoted, std::string& name) {
  name.clear();
  while (!quoted.empty()) {
    const char c = quoted[0];
    quoted.remove_prefix(1);
    if (c == '\\') {
      if (!TakeEscape(quoted, name)) {
        return false;
      }
    } else {
      name.push_back(c);
    }
  }
  return true;
}

absl::Status DecodeTree(absl::string_view text, absl::FunctionRef<absl::Status(Node&)> sink) {
  JsonReader reader(text);
  std::string previous;
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    if (key != "nodes") {
      reader.Skip();
      continue;
    }
    if (reader.TakeNull()) {
      continue;
    }
    reader.BeginArray();
    while (reader.NextElement()) {
      Node node = ReadNode(reader);
      RETURN_IF_ERROR(AsDamage(reader.status()));
      if (node.name <= previous) {
        return absl::DataLossError("tree: names do not ascend");
      }
      previous = node.name;
      RETURN_IF_ERROR(sink(node));
    }
  }
  return AsDamage(reader.Finish());
}

absl::StatusOr<std::vector<Node>> DecodeTree(absl::string_view text) {
  std::vector<Node> nodes;
  RETURN_IF_ERROR(DecodeTree(text, [&nodes](Node& node) {
    nodes.push_back(std::move(node));
    return absl::OkStatus();
  }));
  return nodes;
}

}  // namespace csidelta::repository
