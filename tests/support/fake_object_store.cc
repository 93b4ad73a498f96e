#include "tests/support/fake_object_store.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "storage/object_rules.h"

namespace csidelta::support {

using storage::ByteRange;
using storage::ObjectInfo;
using storage::ObjectSink;
using storage::PutOptions;

const char* StoreOperationName(StoreOperation operation) {
  switch (operation) {
    case StoreOperation::kPut:
      return "put";
    case StoreOperation::kGet:
      return "get";
    case StoreOperation::kGetRange:
      return "get range";
    case StoreOperation::kStat:
      return "stat";
    case StoreOperation::kList:
      return "list";
    case StoreOperation::kDelete:
      return "delete";
  }
  return "";
}

FakeObjectStore::Verdict FakeObjectStore::Judge(StoreOperation operation, const std::string& key) {
  if (is_cut_) {
    return {.status = absl::CancelledError("the process is dead"), .takes_effect = false};
  }
  calls_.push_back({operation, key});
  if (cut_call_.has_value() && static_cast<int64_t>(calls_.size()) == *cut_call_) {
    is_cut_ = true;
    return {.status = absl::CancelledError("the process dies here"),
            .takes_effect = cut_moment_ == CutMoment::kAfter};
  }
  for (Armed& armed : faults_) {
    const StoreFault& fault = armed.fault;
    const bool matches = (!fault.operation.has_value() || *fault.operation == operation) &&
                         absl::StartsWith(key, fault.key_prefix);
    if (!matches) {
      continue;
    }
    ++armed.seen;
    if (armed.seen >= fault.first_call && armed.seen <= fault.last_call) {
      return {.status = fault.status,
              .takes_effect = fault.status.ok() || fault.after_effect,
              .wrong_bytes = fault.wrong_bytes};
    }
  }
  return {};
}

// A call whose context is over is none: it is not counted, and has no effect.
FakeObjectStore::Verdict FakeObjectStore::Enter(const CallContext& ctx, StoreOperation operation,
                                                const std::string& key) {
  if (absl::Status status = ctx.Check(); !status.ok()) {
    return {.status = std::move(status), .takes_effect = false};
  }
  return Judge(operation, key);
}

std::string FakeObjectStore::Spoil(std::string bytes, WrongBytes how) {
  if (bytes.empty()) {
    return bytes;
  }
  switch (how) {
    case WrongBytes::kNone:
      break;
    case WrongBytes::kShort:
      bytes.pop_back();
      break;
    case WrongBytes::kFlipped:
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
      break;
    case WrongBytes::kOther:
      for (char& byte : bytes) {
        byte = static_cast<char>(~byte);
      }
      break;
  }
  return bytes;
}

absl::Status FakeObjectStore::Put(const CallContext& ctx, const std::string& key,
                                  absl::string_view bytes, const PutOptions& options) {
  RETURN_IF_ERROR(storage::CheckPut(key, options));
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Enter(ctx, StoreOperation::kPut, key);
  if (!verdict.takes_effect) {
    return verdict.status;
  }
  if (!options.sha256_hex.empty() && Sha256Hex(bytes) != options.sha256_hex) {
    return absl::DataLossError(absl::StrCat("put ", key, ": the bytes are not those promised"));
  }
  if (options.if_absent && objects_.contains(key)) {
    return verdict.status.ok() ? storage::ObjectExists(key) : verdict.status;
  }
  objects_[key] = Spoil(std::string(bytes), verdict.wrong_bytes);
  return verdict.status;
}

absl::StatusOr<std::string> FakeObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                 int64_t size_bytes_max) {
  RETURN_IF_ERROR(storage::CheckKey(key));
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Enter(ctx, StoreOperation::kGet, key);
  RETURN_IF_ERROR(verdict.status);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    return storage::NoSuchObject(key);
  }
  if (std::ssize(found->second) > size_bytes_max) {
    return storage::ObjectTooLarge(key, size_bytes_max);
  }
  return Spoil(found->second, verdict.wrong_bytes);
}

absl::StatusOr<std::string> FakeObjectStore::GetRange(const CallContext& ctx,
                                                      const std::string& key, ByteRange range) {
  RETURN_IF_ERROR(storage::CheckGetRange(key, range));
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Enter(ctx, StoreOperation::kGetRange, key);
  RETURN_IF_ERROR(verdict.status);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    return storage::NoSuchObject(key);
  }
  const int64_t size_bytes = std::ssize(found->second);
  if (range.offset_bytes + range.length_bytes > size_bytes) {
    return storage::ObjectEndsBefore(key, range, size_bytes);
  }
  return Spoil(found->second.substr(static_cast<std::size_t>(range.offset_bytes),
                                    static_cast<std::size_t>(range.length_bytes)),
               verdict.wrong_bytes);
}

