#include "storage/store_full.h"

#include <utility>

#include "base/status_mark.h"

namespace csidelta::storage {
namespace {

constexpr StatusMark kFull("csi-delta/store-full");

}  // namespace

absl::Status AsFull(absl::Status status) { return kFull.On(std::move(status)); }

bool IsFull(const absl::Status& status) { return kFull.IsOn(status); }

}  // namespace csidelta::storage
