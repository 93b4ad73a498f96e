#include "tests/support/api_test_server.h"

#include <algorithm>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "net/url.h"

namespace csidelta::support {
namespace {

using Query = std::map<std::string, std::string>;

// How many lists are remembered for their later pages.
constexpr std::size_t kListingsMax = 8;

struct ErrorWords {
  int code;
  const char* reason;
};

ErrorWords FailureMessage(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kNotFound:
      return {404, "NotFound"};
    case absl::StatusCode::kAlreadyExists:
      return {409, "AlreadyExists"};
    case absl::StatusCode::kAborted:
      return {409, "Conflict"};
    case absl::StatusCode::kInvalidArgument:
      return {422, "Invalid"};
    case absl::StatusCode::kUnauthenticated:
      return {401, "Unauthorized"};
    case absl::StatusCode::kPermissionDenied:
      return {403, "Forbidden"};
    case absl::StatusCode::kOutOfRange:
      return {410, "Expired"};
    case absl::StatusCode::kResourceExhausted:
      return {429, "TooManyRequests"};
    default:
      return {503, "ServiceUnavailable"};
  }
}

Json StatusObject(const absl::Status& status) {
  const ErrorWords words = FailureMessage(status.code());
  return Json{{"kind", "Status"},       {"apiVersion", "v1"},
              {"status", "Failure"},    {"message", std::string(status.message())},
              {"reason", words.reason}, {"code", words.code}};
}

void SendError(const absl::Status& status, ServedConnection& connection) {
  if (absl::StrContains(status.message(), "could not find the requested resource")) {
    connection.Send(404, "404 page not found\n");  // not a Status, as a real one
    return;
  }
  connection.Send(FailureMessage(status.code()).code, DumpJson(StatusObject(status)),
                  {{"Content-Type", "application/json"}});
}

void SendObject(const absl::StatusOr<Json>& object, int code, ServedConnection& connection) {
  if (!object.ok()) {
    SendError(object.status(), connection);
    return;
  }
  connection.Send(code, DumpJson(*object), {{"Content-Type", "application/json"}});
}

Query ParseQuery(const std::string& text) {
  Query query;
  for (const absl::string_view pair : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    query[parts.front()] = net::PercentDecode(parts.back());
  }
  return query;
}

std::string Value(const Query& query, const std::string& key) {
  const auto found = query.find(key);
  return found == query.end() ? "" : found->second;
}

const char* EventType(k8s::WatchEvent::Kind kind) {
  switch (kind) {
    case k8s::WatchEvent::Kind::kAdded:
      return "ADDED";
    case k8s::WatchEvent::Kind::kModified:
      return "MODIFIED";
    case k8s::WatchEvent::Kind::kDeleted:
      return "DELETED";
    case k8s::WatchEvent::Kind::kBookmark:
      return "BOOKMARK";
  }
  return "";
}

}  // namespace

ApiTestServer::ApiTestServer(k8s::ApiClient& served, std::vector<k8s::ResourceType> types,
                             TestServerOptions options, Fault fault)
    : served_(served),
      types_(std::move(types)),
      fault_(std::move(fault)),
      http_(std::make_unique<HttpTestServer>(
          [this](const ServedRequest& request, ServedConnection& connection) {
            Handle(request, connection);
          },
          std::move(options))) {}

ApiTestServer::~ApiTestServer() = default;

std::string ApiTestServer::Kubeconfig(const std::string& user) const {
  const std::string authority = absl::StartsWith(http_->url(), "https:")
                                    ? absl::StrCat(", certificate-authority-data: ",
                                                   absl::Base64Escape(http_->authority().ca_pem()))
                                    : "";
  return absl::StrCat("apiVersion: v1\nkind: Config\ncurrent-context: test\n",
                      "contexts: [{name: test, context: {cluster: test, user: test}}]\n",
                      "clusters: [{name: test, cluster: {server: \"", http_->url(), "\"", authority,
                      "}}]\n", "users: [{name: test, user: ", user, "}]\n");
}

