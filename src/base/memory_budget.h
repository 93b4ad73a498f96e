#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/call_context.h"
#include "base/mutex.h"

namespace csidelta {

// The memory that one process may hold, and what of it is held now. What grows with the bytes of
// another party (an index file, a tree, a key, a queue) takes its share before it allocates:
//
//   ASSIGN_OR_RETURN(const MemoryBudget::Share share, budget.Take(bytes, "tree 1a2b3c4d"));
//
// The program itself (code, stacks, connections) counts as kProgramBytes, taken from the start.
// Thread-safe. Outlives its shares.
class MemoryBudget {
 public:
  static constexpr int64_t kProgramBytes = int64_t{40} << 20;
  // More than one table takes of a large budget has no use.
  static constexpr int64_t kTableBytesMax = int64_t{64} << 20;
  static constexpr int64_t kListBytesMin = int64_t{4} << 10;

  // Bytes that are held. They are given back by the destructor, or by Reset(). Movable.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          is_kept_(other.is_kept_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      std::swap(is_kept_, other.is_kept_);
      return *this;
    }
    ~Share() { Reset(); }

    int64_t bytes() const { return bytes_; }
    void Reset();
    // Gives back what is more than `bytes`.
    void Shrink(int64_t bytes);

   private:
    friend class MemoryBudget;
    Share(MemoryBudget* budget, int64_t bytes, bool is_kept)
        : budget_(budget), bytes_(bytes), is_kept_(is_kept) {}

    MemoryBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
    bool is_kept_ = false;
  };

  explicit MemoryBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // For tests, and for callers whose memory nothing limits.
  static MemoryBudget& Unlimited();

  int64_t bytes_max() const { return bytes_max_; }
  bool is_unlimited() const { return bytes_max_ == std::numeric_limits<int64_t>::max(); }
  int64_t held_bytes() const;
  int64_t peak_bytes() const;  // the most that was held at one time
  int64_t free_bytes() const;

  // What one sorted table may take: a ninth, at least 1 MiB. A verb has a few of them.
  int64_t table_bytes() const;

  // RESOURCE_EXHAUSTED when fewer bytes are free; the message says for what they are needed, and
  // the least budget with which this call would have succeeded.
  absl::StatusOr<Share> Take(int64_t bytes, absl::string_view what);

  // The same, for what stays as long as the work does: a table, a plan. No thread waits for it.
  absl::StatusOr<Share> Keep(int64_t bytes, absl::string_view what);

  // Has `share`, which is empty or was kept, hold `bytes`, if it holds less: of what grows while it
  // is made. Errors as Keep().
  absl::Status Grow(Share& share, int64_t bytes, absl::string_view what);

  // Appends to a list, of which `share`, that of several lists perhaps, holds what it takes.
  template <typename T>
  absl::Status Append(Share& share, std::vector<T>& list, const T& element, absl::string_view what);

  // The same as Take(), but waits for other threads to give back enough. Fails at once only when
  // the bytes would not fit beside the program and what is kept; CANCELLED or DEADLINE_EXCEEDED as
  // `ctx` has it. REQUIRES that this thread holds no share that is not kept.
  absl::StatusOr<Share> Wait(const CallContext& ctx, int64_t bytes, absl::string_view what);

 private:
  int64_t FreeLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return bytes_max_ - kProgramBytes - held_bytes_;
  }
  absl::StatusOr<Share> Hold(int64_t bytes, bool is_kept, absl::string_view what);
  Share HoldLocked(int64_t bytes, bool is_kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refuse(int64_t bytes, int64_t held_bytes, absl::string_view what) const;
  void GiveBack(int64_t bytes, bool is_kept);

  const int64_t bytes_max_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  int64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of those
  int64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

template <typename T>
absl::Status MemoryBudget::Append(Share& share, std::vector<T>& list, const T& element,
                                  absl::string_view what) {
  if (list.size() == list.capacity()) {
    const auto bytes = static_cast<int64_t>(list.capacity() * sizeof(T));
    const int64_t more_bytes = std::max<int64_t>(bytes / 2 * 3, kListBytesMin);
    const absl::Status grown = Grow(share, share.bytes() + more_bytes, what);
    if (!grown.ok()) {
      return grown;
    }
    list.reserve(static_cast<std::size_t>(more_bytes) / sizeof(T));
    share.Shrink(share.bytes() - bytes);
  }
  list.push_back(element);
  return absl::OkStatus();
}

}  // namespace csidelta
