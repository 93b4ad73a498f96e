#include "tests/host/gated_client.h"

#include <sys/types.h>

#include <csignal>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "k8s/object.h"

namespace csidelta::host {
namespace {

thread_local std::string current_user;

bool Matches(const std::string& pattern, absl::string_view text) {
  return pattern.empty() || pattern == "*" || pattern == text;
}

bool KillProcessOf(const std::string& file) {
  pid_t pid = 0;
  return std::ifstream(file) >> pid && pid > 1 && kill(pid, SIGKILL) == 0;
}

}  // namespace

void GatedClient::SetUser(const std::string& user) { current_user = user; }

void GatedClient::AddRule(Rule rule) {
  std::scoped_lock lock(mutex_);
  rules_.push_back({.rule = std::move(rule), .first_write = writes_});
}

void GatedClient::ClearRules() {
  std::scoped_lock lock(mutex_);
  rules_.clear();
}

std::vector<GatedCall> GatedClient::calls(const std::string& user) const {
  std::scoped_lock lock(mutex_);
  const auto found = calls_.find(user);
  return found == calls_.end() ? std::vector<GatedCall>() : found->second;
}

void GatedClient::ForgetCalls() {
  std::scoped_lock lock(mutex_);
  calls_.clear();
  forgotten_writes_ = writes_;
}

std::vector<GatedCall> GatedClient::kills() const {
  std::scoped_lock lock(mutex_);
  return kills_;
}

std::vector<int> GatedClient::hits() const {
  std::scoped_lock lock(mutex_);
  std::vector<int> all;
  for (const Counted& counted : rules_) {
    all.push_back(counted.hits);
  }
  return all;
}

bool GatedClient::Meets(Counted& counted) const {
  const Rule& rule = counted.rule;
  if (rule.kill.empty()) {
    return rule.every == 0 || ++counted.seen % rule.every == 0;
  }
  const int writes = writes_ - counted.first_write;
  return counted.hits == 0 &&
         (writes > rule.writes || (writes == rule.writes && ++counted.seen >= rule.call));
}

GatedClient::Verdict GatedClient::Admit(const std::string& verb, const k8s::ResourceType& type,
                                        absl::string_view namespace_name, absl::string_view name) {
  std::scoped_lock lock(mutex_);
  const GatedCall call = {absl::StrCat(verb, " ", type.plural, " ", namespace_name,
                                       namespace_name.empty() ? "" : "/", name),
                          writes_ - forgotten_writes_};
  calls_[current_user].push_back(call);
  Verdict verdict;
  for (Counted& counted : rules_) {
    const Rule& rule = counted.rule;
    if (!Matches(rule.user, current_user) || !Matches(rule.verb, verb) ||
        !Matches(rule.plural, type.plural) || !Meets(counted)) {
      continue;
    }
    ++counted.hits;
    if (!rule.kill.empty()) {
      if (KillProcessOf(rule.kill)) {
        kills_.push_back(call);
      }
      return {.refused = absl::UnavailableError("the caller was killed"), .lost = {}};
    }
    if (!rule.status.ok()) {
      verdict = rule.lost ? Verdict{{}, rule.status} : Verdict{rule.status, {}};
      break;
    }
  }
  if (verdict.refused.ok() && verb != "get" && verb != "list" && verb != "watch") {
    ++writes_;
  }
  return verdict;
}

absl::StatusOr<Json> GatedClient::Get(const CallContext& ctx, const k8s::ObjectKey& key) {
  const Verdict verdict = Admit("get", key.type, key.namespace_name, key.name);
  RETURN_IF_ERROR(verdict.refused);
  RETURN_IF_ERROR(verdict.lost);
  return behind_.Get(ctx, key);
}

absl::StatusOr<k8s::ObjectList> GatedClient::List(const CallContext& ctx,
                                                  const k8s::ResourceType& type,
                                                  absl::string_view namespace_name,
                                                  const k8s::ListOptions& options) {
  const Verdict verdict = Admit("list", type, namespace_name, "");
  RETURN_IF_ERROR(verdict.refused);
  RETURN_IF_ERROR(verdict.lost);
  return behind_.List(ctx, type, namespace_name, options);
}

absl::StatusOr<Json> GatedClient::Create(const CallContext& ctx, const k8s::ResourceType& type,
                                         absl::string_view namespace_name, const Json& object) {
  const Verdict verdict = Admit("create", type, namespace_name, k8s::Name(object));
  RETURN_IF_ERROR(verdict.refused);
  absl::StatusOr<Json> answer = behind_.Create(ctx, type, namespace_name, object);
  RETURN_IF_ERROR(verdict.lost);
  return answer;
}

absl::StatusOr<Json> GatedClient::DryRunCreate(const CallContext& ctx,
                                               const k8s::ResourceType& type,
                                               absl::string_view namespace_name,
                                               const Json& object) {
  const Verdict verdict = Admit("create", type, namespace_name, k8s::Name(object));
  RETURN_IF_ERROR(verdict.refused);
  return behind_.DryRunCreate(ctx, type, namespace_name, object);
}

absl::StatusOr<Json> GatedClient::CreateSubresource(const CallContext& ctx,
                                                    const k8s::ObjectKey& key,
                                                    absl::string_view subresource,
                                                    const Json& object) {
  const Verdict verdict = Admit("create", key.type, key.namespace_name, key.name);
  RETURN_IF_ERROR(verdict.refused);
  return behind_.CreateSubresource(ctx, key, subresource, object);
}

absl::StatusOr<Json> GatedClient::Update(const CallContext& ctx, const k8s::ObjectKey& key,
                                         const Json& object) {
  const Verdict verdict = Admit("update", key.type, key.namespace_name, key.name);
  RETURN_IF_ERROR(verdict.refused);
  absl::StatusOr<Json> answer = behind_.Update(ctx, key, object);
  RETURN_IF_ERROR(verdict.lost);
  return answer;
}

absl::StatusOr<Json> GatedClient::Patch(const CallContext& ctx, const k8s::ObjectKey& key,
                                        k8s::PatchKind kind, const Json& patch,
                                        absl::string_view subresource) {
  const Verdict verdict = Admit("patch", key.type, key.namespace_name, key.name);
  RETURN_IF_ERROR(verdict.refused);
  absl::StatusOr<Json> answer = behind_.Patch(ctx, key, kind, patch, subresource);
  RETURN_IF_ERROR(verdict.lost);
  return answer;
}

absl::Status GatedClient::Delete(const CallContext& ctx, const k8s::ObjectKey& key,
                                 const k8s::DeleteOptions& options) {
  const Verdict verdict = Admit("delete", key.type, key.namespace_name, key.name);
  RETURN_IF_ERROR(verdict.refused);
  const absl::Status answer = behind_.Delete(ctx, key, options);
  RETURN_IF_ERROR(verdict.lost);
  return answer;
}

absl::Status GatedClient::Watch(const CallContext& ctx, const k8s::ResourceType& type,
                                absl::string_view namespace_name, const k8s::WatchOptions& options,
                                absl::FunctionRef<bool(const k8s::WatchEvent&)> sink) {
  const Verdict verdict = Admit("watch", type, namespace_name, "");
  RETURN_IF_ERROR(verdict.refused);
  RETURN_IF_ERROR(verdict.lost);
  return behind_.Watch(ctx, type, namespace_name, options, sink);
}

}  // namespace csidelta::host
