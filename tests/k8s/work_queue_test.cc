#include "k8s/reconcile_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace csidelta::k8s::work_queue_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WorkQueueTest : public testing::Test {
 protected:
  void Add(const std::string& space, const std::string& name, int due_seconds = 0) {
    const WorkQueue::Key key = {space, name};
    waiting_[key] = {absl::Seconds(due_seconds), ++sequences_};
    queue_.Add(key, waiting_[key].first, waiting_[key].second);
  }

  // The next ones, which go.
  std::vector<std::string> Take(int number, int now_seconds = 0) {
    std::vector<std::string> taken;
    while (number-- > 0) {
      const std::optional<WorkQueue::Key> next = queue_.Next(absl::Seconds(now_seconds));
      if (!next.has_value()) {
        break;
      }
      taken.push_back(absl::StrCat(next->first, "/", next->second));
      queue_.Remove(*next, waiting_[*next].first, waiting_[*next].second);
    }
    return taken;
  }

  WorkQueue queue_;
  std::map<WorkQueue::Key, std::pair<absl::Duration, uint64_t>> waiting_;
  uint64_t sequences_ = 0;
};

TEST_F(WorkQueueTest, OneNamespaceIsServedByTime) {
  Add("a", "late", 3);
  Add("a", "second", 1);
  Add("a", "third", 1);
  Add("a", "first");
  EXPECT_THAT(Take(9, 2), ElementsAre("a/first", "a/second", "a/third"));
  EXPECT_FALSE(queue_.HasDue(absl::Seconds(2)));
  EXPECT_THAT(Take(9, 3), ElementsAre("a/late"));
}

TEST_F(WorkQueueTest, ANamespaceWithManyObjectsDelaysItsOwnAlone) {
  for (int i = 0; i < 5; ++i) {
    Add("a", absl::StrCat(i));
  }
  Add("b", "one");
  EXPECT_THAT(Take(2), ElementsAre("a/0", "b/one"));
  Add("c", "one");
  Add("b", "two");
  EXPECT_THAT(Take(4), ElementsAre("a/1", "c/one", "b/two", "a/2"));
}

TEST_F(WorkQueueTest, ANamespaceThatAlwaysComesAgainStarvesNoOther) {
  Add("a", "0");
  Add("a", "1");
  Add("b", "0");
  int served_a = 0;
  for (int i = 0; i < 10; ++i) {
    const std::vector<std::string> taken = Take(1);
    const std::string space = taken.at(0).substr(0, 1);
    served_a += space == "a" ? 1 : 0;
    Add(space, absl::StrCat("again-", i));
  }
  EXPECT_EQ(served_a, 5);
}

TEST_F(WorkQueueTest, CountsWhatIsDue) {
  Add("a", "0", 1);
  Add("b", "0", 2);
  Add("b", "1", 3);
  std::vector<absl::Duration> dues;
  queue_.ForEachDue(absl::Seconds(2), [&](absl::Duration due) { dues.push_back(due); });
  EXPECT_THAT(dues, ElementsAre(absl::Seconds(1), absl::Seconds(2)));
  EXPECT_THAT(Take(1), IsEmpty());
  queue_.Remove({"c", "unknown"}, absl::Seconds(1), 1);
  EXPECT_TRUE(queue_.HasDue(absl::Seconds(1)));
}

}  // namespace
}  // namespace csidelta::k8s::work_queue_test
