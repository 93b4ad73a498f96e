#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// One message of a stream of snapshot metadata, as bytes: both csi.v1's and the cluster's. Read
// without building an object per tuple, so that a stream of any length takes one message's memory.
namespace csidelta::incremental {

// The numbers of the protocol's BlockMetadataType.
inline constexpr int32_t kFixedLength = 1;
inline constexpr int32_t kVariableLength = 2;

// What a message says of its stream.
struct BlockMessage {
  int32_t block_metadata_type = 0;
  int64_t volume_capacity_bytes = 0;

  friend bool operator==(const BlockMessage&, const BlockMessage&) = default;
};

// As it came, unchecked.
struct BlockTuple {
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;

  friend bool operator==(const BlockTuple&, const BlockTuple&) = default;
};

using BlockTupleSink = absl::FunctionRef<absl::Status(const BlockTuple&)>;

// Reads everything but the tuples. INVALID_ARGUMENT with the byte offset when `wire` is no message.
// Fields that are not known are passed over. Pure.
absl::StatusOr<BlockMessage> DecodeBlockMessage(absl::string_view wire);

// Feeds `sink` the tuples in order; its error ends the reading and is returned. Pure.
absl::Status DecodeBlockTuples(absl::string_view wire, BlockTupleSink sink);

}  // namespace csidelta::incremental
