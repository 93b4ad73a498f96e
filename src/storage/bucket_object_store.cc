#include "storage/bucket_object_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "net/url.h"
#include "storage/object_rules.h"

namespace csidelta::storage {
namespace {

constexpr int64_t kListPagesMax = 65'536;  // Of 1000 objects each: an exbibyte of packs.
constexpr int64_t kEmptyPagesMax = 1000;   // In a row; a server may need some to find the next key.
// A clock that differs by more is what a refusal without a reason may come from.
constexpr absl::Duration kSkewMin = absl::Minutes(5);
constexpr absl::Duration kLookForCredentialsAgain = absl::Seconds(5);
constexpr int kLooksForHostMax = 4;  // of a server that was never reached
constexpr int kSameKeysMax = 3;      // requests with keys that were good until now
constexpr int kCorrectionsMax = 2;
constexpr StatusMark kRangeIgnored("csi-delta/range-ignored");
constexpr absl::Duration kBeforeAnotherRequest = absl::Seconds(1);

std::optional<absl::Time> ReadHttpDate(const std::string& text) {
  absl::Time time;
  return absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", text, &time, nullptr) ? std::optional(time)
                                                                            : std::nullopt;
}

// What Retry-After asks for (RFC 9110 §10.2.3): seconds, or a date of the server's own clock.
absl::Duration ReadRetryAfter(const net::HttpResponse& response) {
  const std::string text = net::Header(response, "retry-after");
  if (int32_t seconds = 0; absl::SimpleAtoi(text, &seconds)) {
    return absl::Seconds(seconds);
  }
  const std::optional<absl::Time> until = ReadHttpDate(text);
  const std::optional<absl::Time> now = ReadHttpDate(net::Header(response, "date"));
  return until.has_value() && now.has_value() ? *until - *now : absl::ZeroDuration();
}

// A page for people. Objects are put without a type of their own, and no store calls them that;
// what a store has to say of a deletion is no HTML.
bool IsPage(const net::HttpResponse& response, absl::string_view method) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(response.body);
  return absl::StartsWithIgnoreCase(net::Header(response, "content-type"), "text/html") ||
         (method == "DELETE" && (absl::StartsWithIgnoreCase(text, "<!doctype html") ||
                                 absl::StartsWithIgnoreCase(text, "<html")));
}

// Whether an answer to HEAD, which has no body, leaves open what is refused: a token that expired,
// a timeout, a conflict, a stray signature and HEAD itself all look like a refusal for good. An
// answer to GET says what it is, and Send acts on that.
bool IsUntold(const net::HttpResponse& response) {
  constexpr int kTold[] = {404, 408, 425, 429};
  return response.status == 501 ||
         (response.status / 100 == 4 && !absl::c_linear_search(kTold, response.status));
}

// A size in bytes, as headers have it.
bool ParseSize(absl::string_view text, int64_t& size_bytes) {
  return absl::SimpleAtoi(text, &size_bytes) && size_bytes >= 0;
}

// What HttpClient's errors mean here: NOT_FOUND is a missing host there, but an object here. A
// resolver that restarts says so of any host.
absl::Status FromTransport(const absl::Status& status, bool host_was_there) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return host_was_there ? absl::UnavailableError(status.message())
                            : absl::FailedPreconditionError(status.message());
    case absl::StatusCode::kInvalidArgument:
      return absl::FailedPreconditionError(status.message());
    case absl::StatusCode::kInternal:
      return absl::DataLossError(status.message());
    default:
      return status;
  }
}

// No damage: the object may be whole, and a check must not call it lost.
absl::Status RangeIgnored(const std::string& key) {
  return kRangeIgnored.On(absl::FailedPreconditionError(absl::StrCat(
      "get ", key,
      ": the server, or a proxy before it, ignores the header Range; let it through")));
}

// Whether the answer is the range that was asked for: "bytes 0-9/100".
absl::Status CheckRange(const net::HttpResponse& response, const std::string& key,
                        const ByteRange& range) {
  const int64_t end_bytes = range.offset_bytes + range.length_bytes;
  if (response.status == 200 && range.offset_bytes == 0 &&
      std::ssize(response.body) == range.length_bytes) {
    return absl::OkStatus();  // The whole object is what was asked for.
  }
  if (response.status != 206) {
    return RangeIgnored(key);
  }
  const std::string header = net::Header(response, "content-range");
  const std::string expected = absl::StrCat("bytes ", range.offset_bytes, "-", end_bytes - 1, "/");
  if (absl::StartsWith(header, expected) && std::ssize(response.body) == range.length_bytes) {
    return absl::OkStatus();
  }
  // A range that begins inside the object and ends past it is shortened by the server.
  int64_t size_bytes = 0;
  const std::vector<std::string> parts = absl::StrSplit(header, '/');
  if (ParseSize(parts.back(), size_bytes) && size_bytes < end_bytes) {
    return ObjectEndsBefore(key, range, size_bytes);
  }
  return absl::DataLossError(absl::StrCat("get ", key, ": the answer is another range"));
}

