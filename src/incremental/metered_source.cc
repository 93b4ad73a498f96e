#include "incremental/metered_source.h"

#include <algorithm>

#include "base/clock.h"

namespace csidelta::incremental {

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

absl::Status MeteredSource::ListExtents(const CallContext& ctx, const DiffRequest& request,
                                        ExtentSink sink) {
  info_ = {};
  const absl::Duration began = ctx.clock->Uptime();
  absl::Duration in_sink = absl::ZeroDuration();
  uint64_t places = 0;
  absl::Status status = inner_.ListExtents(ctx, request, [&](const ListedExtent& listed) {
    const absl::Duration before = ctx.clock->Uptime();
    ++info_.extents;
    places |= static_cast<uint64_t>(listed.extent.offset_bytes);
    // The last block of a volume is as long as the volume has it.
    if (listed.extent.end_bytes() != request.size_bytes) {
      places |= static_cast<uint64_t>(listed.extent.length_bytes);
    }
    absl::Status of_sink = sink(listed);
    in_sink += ctx.clock->Uptime() - before;
    return of_sink;
  });
  info_.waited = ctx.clock->Uptime() - began - in_sink;
  info_.grain_bytes = static_cast<int64_t>(places & (~places + 1));
  return status;
}

}  // namespace csidelta::incremental