void ApiTestServer::Handle(const ServedRequest& request, ServedConnection& connection) {
  if (fault_ && fault_(request, connection)) {
    return;
  }
  const std::vector<std::string> halves = absl::StrSplit(request.target, absl::MaxSplits('?', 1));
  const Query query = ParseQuery(halves.size() > 1 ? halves[1] : "");
  std::vector<std::string> path;
  for (const absl::string_view step : absl::StrSplit(halves.front(), '/', absl::SkipEmpty())) {
    path.push_back(net::PercentDecode(step));
  }
  std::size_t next = 1;
  const bool is_core = !path.empty() && path.front() == "api";
  const std::string group = is_core || path.size() < 2 ? "" : path[next++];
  const std::string version = next < path.size() ? path[next++] : "";
  std::string namespace_name;
  if (next + 2 < path.size() && path[next] == "namespaces") {
    namespace_name = path[next + 1];
    next += 2;
  }
  const std::string plural = next < path.size() ? path[next++] : "";
  const std::string name = next < path.size() ? path[next++] : "";
  const std::string subresource = next < path.size() ? path[next++] : "";
  const auto type = std::find_if(types_.begin(), types_.end(), [&](const k8s::ResourceType& one) {
    return one.group == group && one.version == version && one.plural == plural;
  });
  if (type == types_.end()) {
    SendError(absl::NotFoundError("the server could not find the requested resource"), connection);
  } else if (!name.empty()) {
    HandleObject(request, {*type, namespace_name, name}, subresource, connection);
  } else if (request.method == "POST") {
    const Json object = *ParseJson(request.body);
    SendObject(Value(query, "dryRun") == "All"
                   ? served_.DryRunCreate({}, *type, namespace_name, object)
                   : served_.Create({}, *type, namespace_name, object),
               201, connection);
  } else if (Value(query, "watch") == "true") {
    HandleWatch(*type, namespace_name, query, connection);
  } else {
    HandleList(*type, namespace_name, query, connection);
  }
}

absl::StatusOr<std::shared_ptr<const ApiTestServer::Listing>> ApiTestServer::List(
    const k8s::ResourceType& type, const std::string& namespace_name, const Query& query) {
  absl::StatusOr<k8s::ObjectList> list = served_.List(
      {}, type, namespace_name,
      {.label_selector = Value(query, "labelSelector"),
       .field_selector = Value(query, "fieldSelector"),
       .may_be_old = false,
       .exactly_at =
           Value(query, "resourceVersionMatch") == "Exact" ? Value(query, "resourceVersion") : ""});
  if (!list.ok()) {
    return list.status();
  }
  auto listing = std::make_shared<Listing>();
  listing->resource_version = list->resource_version;
  listing->items.reserve(list->items.size());
  for (Json& item : list->items) {
    item.erase("apiVersion");  // As real servers answer for their own kinds.
    item.erase("kind");
    listing->items.push_back(DumpJson(item));
    item = Json();
  }
  return listing;
}

void ApiTestServer::HandleList(const k8s::ResourceType& type, const std::string& namespace_name,
                               const Query& query, ServedConnection& connection) {
  const std::pair<std::string, std::string> continued =
      absl::StrSplit(Value(query, "continue"), absl::MaxSplits('.', 1));
  std::string name = continued.first;
  const absl::StatusOr<std::shared_ptr<const Listing>> found =
      name.empty() ? List(type, namespace_name, query) : Find(name);
  if (!found.ok()) {
    SendError(found.status(), connection);
    return;
  }
  const std::shared_ptr<const Listing>& listing = *found;
  std::size_t start = 0;
  std::size_t limit = 0;
  (void)absl::SimpleAtoi(continued.second, &start);
  (void)absl::SimpleAtoi(Value(query, "limit"), &limit);
  std::size_t end = listing->items.size();
  Json metadata = {{"resourceVersion", listing->resource_version}};
  if (limit > 0 && start + limit < end) {
    end = start + limit;
    name = name.empty() ? Remember(listing) : name;
    metadata["continue"] = absl::StrCat(name, ".", end);
  }
  const auto begin = listing->items.begin();
  connection.Send(
      200,
      absl::StrCat(R"({"kind":")", type.kind, R"(List","metadata":)", DumpJson(metadata),
                   R"(,"items":[)",
                   absl::StrJoin(begin + static_cast<std::ptrdiff_t>(std::min(start, end)),
                                 begin + static_cast<std::ptrdiff_t>(end), ","),
                   "]}"),
      {{"Content-Type", "application/json"}});
}

