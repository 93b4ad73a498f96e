#include "tests/support/csi_driver/faults.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::csi_driver {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kCancelPoll{100};

// The codes of gRPC that a driver answers with.
const std::map<std::string, absl::StatusCode>& Codes() {
  using enum absl::StatusCode;
  static const auto* const kCodes = new std::map<std::string, absl::StatusCode>{
      {"CANCELLED", kCancelled},
      {"UNKNOWN", kUnknown},
      {"INVALID_ARGUMENT", kInvalidArgument},
      {"DEADLINE_EXCEEDED", kDeadlineExceeded},
      {"NOT_FOUND", kNotFound},
      {"ALREADY_EXISTS", kAlreadyExists},
      {"PERMISSION_DENIED", kPermissionDenied},
      {"RESOURCE_EXHAUSTED", kResourceExhausted},
      {"FAILED_PRECONDITION", kFailedPrecondition},
      {"ABORTED", kAborted},
      {"OUT_OF_RANGE", kOutOfRange},
      {"UNIMPLEMENTED", kUnimplemented},
      {"INTERNAL", kInternal},
      {"UNAVAILABLE", kUnavailable},
      {"DATA_LOSS", kDataLoss},
      {"UNAUTHENTICATED", kUnauthenticated},
  };
  return *kCodes;
}

const std::map<std::string, Lie>& Lies() {
  static const auto* const kLies = new std::map<std::string, Lie>{
      {"not_ready", Lie::kNotReady},
      {"half_size", Lie::kHalfSize},
      {"topology", Lie::kTopology},
      {"omit", Lie::kOmit},
      {"shift", Lie::kShift},
      {"overlap", Lie::kOverlap},
      {"unordered", Lie::kUnordered},
      {"zero_length", Lie::kZeroLength},
      {"negative_length", Lie::kNegativeLength},
      {"negative_offset", Lie::kNegativeOffset},
      {"overflow", Lie::kOverflow},
      {"beyond_capacity", Lie::kBeyondCapacity},
      {"everything", Lie::kEverything},
      {"own_writes_only", Lie::kOwnWritesOnly},
      {"end", Lie::kEnd},
      {"capacity_changes", Lie::kCapacityChanges},
      {"type_changes", Lie::kTypeChanges},
      {"empty_message", Lie::kEmptyMessage},
      {"huge_message", Lie::kHugeMessage},
      {"same_cursor", Lie::kSameCursor},
      {"expired", Lie::kExpired},
  };
  return *kLies;
}

template <typename Value>
absl::Status Lookup(const std::map<std::string, Value>& table, const Json& name, Value& value) {
  const auto found = table.find(name.is_string() ? name.get<std::string>() : "");
  if (found == table.end()) {
    return absl::InvalidArgumentError(absl::StrCat("unknown value ", DumpJson(name)));
  }
  value = found->second;
  return absl::OkStatus();
}

absl::Status ReadCount(const Json& json, int64_t min, int64_t& value) {
  if (!json.is_number_integer() || json.get<int64_t>() < min) {
    return absl::InvalidArgumentError(absl::StrCat("want an integer from ", min, " on"));
  }
  value = json.get<int64_t>();
  return absl::OkStatus();
}