// Whether what calls itself a success comes from a store, and is what a read is answered with.
absl::Status CheckSuccess(const net::HttpResponse& response, const BucketCall& call) {
  if (IsPage(response, call.method)) {
    return absl::UnavailableError("a gateway answered with a page in the store's place");
  }
  const bool is_read = call.method == "GET" || call.method == "HEAD";
  const int partial = call.headers.empty() ? 200 : 206;
  if (is_read && response.status != 200 && response.status != partial) {
    return absl::UnavailableError(absl::StrCat("the server answered ", response.status,
                                               ", which is not an answer of a store to a read"));
  }
  return absl::OkStatus();
}

}  // namespace

net::HttpLimits BucketHttpLimits() {
  net::HttpLimits limits;
  limits.body_bytes_max = kXmlBytesMax;
  limits.connect_time_max = absl::Seconds(10);
  limits.silence_max = absl::Seconds(60);
  limits.silence_bytes_min = int64_t{16} << 10;
  limits.idle_connections_max = 64;
  return limits;
}

std::string EncodePath(absl::string_view path) {
  return absl::StrJoin(absl::StrSplit(path, '/'), "/",
                       [](std::string* out, absl::string_view segment) {
                         out->append(net::PercentEncode(segment));
                       });
}

absl::Status BucketObjectStore::Failure(const net::HttpResponse& response,
                                        const BucketCall& call) const {
  return AskingForPause(Annotate(ReadFailure(response, call), call.what), ReadRetryAfter(response));
}

void BucketObjectStore::CountFurther(const BucketCall& call) {
  const bool is_put = call.method == "PUT" || (call.method == "POST" && !call.key.empty());
  meter_.Add(is_put                                             ? &StoreUsage::put_requests
             : call.method == "DELETE" || call.method == "POST" ? &StoreUsage::delete_requests
             : call.method == "HEAD"                            ? &StoreUsage::stat_requests
             : call.key.empty()                                 ? &StoreUsage::list_requests
                                                                : &StoreUsage::get_requests,
             1);
}

absl::Status BucketObjectStore::CutRoot(absl::string_view what, absl::string_view prefix,
                                        std::string& key) const {
  absl::string_view rest = key;
  if (!absl::ConsumePrefix(&rest, prefix_) || !absl::StartsWith(rest, prefix)) {
    return absl::DataLossError(absl::StrCat(what, ": the server names objects from elsewhere"));
  }
  key.erase(0, prefix_.size());
  return absl::OkStatus();
}

// Hands what one page shows to `sink`; what has no key of csi-delta is passed over.
absl::Status BucketObjectStore::PassOn(ListPage& found, const PageRequest& page,
                                       absl::string_view what, ObjectSink sink) const {
  for (ObjectInfo& object : found.objects) {
    RETURN_IF_ERROR(CutRoot(what, page.prefix, object.key));
    if (!page.is_deep && absl::StrContains(object.key.substr(page.prefix.size()), "/")) {
      return absl::DataLossError(absl::StrCat(what, ": the server does not heed the delimiter"));
    }
    RETURN_IF_ERROR(CheckKey(object.key).ok() ? sink(object) : absl::OkStatus());
  }
  for (std::string& folder : found.folders) {
    RETURN_IF_ERROR(CutRoot(what, page.prefix, folder));
    absl::string_view segment = absl::string_view(folder).substr(page.prefix.size());
    if (absl::ConsumeSuffix(&segment, "/") && IsKeySegment(segment) && CheckPrefix(folder).ok()) {
      RETURN_IF_ERROR(sink({.key = folder, .size_bytes = 0}));
    }
  }
  return absl::OkStatus();
}

// Whether the reason of a refusal could be taken away, so that the request may be sent again.
bool BucketObjectStore::Correct(const CallContext& ctx, const net::HttpResponse& response,
                                Refusal refusal, absl::Time signed_at) {
  const std::optional<absl::Time> others = ReadHttpDate(net::Header(response, "date"));
  if (refusal == Refusal::kClock && others.has_value() &&
      absl::AbsDuration(*others - signed_at) >= kSkewMin) {
    clock_skew_seconds_ = absl::ToInt64Seconds(*others - ctx.clock->Now());
    return true;
  }
  if (refusal == Refusal::kExpired) {
    credentials_.Forget();
    return true;
  }
  return false;
}

