#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace csidelta {

// A property of a status that neither its code nor its message has; Annotate() keeps it.
//
//   constexpr StatusMark kFull("csi-delta/store-full");
//   return kFull.On(absl::ResourceExhaustedError("..."));  ...  if (kFull.IsOn(status)) { ... }
class StatusMark {
 public:
  // `name` is the mark's alone, and outlives it.
  explicit constexpr StatusMark(absl::string_view name) : name_(name) {}

  // The status with the mark. REQUIRES that it is not OK, which can have none.
  absl::Status On(absl::Status status) const {
    status.SetPayload(name_, absl::Cord());
    return status;
  }
  bool IsOn(const absl::Status& status) const { return status.GetPayload(name_).has_value(); }

 private:
  absl::string_view name_;
};

}  // namespace csidelta
