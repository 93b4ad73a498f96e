#include "conformance/lister.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::conformance {
namespace {

constexpr int64_t kPagesMax = 1'000'000;

class MetadataLister : public Lister {
 public:
  explicit MetadataLister(DriverLink& link) : link_(link) {}

  absl::string_view name() const override { return "SnapshotMetadata"; }
  bool in_pages() const override { return false; }

  Answer Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
             int64_t results_max) override {
    return {.listing = link_.List(ctx, pair, from_bytes, results_max)};
  }

 private:
  DriverLink& link_;
};

}  // namespace

std::unique_ptr<Lister> MakeMetadataLister(DriverLink& link) {
  return std::make_unique<MetadataLister>(link);
}

Answer PageLister::Ask(const CallContext& ctx, const Pair& pair, int64_t from_bytes,
                       int64_t results_max) {
  return AskFrom(ctx, pair, from_bytes == 0 ? "" : absl::StrCat(from_bytes), results_max);
}

Answer PageLister::AskFrom(const CallContext& ctx, const Pair& pair,
                           const std::string& start_offset, int64_t results_max) {
  Answer answer;
  PageQuery query{.base = pair.base,
                  .target = pair.target,
                  .mode = "Block",
                  .start_offset = start_offset,
                  .entries_max = static_cast<uint64_t>(results_max)};
  std::set<std::string> seen = {start_offset};
  for (int64_t count = 1;; ++count) {
    absl::StatusOr<Page> page = link_.GetPage(ctx, query);
    if (!page.ok()) {
      answer.listing.end = page.status();
      return answer;
    }
    answer.listing.messages.push_back(std::move(page->message));
    answer.pages.push_back({query.start_offset, page->next_offset, page->timeout_s});
    if (page->next_offset.empty()) {
      return answer;
    }
    if (!seen.insert(page->next_offset).second || count == kPagesMax) {
      answer.cursor_fault =
          absl::StrCat("page ", count, " leads to where the list has been, or there is no end");
      return answer;
    }
    query.start_offset = std::move(page->next_offset);
  }
}

}  // namespace csidelta::conformance
