#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// Reads JSON front to back without building a document, for files with more values than memory
// should hold. The caller asks for what it expects. After a mistake in the text, or a value of
// another type than asked for, all calls return nothing and status() says where: check it once at
// the end. Memory: one string, see the constructors. Thread-compatible.
//
//   reader.BeginObject();
//   while (reader.NextMember(key)) {
//     ... reader.String() or reader.Skip() ...
//   }
//   RETURN_IF_ERROR(reader.Finish());
class JsonReader {
 public:
  // Gives the next piece of a text, valid until the next call; an empty one at its end.
  using More = absl::FunctionRef<absl::StatusOr<absl::string_view>()>;

  explicit JsonReader(absl::string_view text) : text_(text) {}
  // Reads a text that comes piece by piece, of which it holds a piece and a string. A string of
  // more than 1 MiB is refused, and one that is returned is valid until the next call; an error of
  // `more` becomes status().
  explicit JsonReader(More more) : more_(more) {}
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  void BeginObject() { Begin('{'); }
  // True with the next key (valid until the next string is read); false behind the last member.
  bool NextMember(absl::string_view& key);

  void BeginArray() { Begin('['); }
  // True in front of the next element; false behind the last one.
  bool NextElement();

  // Valid until the next string is read.
  absl::string_view String();
  uint64_t Unsigned();
  // Whether the next value is null, which is taken then.
  bool TakeNull();
  // Any value, checked for form.
  void Skip();

  // What is left, or the next 4 KiB of it at least where it comes in pieces, for a caller who knows
  // a form by heart; after NextElement(), else it is moot.
  // What he took of it, Advance() is told.
  absl::string_view rest() const { return failed() ? "" : text_.substr(at_); }
  void Advance(std::size_t bytes) { at_ += bytes; }

  // Ends the reading with a reason of the caller's.
  void Fail(absl::string_view what);
  bool failed() const { return !status_.ok(); }
  // INVALID_ARGUMENT with the byte offset.
  const absl::Status& status() const { return status_; }
  // status(), or an error when something follows the value.
  absl::Status Finish();

 private:
  void Begin(char bracket);
  bool NextIn(char closing);
  char Peek();
  void Expect(char c);
  void TakeWord(absl::string_view word);
  void TakeNumber();
  bool TakeEscape();
  bool TakeHex4(uint32_t& code);
  // Has `bytes` or more of the text after at_, or all that is left; false when nothing came.
  bool LoadMore(std::size_t bytes);
  // Where the string that begins at at_ has its first quote or backslash; npos when it has none.
  std::size_t StringEnd();

  std::optional<More> more_;
  std::string buffer_;  // What text_ is a view of where it comes in pieces.
  std::string key_;
  std::size_t before_ = 0;  // Bytes in front of text_.
  absl::string_view text_;
  std::size_t at_ = 0;
  std::vector<bool> first_;  // Per open bracket: nothing was taken inside yet.
  std::string scratch_;
  absl::Status status_;
};

}  // namespace csidelta
