#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "storage/object_store.h"

namespace csidelta::storage {

// What every store checks in the same way and says in the same words. Pure.

inline constexpr int64_t kKeyBytesMax = 1024;  // S3's limit of a whole key
inline constexpr int kKeySegmentsMax = 16;
inline constexpr int64_t kKeySegmentBytesMax = 200;  // below NAME_MAX, with a mark behind it
// Stands in the name of a file that is still being written.
inline constexpr char kUnfinishedMark[] = "-tmp-";

// Whether `text` may stand between two "/" of a key.
bool IsKeySegment(absl::string_view text);

// INVALID_ARGUMENT unless the key is one that object_store.h allows.
absl::Status CheckKey(absl::string_view key);
// The same for what List() takes: "" or a key with "/" behind it.
absl::Status CheckPrefix(absl::string_view prefix);
// The same for the arguments of GetRange() and Put().
absl::Status CheckGetRange(absl::string_view key, const ByteRange& range);
absl::Status CheckPut(absl::string_view key, const PutOptions& options);

// The answers that stores share.
absl::Status NoSuchObject(absl::string_view key);
absl::Status ObjectExists(absl::string_view key);
absl::Status ObjectEndsBefore(absl::string_view key, const ByteRange& range, int64_t size_bytes);
// RESOURCE_EXHAUSTED that no repetition heals.
absl::Status ObjectTooLarge(absl::string_view key, int64_t size_bytes_max);
bool IsObjectTooLarge(const absl::Status& status);

// Marks a status that says that the place has no room left, or that its quota is used up: a few
// tries show whether that was a mistake, and waiting makes no room.
absl::Status AsFull(absl::Status status);
bool IsFull(const absl::Status& status);

// Marks a status that says that an object is not deleted because the place retains it: by an object
// lock, until its time is over, or, where servers do not tell the two apart, because the right to
// delete is missing. Trying again soon changes nothing.
absl::Status AsRetained(absl::Status status);
bool IsRetained(const absl::Status& status);

// Marks a status that says that an object cannot be read until the place has restored it from an
// archive.
absl::Status AsArchived(absl::Status status);
bool IsArchived(const absl::Status& status);

// Marks a status with how long the place asks not to be asked again; a pause that is not positive
// marks nothing. Zero is the pause of a status without the mark.
absl::Status AskingForPause(absl::Status status, absl::Duration pause);
absl::Duration RequestedPause(const absl::Status& status);

// Whether the same call may succeed when made again: IsRetryable(), without what ObjectTooLarge()
// says.
bool MayHeal(const absl::Status& status);

}  // namespace csidelta::storage
