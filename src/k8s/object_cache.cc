#include "k8s/object_cache.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/mutex.h"
#include "k8s/object.h"

namespace csidelta::k8s {
namespace {

bool HasLabels(const Json& object, absl::string_view selector) {
  const std::vector<absl::string_view> terms = absl::StrSplit(selector, ',', absl::SkipEmpty());
  return absl::c_all_of(terms, [&](absl::string_view term) {
    const std::pair<std::string, std::string> wanted =
        absl::StrSplit(term, absl::MaxSplits('=', 1));
    const Json* const value = FindJson(object, {"metadata", "labels", wanted.first});
    return value != nullptr && (wanted.first.size() == term.size() || *value == wanted.second);
  });
}

std::string TextOf(const Json& object) {
  std::string text = DumpJson(WithoutManagedFields(object));
  text.shrink_to_fit();
  return text;
}

}  // namespace

// What one informer delivers.
class ObjectCache::Kept : public ObjectEventHandler {
 public:
  // How an object stands here.
  struct Standing {
    bool is_absent = false;
    bool is_uncertain = false;  // or not kept
    uint64_t version = 0;       // of `text`; 0: none exists
    uint64_t own_version = 0;
    std::string text = {};
  };

  Kept(std::atomic<uint64_t>& calls, Informer& informer, Filter filter)
      : calls_(calls),
        informer_(informer),
        objects_(informer.objects()),
        filter_(std::move(filter)) {}

  void OnObjectChanged(const Json& object) override;
  void OnObjectDeleted(const ObjectId& id, const Json* last) override;
  void OnListed() override;
  bool Holds(const ObjectId& id) const override;
  bool Covers(const ObjectKey& key) const;
  bool Delivers(const ResourceType& type, absl::string_view namespace_name,
                absl::string_view label_selector) const;

  // REQUIRES Covers(key), as what follows.
  Standing Find(const ObjectKey& key) const;
  std::optional<std::vector<std::string>> Texts() const;
  void MarkUncertain(const ObjectKey& key);

  // One that was delivered stays uncertain until its deletion is: older versions may be delivered
  // before.
  void RecordMissing(const ObjectKey& key);
  void RecordFailedCreate(const ObjectKey& key);
  void RecordWritten(uint64_t begun, const ObjectKey& key, const Json& object);
  void RecordRead(uint64_t begun, const ObjectKey& key, const Json& object);

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, name
  struct Entry {
    std::string text = {};         // "" where only the version is known, or nothing
    uint64_t version = 0;          // no older one is taken
    uint64_t own_version = 0;      // the last one that this process has written
    uint64_t uncertain_since = 0;  // a value of Begin(); 0: it is certain
  };

  bool Takes(const Json& object) const;

