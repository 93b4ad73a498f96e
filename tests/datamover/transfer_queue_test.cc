#include "datamover/transfer_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/sweep_sample.h"

namespace csidelta::datamover::transfer_queue_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

QueuedTransfer Make(const std::string& name, const std::string& space, const std::string& volume,
                    int age, TransferKind kind = TransferKind::kUpload) {
  QueuedTransfer transfer;
  transfer.uid = absl::StrCat("uid-", name);
  transfer.task = absl::StrCat("du-", name);
  transfer.name = absl::StrCat("DataUpload velero/", name);
  transfer.kind = kind;
  transfer.volume = absl::StrCat(space, "/", volume);
  transfer.volume_namespace = space;
  transfer.location = "default";
  transfer.created_at = kStart - absl::Seconds(age);
  return transfer;
}

QueuedTransfer OfClass(QueuedTransfer transfer, const std::string& storage_class) {
  transfer.storage_class = storage_class;
  return transfer;
}

TransferLimits Limits(int total, std::map<std::string, int> per_class = {}) {
  return {.total = total,
          .per_namespace = {},
          .per_storage_class = std::move(per_class),
          .per_location = {}};
}

// The names of all that can be admitted now, in this order.
std::vector<std::string> AdmitAll(TransferQueue& queue) {
  std::vector<std::string> names;
  while (const QueuedTransfer* const admitted = queue.AdmitNext(kStart)) {
    names.push_back(admitted->uid.substr(4));
  }
  return names;
}

TEST(TransferQueueTest, OneTransferOfAVolumeAtATimeInTheOrderOfCreation) {
  TransferQueue queue(Limits(9));
  queue.Put(Make("young", "a", "data", 1));
  queue.Put(Make("old", "a", "data", 3));
  queue.Put(Make("middle", "a", "data", 2));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("old"));
  EXPECT_EQ(queue.ReasonOf("uid-middle", kStart),
            "waits for DataUpload velero/old, which moves the same volume");
  queue.Put(Make("older", "a", "data", 4));
  EXPECT_THAT(AdmitAll(queue), IsEmpty()) << "what runs goes on";
  EXPECT_THAT(queue.ReasonOf("uid-older", kStart), HasSubstr("velero/old,"));
  queue.Remove("uid-old");
  EXPECT_THAT(AdmitAll(queue), ElementsAre("older"));
  EXPECT_THAT(queue.ReasonOf("uid-middle", kStart), HasSubstr("velero/older,"));
}

TEST(TransferQueueTest, NamespacesAreServedInRounds) {
  TransferQueue queue(Limits(1));
  for (int i = 0; i < 100; ++i) {
    queue.Put(Make(absl::StrCat("big-", i), "big", absl::StrCat(i), 1000 - i));
  }
  queue.Put(Make("small-0", "small", "0", 1));
  queue.Put(Make("small-1", "small", "1", 0));
  std::vector<std::string> order;
  for (int i = 0; i < 5; ++i) {
    const std::vector<std::string> next = AdmitAll(queue);
    ASSERT_THAT(next, testing::SizeIs(1));
    order.push_back(next[0]);
    queue.Remove("uid-" + next[0]);
  }
  EXPECT_THAT(order, ElementsAre("big-0", "small-0", "big-1", "small-1", "big-2"));
}

TEST(TransferQueueTest, TheNamespaceWithFewerAdmittedComesFirst) {
  TransferQueue queue(Limits(2));
  QueuedTransfer running = Make("a-0", "a", "0", 9);
  running.admitted_at = kStart;
  queue.Put(running);
  queue.Put(Make("a-1", "a", "1", 8));
  queue.Put(Make("b-0", "b", "0", 0));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("b-0"));
  EXPECT_EQ(queue.ReasonOf("uid-a-1", kStart), "waits: at most 2 transfers at once");
}

TEST(TransferQueueTest, TheVolumeWithTheStalestBackupComesFirst) {
  TransferQueue queue(Limits(9));
  queue.RecordBackup("a/yesterday", kStart - absl::Hours(24));
  queue.RecordBackup("a/yesterday", kStart - absl::Hours(99));  // An older one, seen later.
  queue.Put(Make("yesterday", "a", "yesterday", 9));
  queue.Put(Make("last-week", "a", "last-week", 8));
  queue.Put(Make("never", "a", "never", 1));
  queue.Put(Make("never-older", "a", "never-older", 2));
  queue.RecordBackup("a/last-week", kStart - absl::Hours(168));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("never-older", "never", "last-week", "yesterday"));
}

