#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/secret.h"

namespace csidelta::diffsnap {

// What a cursor belongs to: one object and the pair that it was resolved to.
struct CursorScope {
  std::string namespace_name;
  std::string uid;
  std::string base_handle;  // "": what is allocated in the target
  std::string target_handle;
};

// Where a listing goes on.
struct Cursor {
  int64_t from_bytes = 0;          // the end of the last block handed out
  int64_t volume_size_bytes = 0;   // as the pages so far said; 0: none was handed out
  int64_t expires_at_seconds = 0;  // since 1970: until when the driver can go on; 0: no limit
  std::string driver_token = {};   // the driver's own name of the place; "": it takes from_bytes

  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// Tokens of drivers that are longer make cursors that are too long for a URL.
inline constexpr int64_t kDriverTokenBytesMax = 2800;

// Where spec.startOffset of an object begins: a decimal number of bytes; a nextOffset that this
// service wrote for another object of the same pair, whose MAC is of that object and not checked;
// anything else is a token that the driver understands. So the driver checks the token, as it
// checks a handle. "" is the beginning. INVALID_ARGUMENT for what is longer than a token, and for a
// number beyond 2^63-1.
absl::StatusOr<Cursor> ParseStartOffset(absl::string_view text);

// Turns places in a listing into the text of nextOffset and startOffset and back:
//
//   o:<from>.<volume size>.<expires>.<MAC>           a place that is a number of bytes
//   t:<token>.<from>.<volume size>.<expires>.<MAC>   a place that only the driver understands
//
// in base64url where it is no number, so that it stands in a URL as it is. The MAC binds all of it
// to the scope: what the driver said of one pair is never asked of another, and what the next page
// is checked against is what the page before said. Nothing is kept: replicas with the same key
// understand each other's cursors, and one that is presented again means the same. Thread-safe.
class CursorCodec {
 public:
  // REQUIRES a key of 32 bytes.
  explicit CursorCodec(Secret key);

  // REQUIRES numbers that are not negative, and a token of at most kDriverTokenBytesMax bytes.
  std::string Encode(const CursorScope& scope, const Cursor& cursor) const;

  // A decimal number of bytes is a place in any listing, whatever its origin. INVALID_ARGUMENT
  // when `text` is none and was not made by Encode() with this key and this scope.
  absl::StatusOr<Cursor> Decode(const CursorScope& scope, absl::string_view text) const;

 private:
  std::string Mac(const CursorScope& scope, const Cursor& cursor) const;

  const Secret key_;
};

}  // namespace csidelta::diffsnap
