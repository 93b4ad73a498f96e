#include "repository/index.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/format.h"
#include "repository/json_reader.h"

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

Id ReadId(JsonReader& reader) {
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

PackEntry ReadEntry(JsonReader& reader) {
  PackEntry entry;
  bool typed = false;
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    if (key == "id") {
      entry.handle.id = ReadId(reader);
    } else if (key == "type") {
      entry.handle.type = ReadType(reader);
      typed = true;
    } else if (key == "offset") {
      entry.span.offset_bytes = ReadUint32(reader);
    } else if (key == "length") {
      entry.span.sealed_bytes = ReadUint32(reader);
    } else if (key == "uncompressed_length") {
      entry.span.uncompressed_bytes = ReadUint32(reader);
    } else {
      reader.Skip();
    }
  }
  const int64_t end = int64_t{entry.span.offset_bytes} + entry.span.sealed_bytes;
  if (!typed || entry.handle.id.IsNull() || entry.span.sealed_bytes < kEnvelopeBytes ||
      end > kPackBytesMax) {
    reader.Fail("impossible entry of a blob");
  }
  return entry;
}

void ReadPack(JsonReader& reader, IndexedPack& pack) {
  pack.id = Id();
  pack.entries.clear();
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    if (key == "id") {
      pack.id = ReadId(reader);
    } else if (key == "blobs" && !reader.TakeNull()) {
      reader.BeginArray();
      while (reader.NextElement()) {
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

absl::Status DecodeIndex(absl::string_view json,
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

}  // namespace csidelta::repository
