#include "repository/maintenance.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::repository {
namespace {

// Beyond it a double does not hold every number of bytes.
constexpr double kByteSizeMax = 9e15;
// Keys are made as they are needed: for four batches of S3, and below 1 MB whatever `count` is. Of
// a larger number no store would need fewer requests.
constexpr std::size_t kKeysAtOnce = 4000;

// A plain decimal number; no "inf", "nan", signs or exponents.
bool ParseDecimal(absl::string_view text, double& number) {
  return !text.empty() && text.find_first_not_of("0123456789.") == absl::string_view::npos &&
         absl::SimpleAtod(text, &number);
}

double UnitOf(char letter) {
  constexpr absl::string_view kUnits = "BKMGT";
  const std::size_t at = kUnits.find(absl::ascii_toupper(static_cast<unsigned char>(letter)));
  return at == absl::string_view::npos ? 0 : std::pow(1024.0, static_cast<double>(at));
}

}  // namespace

bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsOutOfRange(status) ||
         absl::IsInvalidArgument(status);
}

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  absl::string_view digits = text;
  double unit = 1;
  if (!digits.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(digits.back()))) {
    unit = UnitOf(digits.back());
    digits.remove_suffix(1);
  }
  double number = 0;
  if (unit == 0 || !ParseDecimal(digits, number) || number * unit > kByteSizeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a size like 500M or 1.5G"));
  }
  return static_cast<int64_t>(std::floor(number * unit));
}

absl::StatusOr<double> ParsePercent(absl::string_view text) {
  absl::string_view digits = text;
  double number = 0;
  if (!absl::ConsumeSuffix(&digits, "%") || !ParseDecimal(digits, number) || number > 100) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a percentage like 5%"));
  }
  return number;
}

absl::StatusOr<int64_t> DeletePacks(const CallContext& ctx, Lock& lock, std::size_t count,
                                    absl::FunctionRef<PackId(std::size_t)> pack_at,
                                    const ProgressReporter& progress) {
  CSIDELTA_CHECK(lock.is_exclusive());
  int64_t deleted = 0;
  std::vector<std::string> keys;
  for (std::size_t done = 0; done < count;) {
    keys.clear();
    while (keys.size() < std::min(kKeysAtOnce, count - done)) {
      keys.push_back(PackKey(pack_at(done + keys.size())));
    }
    RETURN_IF_ERROR(lock.TryDelete(ctx, keys, [&](std::size_t, bool is_gone) {
      deleted += is_gone ? 1 : 0;
      Report(progress, "deleting packs", ++done, count);
    }));
  }
  return deleted;
}

}  // namespace csidelta::repository