TEST(TransferQueueTest, RestoresComeFirstAndLeaveAQuarterToUploads) {
  TransferQueue queue(Limits(8));
  for (int i = 0; i < 9; ++i) {
    queue.Put(Make(absl::StrCat("u", i), "a", absl::StrCat("u", i), 100 - i));
    queue.Put(
        Make(absl::StrCat("r", i), "b", absl::StrCat("r", i), 50 - i, TransferKind::kRestore));
  }
  EXPECT_THAT(AdmitAll(queue), ElementsAre("r0", "r1", "r2", "r3", "r4", "r5", "u0", "u1"));
  queue.Remove("uid-u0");
  EXPECT_EQ(queue.ReasonOf("uid-r6", kStart),
            "waits: at most 6 restores at once while uploads are queued");
  EXPECT_THAT(AdmitAll(queue), ElementsAre("u2"));
  for (int i = 0; i < 9; ++i) {
    queue.Remove(absl::StrCat("uid-u", i));
  }
  EXPECT_THAT(AdmitAll(queue), ElementsAre("r6", "r7")) << "no upload wants them";
}

TEST(TransferQueueTest, TheQuarterIsAtLeastOneAndOneAloneIsForRestores) {
  EXPECT_EQ(RestoresMaxBesideUploads(1), 1);
  EXPECT_EQ(RestoresMaxBesideUploads(2), 1);
  EXPECT_EQ(RestoresMaxBesideUploads(7), 6);
  EXPECT_EQ(RestoresMaxBesideUploads(8), 6);
  EXPECT_EQ(RestoresMaxBesideUploads(10), 8);
}

TEST(TransferQueueTest, AFullLimitDelaysNoOther) {
  TransferLimits limits = Limits(9, {{"slow", 1}});
  limits.per_namespace = 2;
  limits.per_location = {{"far", 1}};
  TransferQueue queue(limits);
  QueuedTransfer far = Make("far-1", "b", "1", 8);
  far.location = "far";
  QueuedTransfer far_too = Make("far-2", "b", "2", 7);
  far_too.location = "far";
  queue.Put(OfClass(Make("slow-1", "a", "1", 9), "slow"));
  queue.Put(OfClass(Make("slow-2", "c", "2", 9), "slow"));
  queue.Put(far);
  queue.Put(far_too);
  for (int i = 0; i < 3; ++i) {
    queue.Put(Make(absl::StrCat("d-", i), "d", absl::StrCat(i), i));
  }
  EXPECT_THAT(AdmitAll(queue), testing::UnorderedElementsAre("slow-1", "far-1", "d-2", "d-1"));
  EXPECT_EQ(queue.ReasonOf("uid-slow-2", kStart),
            "waits: at most 1 transfer of storage class slow at once");
  EXPECT_EQ(queue.ReasonOf("uid-far-2", kStart),
            "waits: at most 1 transfer of BackupStorageLocation far at once");
  EXPECT_EQ(queue.ReasonOf("uid-d-0", kStart), "waits: at most 2 transfers of namespace d at once");
}

TEST(TransferQueueTest, LimitsAreThoseOfTheSettings) {
  MoverSettings settings;
  settings.transfers_max = 7;
  EXPECT_EQ(LimitsOf(settings).per_namespace, std::nullopt);
  settings.transfers_per_namespace_max = 3;
  settings.storage_classes["fast"].intermediate_class = "cheap";  // Without a limit of its own.
  settings.storage_classes["slow"].transfers_max = 2;
  settings.locations["far"].transfers_max = 4;
  settings.is_paused = true;
  settings.upload_windows = {{.from_minute = 1, .to_minute = 2}};
  const TransferLimits limits = LimitsOf(settings);
  EXPECT_EQ(limits.total, 7);
  EXPECT_TRUE(limits.is_paused);
  EXPECT_EQ(limits.upload_windows, settings.upload_windows);
  EXPECT_EQ(limits.per_namespace, 3);
  EXPECT_THAT(limits.per_storage_class, ElementsAre(testing::Pair("slow", 2)));
  EXPECT_THAT(limits.per_location, ElementsAre(testing::Pair("far", 4)));
}

