#include "incremental/sources/checked_listing.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace csidelta::incremental {
namespace {

// What is wrong with an extent that follows one ending at `end_bytes`; "" when nothing is.
absl::string_view Fault(const ListedExtent& listed, int64_t end_bytes, int64_t size_bytes) {
  if (!IsWellFormed(listed.extent)) {
    return "is empty, negative or overflows";
  }
  if (listed.extent.end_bytes() > size_bytes) {
    return "ends past the end of the volume";
  }
  if (listed.extent.offset_bytes < end_bytes) {
    return "begins before the end of the one before it";
  }
  return "";
}

}  // namespace

Json ToJson(const ListingStats& info) {
  return {{"extents", info.extents},
          {"grain_bytes", info.grain_bytes},
          {"waited_ms", absl::ToInt64Milliseconds(info.waited)}};
}

ListingStats ListingStatsOf(const Json& json) {
  const auto number = [&](absl::string_view name) {
    return std::max<int64_t>(0, GetInt(json, {name}));
  };
  return {.extents = number("extents"),
          .grain_bytes = number("grain_bytes"),
          .waited = absl::Milliseconds(number("waited_ms"))};
}

absl::Status ListChecked(const CallContext& ctx, ChangedBlockSource& source,
                         const DiffRequest& request, ExtentSink sink, ListingStats* stats) {
  ListingStats info;
  const absl::Duration began = ctx.clock->Uptime();
  absl::Duration in_sink = absl::ZeroDuration();
  uint64_t places = 0;
  int64_t end_bytes = 0;
  const auto take = [&](const ListedExtent& listed) -> absl::Status {
    const absl::Duration before = ctx.clock->Uptime();
    ++info.extents;
    const absl::string_view fault = Fault(listed, end_bytes, request.size_bytes);
    if (!fault.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(source.name(), ": extent ",
                                                        Describe(listed.extent), " of a volume of ",
                                                        request.size_bytes, " bytes ", fault));
    }
    end_bytes = listed.extent.end_bytes();
    places |= static_cast<uint64_t>(listed.extent.offset_bytes);
    // The last block of a volume is as long as the volume has it.
    if (end_bytes != request.size_bytes) {
      places |= static_cast<uint64_t>(listed.extent.length_bytes);
    }
    absl::Status of_sink = sink(listed);
    in_sink += ctx.clock->Uptime() - before;
    return of_sink;
  };
  absl::Status status = source.ListExtents(ctx, request, take);
  info.waited = ctx.clock->Uptime() - began - in_sink;
  info.grain_bytes = static_cast<int64_t>(places & (~places + 1));
  if (stats != nullptr) {
    *stats = info;
  }
  return status;
}

}  // namespace csidelta::incremental
