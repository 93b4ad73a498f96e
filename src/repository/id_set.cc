#include "repository/id_set.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "repository/byte_buffer.h"
#include "repository/repository.h"

namespace csidelta::repository {
namespace {

constexpr std::size_t kSetHeadBytes = 12;
constexpr std::size_t kPartBytes = Id::kBytes + 4;
// Additions are a tenth of the base, and no more than 4 MiB.
constexpr int64_t kBasePerAddition = 10;
constexpr int64_t kAdditionsMax = 131'072;

int64_t CountOf(const std::vector<IdSet::Part>& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const IdSet::Part& part) { return sum + part.count; });
}

absl::Status MalformedSet() { return absl::InvalidArgumentError("set of ids: malformed"); }

absl::StatusOr<std::vector<Id>> LoadPart(const CallContext& ctx, const Repository& repository,
                                         const IdSet::Part& part) {
  const std::string key = absl::StrCat(kIdSetFolder, part.file.Hex());
  ASSIGN_OR_RETURN(const std::string bytes, repository.LoadSidecar(ctx, key));
  if (bytes.size() != std::size_t{part.count} * Id::kBytes) {
    return absl::DataLossError(absl::StrCat(key, " has another length than its set says"));
  }
  std::vector<Id> ids;
  ids.reserve(part.count);
  for (std::size_t at = 0; at < bytes.size(); at += Id::kBytes) {
    ids.push_back(ReadId(bytes, at));
  }
  return ids;
}

}  // namespace

int64_t IdSet::count() const { return CountOf(base) + CountOf(additions) + std::ssize(recent); }

void IdSet::AppendTo(std::string& out) const {
  AppendLe32(out, static_cast<uint32_t>(base.size()));
  AppendLe32(out, static_cast<uint32_t>(additions.size()));
  AppendLe32(out, static_cast<uint32_t>(recent.size()));
  for (const std::vector<Part>* parts : {&base, &additions}) {
    for (const Part& part : *parts) {
      AppendId(out, part.file);
      AppendLe32(out, part.count);
    }
  }
  for (const Id& id : recent) {
    AppendId(out, id);
  }
}

absl::StatusOr<IdSet> IdSet::Consume(absl::string_view& bytes) {
  if (bytes.size() < kSetHeadBytes) {
    return MalformedSet();
  }
  const std::size_t bases = ReadLe32(bytes, 0);
  const std::size_t parts = bases + ReadLe32(bytes, 4);
  const std::size_t recent = ReadLe32(bytes, 8);
  const std::size_t recent_begin = kSetHeadBytes + parts * kPartBytes;
  if (bytes.size() < recent_begin + recent * Id::kBytes) {
    return MalformedSet();
  }
  IdSet set;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t at = kSetHeadBytes + i * kPartBytes;
    const Part part = {.file = ReadId(bytes, at), .count = ReadLe32(bytes, at + Id::kBytes)};
    if (part.count > kPartIdsMax) {
      return MalformedSet();
    }
    (i < bases ? set.base : set.additions).push_back(part);
  }
  for (std::size_t i = 0; i < recent; ++i) {
    set.recent.push_back(ReadId(bytes, recent_begin + i * Id::kBytes));
  }
  bytes.remove_prefix(recent_begin + recent * Id::kBytes);
  return set;
}

absl::Status ForEachId(const CallContext& ctx, const Repository& repository, const IdSet& set,
                       absl::FunctionRef<absl::Status(absl::Span<const Id>)> take) {
  for (const std::vector<IdSet::Part>* parts : {&set.base, &set.additions}) {
    for (const IdSet::Part& part : *parts) {
      ASSIGN_OR_RETURN(const std::vector<Id> ids, LoadPart(ctx, repository, part));
      RETURN_IF_ERROR(take(ids));
    }
  }
  return take(set.recent);
}

absl::Status AddIds(IdSorter& sorter, absl::Span<const Id> ids, uint8_t mark) {
  std::vector<MarkedId> marked;
  marked.reserve(ids.size());
  for (const Id& id : ids) {
    marked.push_back({.id = id, .mark = mark});
  }
  return sorter.Add(marked);
}

IdSetBuilder::IdSetBuilder(Repository& repository, IdSet start, int64_t recent_max)
    : repository_(repository),
      set_(std::move(start)),
      recent_max_(recent_max),
      sorter_(repository.scratch(), kIdSortBytes) {
  CSIDELTA_CHECK(recent_max >= 0);
}

absl::StatusOr<IdSet> IdSetBuilder::Finish(const CallContext& ctx, int64_t& stored_bytes) {
  const auto add = [this](absl::Span<const Id> ids) { return Add(ids); };
  RETURN_IF_ERROR(add(std::exchange(set_.recent, {})));
  if (sorter_.count() <= recent_max_) {
    RETURN_IF_ERROR(sorter_.Drain([this](absl::Span<const MarkedId> ids) {
      for (const MarkedId& one : ids) {
        if (set_.recent.empty() || set_.recent.back() != one.id) {
          set_.recent.push_back(one.id);
        }
      }
      return absl::OkStatus();
    }));
    return std::move(set_);
  }
  const int64_t additions = CountOf(set_.additions) + sorter_.count();
  if (additions <= std::min(CountOf(set_.base) / kBasePerAddition, kAdditionsMax)) {
    RETURN_IF_ERROR(Write(ctx, set_.additions, stored_bytes));
    return std::move(set_);
  }
  RETURN_IF_ERROR(ForEachId(ctx, repository_, std::exchange(set_, {}), add));
  RETURN_IF_ERROR(Write(ctx, set_.base, stored_bytes));
  return std::move(set_);
}

absl::Status IdSetBuilder::Write(const CallContext& ctx, std::vector<IdSet::Part>& parts,
                                 int64_t& stored_bytes) {
  std::string text;
  Id last;
  const auto put = [&]() -> absl::Status {
    if (text.empty()) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string key, repository_.SaveSidecar(ctx, kIdSetFolder, text));
    ASSIGN_OR_RETURN(const Id file, IdOfKey(key));
    parts.push_back({.file = file, .count = static_cast<uint32_t>(text.size() / Id::kBytes)});
    stored_bytes += static_cast<int64_t>(text.size());
    text.clear();
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(sorter_.Drain([&](absl::Span<const MarkedId> ids) {
    absl::Status status;
    for (const MarkedId& one : ids) {
      if (std::exchange(last, one.id) != one.id) {
        AppendId(text, one.id);
      }
      if (text.size() >= std::size_t{IdSet::kPartIdsMax} * Id::kBytes) {
        status.Update(put());
      }
    }
    return status;
  }));
  return put();
}

}  // namespace csidelta::repository
