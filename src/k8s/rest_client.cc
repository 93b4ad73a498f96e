#include "k8s/rest_client.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/rate_limiter.h"
#include "base/retry.h"
#include "base/status_macros.h"
#include "k8s/object.h"
#include "k8s/stream_decoder.h"
#include "k8s/token_source.h"
#include "net/http_client.h"

namespace csidelta::k8s {
namespace {

constexpr BackoffOptions kRetryBackoff = {
    .delay_first = absl::Milliseconds(100), .delay_max = absl::Seconds(5), .attempts_max = 12};
constexpr int kWatchedPageMax = 100;   // Objects that are held at once of a list that is followed.
constexpr int kListPagesMax = 10'000;  // A list that goes on beyond this does not end.
constexpr absl::Duration kRequestTimeMax = absl::Seconds(60);
constexpr int kWatchSecondsMin =
    240;  // Watches end on their own between these two, not all at once.
constexpr int kWatchSecondsMax = 300;
constexpr absl::Duration kWatchGrace = absl::Seconds(30);
// How long a server that is back may refuse what it allows, for it has not read its roles yet.
constexpr absl::Duration kRolesReadAfterMax = absl::Seconds(20);

using Query = std::vector<std::pair<std::string, std::string>>;

// One request to the API server, without what is common to all.
struct Call {
  std::string method;
  const ResourceType* type = nullptr;  // whose objects `target` has; null: none
  std::string target = {};
  std::string content_type = {};
  std::string body = {};
  bool may_be_repeated = true;
  // Set when an attempt ended without an answer, so that its effect is unknown; may be null.
  bool* is_unanswered = nullptr;
  absl::Duration time_max = kRequestTimeMax;
  bool is_tried_once = false;  // there is another way
  RateLimiter::Kind kind = RateLimiter::Kind::kBegins;
};

// What an attempt came to, and what may follow.
struct Attempt {
  absl::StatusOr<net::HttpResponse> response;
  absl::Status status;  // OK only for an HTTP status 2xx
  bool may_try_again = false;
  absl::Duration retry_after;
};

std::string TargetOf(const ResourceType& type, absl::string_view namespace_name,
                     absl::string_view name, absl::string_view subresource, const Query& query) {
  std::string target = type.group.empty() ? absl::StrCat("/api/", net::PercentEncode(type.version))
                                          : absl::StrCat("/apis/", net::PercentEncode(type.group),
                                                         "/", net::PercentEncode(type.version));
  if (!namespace_name.empty()) {
    absl::StrAppend(&target, "/namespaces/", net::PercentEncode(namespace_name));
  }
  absl::StrAppend(&target, "/", net::PercentEncode(type.plural));
  for (const absl::string_view segment : {name, subresource}) {
    if (!segment.empty()) {
      absl::StrAppend(&target, "/", net::PercentEncode(segment));
    }
  }
  absl::string_view separator = "?";
  for (const auto& [key, value] : query) {
    if (!value.empty()) {
      absl::StrAppend(&target, separator, key, "=", net::PercentEncode(value));
      separator = "&";
    }
  }
  return target;
}

std::string ApiVersion(const ResourceType& type) {
  return type.group.empty() ? type.version : absl::StrCat(type.group, "/", type.version);
}

// After reach_time_max.
absl::Status Unreached(const absl::Status& status) {
  return absl::UnavailableError(
      absl::StrCat("the API server does not answer: ", status.message(),
                   "; check the network, and the server's address in the kubeconfig"));
}

// Of an object that is not there it answers with a Status, of a kind that it does not serve with
// "404 page not found" (k8s.io/apiserver: pkg/server/mux/pathrecorder.go).
bool IsUnservedPath(const net::HttpResponse& response) {
  return response.status == 404 && absl::StartsWith(response.body, "404 page not found");
}

absl::Duration RetryAfter(const net::HttpResponse& response) {
  const auto found = response.headers.find("retry-after");
  int64_t seconds = 0;
  if (found == response.headers.end() || !absl::SimpleAtoi(found->second, &seconds)) {
    return absl::ZeroDuration();
  }
  return absl::Seconds(std::max<int64_t>(seconds, 0));
}

// What a list and a watch leave out of their objects.
void Identify(Json& object, const ResourceType& type) {
  if (object.is_object()) {
    object.emplace("apiVersion", ApiVersion(type));
    object.emplace("kind", type.kind);
  }
}

absl::Status CheckKey(const ObjectKey& key) {
  if (key.name.empty() || key.name == "." || key.name == "..") {
    return absl::InvalidArgumentError("an object's name is missing");
  }
  if (key.type.namespaced == key.namespace_name.empty()) {
    return absl::InvalidArgumentError(key.type.namespaced ? "the namespace is missing"
                                                          : "the kind has no namespaces");
  }
  return absl::OkStatus();
}

// Whether a stored object is one that was sent: it has all that was said of it. The server and
// webhooks add members, append to lists, leave out what is empty, and take no status from a create.
bool Holds(const Json& stored, const Json& sent) {
  if (sent.is_object()) {
    for (const auto& [name, value] : sent.items()) {
      const auto found = stored.is_object() ? stored.find(name) : stored.end();
      const bool is_absent = !stored.is_object() || found == stored.end();
      const bool is_nothing = value.is_null() || (value.is_structured() && value.empty());
      if (is_absent ? !is_nothing : !Holds(*found, value)) {
        return false;
      }
    }
    return true;
  }
  if (sent.is_array()) {
    return stored.is_array() && std::all_of(sent.begin(), sent.end(), [&](const Json& item) {
             return std::any_of(stored.begin(), stored.end(),
                                [&](const Json& kept) { return Holds(kept, item); });
           });
  }
  return sent.is_null() || stored == sent;
}

bool WasCreatedFrom(const Json& stored, Json sent) {
  sent.erase("status");
  sent.erase("apiVersion");
  sent.erase("kind");
  return Holds(stored, sent);
}

// When the server was last away. Thread-safe.
class Absence {
 public:
  void Note(const Clock& clock) {
    const MutexLock lock(mutex_);
    last_ = clock.Uptime();
  }