absl::StatusOr<ObjectInfo> FakeObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(storage::CheckKey(key));
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Enter(ctx, StoreOperation::kStat, key);
  RETURN_IF_ERROR(verdict.status);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    return storage::NoSuchObject(key);
  }
  return ObjectInfo{.key = key, .size_bytes = std::ssize(found->second)};
}

absl::Status FakeObjectStore::List(const CallContext& ctx, const std::string& prefix,
                                   ObjectSink sink) {
  return Show(ctx, prefix, /*is_deep=*/true, sink);
}

absl::Status FakeObjectStore::ListFolder(const CallContext& ctx, const std::string& prefix,
                                         ObjectSink sink) {
  return Show(ctx, prefix, /*is_deep=*/false, sink);
}

absl::Status FakeObjectStore::Show(const CallContext& ctx, const std::string& prefix, bool is_deep,
                                   ObjectSink sink) {
  RETURN_IF_ERROR(storage::CheckPrefix(prefix));
  Verdict verdict;
  std::vector<ObjectInfo> found;
  {
    std::scoped_lock lock(mutex_);
    verdict = Enter(ctx, StoreOperation::kList, prefix);
    for (const auto& [key, bytes] : objects_) {
      if (!verdict.takes_effect || !absl::StartsWith(key, prefix)) {
        continue;
      }
      const auto slash = is_deep ? std::string::npos : key.find('/', prefix.size());
      if (slash == std::string::npos) {
        found.push_back({.key = key, .size_bytes = std::ssize(bytes)});
      } else if (const std::string folder = key.substr(0, slash + 1);
                 found.empty() || found.back().key != folder) {
        found.push_back({.key = folder, .size_bytes = 0});
      }
    }
  }
  // Not under the lock: the sink may call the store.
  for (const ObjectInfo& object : found) {
    RETURN_IF_ERROR(sink(object));
    RETURN_IF_ERROR(verdict.status);
    RETURN_IF_ERROR(ctx.Check());
  }
  return verdict.status;
}

absl::Status FakeObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(storage::CheckKey(key));
  std::scoped_lock lock(mutex_);
  const Verdict verdict = Enter(ctx, StoreOperation::kDelete, key);
  if (verdict.takes_effect) {
    objects_.erase(key);
  }
  return verdict.status;
}

absl::StatusOr<std::vector<absl::Status>> FakeObjectStore::DeleteBatch(
    const CallContext& ctx, absl::Span<const std::string> keys) {
  std::vector<absl::Status> deleted;
  for (const std::string& key : keys) {
    deleted.push_back(Delete(ctx, key));
  }
  return deleted;
}

void FakeObjectStore::AddFault(StoreFault fault) {
  std::scoped_lock lock(mutex_);
  faults_.push_back({std::move(fault)});
}

void FakeObjectStore::ClearFaults() {
  std::scoped_lock lock(mutex_);
  faults_.clear();
}

void FakeObjectStore::CutAt(int64_t call, CutMoment moment) {
  std::scoped_lock lock(mutex_);
  cut_call_ = call;
  cut_moment_ = moment;
}

bool FakeObjectStore::is_cut() const {
  std::scoped_lock lock(mutex_);
  return is_cut_;
}

void FakeObjectStore::Restart() {
  std::scoped_lock lock(mutex_);
  faults_.clear();
  calls_.clear();
  cut_call_.reset();
  is_cut_ = false;
}

int64_t FakeObjectStore::call_count() const {
  std::scoped_lock lock(mutex_);
  return std::ssize(calls_);
}

std::vector<StoreCall> FakeObjectStore::calls() const {
  std::scoped_lock lock(mutex_);
  return calls_;
}

std::map<std::string, std::string> FakeObjectStore::objects() const {
  std::scoped_lock lock(mutex_);
  return objects_;
}

void FakeObjectStore::SetObjects(std::map<std::string, std::string> objects) {
  std::scoped_lock lock(mutex_);
  objects_ = std::move(objects);
}

void FakeObjectStore::SetObject(const std::string& key, std::string bytes) {
  std::scoped_lock lock(mutex_);
  objects_[key] = std::move(bytes);
}

void FakeObjectStore::RemoveObject(const std::string& key) {
  std::scoped_lock lock(mutex_);
  objects_.erase(key);
}

}  // namespace csidelta::support