absl::Status ReadText(const Json& json, std::string& value) {
  if (!json.is_string()) {
    return absl::InvalidArgumentError("want a string");
  }
  value = json.get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadFlag(const Json& json, bool& value) {
  if (!json.is_boolean()) {
    return absl::InvalidArgumentError("want a boolean");
  }
  value = json.get<bool>();
  return absl::OkStatus();
}

// The members that say which calls are concerned. UNIMPLEMENTED: none of them.
absl::Status ReadCondition(const std::string& key, const Json& value, FaultRule& rule) {
  int64_t number = 0;
  if (key == "method") {
    return ReadText(value, rule.method);
  }
  if (key == "match") {
    return ReadText(value, rule.match);
  }
  if (key == "unless_secret") {
    rule.unless_secret = GetStringMap(value, {});
    return absl::OkStatus();
  }
  if (key == "skip") {
    return ReadCount(value, 0, rule.skip);
  }
  if (key == "every") {
    return ReadCount(value, 1, rule.every);
  }
  if (key == "percent") {
    return ReadCount(value, 0, rule.percent);
  }
  if (key == "seed") {
    RETURN_IF_ERROR(ReadCount(value, 0, number));
    rule.chance.seed(static_cast<uint64_t>(number));
    return absl::OkStatus();
  }
  if (key == "times") {
    RETURN_IF_ERROR(ReadCount(value, 0, number));
    rule.times = number;
    return absl::OkStatus();
  }
  return absl::UnimplementedError("unknown member");
}

StreamFault& StreamOf(FaultRule& rule) {
  return rule.stream.has_value() ? *rule.stream : rule.stream.emplace();
}

// The members that say where in a stream it happens. UNIMPLEMENTED: none of them.
absl::Status ReadBlobLocation(const std::string& key, const Json& value, FaultRule& rule) {
  if (key == "after_messages") {
    return ReadCount(value, 0, StreamOf(rule).after_messages);
  }
  if (key == "per_message") {
    return ReadFlag(value, StreamOf(rule).per_message);
  }
  if (key == "extent") {
    return ReadCount(value, 0, StreamOf(rule).extent);
  }
  if (key == "extents") {
    return ReadCount(value, 1, StreamOf(rule).extents);
  }
  return absl::UnimplementedError("unknown member");
}

// The members that say what happens, but for the error.
absl::Status ReadAction(const std::string& key, const Json& value, FaultRule& rule) {
  if (key == "delay_ms") {
    int64_t delay_ms = 0;
    RETURN_IF_ERROR(ReadCount(value, 0, delay_ms));
    rule.delay = absl::Milliseconds(delay_ms);
    return absl::OkStatus();
  }
  if (key == "hold") {
    return ReadFlag(value, rule.hold);
  }
  if (key == "after") {
    return ReadFlag(value, rule.after);
  }
  if (key == "lie") {
    Lie lie{};
    RETURN_IF_ERROR(Lookup(Lies(), value, lie));
    rule.lies.insert(lie);
    if (lie >= kFirstBlockLie) {
      StreamOf(rule);
    }
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("unknown member");
}

absl::Status ReadError(const Json& json, FaultRule& rule) {
  const Json* const code_name = FindJson(json, {"code"});
  if (code_name == nullptr) {
    return absl::OkStatus();
  }
  absl::StatusCode code{};
  RETURN_IF_ERROR(Annotate(Lookup(Codes(), *code_name, code), "code"));
  const std::string message = GetString(json, {"message"});
  rule.error = absl::Status(code, message.empty() ? "a fault that a test asked for" : message);
  return absl::OkStatus();
}

bool Concerns(const FaultRule& rule, const CallInfo& call) {
  const bool has_secrets = !rule.unless_secret.empty() &&
                           std::includes(call.secrets.begin(), call.secrets.end(),
                                         rule.unless_secret.begin(), rule.unless_secret.end());
  return (rule.method == "*" || rule.method == call.method) &&
         absl::StrContains(call.request, rule.match) && !has_secrets;
}

// Counts the call, and decides whether it is hit.
bool Hits(FaultRule& rule) {
  const int64_t turn = ++rule.seen - rule.skip;
  if (turn <= 0 || turn % rule.every != 0 || (rule.times.has_value() && rule.hits >= *rule.times) ||
      static_cast<int64_t>(rule.chance() % 100) >= rule.percent) {
    return false;
  }
  ++rule.hits;
  return true;
}

}  // namespace

absl::StatusOr<FaultRule> ParseFaultRule(const Json& json) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError("a rule is an object");
  }
  FaultRule rule;
  for (const auto& [key, value] : json.items()) {
    if (key == "code" || key == "message") {
      continue;  // Read together below.
    }
    absl::Status status = ReadCondition(key, value, rule);
    if (absl::IsUnimplemented(status)) {
      status = ReadBlobLocation(key, value, rule);
    }
    if (absl::IsUnimplemented(status)) {
      status = ReadAction(key, value, rule);
    }
    RETURN_IF_ERROR(Annotate(status, key));
  }
  RETURN_IF_ERROR(ReadError(json, rule));
  if (rule.stream.has_value()) {
    rule.stream->delay = rule.delay;
    rule.stream->hold = rule.hold;
    rule.stream->error = rule.error;
    rule.stream->lies = rule.lies;
  }
  return rule;
}

