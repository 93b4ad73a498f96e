#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "incremental/sources/block_metadata.h"
#include "incremental/sources/changed_block_source.h"

namespace csidelta::incremental {

// Makes extents of the tuples of one listing, which may take several streams: each is asked for
// from next_offset_bytes() on, where the one before it broke off. Checks what a list promises, cuts
// off what came before, joins tuples that touch, and holds back one extent at most.
//
// What is refused with INVALID_ARGUMENT, because one lie makes a list worthless: a tuple that is
// empty, negative, overflows, begins before the end of the one before it or at the end of the
// volume; a stream that contradicts itself or the stream before about capacity or kind; tuples of a
// fixed length that differ, but for the last.
// What is not, because it reads too much at worst: what begins before the offset asked for, or lies
// before it altogether; what ends past the end of the volume.
//
// The driver's capacity is not the device's size: what the device has beyond it is listed as
// unknown by Finish(). Not thread-safe.
class ExtentAssembler {
 public:
  // `size_bytes`: of the device. `from_bytes`: where the listing begins. Borrows `sink`'s callable.
  ExtentAssembler(int64_t size_bytes, ExtentSink sink, int64_t from_bytes = 0)
      : size_bytes_(size_bytes), sink_(sink), next_offset_bytes_(from_bytes) {}

  // A new stream begins; it was asked for from next_offset_bytes() on.
  void BeginStream() { stream_end_bytes_ = 0; }

  // The contents of one message. Errors of the sink are returned as they are.
  absl::Status TakeMessage(const BlockMessage& message);
  absl::Status TakeTuple(const BlockTuple& tuple);

  // Delivers what is held back, touched or not by what comes.
  absl::Status Flush();

  // The listing is complete. INVALID_ARGUMENT without any message: a stream that broke off at once
  // looks like that, and "nothing" is said by a message without tuples.
  absl::Status Finish();

  // Whether a driver has said anything.
  bool has_message() const { return message_.has_value(); }

  // The end of the last tuple, in the driver's own numbers.
  int64_t next_offset_bytes() const { return next_offset_bytes_; }
  // As the driver reports it; 0: not reported yet.
  int64_t volume_capacity_bytes() const {
    return message_.has_value() ? message_->volume_capacity_bytes : 0;
  }
  // Whether the streams so far have reached the end of the volume by the driver's own word.
  bool reached_capacity() const {
    return message_.has_value() && next_offset_bytes_ >= message_->volume_capacity_bytes;
  }
  // Whether the sink has been given anything.
  bool delivered() const { return delivered_; }
  // Whether the last error was the sink's.
  bool sink_failed() const { return sink_failed_; }

 private:
  absl::Status CheckTuple(const BlockTuple& tuple) const;
  absl::Status Deliver(const ListedExtent& listed);

  const int64_t size_bytes_;
  ExtentSink sink_;
  std::optional<BlockMessage> message_;  // what every message must repeat
  int64_t next_offset_bytes_;
  int64_t stream_end_bytes_ = 0;  // of the last tuple of this stream
  int64_t fixed_bytes_ = 0;       // of the first tuple, where all are equal
  std::optional<Extent> held_;    // what the next tuple may touch
  bool delivered_ = false;
  bool sink_failed_ = false;
};

}  // namespace csidelta::incremental