// Waits until there are other credentials than those that were refused. False when none come until
// `latest`, by the clock's uptime.
bool BucketObjectStore::AwaitOthers(const CallContext& ctx, const BucketCall& call,
                                    const Secret& refused, absl::Duration latest) {
  while (credentials_.MayBeExchanged() && ctx.Check().ok()) {
    credentials_.Forget();
    const absl::StatusOr<SignedRequest> now = Sign(ctx, call, ctx.clock->Now());
    if (now.ok() && !(now->credential == refused)) {
      return true;
    }
    if (ctx.clock->Uptime() >= latest) {
      return false;
    }
    ctx.clock->SleepFor(kLookForCredentialsAgain, ctx.stop);
  }
  return false;
}

absl::StatusOr<net::HttpResponse> BucketObjectStore::Answer(const CallContext& ctx,
                                                            const BucketCall& call) {
  int looks_for_host = 0;
  int same_keys = 0;
  int corrections = 0;
  std::optional<absl::Duration> latest;  // A source may have new ones for ever, all refused.
  for (bool is_first = true;; is_first = false) {
    RETURN_IF_ERROR(ctx.Check());
    const absl::Time time = ServerTime(ctx);
    ASSIGN_OR_RETURN(const SignedRequest request, Sign(ctx, call, time));
    if (!is_first) {
      CountFurther(call);
    }
    absl::StatusOr<net::HttpResponse> response = http_.Send(ctx, request.http);
    if (absl::IsNotFound(response.status()) && !was_let_in_ &&
        ++looks_for_host < kLooksForHostMax) {
      ctx.clock->SleepFor(kBeforeAnotherRequest, ctx.stop);
      continue;
    }
    if (!response.ok()) {
      return FromTransport(response.status(), was_let_in_);
    }
    if (IsSuccess(*response)) {
      RETURN_IF_ERROR(CheckSuccess(*response, call));
      was_let_in_ = true;
      return response;
    }
    // That an object is missing is told to those who are let in.
    if (response->status == 404 && absl::IsNotFound(ReadFailure(*response, call))) {
      was_let_in_ = true;
    }
    const Refusal refusal = ReadRefusal(*response);
    // Some servers say so once in a long while, of a request like any other.
    if (was_let_in_ && refusal == Refusal::kSignature && ++same_keys < kSameKeysMax) {
      ctx.clock->SleepFor(kBeforeAnotherRequest, ctx.stop);
      continue;
    }
    const bool may_be_corrected = response->status / 100 <= 4 && corrections < kCorrectionsMax;
    if (may_be_corrected && (Correct(ctx, *response, refusal, time) || Follow(*response))) {
      ++corrections;
      continue;
    }
    if (!was_let_in_ || refusal < Refusal::kSignature) {
      return response;
    }
    if (latest.has_value()) {
      ctx.clock->SleepFor(kLookForCredentialsAgain, ctx.stop);
    }
    latest = latest.value_or(ctx.clock->Uptime() + kNewCredentialsTimeMax);
    if (ctx.clock->Uptime() > *latest || !AwaitOthers(ctx, call, request.credential, *latest)) {
      return response;
    }
  }
}

absl::StatusOr<std::string> BucketObjectStore::Get(const CallContext& ctx, const std::string& key,
                                                   int64_t size_bytes_max) {
  RETURN_IF_ERROR(CheckKey(key));
  const BucketCall call{.what = absl::StrCat("get ", key),
                        .method = "GET",
                        .key = key,
                        .query = DownloadQuery(),
                        .answer_bytes_max = std::max(size_bytes_max, kErrorBytesMax)};
  absl::StatusOr<net::HttpResponse> response = Send(ctx, call);
  if (absl::IsDataLoss(response.status())) {
    return ObjectTooLarge(key, size_bytes_max);  // The client's limit, set by us.
  }
  RETURN_IF_ERROR(response.status());
  if (!IsSuccess(*response)) {
    return Failure(*response, call);
  }
  if (std::ssize(response->body) > size_bytes_max) {
    return ObjectTooLarge(key, size_bytes_max);
  }
  RETURN_IF_ERROR(Annotate(CheckWhole(*response), call.what));
  return std::move(response->body);
}

absl::StatusOr<std::string> BucketObjectStore::GetRange(const CallContext& ctx,
                                                        const std::string& key, ByteRange range) {
  RETURN_IF_ERROR(CheckGetRange(key, range));
  const int64_t last = range.offset_bytes + range.length_bytes - 1;
  const BucketCall call{
      .what = absl::StrCat("get ", key),
      .method = "GET",
      .key = key,
      .query = DownloadQuery(),
      .headers = {{"range", absl::StrCat("bytes=", range.offset_bytes, "-", last)}},
      .answer_bytes_max = std::max(range.length_bytes, kErrorBytesMax)};
  const auto read = [&]() -> absl::StatusOr<std::string> {
    absl::StatusOr<net::HttpResponse> response = Send(ctx, call);
    if (absl::IsDataLoss(response.status())) {
      return RangeIgnored(key);  // The client's limit, set by us.
    }
    RETURN_IF_ERROR(response.status());
    if (!IsSuccess(*response)) {
      return Failure(*response, call);
    }
    RETURN_IF_ERROR(CheckRange(*response, key, range));
    return std::move(response->body);
  };
  absl::StatusOr<std::string> bytes = read();
  if (kRangeIgnored.IsOn(bytes.status())) {  // A gateway may have answered once, for the store.
    CountFurther(call);
    bytes = read();
  }
  return bytes;
}

