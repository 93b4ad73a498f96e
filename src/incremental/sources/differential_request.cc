#include "incremental/sources/differential_request.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "incremental/sources/differential_source.h"
#include "k8s/object.h"
#include "k8s/wait.h"
#include "net/url.h"
#include "objects/differential_snapshot.h"
#include "objects/keys.h"

namespace csidelta::incremental {
namespace {

using csi::BoundSnapshot;
using objects::DifferentialSnapshot;

constexpr char kMadeBy[] = "csi-delta-mover";

// What a code in status.error means.
ListingFailure FailureOfCode(absl::string_view code) {
  constexpr std::pair<absl::string_view, ListingFailure> kCodes[] = {
      {"TargetSnapshotNotFound", ListingFailure::kPermanent},
      {"BaseSnapshotNotFound", ListingFailure::kBaseGone},
      {"DriverMismatch", ListingFailure::kNotComparable},
      {"VolumeMismatch", ListingFailure::kNotComparable},
      {"UnsupportedMode", ListingFailure::kDriverHasNoService},
      {"DriverUnsupported", ListingFailure::kDriverHasNoService},
  };
  for (const auto& [known, failure] : kCodes) {
    if (code == known) {
      return failure;
    }
  }
  return ListingFailure::kMetadataUnavailable;  // NotReady, InvalidOffset, Internal, and unheard of
}

std::string StateOf(const Json& object) { return GetString(object, {"status", "state"}); }

// Whether a controller has it in its hands.
bool IsProcessed(const Json& object) {
  return !StateOf(object).empty() ||
         absl::c_any_of(JsonArrayAt(object, {"status", "conditions"}), [](const Json& condition) {
           return GetString(condition, {"type"}) == "Accepted" &&
                  GetString(condition, {"status"}) == "True";
         });
}

bool IsEnded(const Json& object) {
  return StateOf(object) == "Success" || StateOf(object) == "Failure";
}

// Where a list is served, and the audience of its token.
struct ServedList {
  net::Url url;
  std::string ca_pem;
  std::string audience;
};

// A token that the API server itself takes is not shown to anybody else.
bool IsOfApiServer(absl::string_view audience) {
  return absl::StartsWith(audience, "https://kubernetes.default") || audience == "kubernetes" ||
         audience == "api" || audience == "k3s";
}

absl::StatusOr<ServedList> ParseServed(const Json& object) {
  ServedList served;
  const absl::StatusOr<net::Url> url = net::ParseUrl(GetString(object, {"status", "url"}));
  absl::string_view fault;
  served.audience = GetString(object, {"status", "audience"});
  if (!url.ok() || url->scheme != "https" || !url->user_info.empty() ||
      absl::StrContains(url->target, '?')) {
    fault = "status.url is no https://HOST:PORT/NAMESPACE/NAME";
  } else if (!absl::Base64Unescape(GetString(object, {"status", "caBundle"}), &served.ca_pem) ||
             !absl::StrContains(served.ca_pem, "-----BEGIN CERTIFICATE-----")) {
    fault = "status.caBundle holds no PEM certificate";
  } else if (served.audience.empty()) {
    fault = "status.audience is missing: without it a token would be good for anybody";
  } else if (IsOfApiServer(served.audience)) {
    fault = "status.audience is the API server's own, whose tokens must not be sent elsewhere";
  }
  if (!fault.empty()) {
    return GiveUp(ListingFailure::kMetadataUnavailable, absl::FailedPreconditionError(fault),
                  "look at the controller of DifferentialSnapshots alongside the driver");
  }
  served.url = *url;
  return served;
}

// Whether a Create() that failed leaves nothing behind.
bool SurelyNotMade(const absl::Status& status) {
  const std::optional<ListingFailure> failure = FailureOf(status);
  return failure == ListingFailure::kDriverHasNoService || failure == ListingFailure::kPermanent;
}

// One listing, with all its state.
class Request {
 public:
  Request(const CallContext& ctx, k8s::ApiClient& api, csi::AudienceTokens& tokens, Random& random,
          const DifferentialRequestOptions& options, const DiffRequest& request, ExtentSink sink)
      : ctx_(ctx),
        api_(api),
        tokens_(tokens),
        random_(random),
        options_(options),
        request_(request),
        sink_(sink) {}

  absl::Status Do();

 private:
  absl::Status ListOnce();

  // Of runs that died where no controller looks after them. What cannot be done is not needed
  // either.
  void DropLeftovers();
  Json MakeObject(const std::string& name) const;

  absl::StatusOr<Json> Create(const k8s::ObjectKey& key);
  void Delete(const k8s::ObjectKey& key) const;

  // The object when it has succeeded; why not, else.
  absl::StatusOr<Json> AwaitEnd(const k8s::ObjectKey& key, Json object);

  // Waits while `wanted` does not hold of the object; false when the time is over.
  absl::StatusOr<bool> Await(const k8s::ObjectKey& key, absl::Duration time_max,
                             absl::FunctionRef<bool(const Json&)> wanted, Json& object);
  absl::Status CheckResolved(const Json& object) const;

