#include "cli/text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/json_text.h"
#include "base/rfc3339.h"

namespace csidelta::cli {
namespace {

constexpr absl::string_view kGap = "  ";  // between two columns
constexpr std::size_t kColumnGap = kGap.size();
constexpr int kBelow = 4;                            // spaces before what is below a row
constexpr double kBytesMax = 4611686018427387904.0;  // 2^62

// The code point of a well-formed UTF-8 sequence.
uint32_t CodePoint(absl::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<uint8_t>(character[i]); };
  const std::size_t length = character.size();
  uint32_t code = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    code = code << 6 | (byte(i) & 0x3FU);
  }
  return code;
}

// True if a terminal would act on it rather than show it: C0, DEL and C1, line separators,
// directions of writing.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E ||
         code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string MakePrintable(absl::string_view text, absl::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(Utf8Bytes(text), 1);
    const absl::string_view character = text.substr(0, length);
    text.remove_prefix(length);
    if (Utf8Bytes(character) == 0) {
      out.append("\uFFFD");
    } else if (const uint32_t code = CodePoint(character);
               IsControl(code) && !absl::StrContains(kept, character)) {
      absl::StrAppend(&out, "\\u", absl::Hex(code, absl::kZeroPad4));
    } else {
      absl::StrAppend(&out, character);
    }
  }
  return out;
}

