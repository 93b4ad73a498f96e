#include "tests/support/fake_block_device.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace csidelta::support {
namespace {

using incremental::IoCompletion;
using incremental::IoKind;
using incremental::IoQueue;
using incremental::IoRequest;

class FakeQueue : public IoQueue {
 public:
  FakeQueue(FakeBlockDevice& device, int depth) : device_(device), depth_(depth) {}

  int depth() const override { return depth_; }
  int in_flight() const override { return static_cast<int>(requests_.size()); }

  void Submit(const IoRequest& request) override {
    CSIDELTA_CHECK(in_flight() < depth_);
    requests_.push_back(request);
  }

  // The newest first.
  absl::StatusOr<IoCompletion> Wait(const CallContext& ctx) override {
    CSIDELTA_CHECK(in_flight() > 0);
    RETURN_IF_ERROR(ctx.Check());
    const IoRequest request = requests_.back();
    requests_.pop_back();
    return IoCompletion{.tag = request.tag, .status = device_.DoTransfer(request)};
  }

 private:
  FakeBlockDevice& device_;
  const int depth_;
  std::vector<IoRequest> requests_;
};

}  // namespace

FakeBlockDevice::FakeBlockDevice(int64_t size_bytes, int64_t alignment_bytes, uint8_t fill)
    : fill_(fill) {
  info_ = {.size_bytes = size_bytes,
           .alignment_bytes = alignment_bytes,
           .is_block_device = false,
           .engine = "fake"};
}

FakeBlockDevice::FakeBlockDevice(const FakeBlockDevice& other)
    : info_(other.info_), fill_(other.fill_), broken_byte_(other.broken_byte_) {
  std::scoped_lock lock(other.mutex_);
  pages_ = other.pages_;
  zeroed_ = other.zeroed_;
}

absl::StatusOr<std::unique_ptr<IoQueue>> FakeBlockDevice::OpenQueue(int depth) {
  CSIDELTA_CHECK(depth >= 1 && depth <= incremental::kQueueDepthMax);
  return std::make_unique<FakeQueue>(*this, depth);
}

absl::Status FakeBlockDevice::DoTransfer(const IoRequest& request) {
  CSIDELTA_CHECK(request.length_bytes > 0 && request.offset_bytes >= 0);
  CSIDELTA_CHECK(request.offset_bytes + request.length_bytes <= info_.size_bytes);
  CSIDELTA_CHECK(request.offset_bytes % info_.alignment_bytes == 0);
  CSIDELTA_CHECK(reinterpret_cast<uintptr_t>(request.memory) % kIoAlignmentBytes == 0);
  const int64_t broken = broken_byte_.value_or(-1);
  if (broken >= request.offset_bytes && broken < request.offset_bytes + request.length_bytes) {
    return absl::DataLossError(absl::StrCat(request.kind == IoKind::kRead ? "read" : "write",
                                            " at offset ", request.offset_bytes,
                                            ": Input/output error"));
  }
  auto* bytes = reinterpret_cast<char*>(request.memory);
  std::scoped_lock lock(mutex_);
  if (request.kind == IoKind::kRead) {
    read_bytes_ += request.length_bytes;
    LoadLocked(request.offset_bytes, request.length_bytes, bytes);
  } else {
    written_bytes_ += request.length_bytes;
    StoreLocked(request.offset_bytes, {bytes, static_cast<std::size_t>(request.length_bytes)});
  }
  return absl::OkStatus();
}

void FakeBlockDevice::StoreLocked(int64_t offset_bytes, absl::string_view bytes) {
  while (!bytes.empty()) {
    const auto at = static_cast<std::size_t>(offset_bytes % kPageBytes);
    const std::size_t piece = std::min(bytes.size(), static_cast<std::size_t>(kPageBytes) - at);
    std::string& page = pages_[offset_bytes / kPageBytes];
    if (std::ssize(bytes) >= kPageBytes && at == 0) {
      page.assign(bytes.data(), piece);
    } else {
      if (page.empty()) {
        page.assign(static_cast<std::size_t>(kPageBytes), FillOf(offset_bytes / kPageBytes));
      }
      std::memcpy(page.data() + at, bytes.data(), piece);
    }
    bytes.remove_prefix(piece);
    offset_bytes += static_cast<int64_t>(piece);
  }
}

void FakeBlockDevice::LoadLocked(int64_t offset_bytes, int64_t length_bytes, char* out) const {
  while (length_bytes > 0) {
    const int64_t at = offset_bytes % kPageBytes;
    const int64_t piece = std::min(length_bytes, kPageBytes - at);
    const auto page = pages_.find(offset_bytes / kPageBytes);
    if (page == pages_.end()) {
      std::memset(out, FillOf(offset_bytes / kPageBytes), static_cast<std::size_t>(piece));
    } else {
      std::memcpy(out, page->second.data() + at, static_cast<std::size_t>(piece));
    }
    out += piece;
    offset_bytes += piece;
    length_bytes -= piece;
  }
}