bool Verdict::Tells(Lie lie) const {
  return std::any_of(stream.begin(), stream.end(),
                     [lie](const StreamFault& fault) { return fault.lies.contains(lie); });
}

Verdict Faults::Enter(const CallInfo& call, const std::function<bool()>& cancelled) {
  std::unique_lock<std::mutex> lock(mutex_);
  ++counts_[call.method].started;
  changed_.notify_all();
  Plan plan = MakePlan(call);
  if (!Wait(lock, call.method, plan.delay, plan.hold, cancelled)) {
    plan.verdict.before = absl::CancelledError("the caller went away");
  }
  return plan.verdict;
}

bool Faults::Pause(const std::string& method, const StreamFault& fault,
                   const std::function<bool()>& cancelled) {
  std::unique_lock<std::mutex> lock(mutex_);
  return fault.clears != clears_ || Wait(lock, method, fault.delay, fault.hold, cancelled);
}

void Faults::Leave(const std::string& method, const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CallCount& count = counts_[method];
  ++count.finished;
  count.failed += status.ok() ? 0 : 1;
  changed_.notify_all();
}

void Faults::Add(std::vector<FaultRule> rules) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rules_.insert(rules_.end(), std::make_move_iterator(rules.begin()),
                std::make_move_iterator(rules.end()));
}

void Faults::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  rules_.clear();
  ++clears_;
  changed_.notify_all();
}

void Faults::Release(const std::string& method) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++releases_[method];
  changed_.notify_all();
}

std::map<std::string, CallCount> Faults::Counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

bool Faults::WaitFor(const std::string& method, const CallCount& at_least,
                     absl::Duration timeout) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout), [&] {
    const auto found = counts_.find(method);
    const CallCount count = found == counts_.end() ? CallCount{} : found->second;
    return count.started >= at_least.started && count.held >= at_least.held &&
           count.finished >= at_least.finished && count.failed >= at_least.failed;
  });
}

int64_t Faults::Releases(const std::string& method) const {
  int64_t releases = clears_;
  for (const auto& [name, count] : releases_) {
    releases += name == "*" || name == method ? count : 0;
  }
  return releases;
}

Faults::Plan Faults::MakePlan(const CallInfo& call) {
  Plan plan;
  for (FaultRule& rule : rules_) {
    if (!Concerns(rule, call) || !Hits(rule)) {
      continue;
    }
    if (rule.stream.has_value()) {
      plan.verdict.stream.push_back(*rule.stream);
      plan.verdict.stream.back().clears = clears_;
      continue;
    }
    plan.delay += rule.delay;
    plan.hold = plan.hold || rule.hold;
    (rule.after ? plan.verdict.after : plan.verdict.before).Update(rule.error);
    plan.verdict.lies.insert(rule.lies.begin(), rule.lies.end());
  }
  return plan;
}

// FALSE when the caller went away first.
bool Faults::Wait(std::unique_lock<std::mutex>& lock, const std::string& method,
                  absl::Duration delay, bool hold, const std::function<bool()>& cancelled) {
  const SteadyClock::time_point end = SteadyClock::now() + absl::ToChronoMilliseconds(delay);
  const int64_t clears = clears_;
  const int64_t releases = Releases(method);
  counts_[method].held += hold ? 1 : 0;
  changed_.notify_all();
  const auto over = [&] {
    return clears_ != clears ||
           (SteadyClock::now() >= end && (!hold || Releases(method) != releases));
  };
  bool here = true;
  while (here && !over()) {
    const SteadyClock::time_point poll = SteadyClock::now() + kCancelPoll;
    changed_.wait_until(lock, SteadyClock::now() < end ? std::min(end, poll) : poll);
    here = !cancelled();
  }
  counts_[method].held -= hold ? 1 : 0;
  return here;
}

}  // namespace csidelta::csi_driver
