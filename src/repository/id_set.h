#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/call_context.h"
#include "repository/blob.h"
#include "repository/record_sorter.h"

// Sets of ids that sidecars keep, of a few or of millions, so that a small change costs little.
namespace csidelta::repository {

class Repository;

inline constexpr char kIdSetFolder[] = "aux/v1/sets/";

// A set of ids: few are listed here, more lie in files of kIdSetFolder, which are shared by all
// sets that build on each other. A value.
struct IdSet {
  struct Part {
    Id file;             // aux/v1/sets/<file> holds `count` ids, ascending
    uint32_t count = 0;  // kPartIdsMax at most

    friend bool operator==(const Part&, const Part&) = default;
  };
  static constexpr uint32_t kPartIdsMax = 65'536;

  std::vector<Part> base = {};       // ids ascend over all of them
  std::vector<Part> additions = {};  // ids ascend in each
  std::vector<Id> recent = {};       // ascending, no id twice

  // An id that is in two parts counts twice.
  int64_t count() const;

  // Binary, little-endian: u32 base parts, u32 additions, u32 recent ids; per part 32 bytes of id,
  // u32 count; 32 bytes per recent id.
  void AppendTo(std::string& out) const;
  // Takes a set from the beginning of `bytes`. INVALID_ARGUMENT when malformed.
  static absl::StatusOr<IdSet> Consume(absl::string_view& bytes);

  friend bool operator==(const IdSet&, const IdSet&) = default;
};

// Yields all ids, in no order, some twice. An error of a part that cannot be read, or of `take`.
absl::Status ForEachId(const CallContext& ctx, const Repository& repository, const IdSet& set,
                       absl::FunctionRef<absl::Status(absl::Span<const Id>)> take);

// An id to be sorted, with a mark of the caller's.
struct MarkedId {
  Id id;
  uint8_t mark = 0;

  uint64_t SortPrefix() const { return id.OrderedPrefix64(); }
  friend bool operator<(const MarkedId& a, const MarkedId& b) {
    return std::tie(a.id, a.mark) < std::tie(b.id, b.mark);
  }
};

// What a sorter of ids may take of the memory; the rest goes to scratch files.
inline constexpr int64_t kIdSortBytes = int64_t{2} << 20;

using IdSorter = RecordSorter<MarkedId>;
absl::Status AddIds(IdSorter& sorter, absl::Span<const Id> ids, uint8_t mark = 0);

// Adds ids to a set. Up to `recent_max` of them stay in the set itself. More become an addition of
// their own, and the base is written again once the additions are more than a tenth of it. Memory:
// a few times kIdSortBytes. Borrows the repository. Thread-compatible.
class IdSetBuilder {
 public:
  IdSetBuilder(Repository& repository, IdSet start, int64_t recent_max);

  absl::Status Add(absl::Span<const Id> ids) { return AddIds(sorter_, ids); }
  // Once, after the last Add(). Adds to `stored_bytes` what it put.
  absl::StatusOr<IdSet> Finish(const CallContext& ctx, int64_t& stored_bytes);

 private:
  absl::Status Write(const CallContext& ctx, std::vector<IdSet::Part>& parts,
                     int64_t& stored_bytes);

  Repository& repository_;
  IdSet set_;
  const int64_t recent_max_;
  IdSorter sorter_;
};

}  // namespace csidelta::repository