absl::StatusOr<ObjectInfo> BucketObjectStore::Stat(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  const BucketCall call{.what = absl::StrCat("stat ", key),
                        .method = "HEAD",
                        .key = key,
                        .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  ObjectInfo object{.key = key, .size_bytes = 0};
  if (IsSuccess(response) &&
      ParseSize(net::Header(response, "content-length"), object.size_bytes)) {
    return object;
  }
  if (!IsSuccess(response) && !IsUntold(response)) {
    return Failure(response, call);
  }
  ASSIGN_OR_RETURN(object.size_bytes, SizeByGet(ctx, key));
  return object;
}

// The size of an object that HEAD does not tell: the answer to GET has it behind its range.
absl::StatusOr<int64_t> BucketObjectStore::SizeByGet(const CallContext& ctx,
                                                     const std::string& key) {
  const BucketCall call{.what = absl::StrCat("stat ", key),
                        .method = "GET",
                        .key = key,
                        .query = DownloadQuery(),
                        .headers = {{"range", "bytes=0-0"}},
                        .answer_bytes_max = kErrorBytesMax};
  CountFurther(call);
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  if (!IsSuccess(response)) {
    const absl::Status status = Failure(response, call);
    // An empty object has no first byte.
    return absl::IsOutOfRange(status) ? absl::StatusOr<int64_t>(0) : status;
  }
  if (response.status == 200) {
    return std::ssize(response.body);
  }
  const std::vector<std::string> parts =
      absl::StrSplit(net::Header(response, "content-range"), '/');
  int64_t size_bytes = 0;
  return ParseSize(parts.back(), size_bytes)
             ? absl::StatusOr<int64_t>(size_bytes)
             : absl::DataLossError(absl::StrCat(call.what, ": no answer has the size"));
}

absl::Status BucketObjectStore::ListPages(const CallContext& ctx, PageRequest page,
                                          ObjectSink sink) {
  RETURN_IF_ERROR(CheckPrefix(page.prefix));
  const std::string what = absl::StrCat("list ", page.prefix);
  int64_t empty_pages = 0;
  for (int64_t pages = 0; pages < kListPagesMax; ++pages) {
    BucketCall call = PageCall(page);
    call.what = what;
    if (pages > 0) {
      CountFurther(call);
    }
    ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
    if (!IsSuccess(response)) {
      return Failure(response, call);
    }
    absl::StatusOr<ListPage> found = ParsePage(response.body);
    if (!found.ok()) {
      // Cut off, or of another server that answered once; never a listing of nothing.
      return absl::UnavailableError(absl::StrCat(what, ": ", found.status().message()));
    }
    RETURN_IF_ERROR(PassOn(*found, page, what, sink));
    if (found->next_token.empty()) {
      return absl::OkStatus();
    }
    const bool is_empty = found->objects.empty() && found->folders.empty();
    empty_pages = is_empty ? empty_pages + 1 : 0;
    if (found->next_token == page.token || empty_pages > kEmptyPagesMax) {
      break;
    }
    page.token = std::move(found->next_token);
  }
  return absl::DataLossError(absl::StrCat(what, ": the listing has no end"));
}

absl::Status BucketObjectStore::Delete(const CallContext& ctx, const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  const BucketCall call{.what = absl::StrCat("delete ", key),
                        .method = "DELETE",
                        .key = key,
                        .answer_bytes_max = kErrorBytesMax};
  ASSIGN_OR_RETURN(const net::HttpResponse response, Send(ctx, call));
  const absl::Status status = IsSuccess(response) ? absl::OkStatus() : Failure(response, call);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<net::HttpResponse> BucketObjectStore::SendBatch(const CallContext& ctx,
                                                               const BucketCall& call) {
  ASSIGN_OR_RETURN(net::HttpResponse response, Send(ctx, call));
  if (IsSuccess(response)) {
    return response;
  }
  const absl::Status status = Failure(response, call);
  // 500 is also what a server says that cannot do it: Azurite, to a batch with a SAS.
  return MayHeal(status) && response.status != 500 ? status : EndBatches(status);
}

absl::Status BucketObjectStore::EndBatches(const absl::Status& why) {
  takes_batches_ = false;
  return absl::UnimplementedError(why.message());
}

}  // namespace csidelta::storage
