#include "base/json_reader.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"

namespace csidelta {
namespace {

constexpr std::size_t kDepthMax = 64;
// Of a text that comes in pieces: what is there in front of a value, and the longest string.
constexpr std::size_t kLookAheadBytes = 4096;
constexpr std::size_t kStringBytesMax = std::size_t{1} << 20;
constexpr std::size_t kEscapeBytesMax = 12;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void JsonReader::Fail(absl::string_view what) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat("JSON at byte ", before_ + at_, ": ", what));
  }
}

// The next character that is no blank; 0 at the end or after a failure.
char JsonReader::Peek() {
  if (failed()) {
    return 0;
  }
  do {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
        if (more_.has_value() && text_.size() - at_ < kLookAheadBytes) {
          LoadMore(kLookAheadBytes);
        }
        return failed() ? '\0' : c;
      }
    }
  } while (LoadMore(kLookAheadBytes));
  return 0;
}

bool JsonReader::LoadMore(std::size_t bytes) {
  if (!more_.has_value()) {
    return false;
  }
  buffer_.erase(0, at_);
  before_ += std::exchange(at_, 0);
  bool came = false;
  while (buffer_.size() < bytes) {
    const absl::StatusOr<absl::string_view> piece = (*more_)();
    if (!piece.ok()) {
      status_ = piece.status();
    }
    if (!piece.ok() || piece->empty()) {
      break;
    }
    buffer_.append(piece->data(), piece->size());
    came = true;
  }
  text_ = buffer_;
  return came && !failed();
}

void JsonReader::Expect(char c) {
  if (Peek() == c) {
    ++at_;
  } else {
    Fail(absl::StrCat("expected ", absl::string_view(&c, 1)));
  }
}

void JsonReader::Begin(char bracket) {
  if (first_.size() >= kDepthMax) {
    Fail("nested too deep");
    return;
  }
  Expect(bracket);
  first_.push_back(true);
}

bool JsonReader::NextIn(char closing) {
  if (failed() || first_.empty()) {
    return false;
  }
  if (Peek() == closing) {
    ++at_;
    first_.pop_back();
    return false;
  }
  if (!first_.back()) {
    Expect(',');
  }
  first_.back() = false;
  if (more_.has_value()) {
    Peek();  // For rest().
  }
  return !failed();
}

bool JsonReader::NextMember(absl::string_view& key) {
  if (!NextIn('}')) {
    return false;
  }
  key = String();
  if (more_.has_value()) {
    key_.assign(key.data(),
                key.size());  // What comes next may take the place of what it is a view of.
    key = key_;
  }
  Expect(':');
  return !failed();
}

bool JsonReader::NextElement() { return NextIn(']'); }

absl::string_view JsonReader::String() {
  Expect('"');
  if (failed()) {
    return "";
  }
  // Most strings have no escapes: those are views of the text.
  const std::size_t end = StringEnd();
  if (failed()) {
    return "";
  }
  const absl::string_view plain = text_.substr(at_, end - at_);
  at_ += plain.size();
  if (at_ < text_.size() && text_[at_] == '"') {
    ++at_;
    return plain;
  }
  scratch_ = std::string(plain);
  while ((at_ < text_.size() || LoadMore(kEscapeBytesMax)) && text_[at_] != '"') {
    if (text_.size() - at_ < kEscapeBytesMax) {
      LoadMore(kEscapeBytesMax);
    }
    if (more_.has_value() && scratch_.size() > kStringBytesMax) {
      Fail("string too long");
    } else if (text_[at_] != '\\') {
      scratch_.push_back(text_[at_++]);
    } else if (!TakeEscape()) {
      Fail("malformed escape");
    }
    if (failed()) {
      return "";
    }
  }
  Expect('"');
  return failed() ? "" : absl::string_view(scratch_);
}

std::size_t JsonReader::StringEnd() {
  for (std::size_t end = at_;;) {
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\\') {
      ++end;
    }
    if (end < text_.size()) {
      return end;
    }
    end -= at_;
    if (more_.has_value() && end > kStringBytesMax) {
      Fail("string too long");
    }
    if (failed() || !LoadMore(end + 1)) {
      return at_ + end;
    }
    end += at_;
  }
}

bool JsonReader::TakeEscape() {
  constexpr absl::string_view kLetters = "\"\\/bfnrt";
  constexpr absl::string_view kBytes = "\"\\/\b\f\n\r\t";
  if (text_.size() - at_ < 2) {
    return false;
  }
  const char kind = text_[at_ + 1];
  at_ += 2;
  if (const std::size_t at = kLetters.find(kind); at != absl::string_view::npos) {
    scratch_.push_back(kBytes[at]);
    return true;
  }
  uint32_t code = 0;
  if (kind != 'u' || !TakeHex4(code)) {
    return false;
  }
  if (code >= 0xD800 && code < 0xDC00) {
    uint32_t low = 0;
    if (text_.substr(at_, 2) != "\\u") {
      return false;
    }
    at_ += 2;
    if (!TakeHex4(low) || low < 0xDC00 || low >= 0xE000) {
      return false;
    }
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    return false;
  }
  AppendUtf8(scratch_, code);
  return true;
}

bool JsonReader::TakeHex4(uint32_t& code) {
  if (text_.size() - at_ < 4) {
    return false;
  }
  code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = text_[at_++];
    const char lower = static_cast<char>(c | 0x20);
    if (IsDigit(c)) {
      code = code * 16 + static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      code = code * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      return false;
    }
  }
  return true;
}

uint64_t JsonReader::Unsigned() {
  if (!IsDigit(Peek())) {
    Fail("expected a number");
    return 0;
  }
  uint64_t value = 0;
  while (at_ < text_.size() && IsDigit(text_[at_])) {
    const auto digit = static_cast<uint64_t>(text_[at_] - '0');
    if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10) {
      Fail("number too large");
      return 0;
    }
    value = value * 10 + digit;
    ++at_;
  }
  if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) {
    Fail("expected an integer");
    return 0;
  }
  return value;
}

bool JsonReader::TakeNull() {
  if (Peek() != 'n') {
    return false;
  }
  TakeWord("null");
  return !failed();
}

void JsonReader::TakeWord(absl::string_view word) {
  if (text_.substr(at_, word.size()) == word) {
    at_ += word.size();
  } else {
    Fail("expected a value");
  }
}

void JsonReader::TakeNumber() {
  const std::size_t begin = at_;
  while (at_ < text_.size() &&
         (IsDigit(text_[at_]) || absl::string_view("+-.eE").find(text_[at_]) != text_.npos)) {
    ++at_;
  }
  if (at_ == begin) {
    Fail("expected a value");
  }
}

void JsonReader::Skip() {
  absl::string_view key;
  switch (Peek()) {
    case '{':
      BeginObject();
      while (NextMember(key)) {
        Skip();
      }
      return;
    case '[':
      BeginArray();
      while (NextElement()) {
        Skip();
      }
      return;
    case '"':
      String();
      return;
    case 't':
      TakeWord("true");
      return;
    case 'f':
      TakeWord("false");
      return;
    case 'n':
      TakeWord("null");
      return;
    default:
      TakeNumber();
  }
}

absl::Status JsonReader::Finish() {
  if (Peek() != 0 || (!failed() && at_ < text_.size())) {
    Fail("something follows the value");
  }
  if (!failed() && !first_.empty()) {
    Fail("ends early");
  }
  return status_;
}

}  // namespace csidelta