  absl::Status Read(const ServedList& served);

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  csi::AudienceTokens& tokens_;
  Random& random_;
  const DifferentialRequestOptions& options_;
  const DiffRequest& request_;
  const ExtentSink sink_;
  std::optional<BoundSnapshot> target_;
  absl::Status of_sink_;
  int64_t passed_to_bytes_ = 0;  // The end of what the sink has.
  bool object_gone_ = false;
};

absl::Status Request::Do() {
  RETURN_IF_ERROR(ctx_.Check());
  ASSIGN_OR_RETURN(target_, ReadTarget(ctx_, api_, request_));
  if (!request_.base.empty()) {
    RETURN_IF_ERROR(CompareWithBase(options_.base, *target_));
  }
  DropLeftovers();
  absl::Status status;
  for (int objects = 0; objects < options_.objects_max; ++objects) {
    object_gone_ = false;
    status = ListOnce();
    RETURN_IF_ERROR(of_sink_);
    if (!object_gone_ && !IsResultGone(status)) {
      return status;
    }
  }
  return status;
}

absl::Status Request::ListOnce() {
  const std::string name = absl::StrFormat("csi-delta-%08x%08x", random_.Below(uint64_t{1} << 32),
                                           random_.Below(uint64_t{1} << 32));
  const k8s::ObjectKey key = DifferentialSnapshot::Key(target_->namespace_name, name);
  absl::Cleanup drop = [&] { Delete(key); };
  absl::StatusOr<Json> object = Create(key);
  if (!object.ok()) {
    if (SurelyNotMade(object.status())) {
      std::move(drop).Cancel();
    }
    return object.status();
  }
  ASSIGN_OR_RETURN(object, AwaitEnd(key, *std::move(object)));
  ASSIGN_OR_RETURN(const ServedList served, ParseServed(*object));
  RETURN_IF_ERROR(CheckResolved(*object));
  return Read(served);
}

void Request::DropLeftovers() {
  const absl::StatusOr<k8s::ObjectList> all =
      api_.List(ctx_, DifferentialSnapshot::Type(), target_->namespace_name,
                {.label_selector = absl::StrCat(objects::kAppManagedByLabel, "=", kMadeBy),
                 .field_selector = "",
                 .may_be_old = true});
  if (!all.ok()) {
    return;
  }
  for (const Json& object : all->items) {
    const std::optional<absl::Time> made = k8s::CreatedAt(object);
    if (made.has_value() && ctx_.clock->Now() - *made > options_.leftover_age_max) {
      Delete(DifferentialSnapshot::Key(target_->namespace_name, k8s::Name(object)));
    }
  }
}

Json Request::MakeObject(const std::string& name) const {
  Json object = DifferentialSnapshot::Make(target_->namespace_name, name).json();
  object["metadata"]["labels"][objects::kAppManagedByLabel] = kMadeBy;
  object["spec"] = {{"targetVolumeSnapshotName", target_->name}, {"mode", "Block"}};
  if (!request_.base.empty()) {
    SetJson(object, {"spec", "baseSnapshotHandle"}, request_.base);
  }
  if (!target_->volume_handle.empty()) {
    SetJson(object, {"spec", "volumeId"}, target_->volume_handle);
  }
  for (const std::string& parameter : options_.parameters) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(parameter, absl::MaxSplits('=', 1));
    SetJson(object, {"spec", "parameters", parts.first}, parts.second);
  }
  return object;
}

absl::StatusOr<Json> Request::Create(const k8s::ObjectKey& key) {
  absl::StatusOr<Json> object =
      api_.Create(ctx_, key.type, key.namespace_name, MakeObject(key.name));
  if (absl::IsAlreadyExists(object.status())) {
    object = api_.Get(ctx_, key);  // The name is unique to this client: an answer was lost.
  }
  RETURN_IF_ERROR(ctx_.Check());
  if (object.ok()) {
    return object;
  }
  const absl::Status& status = object.status();
  const bool nothing_to_ask =
      absl::IsNotFound(status) || (options_.kind_may_be_absent && absl::IsPermissionDenied(status));
  if (nothing_to_ask) {
    return GiveUp(
        ListingFailure::kDriverHasNoService,
        absl::Status(status.code(), absl::StrCat("driver ", target_->driver,
                                                 " cannot tell which blocks changed: it has no "
                                                 "SnapshotMetadataService, and no "
                                                 "DifferentialSnapshot can be made here",
                                                 absl::IsNotFound(status) ? "" : ": ",
                                                 absl::IsNotFound(status) ? "" : status.message())),
        "docs/changed-blocks.md names what it needs");
  }
  if (absl::IsInvalidArgument(status)) {
    return GiveUp(ListingFailure::kMetadataUnavailable, status,
                  "the cluster's kind DifferentialSnapshot may be of another version");
  }
  return OfApiServer(status);
}

void Request::Delete(const k8s::ObjectKey& key) const {
  // The caller's context may be what ended the run.
  api_.Delete(FinalContext(ctx_), key, {}).IgnoreError();
}

absl::StatusOr<Json> Request::AwaitEnd(const k8s::ObjectKey& key, Json object) {
  ASSIGN_OR_RETURN(const bool accepted, Await(key, options_.accept_time_max, IsProcessed, object));
  if (!accepted) {
    return GiveUp(ListingFailure::kDriverHasNoService,
                  absl::FailedPreconditionError(
                      absl::StrCat("no controller processed ", ToString(key), " within ",
                                   absl::FormatDuration(options_.accept_time_max))),
                  absl::StrCat("is there a controller of DifferentialSnapshots alongside driver ",
                               target_->driver, "?"));
  }
  ASSIGN_OR_RETURN(const bool ended, Await(key, options_.answer_time_max, IsEnded, object));
  const std::string error = HarmlessText(GetString(object, {"status", "error"}), {});
  if (!ended) {
    return GiveUp(ListingFailure::kMetadataUnavailable,
                  absl::UnavailableError(
                      absl::StrCat(ToString(key), " is pending for ",
                                   absl::FormatDuration(options_.answer_time_max), ": ", error)),
                  "look at the controller of DifferentialSnapshots alongside the driver");
  }
  if (StateOf(object) == "Success") {
    return object;
  }
  const ListingFailure failure = FailureOfCode(absl::string_view(error).substr(0, error.find(':')));
  return GiveUp(failure,
                failure == ListingFailure::kPermanent ? absl::NotFoundError(error)
                                                      : absl::FailedPreconditionError(error),
                "");
}

absl::StatusOr<bool> Request::Await(const k8s::ObjectKey& key, absl::Duration time_max,
                                    absl::FunctionRef<bool(const Json&)> wanted, Json& object) {
  const Json known = object;
  const absl::Status status = k8s::WaitFor(
      ctx_.WithTimeout(time_max), api_, key,
      [&](const Json* now) -> absl::StatusOr<bool> {
        if (now == nullptr) {
          object_gone_ = true;
          return absl::NotFoundError("another client has deleted the object");
        }
        object = *now;
        return wanted(object);
      },
      &known);
  RETURN_IF_ERROR(ctx_.Check());
  if (status.ok() || absl::IsDeadlineExceeded(status)) {
    return status.ok();
  }
  return object_gone_ ? GiveUp(ListingFailure::kMetadataUnavailable, status, "")
                      : OfApiServer(status);
}

absl::Status Request::CheckResolved(const Json& object) const {
  const std::pair<absl::string_view, absl::string_view> wanted[] = {
      {"driver", target_->driver},
      {"targetHandle", target_->snapshot_handle},
      {"baseHandle", request_.base},
      {"volumeHandle", target_->volume_handle}};
  for (const auto& [member, asked] : wanted) {
    const std::string found = GetString(object, {"status", "resolved", member});
    if (found != asked && !(member == "volumeHandle" && asked.empty())) {
      return GiveUp(ListingFailure::kMalformedList,
                    absl::InvalidArgumentError(
                        absl::StrCat("the list is of another ", member, " than was asked for: \"",
                                     HarmlessText(found, {}), "\" instead of \"", asked, "\"")),
                    "none of it is used");
    }
  }
  return absl::OkStatus();
}

absl::Status Request::Read(const ServedList& served) {
  Secret token;
  const auto next_token = [&](const CallContext& ctx, bool renew) -> absl::StatusOr<Secret> {
    if (renew) {
      tokens_.Refuse(ctx, served.audience, token);
    }
    absl::StatusOr<Secret> next = tokens_.Token(ctx, served.audience);
    RETURN_IF_ERROR(ctx.Check());
    if (!next.ok()) {
      return OfApiServer(Annotate(next.status(), "token for the server of the list"));
    }
    token = *next;
    return next;
  };
  net::HttpClientOptions http = options_.http;
  http.tls.ca_pem = served.ca_pem;
  DifferentialSource source({.url = served.url,
                             .http = std::move(http),
                             .token = next_token,
                             .entries_max = options_.entries_max,
                             .from_bytes = passed_to_bytes_,
                             .backoff = options_.page_backoff},
                            random_);
  return source.ListExtents(ctx_, request_, [&](const ListedExtent& listed) {
    of_sink_ = sink_(listed);
    passed_to_bytes_ = listed.extent.end_bytes();
    return of_sink_;
  });
}

}  // namespace

absl::Status DifferentialRequestSource::ListExtents(const CallContext& ctx,
                                                    const DiffRequest& request, ExtentSink sink) {
  absl::Status status = Request(ctx, api_, tokens_, random_, options_, request, sink).Do();
  return FailureOf(status).has_value()
             ? Annotate(status, absl::StrCat("changed blocks of ", request.target))
             : status;
}

}  // namespace csidelta::incremental
