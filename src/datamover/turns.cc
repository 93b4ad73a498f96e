#include "datamover/turns.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace csidelta::datamover {
namespace {

// Older ones first; of the same age, by name.
bool IsBefore(const Mover& one, const Mover& other) {
  return std::tie(one.since, one.name, one.uid) < std::tie(other.since, other.name, other.uid);
}

// Hands out what is free, in order, until it is the turn of one of them.
class Dealer {
 public:
  Dealer(const std::vector<Mover>& movers, const TurnLimits& limits) : limits_(limits) {
    for (const Mover& mover : movers) {
      if (mover.moves) {
        Begin(mover);
      } else {
        waiting_.push_back(&mover);
      }
    }
    std::sort(waiting_.begin(), waiting_.end(),
              [](const Mover* one, const Mover* other) { return IsBefore(*one, *other); });
  }

  std::string WaitsFor(absl::string_view uid) {
    std::vector<const Mover*> candidates = Candidates();
    while (!candidates.empty()) {
      if (moving_ >= limits_.moves_max) {
        break;
      }
      const auto next = std::min_element(
          candidates.begin(), candidates.end(), [this](const Mover* one, const Mover* other) {
            const int rounds_one = by_namespace_[one->source_namespace];
            const int rounds_other = by_namespace_[other->source_namespace];
            return rounds_one != rounds_other ? rounds_one < rounds_other : IsBefore(*one, *other);
          });
      const Mover& mover = **next;
      candidates.erase(next);
      if (ClassIsFull(mover.storage_class)) {
        continue;
      }
      if (mover.uid == uid) {
        return "";
      }
      Begin(mover);
    }
    return Explain(uid);
  }

 private:
  void Begin(const Mover& mover) {
    ++moving_;
    ++by_namespace_[mover.source_namespace];
    ++by_class_[mover.storage_class];
    by_volume_.emplace(mover.volume, &mover);
  }

  // Of each volume that nobody works at, the oldest.
  std::vector<const Mover*> Candidates() {
    std::vector<const Mover*> candidates;
    std::set<std::string> volumes;
    for (const Mover* mover : waiting_) {
      const auto busy = by_volume_.find(mover->volume);
      if (busy == by_volume_.end() && volumes.insert(mover->volume).second) {
        candidates.push_back(mover);
        first_in_line_.emplace(mover->volume, mover);
      } else {
        first_in_line_.emplace(mover->volume, busy == by_volume_.end() ? mover : busy->second);
      }
    }
    return candidates;
  }

  bool ClassIsFull(const std::string& storage_class) {
    const auto limit = limits_.moves_per_class_max.find(storage_class);
    return limit != limits_.moves_per_class_max.end() && by_class_[storage_class] >= limit->second;
  }

  std::string Explain(absl::string_view uid) {
    for (const Mover* mover : waiting_) {
      if (mover->uid != uid) {
        continue;
      }
      const Mover* before = first_in_line_.at(mover->volume);
      if (before != mover) {
        return absl::StrCat("waits for ", before->name, ", which moves the same volume");
      }
      if (ClassIsFull(mover->storage_class)) {
        return absl::StrCat("waits: volumes of the storage class ", mover->storage_class,
                            " are moved at most ",
                            limits_.moves_per_class_max.at(mover->storage_class), " at once");
      }
      return absl::StrCat("waits: at most ", limits_.moves_max, " volumes are moved at once");
    }
    return "";  // It moves.
  }

  const TurnLimits& limits_;
  std::vector<const Mover*> waiting_;
  int moving_ = 0;
  std::map<std::string, int> by_namespace_;
  std::map<std::string, int> by_class_;
  std::map<std::string, const Mover*> by_volume_;      // who works at it
  std::map<std::string, const Mover*> first_in_line_;  // who works at it, or will be the next
};

}  // namespace

std::string WaitsFor(const std::vector<Mover>& movers, absl::string_view uid,
                     const TurnLimits& limits) {
  const auto found = std::find_if(movers.begin(), movers.end(),
                                  [uid](const Mover& mover) { return mover.uid == uid; });
  CSIDELTA_CHECK(found != movers.end());
  return found->moves ? "" : Dealer(movers, limits).WaitsFor(uid);
}

TurnTable::TurnTable(TurnLimits limits) : limits_(std::move(limits)) {}

void TurnTable::Put(Mover mover) {
  std::scoped_lock lock(mutex_);
  const auto found = movers_.find(mover.uid);
  if (found != movers_.end() && found->second.moves) {
    mover.moves = true;
  }
  const std::string uid = mover.uid;
  movers_.insert_or_assign(uid, std::move(mover));
}

void TurnTable::Remove(absl::string_view uid) {
  std::scoped_lock lock(mutex_);
  if (const auto found = movers_.find(uid); found != movers_.end()) {
    movers_.erase(found);
  }
}

std::string TurnTable::TakeTurn(absl::string_view uid) {
  std::scoped_lock lock(mutex_);
  const auto found = movers_.find(uid);
  if (found == movers_.end()) {
    return "waits until all others are known";
  }
  std::vector<Mover> movers;
  movers.reserve(movers_.size());
  for (const auto& [key, mover] : movers_) {
    movers.push_back(mover);
  }
  std::string waits_for = WaitsFor(movers, uid, limits_);
  found->second.moves = found->second.moves || waits_for.empty();
  return waits_for;
}

TurnTable::Counts TurnTable::counts() const {
  std::scoped_lock lock(mutex_);
  Counts counts;
  for (const auto& [key, mover] : movers_) {
    ++(mover.moves ? counts.moving : counts.waiting);
  }
  return counts;
}

}  // namespace csidelta::datamover
