#include "diffsnap/cursor.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/cipher.h"
#include "base/crypto.h"
#include "incremental/sources/differential_wire.h"

namespace csidelta::diffsnap {
namespace {

constexpr std::size_t kKeyBytes = 32;
// Changes when the meaning of what is under the MAC does.
constexpr absl::string_view kPurpose = "csi-delta cursor 1";

// Kind, token in base64url, three numbers, MAC in base64url.
static_assert(2 + (kDriverTokenBytesMax * 4 + 2) / 3 + 4 * 20 + 43 <=
              incremental::kPageCursorBytesMax);

void AppendField(std::string& message, absl::string_view field) {
  absl::StrAppend(&message, field.size(), ":", field);
}

absl::Span<const uint8_t> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Digits only, no zero in front.
bool ParsePosition(absl::string_view text, int64_t& bytes) {
  return text.find_first_not_of("0123456789") == text.npos &&
         (text.size() <= 1 || text[0] != '0') && absl::SimpleAtoi(text, &bytes);
}

// The fields of a cursor as they stand there, nothing of them proven.
bool ParseFields(absl::string_view text, Cursor& cursor) {
  const bool has_token = absl::ConsumePrefix(&text, "t:");
  if (!has_token && !absl::ConsumePrefix(&text, "o:")) {
    return false;
  }
  const std::vector<absl::string_view> fields = absl::StrSplit(text, '.');
  const std::size_t first = has_token ? 1 : 0;
  if (fields.size() != first + 4) {
    return false;
  }
  if (has_token &&
      (!absl::WebSafeBase64Unescape(fields[0], &cursor.driver_token) ||
       cursor.driver_token.empty() || std::ssize(cursor.driver_token) > kDriverTokenBytesMax)) {
    return false;
  }
  return ParsePosition(fields[first], cursor.from_bytes) &&
         ParsePosition(fields[first + 1], cursor.volume_size_bytes) &&
         ParsePosition(fields[first + 2], cursor.expires_at_seconds);
}

}  // namespace

absl::StatusOr<Cursor> ParseStartOffset(absl::string_view text) {
  Cursor cursor;
  if (text.find_first_not_of("0123456789") == text.npos) {
    return text.empty() || absl::SimpleAtoi(text, &cursor.from_bytes)
               ? absl::StatusOr<Cursor>(cursor)
               : absl::InvalidArgumentError("spec.startOffset is a number beyond 2^63-1");
  }
  if (ParseFields(text, cursor)) {
    cursor.volume_size_bytes = 0;  // It is not proven, and the driver says it.
    return cursor;
  }
  if (std::ssize(text) > kDriverTokenBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.startOffset is longer than ", kDriverTokenBytesMax, " bytes"));
  }
  return Cursor{.driver_token = std::string(text)};
}

CursorCodec::CursorCodec(Secret key) : key_(std::move(key)) {
  CSIDELTA_CHECK(key_.Reveal().size() == kKeyBytes);
}

std::string CursorCodec::Mac(const CursorScope& scope, const Cursor& cursor) const {
  std::string message(kPurpose);
  for (const absl::string_view field :
       {absl::string_view(scope.namespace_name), absl::string_view(scope.uid),
        absl::string_view(scope.base_handle), absl::string_view(scope.target_handle),
        absl::string_view(cursor.driver_token)}) {
    AppendField(message, field);
  }
  absl::StrAppend(&message, cursor.from_bytes, ".", cursor.volume_size_bytes, ".",
                  cursor.expires_at_seconds);
  return absl::WebSafeBase64Escape(AsBytes(HmacSha256(key_.Reveal(), message)));
}

std::string CursorCodec::Encode(const CursorScope& scope, const Cursor& cursor) const {
  CSIDELTA_CHECK(cursor.from_bytes >= 0 && cursor.volume_size_bytes >= 0 &&
                 cursor.expires_at_seconds >= 0);
  CSIDELTA_CHECK(std::ssize(cursor.driver_token) <= kDriverTokenBytesMax);
  const std::string kind =
      cursor.driver_token.empty()
          ? "o:"
          : absl::StrCat("t:", absl::WebSafeBase64Escape(cursor.driver_token), ".");
  return absl::StrCat(kind, cursor.from_bytes, ".", cursor.volume_size_bytes, ".",
                      cursor.expires_at_seconds, ".", Mac(scope, cursor));
}

absl::StatusOr<Cursor> CursorCodec::Decode(const CursorScope& scope, absl::string_view text) const {
  Cursor cursor;
  if (std::ssize(text) <= incremental::kPageCursorBytesMax) {
    if (!text.empty() && ParsePosition(text, cursor.from_bytes)) {
      return cursor;
    }
    // The whole text is compared, so that a cursor has one spelling.
    if (ParseFields(text, cursor) &&
        ConstantTimeEqual(BytesOf(Encode(scope, cursor)), BytesOf(text))) {
      return cursor;
    }
  }
  return absl::InvalidArgumentError(
      "startOffset is neither a number of bytes nor a nextOffset of this object: begin without it");
}

}  // namespace csidelta::diffsnap
