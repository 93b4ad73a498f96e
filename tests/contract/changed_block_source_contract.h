#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "incremental/sources/changed_block_source.h"

namespace csidelta::contract {

// What happened to a volume: written, snapshotted as base, written, snapshotted as target. Extents
// are whole blocks of kStoryBlockBytes; the second writing changes every block that it names.
inline constexpr int64_t kStoryBlockBytes = 4096;

struct VolumeWorkload {
  int64_t size_bytes = 0;
  std::vector<Extent> before_base;
  std::vector<Extent> after_base;
};

// One source that compares two volume snapshots, under the contract. Owns what it needs; a new one
// for every test.
class ChangedBlockSubject {
 public:
  virtual ~ChangedBlockSubject() = default;
  // Plays the story, and returns what to ask for the difference. nullptr for a source, with the
  // reason printed, where this machine cannot have one.
  virtual incremental::DiffRequest Play(const VolumeWorkload& story) = 0;
  virtual incremental::ChangedBlockSource* source() = 0;
  // Takes the base out of the storage, and its objects out of the cluster.
  virtual void RemoveBase() = 0;
  // The target's objects.
  virtual void RemoveTarget() = 0;
};

struct ChangedBlockCase {
  const char* name;
  std::function<std::unique_ptr<ChangedBlockSubject>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const ChangedBlockCase& subject) {
  return out << subject.name;
}

// The suite that every source passes which compares two volume snapshots:
// INSTANTIATE_TEST_SUITE_P(Name, ChangedBlockContract, testing::Values(ChangedBlockCase{...})).
class ChangedBlockContract : public testing::TestWithParam<ChangedBlockCase> {
 protected:
  ChangedBlockContract() : subject_(GetParam().make()) {}

  // What the source lists, joined; the contract of the list is checked on the way.
  absl::StatusOr<std::vector<Extent>> List(const incremental::DiffRequest& request);

  std::unique_ptr<ChangedBlockSubject> subject_;
  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(60));
};

}  // namespace csidelta::contract