  // One that is not to be kept leaves its version, so that no older one that is kept comes after
  // it.
  void Replace(Entry& entry, uint64_t version, const Json& object) const;
  // An entry of an object that was not delivered yet.
  Entry& AddEntry(const ObjectKey& key, const std::string& uid)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<uint64_t>& calls_;
  Informer& informer_;
  const WatchedObjects& objects_;
  const Filter filter_;
  mutable Mutex mutex_;
  bool is_synced_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t listed_at_ ABSL_GUARDED_BY(mutex_) = 0;     // a value of Begin()
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;        // version that was delivered
  bool is_unordered_ ABSL_GUARDED_BY(mutex_) = false;  // some were delivered that are not kept
  std::map<Name, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

void ObjectCache::Kept::OnObjectChanged(const Json& object) {
  const MutexLock lock(mutex_);
  const Name name{Namespace(object), k8s::Name(object)};
  const uint64_t version = VersionNumber(object);
  newest_ = std::max(newest_, version);
  is_unordered_ = is_unordered_ || version == 0;
  const auto found = entries_.find(name);
  if (Takes(object)) {
    Replace(found == entries_.end() ? entries_[name] : found->second, version, object);
  } else if (found != entries_.end() && version >= found->second.version) {
    entries_.erase(found);
  }
}

void ObjectCache::Kept::OnObjectDeleted(const ObjectId& id, const Json* last) {
  const MutexLock lock(mutex_);
  const uint64_t version = last == nullptr ? 0 : VersionNumber(*last);
  newest_ = std::max(newest_, version);
  const auto found = entries_.find({id.namespace_name, id.name});
  // Another object may have the name of one that was deleted.
  if (found != entries_.end() && (version == 0 || version >= found->second.version)) {
    entries_.erase(found);
  }
}

void ObjectCache::Kept::OnListed() {
  const MutexLock lock(mutex_);
  is_synced_ = true;
  listed_at_ = ++calls_;
}

bool ObjectCache::Kept::Holds(const ObjectId& id) const {
  const MutexLock lock(mutex_);
  return entries_.contains({id.namespace_name, id.name});
}

bool ObjectCache::Kept::Covers(const ObjectKey& key) const {
  return objects_.type == key.type &&
         (objects_.namespace_name.empty() || objects_.namespace_name == key.namespace_name);
}

bool ObjectCache::Kept::Delivers(const ResourceType& type, absl::string_view namespace_name,
                                 absl::string_view label_selector) const {
  return objects_.type == type && objects_.namespace_name == namespace_name &&
         objects_.label_selector == label_selector && !filter_;
}

ObjectCache::Kept::Standing ObjectCache::Kept::Find(const ObjectKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({key.namespace_name, key.name});
  if (found == entries_.end()) {
    return {.is_absent = is_synced_ && !filter_ && !is_unordered_};
  }
  const Entry& entry = found->second;
  return {.is_uncertain = entry.uncertain_since > 0 || entry.text.empty(),
          .version = entry.text.empty() ? 0 : entry.version,
          .own_version = entry.own_version,
          .text = entry.text};
}

std::optional<std::vector<std::string>> ObjectCache::Kept::Texts() const {
  const MutexLock lock(mutex_);
  if (!is_synced_ || is_unordered_) {
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const auto& [name, entry] : entries_) {
    if (!entry.text.empty()) {
      texts.push_back(entry.text);
    }
  }
  return texts;
}

void ObjectCache::Kept::MarkUncertain(const ObjectKey& key) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({key.namespace_name, key.name});
  if (found != entries_.end()) {
    found->second.uncertain_since = ++calls_;
  }
}

void ObjectCache::Kept::RecordMissing(const ObjectKey& key) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({key.namespace_name, key.name});
  if (found != entries_.end() && found->second.version == 0) {
    entries_.erase(found);
  } else if (found != entries_.end()) {
    found->second.uncertain_since = ++calls_;
  }
}

void ObjectCache::Kept::RecordFailedCreate(const ObjectKey& key) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({key.namespace_name, key.name});
  Entry& entry = found == entries_.end() ? AddEntry(key, "") : found->second;
  entry.uncertain_since = ++calls_;
}

void ObjectCache::Kept::RecordWritten(uint64_t begun, const ObjectKey& key, const Json& object) {
  const uint64_t version = VersionNumber(object);
  const MutexLock lock(mutex_);
  const auto found = entries_.find({key.namespace_name, key.name});
  // The informer may be past a new one, and the object be deleted since.
  if (found == entries_.end() && (!Takes(object) || version <= newest_ || listed_at_ > begun)) {
    return;
  }
  Entry& entry = found == entries_.end() ? AddEntry(key, Uid(object)) : found->second;
  entry.own_version = std::max(entry.own_version, version);
  entry.uncertain_since = 0;
  Replace(entry, version, object);
}

void ObjectCache::Kept::RecordRead(uint64_t begun, const ObjectKey& key, const Json& object) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({key.namespace_name, key.name});
  if (found == entries_.end()) {
    return;
  }
  Replace(found->second, VersionNumber(object), object);
  if (found->second.uncertain_since <= begun) {
    found->second.uncertain_since = 0;
  }
}

bool ObjectCache::Kept::Takes(const Json& object) const {
  return VersionNumber(object) > 0 && HasLabels(object, objects_.label_selector) &&
         (!filter_ || filter_(object));
}

void ObjectCache::Kept::Replace(Entry& entry, uint64_t version, const Json& object) const {
  if (version > entry.version) {
    entry.text = Takes(object) ? TextOf(object) : "";
    entry.version = version;
  }
}