TEST(TransferQueueTest, APausedMoverAdmitsNothing) {
  TransferLimits limits = Limits(9);
  limits.is_paused = true;
  TransferQueue queue(limits);
  queue.Put(Make("u", "a", "1", 1));
  queue.Put(Make("r", "a", "2", 1, TransferKind::kRestore));
  EXPECT_THAT(AdmitAll(queue), IsEmpty());
  EXPECT_EQ(queue.ReasonOf("uid-u", kStart), "waits: the setting \"paused\" admits no transfer");
  EXPECT_EQ(queue.ReasonOf("uid-r", kStart), "waits: the setting \"paused\" admits no transfer");
}

TEST(TransferQueueTest, UploadsAreAdmittedInTheirWindowsAndRestoresAlways) {
  TransferLimits limits = Limits(4);
  limits.upload_windows = {*ParseDailyWindow("22:00-06:00")};  // kStart is 22:13.
  TransferQueue queue(limits);
  const absl::Time closed = kStart - absl::Minutes(14);
  queue.Put(Make("u", "a", "1", 1));
  for (int i = 0; i < 4; ++i) {
    queue.Put(Make(absl::StrCat("r", i), "a", absl::StrCat("r", i), 1, TransferKind::kRestore));
  }
  for (int i = 0; i < 4; ++i) {
    const QueuedTransfer* const admitted = queue.AdmitNext(closed);
    ASSERT_NE(admitted, nullptr) << "nothing is kept for uploads that cannot come";
    EXPECT_EQ(admitted->uid, absl::StrCat("uid-r", i));
  }
  EXPECT_EQ(queue.ReasonOf("uid-u", closed), "waits: uploads are admitted from 22:00 UTC on");
  queue.Remove("uid-r0");
  EXPECT_EQ(queue.AdmitNext(closed), nullptr);
  EXPECT_THAT(AdmitAll(queue), ElementsAre("u"));
}

TEST(TransferQueueTest, WhatIsBeingEndedIsNotAdmitted) {
  TransferQueue queue(Limits(9));
  QueuedTransfer cancelled = Make("a", "a", "1", 1);
  cancelled.is_held_back = true;
  queue.Put(cancelled);
  EXPECT_THAT(AdmitAll(queue), IsEmpty());
  queue.Put(Make("a", "a", "1", 1));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("a"));
}

TEST(TransferQueueTest, AnAdmissionIsKeptUntilTheObjectHasSeenIt) {
  TransferQueue queue(Limits(1));
  queue.Put(Make("a", "a", "1", 1));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("a"));
  QueuedTransfer late = Make("a", "a", "1", 1);
  late.storage_class = "fast";
  queue.Put(late);  // As it was before.
  EXPECT_EQ(queue.AdmittedAt("uid-a"), kStart);
  late.admitted_at = kStart - absl::Seconds(9);  // An admission that it gave back since.
  queue.Put(late);
  late.admitted_at = std::nullopt;
  queue.Put(late);
  EXPECT_EQ(queue.AdmittedAt("uid-a"), kStart);
  late.admitted_at = kStart;
  queue.Put(late);
  late.admitted_at = std::nullopt;
  queue.Put(late);
  EXPECT_EQ(queue.AdmittedAt("uid-a"), std::nullopt) << "now its object says otherwise";
}

TEST(TransferQueueTest, AnAdmissionThatWasGivenBackIsFreeThoughNothingElseIsSeen) {
  TransferQueue queue(Limits(1));
  queue.Put(Make("a", "a", "1", 2));
  queue.Put(Make("b", "b", "2", 1));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("a"));
  QueuedTransfer waits = Make("a", "a", "1", 2);
  waits.is_held_back = true;
  waits.given_back_at = kStart - absl::Seconds(9);  // An earlier one.
  queue.Put(waits);
  EXPECT_THAT(AdmitAll(queue), IsEmpty());
  waits.given_back_at = kStart;
  queue.Put(waits);
  EXPECT_THAT(AdmitAll(queue), ElementsAre("b"));
}

