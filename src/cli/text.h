#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/human_text.h"
#include "repository/blob.h"

// Text that people write and read on a command line. Pure functions.
namespace csidelta::cli {

// "0.42 s", "3:07", "1:02:33"; "?" when infinite.
std::string FormatElapsed(absl::Duration elapsed);
// The same for the entry "total" of a result's durations, if it has one.
std::string FormatTotal(const std::map<std::string, int64_t>& duration_ms);

// How long ago: "3d", "5h", "12m"; "" if `time` is not known. Never less than "0m".
std::string FormatAge(const std::optional<absl::Time>& time, absl::Time now);

// Whole ids, as in JSON.
std::vector<std::string> HexOf(absl::Span<const repository::Id> ids);

// A number of bytes: "4096", "512K", "512KiB", "1.5G" with powers of 1024, at most 2^62.
// INVALID_ARGUMENT otherwise.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// "90s", "31m", "1h30m", "0". INVALID_ARGUMENT otherwise, and for a negative or infinite one.
absl::StatusOr<absl::Duration> ParseWait(absl::string_view text);

// "2026-11-21 13:05:00" in `zone`, or RFC 3339. INVALID_ARGUMENT otherwise.
absl::StatusOr<absl::Time> ParseMoment(absl::string_view text, absl::TimeZone zone);

// Splits a command into arguments, without a shell. Spaces separate. '...' keeps all, "..." all but
// a backslash before " and \. Outside of both, a backslash keeps the next byte. INVALID_ARGUMENT if
// a quote is open at the end, or if there is no argument.
absl::StatusOr<std::vector<std::string>> SplitCommand(absl::string_view command);

// The text of a file: without a byte order mark, and as UTF-8 if the mark is one of UTF-16. A half
// of a character becomes U+FFFD.
std::string DecodeText(absl::string_view bytes);

// `text` broken at spaces into lines of at most `columns`, each after `indent` spaces. Line breaks
// in `text` stay. Ends with a line break unless empty.
std::string WrapText(absl::string_view text, int indent, int columns);

// `text` safe for a terminal, whatever its origin. Control characters, changes of the writing
// direction and line separators become \u and four digits; bytes that are not UTF-8 become U+FFFD.
// A JSON text keeps its meaning.
std::string Printable(absl::string_view text);
// The same, but line breaks and tabs stay.
std::string PrintableLines(absl::string_view text);

// `text` with "***" for each word that may be a secret: the value of a name such as "password" or
// "token", the user and the query of an address, a key id of AWS, and words that look random. A
// secret that is an ordinary word of a sentence is not found.
std::string WithoutSecrets(absl::string_view text);

// The one of `names` nearest to `name`, counted in letters added, omitted, replaced or swapped with
// the next; "" if even that differs in more than a third of the letters.
std::string NearestOf(absl::string_view name, const std::vector<std::string>& names);

// A longer cell of a table exceeds its column, but does not widen other lines: untrusted text may
// have 64 KiB.
inline constexpr std::size_t kColumnBytesMax = 128;

// `text` padded with spaces to at least `width` bytes.
std::string Padded(std::string text, std::size_t width);

// A table with columns two spaces apart, without trailing spaces. Cells are made Printable(). In
// lines of at most `columns` bytes, the widest columns but the first follow below their row, each
// as "Head: cell", broken at spaces; a longer first cell stays whole.
// REQUIRES that every row has as many cells as the first, and two at least.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows, int columns = INT_MAX);

// The same for rows that are not all in memory: a column is as wide as the widest cell passed to
// Fit() so far.
class GrowingTable {
 public:
  void Fit(const std::vector<std::string>& row);
  // One line, with its line break.
  std::string Line(const std::vector<std::string>& row) const;

 private:
  std::vector<std::size_t> widths_;
};

}  // namespace csidelta::cli
