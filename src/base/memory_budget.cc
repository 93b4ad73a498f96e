#include "base/memory_budget.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/human_text.h"
#include "base/status_macros.h"

namespace csidelta {
namespace {

constexpr int64_t kTableShare = 9;
constexpr int64_t kTableBytesMin = int64_t{1} << 20;
// How often a thread that waits looks at its context's deadline.
constexpr absl::Duration kDeadlineLook = absl::Seconds(1);

// Rounded up: a budget of what the message says is enough.
std::string WholeMiB(int64_t bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return absl::StrCat((bytes + kMiB - 1) / kMiB, " MiB");
}

}  // namespace

void MemoryBudget::Share::Reset() {
  if (budget_ != nullptr) {
    std::exchange(budget_, nullptr)->GiveBack(std::exchange(bytes_, 0), is_kept_);
  }
}

void MemoryBudget::Share::Shrink(int64_t bytes) {
  if (budget_ != nullptr && bytes < bytes_) {
    budget_->GiveBack(std::exchange(bytes_, bytes) - bytes, is_kept_);
  }
}

MemoryBudget& MemoryBudget::Unlimited() {
  static MemoryBudget budget(std::numeric_limits<int64_t>::max());
  return budget;
}

int64_t MemoryBudget::held_bytes() const {
  const MutexLock lock(mutex_);
  return held_bytes_;
}

int64_t MemoryBudget::peak_bytes() const {
  const MutexLock lock(mutex_);
  return peak_bytes_;
}

int64_t MemoryBudget::free_bytes() const {
  const MutexLock lock(mutex_);
  return std::max<int64_t>(0, FreeLocked());
}

int64_t MemoryBudget::table_bytes() const {
  return std::clamp(bytes_max_ / kTableShare, kTableBytesMin, kTableBytesMax);
}

MemoryBudget::Share MemoryBudget::HoldLocked(int64_t bytes, bool is_kept) {
  held_bytes_ += bytes;
  kept_bytes_ += is_kept ? bytes : 0;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  return Share(this, bytes, is_kept);
}

absl::Status MemoryBudget::Refuse(int64_t bytes, int64_t held_bytes, absl::string_view what) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " needs ", FormatBytes(bytes), " of memory, of which the budget of ",
      FormatBytes(bytes_max_), " leaves ",
      FormatBytes(std::max<int64_t>(0, bytes_max_ - kProgramBytes - held_bytes)),
      "; run it with a memory budget of at least ", WholeMiB(kProgramBytes + held_bytes + bytes)));
}

absl::StatusOr<MemoryBudget::Share> MemoryBudget::Hold(int64_t bytes, bool is_kept,
                                                       absl::string_view what) {
  const MutexLock lock(mutex_);
  if (bytes > FreeLocked()) {
    return Refuse(bytes, held_bytes_, what);
  }
  changed_.notify_all();  // A thread that waits may now wait for what stays.
  return HoldLocked(bytes, is_kept);
}

absl::StatusOr<MemoryBudget::Share> MemoryBudget::Take(int64_t bytes, absl::string_view what) {
  return Hold(bytes, /*is_kept=*/false, what);
}

absl::StatusOr<MemoryBudget::Share> MemoryBudget::Keep(int64_t bytes, absl::string_view what) {
  return Hold(bytes, /*is_kept=*/true, what);
}

absl::Status MemoryBudget::Grow(Share& share, int64_t bytes, absl::string_view what) {
  if (bytes <= share.bytes_) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Share more, Keep(bytes - share.bytes_, what));
  more.bytes_ += std::exchange(share.bytes_, 0);
  share = std::move(more);
  return absl::OkStatus();
}

absl::StatusOr<MemoryBudget::Share> MemoryBudget::Wait(const CallContext& ctx, int64_t bytes,
                                                       absl::string_view what) {
  MutexLock lock(mutex_);
  while (bytes > FreeLocked()) {
    RETURN_IF_ERROR(ctx.Check());
    if (bytes > FreeLocked() + held_bytes_ - kept_bytes_) {
      return Refuse(bytes, kept_bytes_, what);
    }
    changed_.wait_for(lock, ctx.stop, absl::ToChronoMilliseconds(kDeadlineLook),
                      [&]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return bytes <= FreeLocked(); });
  }
  return HoldLocked(bytes, /*is_kept=*/false);
}

void MemoryBudget::GiveBack(int64_t bytes, bool is_kept) {
  const MutexLock lock(mutex_);
  held_bytes_ -= bytes;
  kept_bytes_ -= is_kept ? bytes : 0;
  changed_.notify_all();
}

}  // namespace csidelta