// The distance of optimal string alignment: letters added, left out, replaced, or swapped with the
// next.
std::size_t EditsBetween(absl::string_view from, absl::string_view to) {
  std::vector<std::vector<std::size_t>> edits(from.size() + 1,
                                              std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) {
    for (std::size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1,
                              edits[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[from.size()][to.size()];
}

constexpr absl::string_view kMask = "***";
constexpr absl::string_view kWordEnds = " \t\r\n,;()[]{}";
// How names of secrets end, in small letters.
constexpr absl::string_view kSecretNames[] = {
    "password", "passwd",     "passphrase", "secret", "secretkey", "accesskey",  "accesskeyid",
    "apikey",   "privatekey", "accountkey", "token",  "signature", "credential", "authorization"};

bool NamesSecret(absl::string_view name) {
  std::string plain = absl::AsciiStrToLower(name);
  std::erase_if(plain, [](unsigned char c) { return !absl::ascii_isalnum(c); });
  return std::any_of(std::begin(kSecretNames), std::end(kSecretNames),
                     [&](absl::string_view end) { return absl::EndsWith(plain, end); });
}

// Small letters, capitals and digits are mixed in a word of base64, but not in names of kinds and
// objects. Ids in small letters hold no secret here.
bool LooksRandom(absl::string_view word) {
  constexpr int64_t kLettersMin = 16;
  const int64_t upper = std::count_if(word.begin(), word.end(), absl::ascii_isupper);
  const int64_t lower = std::count_if(word.begin(), word.end(), absl::ascii_islower);
  const int64_t digits = std::count_if(word.begin(), word.end(), absl::ascii_isdigit);
  const int64_t letters = upper + lower + digits;
  const bool is_aws_key = absl::StartsWith(word, "AKIA") || absl::StartsWith(word, "ASIA");
  return letters >= kLettersMin && digits > 0 &&
         (is_aws_key || (5 * upper >= letters && 5 * lower >= letters));
}

// `value_follows`: the word is the name of a secret alone, as of "token: x".
std::string MaskWord(absl::string_view word, bool& value_follows) {
  constexpr absl::string_view kAfterScheme = "://";
  const std::size_t query = std::min(word.find('?'), word.size());
  if (absl::StrContains(word.substr(query), '=')) {
    return absl::StrCat(MaskWord(word.substr(0, query), value_follows), "?", kMask);
  }
  const std::size_t scheme = word.find(kAfterScheme);
  const std::size_t user = word.find('@', scheme);
  if (scheme != absl::string_view::npos) {
    return absl::StrCat(word.substr(0, scheme), kAfterScheme,
                        user < word.size() ? absl::StrCat(kMask, word.substr(user))
                                           : word.substr(scheme + kAfterScheme.size()));
  }
  const std::size_t sign = std::min(word.find_first_of("=:"), word.size());
  const bool is_secret = sign < word.size() && NamesSecret(word.substr(0, sign));
  value_follows = is_secret && sign + 1 == word.size();
  return is_secret && !value_follows ? absl::StrCat(word.substr(0, sign + 1), kMask)
                                     : std::string(LooksRandom(word) ? kMask : word);
}

}  // namespace

std::string FormatElapsed(absl::Duration elapsed) {
  if (elapsed == absl::InfiniteDuration()) {
    return "?";
  }
  if (elapsed < absl::Minutes(1)) {
    return absl::StrFormat("%.2f s", absl::ToDoubleSeconds(elapsed));
  }
  const int64_t seconds = absl::ToInt64Seconds(elapsed);
  if (seconds < 3600) {
    return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
  }
  return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string FormatTotal(const std::map<std::string, int64_t>& duration_ms) {
  const auto total = duration_ms.find("total");
  return FormatElapsed(absl::Milliseconds(total == duration_ms.end() ? 0 : total->second));
}

std::string FormatAge(const std::optional<absl::Time>& time, absl::Time now) {
  const int64_t hours = absl::ToInt64Hours(now - time.value_or(now));
  return !time.has_value() ? ""
         : hours >= 48     ? absl::StrCat(hours / 24, "d")
         : hours >= 1      ? absl::StrCat(hours, "h")
                      : absl::StrCat(std::max<int64_t>(0, (now - *time) / absl::Minutes(1)), "m");
}

std::vector<std::string> HexOf(absl::Span<const repository::Id> ids) {
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const repository::Id& id : ids) {
    texts.push_back(id.Hex());
  }
  return texts;
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a number of bytes such as 4096, 512K or 4MiB"));
  absl::string_view number = text;
  absl::ConsumeSuffix(&number, "B");
  absl::ConsumeSuffix(&number, "i");
  double factor = 1;
  if (!number.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(number.back()))) {
    constexpr absl::string_view kLetters = "KMGTP";
    const std::size_t power =
        kLetters.find(absl::ascii_toupper(static_cast<unsigned char>(number.back())));
    if (power == absl::string_view::npos) {
      return malformed;
    }
    factor = std::pow(1024.0, static_cast<double>(power + 1));
    number.remove_suffix(1);
  } else if (absl::EndsWith(text, "i") || absl::EndsWith(text, "iB")) {
    return malformed;
  }
  double value = 0;
  const bool plain = !number.empty() && std::all_of(number.begin(), number.end(), [](char c) {
    return c == '.' || absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!plain || !absl::SimpleAtod(number, &value) || value * factor > kBytesMax) {
    return malformed;
  }
  return static_cast<int64_t>(value * factor);
}

absl::StatusOr<absl::Duration> ParseWait(absl::string_view text) {
  absl::Duration wait;
  if (!absl::ParseDuration(text, &wait) || wait < absl::ZeroDuration() ||
      wait == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a length of time such as 90s, 31m or 1h30m"));
  }
  return wait;
}

absl::StatusOr<absl::Time> ParseMoment(absl::string_view text, absl::TimeZone zone) {
  if (const std::optional<absl::Time> moment = ParseRfc3339(text); moment.has_value()) {
    return *moment;
  }
  absl::Time moment;
  if (absl::ParseTime("%Y-%m-%d %H:%M:%S", text, zone, &moment, nullptr)) {
    return moment;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a time such as \"2026-11-21 13:05:00\""));
}

absl::StatusOr<std::vector<std::string>> SplitCommand(absl::string_view command) {
  std::vector<std::string> arguments;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote == 0 && absl::ascii_isspace(static_cast<unsigned char>(c))) {
      in_word = false;
      continue;
    }
    if (!in_word) {
      arguments.emplace_back();
      in_word = true;
    }
    const char next = i + 1 < command.size() ? command[i + 1] : '\0';
    const bool escapes = c == '\\' && next != '\0' &&
                         (quote == 0 || (quote == '"' && (next == '"' || next == '\\')));
    if (escapes) {
      arguments.back().push_back(next);
      ++i;
    } else if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote == 0 ? c : '\0';
    } else {
      arguments.back().push_back(c);
    }
  }
  if (quote != 0) {
    return absl::InvalidArgumentError("a quote is not closed");
  }
  if (arguments.empty()) {
    return absl::InvalidArgumentError("it has no word");
  }
  return arguments;
}

