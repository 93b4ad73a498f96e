#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "incremental/mover/block_device.h"

namespace csidelta::contract {

// One implementation of BlockDevice under the contract. Owns what it needs; a new one for every
// test.
class BlockDeviceSubject {
 public:
  virtual ~BlockDeviceSubject() = default;
  // Opened for writing, `size_bytes` long, filled with 0xA5; nullptr, with the reason printed, when
  // this machine cannot have one of that size.
  virtual incremental::BlockDevice* Make(int64_t size_bytes) = 0;
};

struct BlockDeviceCase {
  const char* name;
  std::function<std::unique_ptr<BlockDeviceSubject>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const BlockDeviceCase& subject) {
  return out << subject.name;
}

// The suite that every BlockDevice passes: INSTANTIATE_TEST_SUITE_P(Name, BlockDeviceContract,
// testing::Values(BlockDeviceCase{...})).
class BlockDeviceContract : public testing::TestWithParam<BlockDeviceCase> {
 protected:
  BlockDeviceContract() : subject_(GetParam().make()) {}

  // All bytes of the device, by aligned transfers.
  std::string ReadAll(incremental::BlockDevice& device);

  std::unique_ptr<BlockDeviceSubject> subject_;
  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(60));
};

}  // namespace csidelta::contract