TEST(TransferQueueTest, WhatRunsAlreadyCountsWhateverTheLimits) {
  TransferQueue queue(Limits(1));
  queue.Put(Make("a", "a", "1", 2));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("a"));
  QueuedTransfer held_back = Make("b", "b", "2", 1);
  held_back.is_held_back = true;
  queue.Put(held_back);
  queue.Put(Make("c", "c", "3", 0));
  queue.AdmitRunning("uid-b", kStart + absl::Seconds(1));
  queue.AdmitRunning("uid-a", kStart + absl::Seconds(1));
  queue.AdmitRunning("uid-unknown", kStart);
  EXPECT_EQ(queue.AdmittedAt("uid-b"), kStart + absl::Seconds(1));
  EXPECT_EQ(queue.AdmittedAt("uid-a"), kStart) << "since it was admitted";
  queue.Remove("uid-a");
  EXPECT_THAT(AdmitAll(queue), IsEmpty()) << "the other one runs";
  queue.Remove("uid-b");
  EXPECT_THAT(AdmitAll(queue), ElementsAre("c"));
}

TEST(TransferQueueTest, WhatAnotherProcessAdmittedTakesTheVolume) {
  TransferQueue queue(Limits(9));
  queue.Put(Make("a", "a", "1", 2));
  queue.Put(Make("b", "a", "1", 1));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("a"));
  QueuedTransfer other = Make("b", "a", "1", 1);
  other.admitted_at = kStart;
  queue.Put(other);
  EXPECT_EQ(queue.AdmittedAt("uid-a"), std::nullopt);
  EXPECT_THAT(queue.ReasonOf("uid-a", kStart), HasSubstr("velero/b,"));
  EXPECT_EQ(queue.admitted(), 1);
}

