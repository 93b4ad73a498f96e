#include "storage/store_full.h"

#include "absl/strings/cord.h"

namespace csidelta::storage {
namespace {

constexpr char kFullPayload[] = "csi-delta/store-full";

}  // namespace

absl::Status AsFull(absl::Status status) {
  status.SetPayload(kFullPayload, absl::Cord("1"));
  return status;
}

bool IsFull(const absl::Status& status) { return status.GetPayload(kFullPayload).has_value(); }

}  // namespace csidelta::storage
