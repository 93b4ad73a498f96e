#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json_fields.h"

namespace csidelta::objects {

inline constexpr std::size_t kDamagedPacksMax = 64;

// What of a repository no new backup is to rely on, as its newest check found: a part of that
// check's outcome, of the record of the volume, and of the job of the next upload. Damage that is
// no pack, such as a chunk that no index lists, is in none of the fields.
struct RepositoryDamage {
  std::vector<std::string> packs = {};  // IsPackId(); at most kDamagedPacksMax
  int64_t packs_found = 0;              // all, also those that are not among `packs`
  // Where `packs` does not have all: none was written later, by the clock of the store. Not set
  // where the store tells no times.
  std::optional<absl::Time> written_until = {};

  friend bool operator==(const RepositoryDamage&, const RepositoryDamage&) = default;
};

// 64 lower-case hexadecimal digits.
bool IsPackId(absl::string_view text);

// Where it is read without refusing what makes no sense, packs that are no ids, and those beyond
// the limit, are left out.
inline constexpr auto kRepositoryDamageFields = [](auto& fields, auto& damage) {
  fields("packs", damage.packs, CountMax{kDamagedPacksMax}, OnlyTexts{IsPackId});
  fields("packsFound", damage.packs_found);
  fields("writtenUntil", damage.written_until);
};

}  // namespace csidelta::objects
