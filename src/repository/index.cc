#include "repository/index.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "repository/format.h"

namespace csidelta::repository {
namespace {

// One entry takes 156 bytes, with an uncompressed length.
constexpr std::size_t kEntryTextBytes = 176;

void AppendEntry(std::string& out, const PackEntry& entry) {
  absl::StrAppend(&out, "{\"id\":\"", entry.handle.id.Hex(), "\",\"type\":\"",
                  BlobTypeName(entry.handle.type), "\",\"offset\":", entry.span.offset_bytes,
                  ",\"length\":", entry.span.sealed_bytes);
  if (entry.span.compressed()) {
    absl::StrAppend(&out, ",\"uncompressed_length\":", entry.span.uncompressed_bytes);
  }
  out.push_back('}');
}

Id ReadIndexedId(JsonReader& reader) {
  const absl::StatusOr<Id> id = Id::Parse(reader.String());
  if (!id.ok() || id->IsNull()) {
    reader.Fail("expected an id");
    return Id();
  }
  return *id;
}

uint32_t ReadUint32(JsonReader& reader) {
  const uint64_t value = reader.Unsigned();
  if (value > std::numeric_limits<uint32_t>::max()) {
    reader.Fail("number too large");
    return 0;
  }
  return static_cast<uint32_t>(value);
}

BlobType ReadType(JsonReader& reader) {
  const absl::string_view name = reader.String();
  if (name != "data" && name != "tree") {
    reader.Fail("expected the type of a blob");
  }
  return name == "tree" ? BlobType::kTree : BlobType::kData;
}

bool TakeUint32(absl::string_view& text, uint32_t& value) {
  constexpr std::size_t kDigitsMax = 10;
  uint64_t number = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && digits <= kDigitsMax && absl::ascii_isdigit(text[digits]);
       ++digits) {
    number = number * 10 + static_cast<uint64_t>(text[digits] - '0');
  }
  if (digits == 0 || number > std::numeric_limits<uint32_t>::max()) {
    return false;
  }
  value = static_cast<uint32_t>(number);
  text.remove_prefix(digits);
  return true;
}

// An entry in exactly the form that restic and we write: three times as fast as any JSON. False,
// and nothing is taken, when it is another.
bool TakeUsualEntry(JsonReader& reader, PackEntry& entry) {
  absl::string_view text = reader.rest();
  const std::size_t before = text.size();
  if (!absl::ConsumePrefix(&text, "{\"id\":\"") || text.size() < Id::kHexDigits) {
    return false;
  }
  const absl::StatusOr<Id> id = Id::Parse(text.substr(0, Id::kHexDigits));
  if (!id.ok()) {
    return false;
  }
  entry.handle.id = *id;
  text.remove_prefix(Id::kHexDigits);
  if (absl::ConsumePrefix(&text, "\",\"type\":\"data\",\"offset\":")) {
    entry.handle.type = BlobType::kData;
  } else if (absl::ConsumePrefix(&text, "\",\"type\":\"tree\",\"offset\":")) {
    entry.handle.type = BlobType::kTree;
  } else {
    return false;
  }
  entry.span.uncompressed_bytes = 0;
  const bool whole = TakeUint32(text, entry.span.offset_bytes) &&
                     absl::ConsumePrefix(&text, ",\"length\":") &&
                     TakeUint32(text, entry.span.sealed_bytes) &&
                     (!absl::ConsumePrefix(&text, ",\"uncompressed_length\":") ||
                      TakeUint32(text, entry.span.uncompressed_bytes)) &&
                     absl::ConsumePrefix(&text, "}");
  if (whole) {
    reader.Advance(before - text.size());
  }
  return whole;
}

void CheckEntry(JsonReader& reader, const PackEntry& entry) {
  const int64_t end = int64_t{entry.span.offset_bytes} + entry.span.sealed_bytes;
  if (entry.handle.id.IsNull() || entry.span.sealed_bytes < kEnvelopeBytes || end > kPackBytesMax) {
    reader.Fail("impossible entry of a blob");
  }
}

PackEntry ReadEntry(JsonReader& reader) {
  PackEntry entry;
  if (TakeUsualEntry(reader, entry)) {
    CheckEntry(reader, entry);
    return entry;
  }
  entry = {};
  bool typed = false;
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    if (key == "id") {
      entry.handle.id = ReadIndexedId(reader);
    } else if (key == "type") {
      entry.handle.type = ReadType(reader);
      typed = true;
    } else if (key == "offset") {
      entry.span.offset_bytes = ReadUint32(reader);
    } else if (key == "length") {
      entry.span.sealed_bytes = ReadUint32(reader);
    } else if (key == "uncompressed_length") {
      entry.span.uncompressed_bytes = reader.TakeNull() ? 0 : ReadUint32(reader);
    } else {
      reader.Skip();
    }
  }
  if (!typed) {
    reader.Fail("a blob without a type");
  }
  CheckEntry(reader, entry);
  return entry;
}

void ReadPack(JsonReader& reader, IndexedPack& pack) {
  pack.id = Id();
  pack.entries.clear();
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    if (key == "id") {
      pack.id = ReadIndexedId(reader);
    } else if (key == "blobs" && !reader.TakeNull()) {
      reader.BeginArray();
      while (reader.NextElement()) {
        if (std::ssize(pack.entries) == kPackEntriesMax) {
          reader.Fail("more blobs than a pack can have");
          return;
        }
        pack.entries.push_back(ReadEntry(reader));
      }
    } else if (key != "blobs") {
      reader.Skip();
    }
  }
  if (pack.id.IsNull()) {
    reader.Fail("a pack without an id");
  }
}

}  // namespace

absl::Status DecodeIndex(JsonReader::More json,
                         absl::FunctionRef<absl::Status(const IndexedPack&)> sink) {
  JsonReader reader(json);
  IndexedPack pack;
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    if (key != "packs") {
      reader.Skip();
      continue;
    }
    if (reader.TakeNull()) {
      continue;
    }
    reader.BeginArray();
    while (reader.NextElement()) {
      ReadPack(reader, pack);
      RETURN_IF_ERROR(reader.status());
      RETURN_IF_ERROR(sink(pack));
    }
  }
  return reader.Finish();
}

std::string EncodeIndex(absl::Span<const IndexedPack> packs) {
  std::size_t entries = packs.size();
  for (const IndexedPack& pack : packs) {
    entries += pack.entries.size();
  }
  std::string out = "{\"packs\":[";
  out.reserve(entries * kEntryTextBytes + 32);
  for (const IndexedPack& pack : packs) {
    absl::StrAppend(&out, out.back() == '[' ? "" : ",", "{\"id\":\"", pack.id.Hex(),
                    "\",\"blobs\":[");
    for (const PackEntry& entry : pack.entries) {
      if (out.back() != '[') {
        out.push_back(',');
      }
      AppendEntry(out, entry);
    }
    out.append("]}");
  }
  out.append("]}");
  return out;
}

}  // namespace csidelta::repository
