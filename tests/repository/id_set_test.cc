#include "repository/id_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "repository/repository.h"
#include "tests/repository/repository_fixture.h"

namespace csidelta::repository::id_set_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::IsEmpty;
using testing::SizeIs;

class IdSetTest : public RepositoryFixture {
 protected:
  IdSetTest() {
    Init();
    repository_ = Open();
  }

  // Adds ids number `begin` to `end`.
  IdSet Grow(IdSet set, int begin, int end, int64_t recent_max = 4) {
    IdSetBuilder builder(*repository_, std::move(set), recent_max);
    for (int i = begin; i < end; ++i) {
      const Id id = Id::Of(absl::StrCat(i));
      EXPECT_THAT(builder.Add(absl::MakeConstSpan(&id, 1)), IsOk());
    }
    stored_bytes_ = 0;
    const absl::StatusOr<IdSet> grown = builder.Finish(ctx_, stored_bytes_);
    EXPECT_THAT(grown, IsOk());
    return grown.value_or(IdSet());
  }

  // Whether it holds the ids number 0 to `end`, and no others.
  void ExpectHolds(const IdSet& set, int end) {
    std::vector<Id> want;
    for (int i = 0; i < end; ++i) {
      want.push_back(Id::Of(absl::StrCat(i)));
    }
    std::vector<Id> have;
    EXPECT_THAT(ForEachId(ctx_, *repository_, set,
                          [&](absl::Span<const Id> ids) {
                            have.insert(have.end(), ids.begin(), ids.end());
                            return absl::OkStatus();
                          }),
                IsOk());
    std::sort(have.begin(), have.end());
    have.erase(std::unique(have.begin(), have.end()), have.end());
    std::sort(want.begin(), want.end());
    EXPECT_TRUE(have == want);
  }

  std::unique_ptr<Repository> repository_;
  int64_t stored_bytes_ = 0;
};

TEST_F(IdSetTest, FewIdsTakeNoFile) {
  IdSet set = Grow({}, 0, 4);
  set = Grow(set, 0, 4, 8);
  EXPECT_THAT(set.recent, SizeIs(4));
  EXPECT_THAT(set.base, IsEmpty());
  EXPECT_EQ(stored_bytes_, 0);
  ExpectHolds(set, 4);
}

TEST_F(IdSetTest, AddingToManyWritesLittleMoreThanTheAddition) {
  IdSet set = Grow({}, 0, 100'000);
  EXPECT_THAT(set.base, SizeIs(2));
  EXPECT_EQ(stored_bytes_, 100'000 * 32);
  int64_t puts = 0;
  for (int i = 100'000; i < 100'060; i += 3) {
    set = Grow(set, i, i + 3);
    EXPECT_LE(stored_bytes_, 8 * 32);
    puts += stored_bytes_ > 0 ? 1 : 0;
  }
  EXPECT_EQ(puts, 10);
  EXPECT_THAT(set.additions, SizeIs(10));
  ExpectHolds(set, 100'060);
  set = Grow(set, 100'060, 111'000);
  EXPECT_THAT(set.additions, IsEmpty()) << "more than a tenth";
  EXPECT_THAT(set.recent, IsEmpty());
  ExpectHolds(set, 111'000);
}

TEST_F(IdSetTest, ComesBackAndRefusesWhatIsMalformed) {
  const IdSet set = {.base = {{.file = Id::Of("a"), .count = IdSet::kPartIdsMax}},
                     .additions = {{.file = Id::Of("b"), .count = 2}},
                     .recent = {Id::Of("c"), Id::Of("d")}};
  std::string text;
  set.AppendTo(text);
  const std::string with_more = text + "more";
  absl::string_view bytes = with_more;
  EXPECT_EQ(*IdSet::Consume(bytes), set);
  EXPECT_EQ(bytes, "more");
  const auto malformed = StatusIs(absl::StatusCode::kInvalidArgument);
  for (std::size_t length = 0; length < text.size(); ++length) {
    bytes = absl::string_view(text).substr(0, length);
    EXPECT_THAT(IdSet::Consume(bytes), malformed) << length;
  }
  for (const std::size_t at : {0, 3, 4, 7, 8, 11, 12 + 32 + 3}) {
    std::string other = text;
    other[at] = '\x7f';
    bytes = other;
    EXPECT_THAT(IdSet::Consume(bytes), malformed) << at;
  }
}

TEST_F(IdSetTest, APartOfAnotherLengthIsAnError) {
  IdSet set = Grow({}, 0, 10);
  set.base[0].count = 9;
  EXPECT_THAT(ForEachId(ctx_, *repository_, set, [](auto) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace csidelta::repository::id_set_test