std::string DecodeText(absl::string_view bytes) {
  const bool is_little = absl::ConsumePrefix(&bytes, "\xff\xfe");
  if (!is_little && !absl::ConsumePrefix(&bytes, "\xfe\xff")) {
    absl::ConsumePrefix(&bytes, "\xef\xbb\xbf");
    return std::string(bytes);
  }
  constexpr uint32_t kUnknown = 0xfffd;
  const auto take = [&]() -> uint32_t {
    const auto byte = [&](std::size_t i) { return static_cast<uint8_t>(bytes[i]); };
    const uint32_t unit = bytes.size() < 2 ? kUnknown
                          : is_little      ? byte(1) << 8 | byte(0)
                                           : byte(0) << 8 | byte(1);
    bytes.remove_prefix(std::min<std::size_t>(bytes.size(), 2));
    return unit;
  };
  std::string text;
  while (!bytes.empty()) {
    const uint32_t unit = take();
    const absl::string_view behind = bytes;
    const uint32_t low = unit >> 10 == 0x36 && !bytes.empty() ? take() : 0;
    const bool is_pair = low >> 10 == 0x37;
    bytes = is_pair ? bytes : behind;
    AppendUtf8(text, is_pair              ? 0x10000 + ((unit & 0x3ff) << 10 | (low & 0x3ff))
                     : unit >> 11 == 0x1b ? kUnknown
                                          : unit);
  }
  return text;
}

std::string WrapText(absl::string_view text, int indent, int columns) {
  std::string out;
  if (text.empty()) {
    return out;
  }
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  for (const absl::string_view paragraph : absl::StrSplit(text, '\n')) {
    std::string line;
    for (const absl::string_view argument : absl::StrSplit(paragraph, ' ', absl::SkipEmpty())) {
      const std::size_t needed = margin.size() + line.size() + 1 + argument.size();
      if (!line.empty() && needed > static_cast<std::size_t>(columns)) {
        absl::StrAppend(&out, margin, line, "\n");
        line.clear();
      }
      absl::StrAppend(&line, line.empty() ? "" : " ", argument);
    }
    absl::StrAppend(&out, line.empty() ? "" : margin, line, "\n");
  }
  return out;
}

std::string WithoutSecrets(absl::string_view text) {
  std::string out;
  bool is_secret = false;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find_first_of(kWordEnds), text.size());
    const absl::string_view word = text.substr(0, length);
    bool follows = word == "Bearer" || word == "Basic";  // of an Authorization
    absl::StrAppend(&out, follows                      ? std::string(word)
                          : is_secret && !word.empty() ? std::string(kMask)
                                                       : MaskWord(word, follows));
    is_secret = (follows || (is_secret && word.empty())) && text.substr(length, 1) == " ";
    absl::StrAppend(&out, text.substr(length, 1));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return out;
}

std::string Printable(absl::string_view text) { return MakePrintable(text, ""); }

std::string PrintableLines(absl::string_view text) { return MakePrintable(text, "\n\t"); }

std::string NearestOf(absl::string_view name, const std::vector<std::string>& names) {
  std::string nearest;
  std::size_t fewest = name.size() / 3 + 1;
  for (const std::string& one : names) {
    if (const std::size_t edits = EditsBetween(name, one); edits < fewest) {
      fewest = edits;
      nearest = one;
    }
  }
  return nearest;
}

std::string Padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows, int columns) {
  std::vector<std::size_t> widths(
      rows.empty() ? 0 : rows.front().size());  // with the gap before the next; 0: below
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t width = std::min(Printable(row[i]).size(), kColumnBytesMax);
      widths[i] = std::max(widths[i], width + kColumnGap);
    }
  }
  const std::size_t line_max = static_cast<std::size_t>(columns) + kColumnGap;
  for (auto widest = widths.end(); std::reduce(widths.begin(), widths.end()) > line_max;
       *widest = 0) {
    widest = std::max_element(widths.begin() + 1, widths.end());
    if (*widest == 0) {
      break;
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    std::string below;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = Printable(row[i]);
      if (widths[i] > 0) {
        absl::StrAppend(&line, Padded(cell, widths[i] - kColumnGap), kGap);
      } else if (!cell.empty() && &row != &rows.front()) {
        absl::StrAppend(&below, WrapText(absl::StrCat(rows[0][i], ": ", cell), kBelow, columns));
      }
    }
    absl::StrAppend(&out, absl::StripTrailingAsciiWhitespace(line), "\n", below);
  }
  return out;
}

void GrowingTable::Fit(const std::vector<std::string>& row) {
  widths_.resize(std::max(widths_.size(), row.size()));
  for (std::size_t i = 0; i < row.size(); ++i) {
    widths_[i] = std::max(widths_[i], std::min(Printable(row[i]).size(), kColumnBytesMax));
  }
}

std::string GrowingTable::Line(const std::vector<std::string>& row) const {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t width = i < widths_.size() ? widths_[i] : 0;
    absl::StrAppend(&line, i == 0 ? "" : "  ", Padded(Printable(row[i]), width));
  }
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(line), "\n");
}

}  // namespace csidelta::cli