absl::StatusOr<std::shared_ptr<const ApiTestServer::Listing>> ApiTestServer::Find(
    const std::string& name) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [own_name, listing] : listings_) {
    if (own_name == name) {
      return listing;
    }
  }
  return absl::OutOfRangeError("The provided continue parameter is too old");
}

std::string ApiTestServer::Remember(std::shared_ptr<const Listing> listing) {
  const std::scoped_lock lock(mutex_);
  const std::string name = absl::StrCat("list", ++listing_count_);
  listings_.emplace_back(name, std::move(listing));
  if (listings_.size() > kListingsMax) {
    listings_.pop_front();
  }
  return name;
}

void ApiTestServer::HandleWatch(const k8s::ResourceType& type, const std::string& namespace_name,
                                const Query& query, ServedConnection& connection) {
  std::stop_source over;
  const std::stop_callback stopping(connection.stop(), [&] { over.request_stop(); });
  CallContext ctx;
  ctx.stop = over.get_token();
  int64_t seconds = 0;
  if (absl::SimpleAtoi(Value(query, "timeoutSeconds"), &seconds)) {
    ctx = ctx.WithTimeout(absl::Seconds(seconds));
  }
  // The answer starts before the first event; an error that comes before is an event then, too.
  connection.StartStream(200, {{"Content-Type", "application/json"}});
  std::jthread looker([&](const std::stop_token& stop) {
    connection.AwaitPeerGone(stop);
    over.request_stop();
  });
  const k8s::WatchOptions options{Value(query, "labelSelector"), Value(query, "fieldSelector"),
                                  Value(query, "resourceVersion")};
  const absl::Status status =
      served_.Watch(ctx, type, namespace_name, options, [&](const k8s::WatchEvent& event) {
        const Json line = {{"type", EventType(event.kind)}, {"object", event.object}};
        return connection.Chunk(DumpJson(line) + "\n");
      });
  looker.request_stop();
  looker.join();
  if (!status.ok() && !absl::IsDeadlineExceeded(status) && !absl::IsCancelled(status)) {
    connection.Chunk(DumpJson(Json{{"type", "ERROR"}, {"object", StatusObject(status)}}) + "\n");
  }
  connection.EndStream();
}

void ApiTestServer::HandleObject(const ServedRequest& request, const k8s::ObjectKey& key,
                                 const std::string& subresource, ServedConnection& connection) {
  const Json body = ParseJson(request.body).value_or(Json());
  if (request.method == "GET") {
    SendObject(served_.Get({}, key), 200, connection);
  } else if (request.method == "POST") {
    SendObject(served_.CreateSubresource({}, key, subresource, body), 201, connection);
  } else if (request.method == "PUT") {
    SendObject(served_.Update({}, key, body), 200, connection);
  } else if (request.method == "PATCH") {
    const auto type = request.headers.find("content-type");
    const bool is_merge =
        type != request.headers.end() && type->second == "application/merge-patch+json";
    SendObject(served_.Patch({}, key, is_merge ? k8s::PatchKind::kMerge : k8s::PatchKind::kJson,
                             body, subresource),
               200, connection);
  } else {
    const absl::Status status =
        served_.Delete({}, key,
                       {GetString(body, {"preconditions", "uid"}),
                        GetString(body, {"preconditions", "resourceVersion"})});
    if (status.ok()) {
      SendObject(Json{{"kind", "Status"}, {"status", "Success"}}, 200, connection);
    } else {
      SendError(status, connection);
    }
  }
}

}  // namespace csidelta::support
