#include "tests/bench/noise_device.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::bench {
namespace {

using incremental::IoCompletion;
using incremental::IoQueue;
using incremental::IoRequest;

constexpr int64_t kNoiseBytes = int64_t{4} << 20;  // As long as the longest chunk.

class NoiseQueue : public IoQueue {
 public:
  NoiseQueue(const NoiseDevice& device, int depth) : device_(device), depth_(depth) {}

  int depth() const override { return depth_; }
  int in_flight() const override { return static_cast<int>(requests_.size()); }
  void Submit(const IoRequest& request) override {
    CSIDELTA_CHECK(in_flight() < depth_);
    requests_.push_back(request);
  }
  absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) override {
    RETURN_IF_ERROR(ctx.Check());
    const IoRequest request = requests_.front();
    requests_.erase(requests_.begin());
    device_.Read(request);
    return IoCompletion{.tag = request.tag, .status = absl::OkStatus()};
  }

 private:
  const NoiseDevice& device_;
  const int depth_;
  std::vector<IoRequest> requests_;
};

}  // namespace

NoiseDevice::NoiseDevice(int64_t size_bytes)
    : info_{.size_bytes = size_bytes,
            .alignment_bytes = 512,
            .is_block_device = true,
            .engine = "noise"},
      noise_(static_cast<std::size_t>(kNoiseBytes), '\0') {
  std::mt19937_64 engine(1);
  for (std::size_t at = 0; at < noise_.size(); at += sizeof(uint64_t)) {
    const uint64_t number = engine();
    std::memcpy(noise_.data() + at, &number, sizeof(number));
  }
}

absl::StatusOr<std::unique_ptr<IoQueue>> NoiseDevice::OpenQueue(int depth) {
  return std::make_unique<NoiseQueue>(*this, depth);
}

absl::Status NoiseDevice::MakeZero(const CallContext& /*ctx*/, const Extent& /*extent*/) {
  return absl::FailedPreconditionError("noise is only read");
}

absl::Status NoiseDevice::Flush(const CallContext& /*ctx*/) { return absl::OkStatus(); }

void NoiseDevice::Read(const IoRequest& request) const {
  for (int64_t done = 0; done < request.length_bytes; done += kNoiseBytes) {
    const int64_t piece = std::min(kNoiseBytes, request.length_bytes - done);
    std::memcpy(request.memory + done, noise_.data(), static_cast<std::size_t>(piece));
  }
  for (int64_t at = 0; at + kPageBytes <= request.length_bytes; at += kPageBytes) {
    const int64_t place = request.offset_bytes + at;
    std::memcpy(request.memory + at, &place, sizeof(place));
  }
}

}  // namespace csidelta::bench