  bool WasRecent(const Clock& clock) const {
    const MutexLock lock(mutex_);
    return last_.has_value() && clock.Uptime() < *last_ + kRolesReadAfterMax;
  }

 private:
  mutable Mutex mutex_;
  std::optional<absl::Duration> last_ ABSL_GUARDED_BY(mutex_);  // An uptime
};

std::string EscapeHeaderName(absl::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        absl::StrContains("!#$&'*+-.^_`|~", c)) {
      escaped.push_back(c);
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation. A key
// of `extra` is written with percent signs where a header's name cannot hold it.
void AddImpersonation(const Impersonation& as, net::HttpRequest& request) {
  if (as.user.empty()) {
    return;
  }
  request.headers.emplace_back("Impersonate-User", as.user);
  if (!as.uid.empty()) {
    request.headers.emplace_back("Impersonate-Uid", as.uid);
  }
  for (const std::string& group : as.groups) {
    request.headers.emplace_back("Impersonate-Group", group);
  }
  for (const auto& [key, values] : as.extra) {
    for (const std::string& value : values) {
      request.headers.emplace_back(absl::StrCat("Impersonate-Extra-", EscapeHeaderName(key)),
                                   value);
    }
  }
}

// The connection to the API server, once the configuration is known.
struct Backend {
  Backend(ClusterConfig cluster_config, net::HttpClientOptions options)
      : config(std::move(cluster_config)),
        http(std::move(options)),
        tokens(config.token_path, config.token) {}

  const ClusterConfig config;
  net::HttpClient http;
  TokenSource tokens;
};

class RestClient : public ApiClient {
 public:
  RestClient(ClientSettings settings, Random& random)
      : settings_(std::move(settings)), random_(random), limiter_(settings_.qps, settings_.burst) {}

  absl::StatusOr<Json> Get(const CallContext& ctx, const ObjectKey& key) override;
  absl::StatusOr<ObjectList> List(const CallContext& ctx, const ResourceType& type,
                                  absl::string_view namespace_name,
                                  const ListOptions& options) override;
  absl::StatusOr<std::string> ListPages(const CallContext& ctx, const ResourceType& type,
                                        absl::string_view namespace_name,
                                        const ListOptions& options, PageSink sink) override;
  absl::StatusOr<std::string> ListWanted(const CallContext& ctx, const ResourceType& type,
                                         absl::string_view namespace_name, NameFilter is_wanted,
                                         PageSink sink) override;
  absl::StatusOr<Json> Create(const CallContext& ctx, const ResourceType& type,
                              absl::string_view namespace_name, const Json& object) override;
  absl::StatusOr<Json> DryRunCreate(const CallContext& ctx, const ResourceType& type,
                                    absl::string_view namespace_name, const Json& object) override;
  absl::StatusOr<Json> CreateSubresource(const CallContext& ctx, const ObjectKey& key,
                                         absl::string_view subresource,
                                         const Json& object) override;
  absl::StatusOr<Json> Update(const CallContext& ctx, const ObjectKey& key,
                              const Json& object) override;
  absl::StatusOr<Json> Patch(const CallContext& ctx, const ObjectKey& key, PatchKind kind,
                             const Json& patch, absl::string_view subresource) override;
  absl::Status Delete(const CallContext& ctx, const ObjectKey& key,
                      const DeleteOptions& options) override;
  absl::Status Watch(const CallContext& ctx, const ResourceType& type,
                     absl::string_view namespace_name, const WatchOptions& options,
                     WatchSink sink) override;
  absl::StatusOr<std::string> ReadLog(const CallContext& ctx, const ObjectKey& pod,
                                      const std::string& container, bool previous) override;

 private:
  using BodySink = absl::FunctionRef<bool(absl::string_view)>;

  // Sends `call`, whose target is `key`, and returns the object that comes back.
  absl::StatusOr<Json> OnObject(const CallContext& ctx, absl::string_view verb,
                                const ObjectKey& key, absl::string_view subresource, Call call);
  static std::string WhatIsListed(const ResourceType& type, absl::string_view namespace_name);

  static std::string AskedRevision(const ListOptions& options) {
    return options.may_be_old ? "0" : options.exactly_at;
  }

  absl::StatusOr<std::string> EachPage(const CallContext& ctx, const ResourceType& type,
                                       absl::string_view namespace_name, const ListOptions& options,
                                       int page_items_max, PageSink sink);

  // Whether a list that the server did not give in one answer may be had in pages, from its store:
  // its memory may be behind, or the answer has broken off.
  static bool MayBeReadInPages(const absl::Status& status);

  // A server gives out of its memory only what is not asked for in pages. It is asked once.
  absl::StatusOr<std::string> ListInOneAnswer(const CallContext& ctx, const ResourceType& type,
                                              absl::string_view namespace_name,
                                              const ListOptions& options,
                                              std::optional<NameFilter> is_wanted, PageSink sink);
  absl::StatusOr<Json> RunJson(const CallContext& ctx, const Call& call);

  // Sends `call` until it is answered for good. `got_bytes`, if any, forbids to try again once
  // true.
  absl::StatusOr<net::HttpResponse> Run(const CallContext& ctx, const Call& call,
                                        const BodySink* sink, const bool* got_bytes);
  Attempt TryOnce(const CallContext& ctx, Backend& backend, const Call& call,
                  const std::string& token, const BodySink* sink);
  absl::StatusOr<net::HttpRequest> BuildRequest(const ClusterConfig& config, const Call& call,
                                                const std::string& token) const;

  // A connection, and what to say on it.
  struct Access {
    std::shared_ptr<Backend> backend;
    std::string token;
    std::optional<ExecCredential> credential = {};  // of a log-in program
  };

  absl::StatusOr<Access> LogIn(const CallContext& ctx);

  // Whether the server has not read its roles yet: it refuses what Kubernetes allows to every user
  // (role system:discovery). A client that starts during a restart has not seen it away.
  bool RefusesEverybody(const CallContext& ctx, const Access& access);

  // Whether a refused request may be made once more, with other credentials.
  bool MayBeRefreshed(const CallContext& ctx, const Access& access);

  // The connection with the client certificate of a log-in program; a new one where that has
  // changed.
  std::shared_ptr<Backend> WithCertificate(const ExecCredential& credential);
  std::shared_ptr<Backend> MakeBackend(ClusterConfig config) const;

  // Reads the configuration at the first call, and again as long as it is broken.
  absl::StatusOr<std::shared_ptr<Backend>> TheBackend();

  const ClientSettings settings_;
  Random& random_;
  RateLimiter limiter_;
  Absence absence_;
  std::atomic<bool> has_answered_ = false;
  std::atomic<bool> refuses_version_ = false;  // And went on to: an administrator took that right.
  Mutex mutex_;                                // Guards backend_.
  std::shared_ptr<Backend> backend_
      ABSL_GUARDED_BY(mutex_);        // Changes only with the certificate of a log-in program.
  std::unique_ptr<ExecLogin> login_;  // Made with backend_, and never changed.
};

absl::StatusOr<Json> RestClient::Get(const CallContext& ctx, const ObjectKey& key) {
  return OnObject(ctx, "get", key, "", Call{.method = "GET"});
}

absl::StatusOr<ObjectList> RestClient::List(const CallContext& ctx, const ResourceType& type,
                                            absl::string_view namespace_name,
                                            const ListOptions& options) {
  ObjectList list;
  const auto gather = [&](std::vector<Json>& page, bool is_first) {
    if (is_first) {
      list.items.clear();
    }
    absl::c_move(page, std::back_inserter(list.items));
  };
  absl::StatusOr<std::string> version =
      EachPage(ctx, type, namespace_name, options, settings_.page_items_max, gather);
  if (absl::IsOutOfRange(version.status())) {
    // The list grew too old between two pages: all of it at once, which does not grow old.
    version = EachPage(ctx, type, namespace_name, options, 0, gather);
  }
  ASSIGN_OR_RETURN(list.resource_version,
                   Annotate(std::move(version), WhatIsListed(type, namespace_name)));
  return list;
}

absl::StatusOr<std::string> RestClient::ListPages(const CallContext& ctx, const ResourceType& type,
                                                  absl::string_view namespace_name,
                                                  const ListOptions& options, PageSink sink) {
  if (options.in_one_answer) {
    absl::StatusOr<std::string> version =
        ListInOneAnswer(ctx, type, namespace_name, options, std::nullopt, sink);
    if (version.ok() || !MayBeReadInPages(version.status())) {
      return Annotate(std::move(version), WhatIsListed(type, namespace_name));
    }
  }
  const int items_max = options.page_items_max > 0 ? options.page_items_max : kWatchedPageMax;
  return Annotate(EachPage(ctx, type, namespace_name, options,
                           std::min(settings_.page_items_max, items_max), sink),
                  WhatIsListed(type, namespace_name));
}

absl::StatusOr<std::string> RestClient::ListWanted(const CallContext& ctx, const ResourceType& type,
                                                   absl::string_view namespace_name,
                                                   NameFilter is_wanted, PageSink sink) {
  absl::StatusOr<std::string> version =
      ListInOneAnswer(ctx, type, namespace_name, {.may_be_old = true}, is_wanted, sink);
  if (!version.ok() && MayBeReadInPages(version.status())) {
    return ListPages(ctx, type, namespace_name, {}, sink);
  }
  return Annotate(std::move(version), WhatIsListed(type, namespace_name));
}

absl::StatusOr<Json> RestClient::Create(const CallContext& ctx, const ResourceType& type,
                                        absl::string_view namespace_name, const Json& object) {
  const ObjectKey key = {type, std::string(namespace_name), Name(object)};
  const std::string what = absl::StrCat("create ", ToString(key));
  bool is_unanswered = false;
  absl::StatusOr<Json> created =
      RunJson(ctx, Call{.method = "POST",
                        .type = &type,
                        .target = TargetOf(type, namespace_name, "", "", {}),
                        .content_type = "application/json",
                        .body = DumpJson(object),
                        .may_be_repeated = !key.name.empty(),
                        .is_unanswered = &is_unanswered});
  if (absl::IsAlreadyExists(created.status()) && is_unanswered) {
    // An attempt whose answer was lost may have made it.
    absl::StatusOr<Json> there = Get(ctx, key);
    if (there.ok() && WasCreatedFrom(*there, object)) {
      created = std::move(there);
    } else if (!there.ok() && !absl::IsNotFound(there.status())) {
      return Annotate(there.status(), what);
    }
  }
  ASSIGN_OR_RETURN(Json stored, Annotate(std::move(created), what));
  Identify(stored, type);
  return stored;
}

absl::StatusOr<Json> RestClient::DryRunCreate(const CallContext& ctx, const ResourceType& type,
                                              absl::string_view namespace_name,
                                              const Json& object) {
  const ObjectKey key = {type, std::string(namespace_name), Name(object)};
  const Call call{.method = "POST",
                  .type = &type,
                  .target = TargetOf(type, namespace_name, "", "", {{"dryRun", "All"}}),
                  .content_type = "application/json",
                  .body = DumpJson(object)};
  ASSIGN_OR_RETURN(Json answer,
                   Annotate(RunJson(ctx, call), absl::StrCat("create (dry run) ", ToString(key))));
  Identify(answer, type);
  return answer;
}

absl::StatusOr<Json> RestClient::CreateSubresource(const CallContext& ctx, const ObjectKey& key,
                                                   absl::string_view subresource,
                                                   const Json& object) {
  return OnObject(
      ctx, absl::StrCat("create ", subresource, " of"), key, subresource,
      Call{.method = "POST", .content_type = "application/json", .body = DumpJson(object)});
}

absl::StatusOr<Json> RestClient::Update(const CallContext& ctx, const ObjectKey& key,
                                        const Json& object) {
  return OnObject(
      ctx, "update", key, "",
      Call{.method = "PUT", .content_type = "application/json", .body = DumpJson(object)});
}

absl::StatusOr<Json> RestClient::Patch(const CallContext& ctx, const ObjectKey& key, PatchKind kind,
                                       const Json& patch, absl::string_view subresource) {
  const bool is_merge = kind == PatchKind::kMerge;
  return OnObject(ctx, "patch", key, subresource,
                  Call{.method = "PATCH",
                       .content_type = is_merge ? "application/merge-patch+json"
                                                : "application/json-patch+json",
                       .body = DumpJson(patch),
                       .may_be_repeated = is_merge});
}

absl::Status RestClient::Delete(const CallContext& ctx, const ObjectKey& key,
                                const DeleteOptions& options) {
  Json body = {
      {"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", "Background"}};
  if (!options.uid.empty()) {
    SetJson(body, {"preconditions", "uid"}, options.uid);
  }
  if (!options.resource_version.empty()) {
    SetJson(body, {"preconditions", "resourceVersion"}, options.resource_version);
  }
  if (options.at_once) {
    body["gracePeriodSeconds"] = 0;
  }
  return OnObject(ctx, "delete", key, "",
                  Call{.method = "DELETE",
                       .content_type = "application/json",
                       .body = DumpJson(body),
                       .kind = RateLimiter::Kind::kGoesOn})
      .status();
}

absl::Status RestClient::Watch(const CallContext& ctx, const ResourceType& type,
                               absl::string_view namespace_name, const WatchOptions& options,
                               WatchSink sink) {
  const int seconds =
      kWatchSecondsMin + static_cast<int>(random_.Below(kWatchSecondsMax - kWatchSecondsMin + 1));
  const Query query = {{"watch", "true"},
                       {"allowWatchBookmarks", "true"},
                       {"timeoutSeconds", std::to_string(seconds)},
                       {"resourceVersion", options.resource_version},
                       {"labelSelector", options.label_selector},
                       {"fieldSelector", options.field_selector}};
  const Call call{.method = "GET",
                  .type = &type,
                  .target = TargetOf(type, namespace_name, "", "", query),
                  .time_max = absl::Seconds(seconds) + kWatchGrace,
                  .kind = RateLimiter::Kind::kGoesOn};
  WatchDecoder decoder;
  absl::Status decoded;
  const auto identified = [&](const WatchEvent& event) {
    if (event.object.contains("kind")) {
      return sink(event);
    }
    WatchEvent complete = event;
    Identify(complete.object, type);
    return sink(complete);
  };
  bool got_bytes = false;
  bool is_done = false;
  const auto feed = [&](absl::string_view bytes) {
    got_bytes = true;
    const absl::StatusOr<bool> more = decoder.Feed(bytes, identified);
    decoded = more.status();
    is_done = !more.ok() || !*more;
    return !is_done;
  };
  const absl::FunctionRef<bool(absl::string_view)> body_sink(feed);
  absl::Status status = Run(ctx, call, &body_sink, &got_bytes).status();
  if (is_done) {
    status = decoded;
  }
  return Annotate(status, absl::StrCat("watch ", ToString(type)));
}

absl::StatusOr<std::string> RestClient::ReadLog(const CallContext& ctx, const ObjectKey& pod,
                                                const std::string& container, bool previous) {
  const Query query = {{"container", container},
                       {"previous", previous ? "true" : ""},
                       {"tailLines", "2000"},
                       {"limitBytes", "8388608"}};
  const Call call{.method = "GET",
                  .type = &pod.type,
                  .target = TargetOf(pod.type, pod.namespace_name, pod.name, "log", query)};
  ASSIGN_OR_RETURN(net::HttpResponse response, Annotate(Run(ctx, call, nullptr, nullptr),
                                                        absl::StrCat("log of ", ToString(pod))));
  return std::move(response.body);
}

absl::StatusOr<Json> RestClient::OnObject(const CallContext& ctx, absl::string_view verb,
                                          const ObjectKey& key, absl::string_view subresource,
                                          Call call) {
  const std::string what = absl::StrCat(verb, " ", ToString(key));
  RETURN_IF_ERROR(Annotate(CheckKey(key), what));
  call.type = &key.type;
  call.target = TargetOf(key.type, key.namespace_name, key.name, subresource, {});
  ASSIGN_OR_RETURN(Json object, Annotate(RunJson(ctx, call), what));
  Identify(object, key.type);
  return object;
}

std::string RestClient::WhatIsListed(const ResourceType& type, absl::string_view namespace_name) {
  return absl::StrCat("list ", ToString(type), namespace_name.empty() ? "" : " in ",
                      namespace_name);
}

absl::StatusOr<std::string> RestClient::EachPage(const CallContext& ctx, const ResourceType& type,
                                                 absl::string_view namespace_name,
                                                 const ListOptions& options, int page_items_max,
                                                 PageSink sink) {
  std::string next;
  int pages = 0;
  while (true) {
    if (++pages > kListPagesMax) {
      return absl::InternalError(absl::StrCat("a list of more than ", kListPagesMax, " pages"));
    }
    const Query query = {
        {"limit", page_items_max > 0 ? std::to_string(page_items_max) : ""},
        {"continue", next},
        // A token says by itself which revision it goes on with.
        {"resourceVersion", next.empty() ? AskedRevision(options) : ""},
        {"resourceVersionMatch", next.empty() && !options.exactly_at.empty() ? "Exact" : ""},
        {"labelSelector", options.label_selector},
        {"fieldSelector", options.field_selector}};
    ASSIGN_OR_RETURN(Json page,
                     RunJson(ctx, Call{.method = "GET",
                                       .type = &type,
                                       .target = TargetOf(type, namespace_name, "", "", query)}));
    std::vector<Json> objects;
    const auto items = page.find("items");
    if (items != page.end() && items->is_array()) {
      for (Json& item : *items) {
        Identify(item, type);
        objects.push_back(std::move(item));
      }
    }
    sink(objects, pages == 1);
    next = GetString(page, {"metadata", "continue"});
    if (next.empty()) {
      return ResourceVersion(page);
    }
  }
}

bool RestClient::MayBeReadInPages(const absl::Status& status) {
  return IsRetryable(status) || absl::IsOutOfRange(status) || absl::IsInternal(status) ||
         absl::IsInvalidArgument(status);
}

absl::StatusOr<std::string> RestClient::ListInOneAnswer(
    const CallContext& ctx, const ResourceType& type, absl::string_view namespace_name,
    const ListOptions& options, std::optional<NameFilter> is_wanted, PageSink sink) {
  const Query query = {{"resourceVersion", AskedRevision(options)},
                       {"resourceVersionMatch", options.exactly_at.empty() ? "" : "Exact"},
                       {"labelSelector", options.label_selector},
                       {"fieldSelector", options.field_selector}};
  const Call call{.method = "GET",
                  .type = &type,
                  .target = TargetOf(type, namespace_name, "", "", query),
                  .is_tried_once = true};
  ListDecoder decoder(is_wanted);
  std::vector<Json> page;
  bool is_first = true;
  const auto pass_on = [&] {
    sink(page, std::exchange(is_first, false));
    page.clear();
  };
  absl::Status decoded;
  bool got_bytes = false;
  const auto feed = [&](absl::string_view bytes) {
    got_bytes = true;
    decoded = decoder.Feed(bytes, [&](Json object) {
      Identify(object, type);
      page.push_back(std::move(object));
      if (page.size() >= static_cast<std::size_t>(kWatchedPageMax)) {
        pass_on();
      }
    });
    return decoded.ok();
  };
  const absl::FunctionRef<bool(absl::string_view)> body_sink(feed);
  const absl::Status status = Run(ctx, call, &body_sink, &got_bytes).status();
  RETURN_IF_ERROR(decoded);
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(const Json list, decoder.Finish());
  if (is_first || !page.empty()) {
    pass_on();
  }
  return ResourceVersion(list);
}

absl::StatusOr<Json> RestClient::RunJson(const CallContext& ctx, const Call& call) {
  ASSIGN_OR_RETURN(const net::HttpResponse response, Run(ctx, call, nullptr, nullptr));
  return ParseAnswer(response.body, "the server's answer");
}

absl::StatusOr<net::HttpResponse> RestClient::Run(const CallContext& ctx, const Call& call,
                                                  const BodySink* sink, const bool* got_bytes) {
  Backoff backoff(kRetryBackoff, random_);
  bool refreshed = false;
  std::optional<CallContext> first;  // until the server has answered once
  while (true) {
    RETURN_IF_ERROR(limiter_.Take(ctx, 1, call.kind));
    ASSIGN_OR_RETURN(const Access access, LogIn(ctx));
    if (!first.has_value()) {  // The log-in may have asked a person.
      first = ctx.WithTimeout(settings_.reach_time_max);
    }
    Attempt attempt = TryOnce(ctx, *access.backend, call, access.token, sink);
    if (attempt.status.ok()) {
      return attempt.response;
    }
    bool may_be_unread = false;
    if (absl::IsUnavailable(attempt.status)) {
      absence_.Note(*ctx.clock);
    } else if (absl::IsPermissionDenied(attempt.status)) {
      may_be_unread = absence_.WasRecent(*ctx.clock) ||
                      (backoff.attempts() == 1 && RefusesEverybody(ctx, access));
      refuses_version_ = refuses_version_ || (backoff.attempts() > 1 && !may_be_unread);
      attempt.may_try_again = may_be_unread;
    }
    if (absl::IsUnauthenticated(attempt.status) && !refreshed && MayBeRefreshed(ctx, access)) {
      refreshed = true;
      continue;
    }
    const bool is_streaming = got_bytes != nullptr && *got_bytes;
    if (!attempt.may_try_again || (call.is_tried_once && !may_be_unread) || is_streaming ||
        !backoff.MayTryAgain()) {
      return attempt.status;
    }
    const absl::Duration delay = std::max(backoff.NextDelay(), attempt.retry_after);
    if (delay >= ctx.TimeLeft()) {
      return attempt.status;
    }
    if (!has_answered_ && delay >= first->TimeLeft()) {
      return Unreached(attempt.status);
    }
    CSIDELTA_LOG(kDebug, "API request failed, trying again", {"target", call.target},
                 {"status", attempt.status.ToString()},
                 {"attempt", std::to_string(backoff.attempts())});
    ctx.clock->SleepFor(delay, ctx.stop);
    RETURN_IF_ERROR(ctx.Check());
  }
}

bool RestClient::RefusesEverybody(const CallContext& ctx, const Access& access) {
  if (refuses_version_) {
    return false;
  }
  const Call version{.method = "GET", .target = "/version"};
  if (!absl::IsPermissionDenied(
          TryOnce(ctx, *access.backend, version, access.token, nullptr).status)) {
    return false;
  }
  absence_.Note(*ctx.clock);
  return true;
}

Attempt RestClient::TryOnce(const CallContext& ctx, Backend& backend, const Call& call,
                            const std::string& token, const BodySink* sink) {
  const CallContext limited = ctx.WithTimeout(call.time_max);
  Attempt attempt;
  const absl::StatusOr<net::HttpRequest> request = BuildRequest(backend.config, call, token);
  if (!request.ok()) {
    attempt.status = request.status();
    return attempt;
  }
  attempt.response = sink == nullptr ? backend.http.Send(limited, *request)
                                     : backend.http.Stream(limited, *request, *sink);
  if (!attempt.response.ok()) {
    attempt.status = attempt.response.status();
    if (absl::IsDeadlineExceeded(attempt.status) && ctx.Check().ok()) {
      attempt.status = absl::UnavailableError("no answer in time");
    }
    const bool not_sent = net::SurelyNotSent(attempt.response.status());
    if (!not_sent && call.is_unanswered != nullptr) {
      *call.is_unanswered = true;
    }
    if (not_sent && absl::IsNotFound(attempt.status)) {
      // A host that cannot be found is no object that cannot be found.
      attempt.status = absl::UnavailableError(attempt.status.message());
    }
    attempt.may_try_again = IsRetryable(attempt.status) && (call.may_be_repeated || not_sent);
    return attempt;
  }
  const net::HttpResponse& response = *attempt.response;
  has_answered_ = has_answered_ || response.status < 500;
  if (response.status >= 200 && response.status < 300) {
    return attempt;
  }
  attempt.status = StatusFromAnswer(response.status, response.body);
  if (IsUnservedPath(response) && call.type != nullptr) {
    attempt.status = absl::NotFoundError(
        settings_.explain_unserved != nullptr
            ? settings_.explain_unserved(*call.type)
            : absl::StrCat("the API server does not serve the kind ", call.type->kind));
  }
  attempt.retry_after = RetryAfter(response);
  const bool turned_away = response.status == 429 || response.headers.contains("retry-after") ||
                           IsWebhookAway(attempt.status.message());
  if (response.status / 100 == 5 && !turned_away && call.is_unanswered != nullptr) {
    *call.is_unanswered = true;
  }
  attempt.may_try_again =
      (absl::IsUnavailable(attempt.status) || absl::IsResourceExhausted(attempt.status)) &&
      (turned_away || call.may_be_repeated);
  return attempt;
}

absl::StatusOr<net::HttpRequest> RestClient::BuildRequest(const ClusterConfig& config,
                                                          const Call& call,
                                                          const std::string& token) const {
  net::HttpRequest request{.method = call.method, .url = {}, .headers = {}, .body = call.body};
  ASSIGN_OR_RETURN(request.url, net::ParseUrl(absl::StrCat(config.server, call.target)));
  request.headers = {
      {"Accept", "application/json"},
      {"User-Agent", absl::StrCat("velero-plugin-for-csi-delta/", settings_.version)}};
  if (!call.content_type.empty()) {
    request.headers.emplace_back("Content-Type", call.content_type);
  }
  AddImpersonation(config.impersonation, request);
  if (!token.empty()) {
    request.headers.emplace_back("Authorization", absl::StrCat("Bearer ", token));
  } else if (!config.username.empty()) {
    const std::string pair = absl::StrCat(config.username, ":", config.password);
    request.headers.emplace_back("Authorization", absl::StrCat("Basic ", absl::Base64Escape(pair)));
  }
  return request;
}

absl::StatusOr<RestClient::Access> RestClient::LogIn(const CallContext& ctx) {
  ASSIGN_OR_RETURN(std::shared_ptr<Backend> backend, TheBackend());
  if (login_ == nullptr) {
    ASSIGN_OR_RETURN(std::string token, backend->tokens.Token(*ctx.clock));
    return Access{.backend = std::move(backend), .token = std::move(token)};
  }
  ASSIGN_OR_RETURN(const ExecCredential credential,
                   Annotate(login_->Credential(ctx), "cannot reach the API server"));
  return Access{
      .backend = WithCertificate(credential), .token = credential.token, .credential = credential};
}

bool RestClient::MayBeRefreshed(const CallContext& ctx, const Access& access) {
  if (access.credential.has_value()) {
    login_->Refuse(*access.credential);
    return true;
  }
  return access.backend->tokens.Refresh(*ctx.clock, access.token);
}

std::shared_ptr<Backend> RestClient::WithCertificate(const ExecCredential& credential) {
  const MutexLock lock(mutex_);
  if (!credential.client_certificate_pem.empty() &&
      credential.client_certificate_pem != backend_->config.client_certificate_pem) {
    ClusterConfig config = backend_->config;
    config.client_certificate_pem = credential.client_certificate_pem;
    config.client_key_pem = credential.client_key_pem;
    backend_ = MakeBackend(std::move(config));
  }
  return backend_;
}

std::shared_ptr<Backend> RestClient::MakeBackend(ClusterConfig config) const {
  net::HttpClientOptions options;
  options.tls = {.ca_pem = config.ca_pem,
                 .client_certificate_pem = config.client_certificate_pem,
                 .client_key_pem = config.client_key_pem,
                 .server_name = config.tls_server_name,
                 .insecure_skip_verify = config.insecure_skip_tls_verify};
  options.proxy = settings_.proxy;
  options.proxy.always = config.proxy_url;
  return std::make_shared<Backend>(std::move(config), std::move(options));
}

absl::StatusOr<std::shared_ptr<Backend>> RestClient::TheBackend() {
  const MutexLock lock(mutex_);
  if (backend_ != nullptr) {
    return backend_;
  }
  absl::StatusOr<ClusterConfig> config = LoadClusterConfig(settings_, &ReadFile);
  if (!config.ok()) {
    // Whatever is wrong, it is not about the object of this call.
    return absl::FailedPreconditionError(
        absl::StrCat("cannot reach the API server: ", config.status().message()));
  }
  if (config->exec.has_value()) {
    login_ = std::make_unique<ExecLogin>(*config, settings_.run_exec, settings_.has_terminal);
  }
  backend_ = MakeBackend(*std::move(config));
  return backend_;
}

}  // namespace

std::unique_ptr<ApiClient> MakeClient(ClientSettings settings, Random& random) {
  return std::make_unique<RestClient>(std::move(settings), random);
}

}  // namespace csidelta::k8s
