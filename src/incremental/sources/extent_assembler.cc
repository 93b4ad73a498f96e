#include "incremental/sources/extent_assembler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::incremental {

absl::Status ExtentAssembler::TakeMessage(const BlockMessage& message) {
  if (message.volume_capacity_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the volume is said to have ", message.volume_capacity_bytes, " bytes"));
  }
  if (message_.has_value() && message != *message_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the list changes from a volume of ", message_->volume_capacity_bytes,
                     " bytes, kind ", message_->block_metadata_type, ", to one of ",
                     message.volume_capacity_bytes, " bytes, kind ", message.block_metadata_type));
  }
  message_ = message;
  return absl::OkStatus();
}

absl::Status ExtentAssembler::CheckTuple(const BlockTuple& tuple) const {
  const Extent extent{tuple.offset_bytes, tuple.size_bytes};
  absl::string_view fault;
  if (!IsWellFormed(extent)) {
    fault = "is empty, negative or overflows";
  } else if (!message_.has_value() || extent.offset_bytes >= message_->volume_capacity_bytes) {
    fault = "begins past the end of the volume";
  } else if (extent.offset_bytes < stream_end_bytes_) {
    fault = "begins before the end of the one before it";
  } else if (fixed_bytes_ != 0 && extent.length_bytes != fixed_bytes_ &&
             extent.end_bytes() != message_->volume_capacity_bytes) {
    fault = "is of another length than the ones before it, which is fixed";
  }
  return fault.empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("the listed extent at ", tuple.offset_bytes,
                                                       " of ", tuple.size_bytes, " bytes ", fault));
}

absl::Status ExtentAssembler::TakeTuple(const BlockTuple& tuple) {
  RETURN_IF_ERROR(CheckTuple(tuple));
  const int64_t end_bytes = tuple.offset_bytes + tuple.size_bytes;
  if (message_->block_metadata_type == kFixedLength && fixed_bytes_ == 0) {
    fixed_bytes_ = tuple.size_bytes;
  }
  stream_end_bytes_ = end_bytes;
  const int64_t begin_bytes = std::max(tuple.offset_bytes, next_offset_bytes_);
  next_offset_bytes_ = std::max(next_offset_bytes_, end_bytes);
  const int64_t clipped_end_bytes = std::min(end_bytes, size_bytes_);
  if (clipped_end_bytes <= begin_bytes) {
    return absl::OkStatus();
  }
  if (held_.has_value() && held_->end_bytes() == begin_bytes) {
    held_->length_bytes = clipped_end_bytes - held_->offset_bytes;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Flush());
  held_ = Extent{begin_bytes, clipped_end_bytes - begin_bytes};
  return absl::OkStatus();
}

absl::Status ExtentAssembler::Deliver(const ListedExtent& listed) {
  delivered_ = true;
  absl::Status status = sink_(listed);
  sink_failed_ = !status.ok();
  return status;
}

absl::Status ExtentAssembler::Flush() {
  if (!held_.has_value()) {
    return absl::OkStatus();
  }
  return Deliver({.extent = *std::exchange(held_, std::nullopt), .kind = ExtentKind::kData});
}

absl::Status ExtentAssembler::Finish() {
  RETURN_IF_ERROR(Flush());
  if (!message_.has_value()) {
    return absl::InvalidArgumentError("the list has no message at all");
  }
  const int64_t reported_bytes = std::max(message_->volume_capacity_bytes, next_offset_bytes_);
  if (reported_bytes >= size_bytes_) {
    return absl::OkStatus();
  }
  return Deliver(
      {.extent = {reported_bytes, size_bytes_ - reported_bytes}, .kind = ExtentKind::kUnknown});
}

}  // namespace csidelta::incremental
