#include "incremental/sources/block_metadata.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

// What stands in the low three bits of a field's tag.
enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr uint64_t kTagMax = (uint64_t{1} << 32) - 1;

// One field as it stands on the wire.
struct Field {
  uint64_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;       // kVarint
  absl::string_view bytes;  // kBytes
};

// The number that `at` points to, behind which it is moved. False when none exists before `end`.
inline bool TakeVarint(const char*& at, const char* end, uint64_t& value) {
  constexpr int kBitsMax = 63;
  value = 0;
  for (int shift = 0; shift <= kBitsMax && at != end; shift += 7) {
    const auto byte = static_cast<uint8_t>(*at++);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) {
      return true;
    }
  }
  return false;
}

// Walks the fields of one message.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view wire) : wire_(wire) {}

  bool AtEnd() const { return at_ == wire_.size(); }
  std::size_t at() const { return at_; }

  // A tuple whose tag and length take one byte each, as nearly all do. False, and nothing is taken,
  // when something else comes next.
  bool NextTuple(absl::string_view& tuple) {
    constexpr char kTag = 3 << 3 | static_cast<char>(WireType::kBytes);
    constexpr std::size_t kHeadBytes = 2;
    if (wire_.size() - at_ < kHeadBytes || wire_[at_] != kTag) {
      return false;
    }
    const auto length_bytes = static_cast<uint8_t>(wire_[at_ + 1]);
    if (length_bytes >= 0x80 || length_bytes > wire_.size() - at_ - kHeadBytes) {
      return false;
    }
    tuple = {wire_.data() + at_ + kHeadBytes, length_bytes};
    at_ += kHeadBytes + length_bytes;
    return true;
  }

  // False when the bytes are no field.
  bool Next(Field& field) {
    uint64_t tag = 0;
    if (!ReadShortVarint(tag) || tag > kTagMax || tag >> 3 == 0) {
      return false;
    }
    field.number = tag >> 3;
    field.type = static_cast<WireType>(tag & 7);
    switch (field.type) {
      case WireType::kVarint:
        return ReadVarint(field.value);
      case WireType::kFixed64:
        return Skip(8);
      case WireType::kFixed32:
        return Skip(4);
      case WireType::kBytes: {
        uint64_t length_bytes = 0;
        return ReadShortVarint(length_bytes) && Take(length_bytes, field.bytes);
      }
    }
    return false;  // Groups, which no message here ever had.
  }

 private:
  bool ReadVarint(uint64_t& value) {
    const char* at = wire_.data() + at_;
    const bool taken = TakeVarint(at, wire_.data() + wire_.size(), value);
    at_ = static_cast<std::size_t>(at - wire_.data());
    return taken;
  }

  // Of a tag or length, which protobuf does not take in more bytes than 32 bits need.
  bool ReadShortVarint(uint64_t& value) {
    constexpr std::size_t kBytesMax = 5;
    const std::size_t begin = at_;
    return ReadVarint(value) && at_ - begin <= kBytesMax;
  }

  bool Take(uint64_t length_bytes, absl::string_view& bytes) {
    if (length_bytes > wire_.size() - at_) {
      return false;
    }
    bytes = wire_.substr(at_, length_bytes);
    at_ += length_bytes;
    return true;
  }

  bool Skip(uint64_t length_bytes) {
    absl::string_view ignored;
    return Take(length_bytes, ignored);
  }

  absl::string_view wire_;
  std::size_t at_ = 0;
};

absl::Status NoMessage(std::size_t at) {
  return absl::InvalidArgumentError(
      absl::StrCat("a message of snapshot metadata is malformed at byte ", at));
}

// A tuple as encoders write it: the offset, unless it is 0, the size, and nothing else. False for
// any other form.
inline bool DecodeUsualTuple(absl::string_view wire, BlockTuple& tuple) {
  constexpr char kOffsetTag = 1 << 3;
  constexpr char kSizeTag = 2 << 3;
  const char* at = wire.data();
  const char* const end = at + wire.size();
  uint64_t offset = 0;
  uint64_t size = 0;
  if (at != end && *at == kOffsetTag && !TakeVarint(++at, end, offset)) {
    return false;
  }
  if (at == end || *at != kSizeTag || !TakeVarint(++at, end, size) || at != end) {
    return false;
  }
  tuple = {static_cast<int64_t>(offset), static_cast<int64_t>(size)};
  return true;
}

bool DecodeTuple(absl::string_view wire, BlockTuple& tuple) {
  FieldReader reader(wire);
  Field field;
  while (!reader.AtEnd()) {
    if (!reader.Next(field)) {
      return false;
    }
    if (field.type != WireType::kVarint) {
      continue;
    }
    if (field.number == 1) {
      tuple.offset_bytes = static_cast<int64_t>(field.value);
    } else if (field.number == 2) {
      tuple.size_bytes = static_cast<int64_t>(field.value);
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<BlockMessage> DecodeBlockMessage(absl::string_view wire) {
  BlockMessage message;
  FieldReader reader(wire);
  Field field;
  absl::string_view tuple;
  while (!reader.AtEnd()) {
    if (reader.NextTuple(tuple)) {
      continue;
    }
    const std::size_t at = reader.at();
    if (!reader.Next(field)) {
      return NoMessage(at);
    }
    if (field.type != WireType::kVarint) {
      continue;
    }
    if (field.number == 1) {
      message.block_metadata_type = static_cast<int32_t>(field.value);
    } else if (field.number == 2) {
      message.volume_capacity_bytes = static_cast<int64_t>(field.value);
    }
  }
  return message;
}

absl::Status DecodeBlockTuples(absl::string_view wire, BlockTupleSink sink) {
  FieldReader reader(wire);
  Field field;
  while (!reader.AtEnd()) {
    const std::size_t at = reader.at();
    if (!reader.NextTuple(field.bytes)) {
      if (!reader.Next(field)) {
        return NoMessage(at);
      }
      if (field.number != 3 || field.type != WireType::kBytes) {
        continue;
      }
    }
    BlockTuple tuple;
    if (!DecodeUsualTuple(field.bytes, tuple) && !DecodeTuple(field.bytes, tuple)) {
      return NoMessage(at);
    }
    RETURN_IF_ERROR(sink(tuple));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::incremental