TEST(TransferQueueTest, WhatIsWaitedForIsCounted) {
  TransferLimits limits = Limits(6, {{"slow", 1}});
  limits.per_namespace = 2;
  limits.per_location = {{"far", 1}};
  limits.upload_windows = {*ParseDailyWindow("22:00-06:00")};  // kStart is 22:13.
  TransferQueue queue(limits);
  const auto put = [&queue](QueuedTransfer transfer) { queue.Put(std::move(transfer)); };
  const auto held_back = [](QueuedTransfer transfer, bool gave_back, bool is_refused) {
    transfer.is_held_back = true;
    transfer.is_refused = is_refused;
    if (gave_back) {
      transfer.given_back_at = kStart;
    }
    return transfer;
  };
  const auto far = [](QueuedTransfer transfer) {
    transfer.location = "far";
    return transfer;
  };
  put(OfClass(Make("slow-1", "a", "1", 9), "slow"));
  put(far(Make("far-1", "b", "1", 9)));
  put(Make("c-1", "c", "1", 9));
  put(Make("c-2", "c", "2", 9));
  EXPECT_THAT(AdmitAll(queue), testing::SizeIs(4));
  put(OfClass(Make("slow-2", "d", "1", 8), "slow"));
  put(far(Make("far-2", "d", "2", 8)));
  put(Make("c-3", "c", "3", 8));
  put(Make("c-1-again", "c", "1", 7));
  put(held_back(Make("new", "e", "1", 7), false, false));
  put(held_back(Make("consumer", "e", "2", 7), true, false));
  put(held_back(Make("quota", "e", "3", 7), true, true));
  put(Make("next", "e", "4", 7));
  std::map<WaitReason, int> want;
  for (const WaitReason reason :
       {WaitReason::kStorageClass, WaitReason::kLocation, WaitReason::kNamespace,
        WaitReason::kVolume, WaitReason::kOther, WaitReason::kPrerequisite, WaitReason::kRefused,
        WaitReason::kNext}) {
    want[reason] = 1;
  }
  EXPECT_EQ(queue.CountWaiting(kStart), want);
  EXPECT_THAT(AdmitAll(queue), ElementsAre("next"));
  put(Make("r-1", "f", "1", 6, TransferKind::kRestore));
  EXPECT_THAT(AdmitAll(queue), ElementsAre("r-1"));
  EXPECT_EQ(queue.admitted_restores(), 1);
  put(Make("total", "g", "1", 5));
  want.erase(WaitReason::kNext);
  want[WaitReason::kTotal] = 1;
  EXPECT_EQ(queue.CountWaiting(kStart), want);
  const std::map<WaitReason, int> closed = queue.CountWaiting(kStart - absl::Minutes(14));
  EXPECT_EQ(closed.at(WaitReason::kUploadWindow), 4) << "but for what is held back or behind";
  std::set<std::string> names;
  for (int reason = 0; reason < kWaitReasons; ++reason) {
    names.insert(ToString(static_cast<WaitReason>(reason)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kWaitReasons));
}

// The same rules, by looking at everything each time.
class SlowModel {
 public:
  explicit SlowModel(TransferLimits limits) : limits_(std::move(limits)) {}

  std::map<std::string, QueuedTransfer> transfers;  // by uid; admitted_at says that one is
  std::map<std::string, absl::Time> backups;        // by volume

  // "" where none can be admitted.
  std::string AdmitNext() {
    const std::string restore = FirstOf(TransferKind::kRestore);
    const std::string upload = FirstOf(TransferKind::kUpload);
    const int restores =
        CountIf([](const QueuedTransfer& one) { return one.kind == TransferKind::kRestore; });
    const bool restore_may = upload.empty() || restores < RestoresMaxBesideUploads(limits_.total);
    const std::string next = !restore.empty() && restore_may ? restore : upload;
    if (!next.empty()) {
      transfers.at(next).admitted_at = kStart;
      served_[transfers.at(next).volume_namespace] = ++admissions_;
    }
    return next;
  }

  void Remove(const std::string& uid) {
    const std::string space = transfers.at(uid).volume_namespace;
    transfers.erase(uid);
    if (std::none_of(transfers.begin(), transfers.end(),
                     [&](const auto& one) { return one.second.volume_namespace == space; })) {
      served_.erase(space);
    }
  }

  template <typename Predicate>
  int CountIf(Predicate is_counted) const {
    return static_cast<int>(std::count_if(transfers.begin(), transfers.end(), [&](const auto& one) {
      return one.second.admitted_at.has_value() && is_counted(one.second);
    }));
  }

 private:
  bool MayBeAdmitted(const QueuedTransfer& one) const {
    for (const auto& [uid, other] : transfers) {
      if (other.volume == one.volume && (other.admitted_at.has_value() || Age(other) < Age(one))) {
        return false;
      }
    }
    const auto is_below = [](int count, const std::map<std::string, int>& limits,
                             const std::string& name) {
      return !limits.contains(name) || count < limits.at(name);
    };
    return !one.is_held_back && !one.admitted_at.has_value() &&
           CountIf([](const auto&) { return true; }) < limits_.total &&
           CountIf([&](const auto& other) {
             return other.volume_namespace == one.volume_namespace;
           }) < limits_.per_namespace.value_or(limits_.total) &&
           is_below(
               CountIf([&](const auto& other) { return other.storage_class == one.storage_class; }),
               limits_.per_storage_class, one.storage_class) &&
           is_below(CountIf([&](const auto& other) { return other.location == one.location; }),
                    limits_.per_location, one.location);
  }

  static std::tuple<absl::Time, std::string> Age(const QueuedTransfer& one) {
    return {one.created_at, one.name};
  }

  std::string FirstOf(TransferKind kind) const {
    std::vector<std::tuple<int, int, absl::Time, std::tuple<absl::Time, std::string>, std::string>>
        all;
    for (const auto& known : transfers) {
      const QueuedTransfer& one = known.second;
      if (one.kind == kind && MayBeAdmitted(one)) {
        const int of_namespace = CountIf(
            [&](const auto& other) { return other.volume_namespace == one.volume_namespace; });
        const auto served = served_.find(one.volume_namespace);
        const auto backup = backups.find(one.volume);
        all.emplace_back(of_namespace, served == served_.end() ? 0 : served->second,
                         backup == backups.end() ? absl::InfinitePast() : backup->second, Age(one),
                         one.uid);
      }
    }
    return all.empty() ? "" : std::get<4>(*std::min_element(all.begin(), all.end()));
  }

  const TransferLimits limits_;
  std::map<std::string, int> served_;
  int admissions_ = 0;
};

// Random transfers come, wait, run and go; after each change both admit the same ones.
class RandomNightTest : public testing::TestWithParam<unsigned> {
 protected:
  int Pick(int below) {
    return static_cast<int>(std::uniform_int_distribution<>(0, below - 1)(random_));
  }
  TransferLimits PickLimits() {
    TransferLimits limits = Limits(1 + Pick(8), {{"class0", 1 + Pick(3)}});
    if (Pick(2) == 0) {
      limits.per_namespace = 1 + Pick(3);
    }
    limits.per_location = {{"location0", 1 + Pick(4)}};
    return limits;
  }
  void Add(int i) {
    const bool is_restore = Pick(3) == 0;
    QueuedTransfer transfer =
        Make(absl::StrCat("t", i), absl::StrCat("ns", Pick(4)), absl::StrCat("v", Pick(6)), Pick(9),
             is_restore ? TransferKind::kRestore : TransferKind::kUpload);
    transfer.volume += is_restore ? "/target" : "";
    transfer.storage_class = absl::StrCat("class", Pick(3));
    transfer.location = absl::StrCat("location", Pick(3));
    transfer.is_held_back = Pick(12) == 0;
    queue_.Put(transfer);
    model_.transfers.emplace(transfer.uid, transfer);
  }
  std::string AnyUid() {
    return std::next(model_.transfers.begin(), Pick(static_cast<int>(model_.transfers.size())))
        ->first;
  }
  // As a transfer that waits for something else, or is refused what its Pod needs.
  void GiveBack(QueuedTransfer& changed) {
    changed.given_back_at = std::exchange(changed.admitted_at, std::nullopt);
    changed.is_refused = Pick(2) == 0;
    changed.is_held_back = true;
    queue_.Put(changed);
  }
  void Change() {
    if (model_.transfers.empty() || Pick(3) == 0) {
      Add(added_++);
    } else if (Pick(2) == 0) {
      const std::string uid = AnyUid();
      queue_.Remove(uid);
      model_.Remove(uid);
    } else if (Pick(2) == 0) {
      const std::string volume = model_.transfers.at(AnyUid()).volume;
      const absl::Time at = kStart - absl::Hours(Pick(99));
      queue_.RecordBackup(volume, at);
      absl::Time& known = model_.backups.try_emplace(volume, at).first->second;
      known = std::max(known, at);
    } else {
      QueuedTransfer& changed = model_.transfers.at(AnyUid());
      if (changed.admitted_at.has_value() && Pick(2) == 0) {
        GiveBack(changed);
        return;
      }
      changed.is_held_back = !changed.is_held_back && !changed.admitted_at.has_value();
      changed.given_back_at = std::nullopt;
      queue_.Put(changed);  // With the admission, as the informer delivers it.
    }
  }

  const support::SweepSample sample_;
  std::mt19937 random_{static_cast<unsigned>(sample_.seed()) * 20 + GetParam()};
  const TransferLimits limits_ = PickLimits();
  TransferQueue queue_{limits_};
  SlowModel model_{limits_};
  int added_ = 0;
};

TEST_P(RandomNightTest, AdmitsWhatTheSlowModelAdmits) {
  for (int change = 0; change < 400; ++change) {
    Change();
    while (true) {
      const std::string want = model_.AdmitNext();
      const QueuedTransfer* const admitted = queue_.AdmitNext(kStart);
      ASSERT_EQ(admitted == nullptr ? "" : admitted->uid, want) << "after change " << change;
      if (want.empty()) {
        break;
      }
    }
    ASSERT_EQ(queue_.admitted(), model_.CountIf([](const auto&) { return true; }));
    ASSERT_EQ(queue_.refused(),
              std::count_if(model_.transfers.begin(), model_.transfers.end(),
                            [](const auto& one) { return one.second.is_refused; }));
    for (const auto& [uid, transfer] : model_.transfers) {
      ASSERT_EQ(queue_.AdmittedAt(uid).has_value(), transfer.admitted_at.has_value()) << uid;
      if (!transfer.admitted_at.has_value()) {
        ASSERT_THAT(queue_.ReasonOf(uid, kStart), HasSubstr("waits"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNightTest, testing::Range(0U, 20U));

}  // namespace
}  // namespace csidelta::datamover::transfer_queue_test
