#include "tests/reliability/volume_model.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace csidelta::reliability {
namespace {

constexpr int64_t kPeriodBytes = kModelChunkBytes / 16;

// Comes again after `period_bytes`.
std::string Noise(uint64_t seed, int64_t period_bytes) {
  std::mt19937_64 engine(seed);
  std::string bytes(static_cast<std::size_t>(kModelChunkBytes), '\0');
  const auto period = static_cast<std::size_t>(period_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    if (at >= period) {
      std::memcpy(bytes.data() + at, bytes.data() + at - period, sizeof(uint64_t));
      continue;
    }
    const uint64_t number = engine();
    std::memcpy(bytes.data() + at, &number, sizeof(number));
  }
  return bytes;
}

}  // namespace

const std::string& FillingOf(uint64_t number) {
  static const std::vector<std::string>& fillings = *[] {
    auto* made = new std::vector<std::string>;
    for (uint64_t i = 0; i < 2 * kFillings; ++i) {
      made->push_back(Noise(i + 1, i < kFillings ? kModelChunkBytes : kPeriodBytes));
    }
    return made;
  }();
  return fillings[number % (2 * kFillings)];
}

uint64_t LightFilling(uint64_t draw) {
  const uint64_t number = draw % kFillings;
  return number % 4 == 0 ? number : kFillings + number;
}

std::unique_ptr<support::FakeBlockDevice> MakeDevice(const VolumeState& state) {
  auto device = std::make_unique<support::FakeBlockDevice>(state.size_bytes);
  for (const auto& [chunk, filling] : state.chunks) {
    const int64_t offset = chunk * kModelChunkBytes;
    const int64_t length = std::min(kModelChunkBytes, state.size_bytes - offset);
    if (length > 0) {
      device->Store(
          offset,
          absl::string_view(FillingOf(filling)).substr(0, static_cast<std::size_t>(length)));
    }
  }
  return device;
}

absl::Status ModelSource::ListExtents(const CallContext& ctx,
                                      const incremental::DiffRequest& request,
                                      incremental::ExtentSink sink) {
  RETURN_IF_ERROR(ctx.Check());
  static const VolumeState kNothing;
  const VolumeState* base = &kNothing;
  if (!request.base.empty()) {
    std::vector<std::string> names = request.base_names;
    names.push_back(request.base);
    const auto name = std::find_if(names.begin(), names.end(),
                                   [this](const std::string& one) { return known_.contains(one); });
    if (name == names.end()) {
      return absl::FailedPreconditionError("the base is not known");
    }
    base = &known_.at(*name);
  }
  std::set<int64_t> chunks;
  for (const VolumeState* state : {base, &now_}) {
    for (const auto& [chunk, filling] : state->chunks) {
      chunks.insert(chunk);
    }
  }
  const auto filling_of = [](const VolumeState& state, int64_t chunk) {
    const auto found = state.chunks.find(chunk);
    return found == state.chunks.end() ? uint64_t{0} : found->second + 1;
  };
  for (const int64_t chunk : chunks) {
    const int64_t offset = chunk * kModelChunkBytes;
    const int64_t length = std::min(kModelChunkBytes, now_.size_bytes - offset);
    if (length > 0 && filling_of(*base, chunk) != filling_of(now_, chunk)) {
      RETURN_IF_ERROR(sink({.extent = {offset, length}}));
    }
  }
  return absl::OkStatus();
}

}  // namespace csidelta::reliability
