#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "incremental/sources/changed_block_source.h"
#include "repository/volume_layout.h"
#include "tests/support/fake_block_device.h"

namespace csidelta::reliability {

inline constexpr int64_t kModelChunkBytes = repository::kChunkBytesMin;
inline constexpr uint64_t kFillings = 96;  // so many different chunks exist

// What a volume holds: each chunk that is not zeros, by the number of its filling. A value.
struct VolumeState {
  int64_t size_bytes = 0;
  std::map<int64_t, uint64_t> chunks = {};

  friend bool operator==(const VolumeState&, const VolumeState&) = default;
};

// The bytes of a filling, which do not compress, but for those of LightFilling().
const std::string& FillingOf(uint64_t number);
// A filling that costs little: three of four compress to a sixteenth.
uint64_t LightFilling(uint64_t draw);

// A device with these bytes.
std::unique_ptr<support::FakeBlockDevice> MakeDevice(const VolumeState& state);

// Volumes that were written down, by the handle that a driver would have given the snapshot.
using KnownVolumes = std::map<std::string, VolumeState>;

// A driver that tells the truth: lists what differs from a snapshot that it knows, or what is
// allocated, without a base. Borrows all it is given.
class ModelSource : public incremental::ChangedBlockSource {
 public:
  ModelSource(const VolumeState& now, const KnownVolumes& known) : now_(now), known_(known) {}

  absl::string_view name() const override { return "csi-metadata"; }
  bool lists_allocated() const override { return true; }
  absl::Status ListExtents(const CallContext& ctx, const incremental::DiffRequest& request,
                           incremental::ExtentSink sink) override;

 private:
  const VolumeState& now_;
  const KnownVolumes& known_;
};

}  // namespace csidelta::reliability
