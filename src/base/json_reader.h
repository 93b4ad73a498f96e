#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// Reads JSON front to back without building a document, for files with more values than memory
// should hold. The caller asks for what it expects. After a mistake in the text, or a value of
// another type than asked for, all calls return nothing and status() says where: check it once at
// the end. Memory: one string. Thread-compatible.
//
//   reader.BeginObject();
//   while (reader.NextMember(key)) {
//     ... reader.String() or reader.Skip() ...
//   }
//   RETURN_IF_ERROR(reader.Finish());
class JsonReader {
 public:
  explicit JsonReader(absl::string_view text) : text_(text) {}

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

  // What is left, for a caller who knows a form by heart; in front of a value, else it is moot.
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

  absl::string_view text_;
  std::size_t at_ = 0;
  std::vector<bool> first_;  // Per open bracket: nothing was taken inside yet.
  std::string scratch_;
  absl::Status status_;
};

}  // namespace csidelta
