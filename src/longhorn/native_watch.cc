#include "longhorn/native_watch.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "objects/keys.h"

namespace csidelta::longhorn {

NativeWatch::NativeWatch(k8s::ApiClient& api, const Clock& clock, std::string namespace_name,
                         const std::string& backup_uid)
    : api_(api),
      clock_(clock),
      informer_({.type = Snapshot::Type(),
                 .namespace_name = std::move(namespace_name),
                 .label_selector = absl::StrCat(objects::kBackupUidLabel, "=", backup_uid)},
                {this}) {}

NativeWatch::~NativeWatch() = default;

bool NativeWatch::BeginAt(const std::string& resource_version) {
  const MutexLock lock(mutex_);
  if (handler_.joinable()) {
    return false;
  }
  handler_ = std::jthread([this, resource_version](const std::stop_token& stop) {
    const CallContext ctx{.stop = stop, .clock = &clock_};
    informer_.Run(ctx, api_, resource_version).IgnoreError();  // It ends with the stop alone.
  });
  return true;
}

bool NativeWatch::Holds(const k8s::ObjectId& id) const {
  const MutexLock lock(mutex_);
  return absl::c_any_of(interests_, [&](const Interest* one) { return one->name_ == id.name; });
}

void NativeWatch::Show(const std::string& name, const Json& object) {
  const MutexLock lock(mutex_);
  for (Interest* const interest : interests_) {
    if (interest->name_ == name) {
      interest->Tell(object);
    }
  }
}

NativeWatch::Interest::Interest(NativeWatch& watch, std::string name)
    : watch_(watch), name_(std::move(name)), read_at_(watch.clock_.Uptime() + kReadAgainAfter) {
  const MutexLock lock(watch_.mutex_);
  is_watched_ = watch_.handler_.joinable();
  watch_.interests_.push_back(this);
}

NativeWatch::Interest::~Interest() {
  const MutexLock lock(watch_.mutex_);
  watch_.interests_.remove(this);
}

absl::Status NativeWatch::Interest::Await(const CallContext& ctx, objects::Predicate<Snapshot> done,
                                          const Snapshot* known) {
  if (known != nullptr) {
    ASSIGN_OR_RETURN(const bool is_done, done(known));
    if (is_done) {
      return absl::OkStatus();
    }
    watch_.informer_.Expect(k8s::IdOf(known->json()));
    if (!watch_.BeginAt(known->resource_version()) && !is_watched_) {
      read_at_ =
          watch_.clock_.Uptime();  // Another began it meanwhile, and later than with this one.
    }
  }
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    std::stop_source wake;
    std::optional<Json> news = TakeNews(wake);
    if (!news.has_value()) {
      const std::stop_callback forward(ctx.stop, [wake]() mutable { wake.request_stop(); });
      watch_.clock_.SleepFor(std::min(ctx.deadline, read_at_) - watch_.clock_.Uptime(),
                             wake.get_token());
      if (watch_.clock_.Uptime() < read_at_) {
        continue;
      }
      ASSIGN_OR_RETURN(news, Read(ctx));
    }
    read_at_ = watch_.clock_.Uptime() + kReadAgainAfter;
    ASSIGN_OR_RETURN(const bool is_done,
                     objects::OfJson<Snapshot>(done)(news->is_null() ? nullptr : &*news));
    if (is_done) {
      return absl::OkStatus();
    }
  }
}

std::optional<Json> NativeWatch::Interest::TakeNews(std::stop_source& wake) {
  const MutexLock lock(watch_.mutex_);
  wake_ = wake;
  return std::exchange(news_, std::nullopt);
}

absl::StatusOr<Json> NativeWatch::Interest::Read(const CallContext& ctx) {
  ASSIGN_OR_RETURN(
      std::optional<Json> found,
      k8s::Find(ctx, watch_.api_, Snapshot::Key(watch_.informer_.objects().namespace_name, name_)));
  return std::move(found).value_or(Json());
}

void NativeWatch::Interest::Tell(Json news) {
  news_ = std::move(news);
  wake_.request_stop();
}

}  // namespace csidelta::longhorn