absl::Status FakeBlockDevice::MakeZero(const CallContext& ctx, const Extent& extent) {
  RETURN_IF_ERROR(ctx.Check());
  CSIDELTA_CHECK(extent.offset_bytes % info_.alignment_bytes == 0);
  CSIDELTA_CHECK(extent.length_bytes > 0 && extent.end_bytes() <= info_.size_bytes);
  std::scoped_lock lock(mutex_);
  const int64_t first_page = (extent.offset_bytes + kPageBytes - 1) / kPageBytes;
  const int64_t end_page = std::max(first_page, extent.end_bytes() / kPageBytes);
  const std::string zeros(static_cast<std::size_t>(kPageBytes), '\0');
  const auto rim = [&](int64_t begin, int64_t end) {
    if (begin < end) {
      StoreLocked(begin, absl::string_view(zeros.data(), static_cast<std::size_t>(end - begin)));
    }
  };
  rim(extent.offset_bytes, std::min(first_page * kPageBytes, extent.end_bytes()));
  rim(std::max(end_page * kPageBytes, extent.offset_bytes), extent.end_bytes());
  ZeroPagesLocked(first_page, end_page);
  return absl::OkStatus();
}

void FakeBlockDevice::ZeroPagesLocked(int64_t first_page, int64_t end_page) {
  pages_.erase(pages_.lower_bound(first_page), pages_.lower_bound(end_page));
  if (fill_ == 0 || first_page == end_page) {
    return;
  }
  auto next = zeroed_.upper_bound(first_page);
  if (next != zeroed_.begin() && std::prev(next)->second >= first_page) {
    --next;
    first_page = next->first;
  }
  while (next != zeroed_.end() && next->first <= end_page) {
    end_page = std::max(end_page, next->second);
    next = zeroed_.erase(next);
  }
  zeroed_.emplace(first_page, end_page);
}

char FakeBlockDevice::FillOf(int64_t page) const {
  const auto after = zeroed_.upper_bound(page);
  const bool zeroed = after != zeroed_.begin() && page < std::prev(after)->second;
  return zeroed ? '\0' : static_cast<char>(fill_);
}

// Between two pages that either device has written or made zero, all bytes of each are the same.
bool FakeBlockDevice::Equals(const FakeBlockDevice& other, int64_t length_bytes) const {
  std::set<int64_t> borders = {0, length_bytes / kPageBytes};
  for (const FakeBlockDevice* device : {this, &other}) {
    std::scoped_lock lock(device->mutex_);
    for (const auto& [number, page] : device->pages_) {
      borders.insert({number, number + 1});
    }
    for (const auto& [first, end] : device->zeroed_) {
      borders.insert({first, end});
    }
  }
  return std::all_of(borders.begin(), borders.end(), [&](int64_t page) {
    const int64_t at = page * kPageBytes;
    const int64_t piece = std::min(kPageBytes, length_bytes - at);
    const absl::string_view own = PageAt(page);
    const absl::string_view others = other.PageAt(page);
    if (piece == kPageBytes && !own.empty() && !others.empty()) {
      return own == others;  // without copies
    }
    return piece <= 0 || Load(at, piece) == other.Load(at, piece);
  });
}

absl::string_view FakeBlockDevice::PageAt(int64_t page) const {
  std::scoped_lock lock(mutex_);
  const auto found = pages_.find(page);
  return found == pages_.end() ? absl::string_view() : absl::string_view(found->second);
}

absl::Status FakeBlockDevice::Flush(const CallContext& ctx) {
  RETURN_IF_ERROR(ctx.Check());
  std::scoped_lock lock(mutex_);
  ++flushes_;
  return absl::OkStatus();
}

void FakeBlockDevice::Store(int64_t offset_bytes, absl::string_view bytes) {
  std::scoped_lock lock(mutex_);
  StoreLocked(offset_bytes, bytes);
}

std::string FakeBlockDevice::Load(int64_t offset_bytes, int64_t length_bytes) const {
  std::string bytes(static_cast<std::size_t>(length_bytes), '\0');
  std::scoped_lock lock(mutex_);
  LoadLocked(offset_bytes, length_bytes, bytes.data());
  return bytes;
}

void FakeBlockDevice::Resize(int64_t size_bytes) {
  std::scoped_lock lock(mutex_);
  for (auto page = pages_.begin(); page != pages_.end();) {
    const int64_t begin = page->first * kPageBytes;
    if (begin >= size_bytes) {
      page = pages_.erase(page);
      continue;
    }
    if (begin + kPageBytes > size_bytes) {
      const auto kept = static_cast<std::size_t>(size_bytes - begin);
      std::fill(page->second.begin() + static_cast<std::ptrdiff_t>(kept), page->second.end(),
                static_cast<char>(fill_));
    }
    ++page;
  }
  info_.size_bytes = size_bytes;
}

std::vector<Extent> FakeBlockDevice::WrittenExtents() const {
  std::scoped_lock lock(mutex_);
  std::vector<Extent> extents;
  for (const auto& [number, page] : pages_) {
    const int64_t begin = number * kPageBytes;
    extents.push_back({begin, std::min(kPageBytes, info_.size_bytes - begin)});
  }
  return MergeExtents(std::move(extents));
}

int64_t FakeBlockDevice::read_bytes() const {
  std::scoped_lock lock(mutex_);
  return read_bytes_;
}

int64_t FakeBlockDevice::written_bytes() const {
  std::scoped_lock lock(mutex_);
  return written_bytes_;
}

int64_t FakeBlockDevice::flushes() const {
  std::scoped_lock lock(mutex_);
  return flushes_;
}

}  // namespace csidelta::support
