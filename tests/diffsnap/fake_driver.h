#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "diffsnap/driver.h"

namespace csidelta::diffsnap {

// A driver in memory: the same list whatever the pair, in pages that go on by offset, or only by a
// token of its own. Set up before it is shared.
class FakeDriver : public DifferentialDriver {
 public:
  absl::StatusOr<DriverPage> GetPage(const CallContext& ctx,
                                     const DriverRequest& request) override {
    if (on_page) {
      on_page(ctx);
    }
    {
      std::scoped_lock lock(mutex_);
      requests_.push_back(request);
    }
    if (!failure.ok()) {
      return failure;
    }
    if (!failure_of_base.ok() && !request.base_handle.empty()) {
      return failure_of_base;
    }
    std::size_t at = 0;
    if (has_tokens && request.driver_token.empty() && request.from_bytes > 0) {
      return absl::InvalidArgumentError("begin with a token, or from the beginning");
    }
    if (!request.driver_token.empty()) {
      const absl::string_view number = absl::string_view(request.driver_token).substr(5);
      if (!absl::SimpleAtoi(number, &at)) {
        return absl::InvalidArgumentError("no such page");
      }
    }
    while (at < blocks.size() && blocks[at].extent.end_bytes() <= request.from_bytes) {
      ++at;
    }
    DriverPage page;
    page.volume_size_bytes = volume_size_bytes;
    page.expires_at = expires_at;
    while (at < blocks.size() && std::ssize(page.blocks) < request.entries_max) {
      page.blocks.push_back(blocks[at++]);
    }
    page.more = at < blocks.size();
    page.driver_token = page.more && has_tokens ? absl::StrCat("page/", at) : "";
    if (spoil) {
      spoil(page);
    }
    return page;
  }

  std::vector<DriverRequest> requests() const {
    std::scoped_lock lock(mutex_);
    return requests_;
  }

  std::vector<incremental::ChangedBlock> blocks;
  int64_t volume_size_bytes = int64_t{1} << 30;
  absl::Time expires_at = absl::InfiniteFuture();
  bool has_tokens = false;
  absl::Status failure;
  absl::Status failure_of_base;                         // of a request with a base
  std::function<void(DriverPage& page)> spoil;          // lies about each page
  std::function<void(const CallContext& ctx)> on_page;  // runs first

 private:
  mutable std::mutex mutex_;
  std::vector<DriverRequest> requests_;  // Guarded by mutex_.
};

}  // namespace csidelta::diffsnap
