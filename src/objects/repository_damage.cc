#include "objects/repository_damage.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace csidelta::objects {
namespace {

constexpr std::size_t kPackDigits = 64;

bool IsPackDigit(char digit) {
  return absl::ascii_isdigit(digit) || (digit >= 'a' && digit <= 'f');
}

}  // namespace

bool IsPackId(absl::string_view text) {
  return text.size() == kPackDigits && std::all_of(text.begin(), text.end(), IsPackDigit);
}

}  // namespace csidelta::objects
