#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/extent.h"

// What the REST server of a DifferentialSnapshot and its clients say to each other, as values and
// as text. Pure: no network, no clock.
namespace csidelta::incremental {

inline constexpr int64_t kPageEntriesDefault = 4096;
inline constexpr int64_t kPageEntriesMax = 65536;
inline constexpr int64_t kPageCursorBytesMax = 4096;
inline constexpr int64_t kBlockContextBytesMax = 4096;
inline constexpr int64_t kPageTextBytesMax = int64_t{64} << 20;

// One range of the target that differs from the base.
struct ChangedBlock {
  Extent extent;
  bool zero_out = false;     // the target reads as zeros here; false says nothing
  std::string context = {};  // the storage vendor's own, handed through

  friend bool operator==(const ChangedBlock&, const ChangedBlock&) = default;
};

// One answer. The list of a pair is the blocks of its pages, in order.
struct DifferentialPage {
  std::vector<ChangedBlock> blocks;
  std::string next_offset;  // where the next page begins, opaque to clients; "": this was the last
  int64_t volume_size_bytes = 0;
  absl::Time expires_at = absl::InfiniteFuture();  // how long the storage keeps the result

  friend bool operator==(const DifferentialPage&, const DifferentialPage&) = default;
};

// The page as JSON, numbers as plain integers:
//   {"changeBlockList":[{"offset":0,"size":65536,"zeroOut":true}],"nextOffset":"...",
//    "volumeSize":1073741824,"timeout":0}
// What is false or empty is left out. REQUIRES blocks that are well-formed.
std::string EncodePage(const DifferentialPage& page);

// The page that `json` holds. The list and the volume's size must be there; members that no version
// knows are passed over. Numbers are integers from 0 to 2^63-1, also as decimal strings; an instant
// before 2001 is a length of time by mistake, and taken for no limit.
// INVALID_ARGUMENT, naming what is wrong: malformed, a member twice, beyond a limit above, a block
// that is empty or overflows. Whether the blocks are in order is CheckBlocks()' business.
absl::StatusOr<DifferentialPage> ParsePage(absl::string_view json);

// Holds the blocks of a page to the order of their listing: none begins before the one in front of
// it ends, the first not before `from_bytes`. What lies before `from_bytes` or beyond the volume is
// cut off the first and last block, since storage rounds outwards.
// INVALID_ARGUMENT naming the block when they are out of order, overlap, or lie wholly outside.
absl::Status CheckBlocks(int64_t from_bytes, int64_t volume_size_bytes,
                         std::vector<ChangedBlock>& blocks);

// Why there is no page.
enum class DifferentialErrorCode {
  kInvalidArgument,
  kInvalidOffset,  // a cursor that is none of this listing: begin without one
  kUnauthenticated,
  kPermissionDenied,
  kNotFound,
  kMethodNotAllowed,
  kNotAcceptable,
  kFullBackupRequired,  // the storage cannot compare these two
  kBaseSnapshotGone,
  kTargetSnapshotGone,
  kResultExpired,
  kUriTooLong,
  kOffsetOutOfRange,
  kThrottled,
  kInternal,
  kUnsupported,
  kDriverContractViolation,  // the driver's list is not to be trusted
  kUnavailable,
  kNotSynced,
  kDeadlineExceeded,
};

struct DifferentialError {
  DifferentialErrorCode code = DifferentialErrorCode::kInternal;
  std::string message;

  friend bool operator==(const DifferentialError&, const DifferentialError&) = default;
};

// "InvalidOffset".
absl::string_view ErrorName(DifferentialErrorCode code);
int HttpStatusOf(DifferentialErrorCode code);

// {"code":"InvalidOffset","message":"..."}
std::string EncodeError(const DifferentialError& error);

// What an answer that is no page says. A body of a proxy, or of a server with codes of its own, is
// understood by its HTTP status alone; so are codes that contradict it.
DifferentialError ParseError(int http_status, absl::string_view body);

}  // namespace csidelta::incremental