ObjectCache::Kept::Entry& ObjectCache::Kept::AddEntry(const ObjectKey& key,
                                                      const std::string& uid) {
  informer_.Expect({key.namespace_name, key.name, uid});
  return entries_[{key.namespace_name, key.name}];
}

ObjectCache::ObjectCache() = default;
ObjectCache::~ObjectCache() = default;

void ObjectCache::Add(Informer& informer, Filter filter) {
  informer.Add(*kept_.emplace_back(std::make_unique<Kept>(calls_, informer, std::move(filter))));
}

void ObjectCache::ForEachKeptOf(const ObjectKey& key, absl::FunctionRef<void(Kept&)> note) {
  for (const auto& kept : kept_) {
    if (kept->Covers(key)) {
      note(*kept);
    }
  }
}

ObjectCache::Answer ObjectCache::Find(const ObjectKey& key) const {
  Kept::Standing newest;
  bool is_absent = false;
  for (const auto& kept : kept_) {
    if (!kept->Covers(key)) {
      continue;
    }
    Kept::Standing standing = kept->Find(key);
    if (standing.is_uncertain) {
      return {};
    }
    is_absent = is_absent || standing.is_absent;
    if (standing.version > newest.version) {
      newest = std::move(standing);
    }
  }
  if (newest.version > 0) {
    return {.presence = Presence::kFound, .object = ParseJson(newest.text).value_or(Json())};
  }
  return {.presence = is_absent ? Presence::kAbsent : Presence::kUnknown};
}

std::optional<Json> ObjectCache::Last(const ObjectKey& key) const {
  for (const auto& kept : kept_) {
    if (kept->Covers(key)) {
      if (const Kept::Standing standing = kept->Find(key); standing.version > 0) {
        return ParseJson(standing.text).value_or(Json());
      }
    }
  }
  return std::nullopt;
}

bool ObjectCache::Has(const ObjectKey& key) const {
  return absl::c_any_of(
      kept_, [&](const auto& kept) { return kept->Covers(key) && kept->Find(key).version > 0; });
}

bool ObjectCache::IsOwnWrite(const ObjectKey& key) const {
  return absl::c_any_of(kept_, [&](const auto& kept) {
    if (!kept->Covers(key)) {
      return false;
    }
    const Kept::Standing standing = kept->Find(key);
    return standing.version > 0 && standing.version == standing.own_version;
  });
}

std::optional<std::vector<Json>> ObjectCache::List(const ResourceType& type,
                                                   absl::string_view namespace_name,
                                                   absl::string_view label_selector) const {
  const auto kept = absl::c_find_if(
      kept_, [&](const auto& one) { return one->Delivers(type, namespace_name, label_selector); });
  const std::optional<std::vector<std::string>> texts =
      kept == kept_.end() ? std::nullopt : (*kept)->Texts();
  if (!texts.has_value()) {
    return std::nullopt;
  }
  std::vector<Json> objects;
  objects.reserve(texts->size());
  for (const std::string& text : *texts) {
    objects.push_back(ParseJson(text).value_or(Json()));
  }
  return objects;
}

uint64_t ObjectCache::Begin() { return ++calls_; }

void ObjectCache::MarkUncertain(const ObjectKey& key) {
  ForEachKeptOf(key, [&](Kept& kept) { kept.MarkUncertain(key); });
}

void ObjectCache::RecordMissing(const ObjectKey& key) {
  ForEachKeptOf(key, [&](Kept& kept) { kept.RecordMissing(key); });
}

void ObjectCache::RecordFailedCreate(const ObjectKey& key) {
  ForEachKeptOf(key, [&](Kept& kept) { kept.RecordFailedCreate(key); });
}

void ObjectCache::RecordWritten(uint64_t begun, const ObjectKey& key, const Json& object) {
  CSIDELTA_CHECK(begun > 0 && begun <= calls_);  // of Begin()
  ForEachKeptOf(key, [&](Kept& kept) { kept.RecordWritten(begun, key, object); });
}

void ObjectCache::RecordRead(uint64_t begun, const ObjectKey& key, const Json& object) {
  CSIDELTA_CHECK(begun > 0 && begun <= calls_);
  ForEachKeptOf(key, [&](Kept& kept) { kept.RecordRead(begun, key, object); });
}

}  // namespace csidelta::k8s
