// The bytes of a message of snapshot metadata, as a service sends them: what we read is what
// protobuf reads, and what becomes of the tuples keeps the contract of a list.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "incremental/sources/block_metadata.h"
#include "incremental/sources/extent_assembler.h"
#include "snapshot_metadata.pb.h"

namespace csidelta::incremental::block_metadata_fuzz {
namespace {

constexpr int64_t kDeviceBytes = int64_t{1} << 30;

void CompareWithProtobuf(absl::string_view wire) {
  std::vector<BlockTuple> tuples;
  const absl::Status read = DecodeBlockTuples(wire, [&](const BlockTuple& tuple) {
    tuples.push_back(tuple);
    return absl::OkStatus();
  });
  const absl::StatusOr<BlockMessage> message = DecodeBlockMessage(wire);
  if (!read.ok() || !message.ok()) {
    return;
  }
  snapshotmetadata::GetMetadataDeltaResponse parsed;
  CSIDELTA_CHECK(parsed.ParseFromArray(wire.data(), static_cast<int>(wire.size())));
  CSIDELTA_CHECK(message->block_metadata_type == static_cast<int>(parsed.block_metadata_type()));
  CSIDELTA_CHECK(message->volume_capacity_bytes == parsed.volume_capacity_bytes());
  CSIDELTA_CHECK(static_cast<int>(tuples.size()) == parsed.block_metadata_size());
  for (int i = 0; i < parsed.block_metadata_size(); ++i) {
    const BlockTuple& tuple = tuples[static_cast<std::size_t>(i)];
    CSIDELTA_CHECK(tuple.offset_bytes == parsed.block_metadata(i).byte_offset());
    CSIDELTA_CHECK(tuple.size_bytes == parsed.block_metadata(i).size_bytes());
  }
}

// The input as two streams of one message each, cut in the middle.
void Assemble(absl::string_view wire) {
  int64_t end_bytes = 0;
  const auto sink = [&](const ListedExtent& listed) {
    CSIDELTA_CHECK(IsWellFormed(listed.extent));
    CSIDELTA_CHECK(listed.extent.offset_bytes >= end_bytes);
    end_bytes = listed.extent.end_bytes();
    CSIDELTA_CHECK(end_bytes <= kDeviceBytes);
    return absl::OkStatus();
  };
  ExtentAssembler assembler(kDeviceBytes, sink);
  for (const absl::string_view part : {wire.substr(0, wire.size() / 2), wire}) {
    const absl::StatusOr<BlockMessage> message = DecodeBlockMessage(part);
    assembler.BeginStream();
    if (!message.ok() || !assembler.TakeMessage(*message).ok() ||
        !DecodeBlockTuples(part, [&](const BlockTuple& tuple) {
           return assembler.TakeTuple(tuple);
         }).ok()) {
      return;
    }
  }
  CSIDELTA_CHECK(assembler.Finish().ok());
}

}  // namespace
}  // namespace csidelta::incremental::block_metadata_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view wire(reinterpret_cast<const char*>(data), bytes);
  csidelta::incremental::block_metadata_fuzz::CompareWithProtobuf(wire);
  csidelta::incremental::block_metadata_fuzz::Assemble(wire);
  return 0;
}
