#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/human_text.h"
#include "repository/blob.h"

// What people write and read on a command line. Pure functions.
namespace csidelta::cli {

// "0.42 s", "3:07", "1:02:33"; "?" when infinite.
std::string FormatElapsed(absl::Duration elapsed);
// The same of the "total" among the times of a result, where it has one.
std::string FormatTotal(const std::map<std::string, int64_t>& duration_ms);

// Whole ids, as JSON has them.
std::vector<std::string> HexOf(absl::Span<const repository::Id> ids);

// A number of bytes: "4096", "512K", "512KiB", "1.5G" with powers of 1024, at most 2^62.
// INVALID_ARGUMENT otherwise.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// "90s", "31m", "1h30m", "0". INVALID_ARGUMENT otherwise, and for a negative or infinite one.
absl::StatusOr<absl::Duration> ParseWait(absl::string_view text);

// "2026-11-21 13:05:00" in `zone`, or RFC 3339. INVALID_ARGUMENT otherwise.
absl::StatusOr<absl::Time> ParseMoment(absl::string_view text, absl::TimeZone zone);

// A command as words, without a shell: spaces separate; '...' keeps all, "..." all but a backslash
// before " and \, and outside of both a backslash keeps the next byte. INVALID_ARGUMENT when a
// quote is open at the end, or there is no word.
absl::StatusOr<std::vector<std::string>> SplitCommand(absl::string_view command);

// `text` broken at spaces so that no line is longer than `columns`, each line after `indent`
// spaces; a line break in `text` stays. Ends with a line break unless empty.
std::string WrapText(absl::string_view text, int indent, int columns);

// `text` as a terminal may show it, whatever its origin: control characters, those that turn the
// direction of writing and line separators become \u and four digits, what is not UTF-8 becomes
// U+FFFD. The same in a JSON text, where this changes nothing but its look.
std::string Printable(absl::string_view text);
// The same, but line breaks and tabs stay.
std::string PrintableLines(absl::string_view text);

// The one of `names` that differs from `name` by the fewest letters added, left out, replaced or
// swapped with the next, where that is at most a third of them; "" where none exists.
std::string NearestOf(absl::string_view name, const std::vector<std::string>& names);

// A longer cell of a table sticks out of its column, and widens no other line: what others wrote
// may have 64 KiB.
inline constexpr std::size_t kColumnBytesMax = 128;

// `text` with spaces behind it, so that it has `width` bytes at least.
std::string Padded(std::string text, std::size_t width);

// Columns of equal width per column, two spaces apart, without trailing spaces, cells made
// Printable(). Every row has as many cells as the first.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// The same for rows that are not held at once: a column is as wide as the cells that were fitted so
// far.
class GrowingTable {
 public:
  void Fit(const std::vector<std::string>& row);
  // Ends with a line break.
  std::string Line(const std::vector<std::string>& row) const;

 private:
  std::vector<std::size_t> widths_;
};

}  // namespace csidelta::cli
