#include "diffsnap/rest_server.h"

#include <algorithm>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace csidelta::diffsnap {
namespace {

using incremental::DifferentialError;
using incremental::DifferentialErrorCode;
using incremental::DifferentialPage;

constexpr char kRetryAfterSeconds[] = "1";

net::HttpResponse Answer(int status, absl::string_view type, std::string body) {
  net::HttpResponse response;
  response.status = status;
  response.headers["content-type"] = std::string(type);
  response.headers["cache-control"] = "no-store";
  response.body = std::move(body);
  return response;
}

net::HttpResponse ErrorAnswer(const DifferentialError& error) {
  net::HttpResponse response =
      Answer(HttpStatusOf(error.code), "application/json", EncodeError(error));
  if (response.status == 401) {
    response.headers["www-authenticate"] = "Bearer";
  } else if (response.status == 405) {
    response.headers["allow"] = "GET";
  } else if (response.status == 429 || response.status == 503) {
    response.headers["retry-after"] = kRetryAfterSeconds;
  }
  return response;
}

std::string Header(const net::HttpCall& call, const std::string& name) {
  const auto found = call.headers.find(name);
  return found == call.headers.end() ? "" : found->second;
}

bool AcceptsJson(absl::string_view accept) {
  if (accept.empty()) {
    return true;
  }
  for (const absl::string_view part : absl::StrSplit(accept, ',')) {
    const std::string range =
        absl::AsciiStrToLower(absl::StripAsciiWhitespace(part.substr(0, part.find(';'))));
    if (range == "application/json" || range == "application/*" || range == "*/*") {
      return true;
    }
  }
  return false;
}

// "" when none exists.
Secret BearerToken(absl::string_view authorization) {
  constexpr absl::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) {
    return Secret();
  }
  const absl::string_view token = absl::StripAsciiWhitespace(authorization.substr(kScheme.size()));
  return token.find_first_of(" ,") == token.npos ? Secret(std::string(token)) : Secret();
}

DifferentialError ErrorOf(const absl::Status& status) {
  DifferentialError error{.code = DifferentialErrorCode::kInternal,
                          .message = std::string(status.message())};
  if (absl::IsNotFound(status)) {
    error.code = DifferentialErrorCode::kNotFound;
  } else if (absl::IsInvalidArgument(status)) {
    error.code = DifferentialErrorCode::kInvalidArgument;
  } else if (absl::IsUnauthenticated(status)) {
    error.code = DifferentialErrorCode::kUnauthenticated;
  } else if (absl::IsPermissionDenied(status)) {
    error.code = DifferentialErrorCode::kPermissionDenied;
  } else if (absl::IsUnavailable(status)) {
    error.code = DifferentialErrorCode::kUnavailable;
  }
  return error;
}

}  // namespace

net::HttpResponse RestServer::Handle(const CallContext& ctx, const net::HttpCall& call) {
  const absl::string_view path = absl::string_view(call.target).substr(0, call.target.find('?'));
  if (call.method != "GET") {
    return ErrorAnswer(
        {.code = DifferentialErrorCode::kMethodNotAllowed, .message = "pages are read with GET"});
  }
  if (path == "/healthz") {
    return Health(*ctx.clock);
  }
  if (path == "/readyz") {
    return pairs_.is_synced() ? Answer(200, "text/plain", "ok\n")
                              : Answer(503, "text/plain", "the objects are still being read\n");
  }
  if (path == "/metrics") {
    return Answer(200, "text/plain; version=0.0.4", Metrics());
  }
  if (path == "/openapi.json") {
    return Answer(200, "application/json", std::string(OpenApiDocument()));
  }
  return HandlePage(ctx, call);
}

net::HttpResponse RestServer::HandlePage(const CallContext& ctx, const net::HttpCall& call) {
  const absl::Duration begun = ctx.clock->Uptime();
  {
    const MutexLock lock(mutex_);
    in_flight_.insert(begun);
  }
  const absl::Cleanup done = [&] {
    const MutexLock lock(mutex_);
    in_flight_.erase(in_flight_.find(begun));
  };
  const PageResult result = GetPage(ctx, call);
  const auto* const page = std::get_if<DifferentialPage>(&result);
  net::HttpResponse response = page != nullptr ? Answer(200, "application/json", EncodePage(*page))
                                               : ErrorAnswer(std::get<DifferentialError>(result));
  Count(page != nullptr ? "OK" : ErrorName(std::get<DifferentialError>(result).code),
        page != nullptr ? std::ssize(page->blocks) : 0, ctx.clock->Uptime() - begun);
  return response;
}

PageResult RestServer::GetPage(const CallContext& ctx, const net::HttpCall& call) {
  if (!AcceptsJson(Header(call, "accept"))) {
    return DifferentialError{.code = DifferentialErrorCode::kNotAcceptable,
                             .message = "there is only application/json"};
  }
  absl::StatusOr<PageQuery> query = ParsePageQuery(call.target);
  if (!query.ok()) {
    return ErrorOf(query.status());
  }
  query->entries_max = std::min(query->entries_max, options_.entries_max);
  const Secret token = BearerToken(Header(call, "authorization"));
  if (token.empty()) {
    return DifferentialError{.code = DifferentialErrorCode::kUnauthenticated,
                             .message = "give a token: Authorization: Bearer TOKEN"};
  }
  if (const absl::Status allowed = access_.Check(ctx, token, query->namespace_name, query->name);
      !allowed.ok()) {
    return ErrorOf(allowed);
  }
  return pages_.GetPage(ctx, *query);
}

void RestServer::Count(absl::string_view code, int64_t blocks, absl::Duration taken) {
  const MutexLock lock(mutex_);
  ++answers_[std::string(code)];
  blocks_ += blocks;
  page_seconds_ += absl::ToDoubleSeconds(taken);
}

net::HttpResponse RestServer::Health(const Clock& clock) const {
  std::vector<k8s::LoopAge> loops = options_.loops();
  {
    const MutexLock lock(mutex_);
    if (!in_flight_.empty()) {
      loops.push_back({.name = "the answer to a request for a page",
                       .age = clock.Uptime() - *in_flight_.begin()});
    }
  }
  return k8s::HealthOf(loops, options_.loop_age_max);
}

std::string RestServer::Metrics() const {
  const MutexLock lock(mutex_);
  std::string text =
      "# HELP csi_delta_diffsnap_requests_total Answers to requests for pages, by code.\n"
      "# TYPE csi_delta_diffsnap_requests_total counter\n";
  int64_t total = 0;
  for (const auto& [code, count] : answers_) {
    absl::StrAppend(&text, "csi_delta_diffsnap_requests_total{code=\"", code, "\"} ", count, "\n");
    total += count;
  }
  absl::StrAppend(
      &text,
      "# HELP csi_delta_diffsnap_blocks_total Changed blocks handed out.\n"
      "# TYPE csi_delta_diffsnap_blocks_total counter\n"
      "csi_delta_diffsnap_blocks_total ",
      blocks_,
      "\n# HELP csi_delta_diffsnap_request_seconds Time that requests for pages took.\n"
      "# TYPE csi_delta_diffsnap_request_seconds summary\n"
      "csi_delta_diffsnap_request_seconds_sum ",
      page_seconds_, "\ncsi_delta_diffsnap_request_seconds_count ", total,
      "\n# HELP csi_delta_diffsnap_requests_in_flight Requests for pages being answered.\n"
      "# TYPE csi_delta_diffsnap_requests_in_flight gauge\n"
      "csi_delta_diffsnap_requests_in_flight ",
      in_flight_.size(), "\n");
  return text;
}

}  // namespace csidelta::diffsnap
