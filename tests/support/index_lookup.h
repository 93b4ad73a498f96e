#pragma once

#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "repository/index.h"

namespace csidelta::support {

// Where the first copy of a blob lies; false when it is not listed.
inline absl::StatusOr<bool> FindAny(const repository::BlobIndex& index,
                                    const repository::BlobHandle& handle,
                                    repository::BlobLocation& location) {
  ASSIGN_OR_RETURN(const std::optional<repository::IndexedCopy> found, index.Find(handle));
  if (found.has_value()) {
    location = index.LocationOf(*found);
  }
  return found.has_value();
}

inline absl::StatusOr<bool> Contains(const repository::BlobIndex& index,
                                     const repository::BlobHandle& handle) {
  repository::BlobLocation ignored;
  return FindAny(index, handle, ignored);
}

// Of an index file whose text comes in one piece.
inline absl::Status DecodeIndexText(
    absl::string_view text, absl::FunctionRef<absl::Status(const repository::IndexedPack&)> sink) {
  return repository::DecodeIndex(
      [&]() -> absl::StatusOr<absl::string_view> { return std::exchange(text, {}); }, sink);
}

}  // namespace csidelta::support
