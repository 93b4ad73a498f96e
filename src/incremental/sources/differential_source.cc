#include "incremental/sources/differential_source.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "incremental/sources/listing_failure.h"

namespace csidelta::incremental {
namespace {

using Code = DifferentialErrorCode;

constexpr int kEmptyPagesMax = 10'000;
// Clocks differ: a result is left alone when its end is this near.
constexpr absl::Duration kExpirySkew = absl::Seconds(60);
constexpr int64_t kEntriesMin = 256;
constexpr StatusMark kResultGone("csi-delta/result-gone");

absl::Status ResultGone(absl::Status status) {
  return WithFailure(kResultGone.On(std::move(status)), ListingFailure::kMetadataUnavailable);
}

// For what is not tried again, or was tried often enough.
absl::Status StatusOf(const DifferentialError& error) {
  const std::string message =
      absl::StrCat("differential snapshot: ", ErrorName(error.code), ": ", error.message);
  switch (error.code) {
    case Code::kUnauthenticated:
      return WithFailure(absl::UnauthenticatedError(message), ListingFailure::kPermanent);
    case Code::kPermissionDenied:
      return WithFailure(absl::PermissionDeniedError(message), ListingFailure::kPermanent);
    case Code::kBaseSnapshotGone:
      return WithFailure(absl::NotFoundError(message), ListingFailure::kBaseGone);
    case Code::kTargetSnapshotGone:
      return WithFailure(absl::NotFoundError(message), ListingFailure::kPermanent);
    case Code::kNotFound:
      return ResultGone(absl::NotFoundError(message));
    case Code::kDriverContractViolation:
      return WithFailure(absl::InvalidArgumentError(message), ListingFailure::kMalformedList);
    case Code::kThrottled:
    case Code::kInternal:
    case Code::kUnavailable:
    case Code::kNotSynced:
    case Code::kDeadlineExceeded:
      return WithFailure(absl::UnavailableError(message), ListingFailure::kMetadataUnavailable);
    case Code::kUnsupported:
      return WithFailure(absl::FailedPreconditionError(message),
                         ListingFailure::kDriverHasNoService);
    case Code::kResultExpired:
      return ResultGone(absl::FailedPreconditionError(message));
    default:
      return WithFailure(absl::FailedPreconditionError(message), ListingFailure::kNotComparable);
  }
}

absl::Status MalformedAnswer(absl::string_view what) {
  return WithFailure(absl::InvalidArgumentError(absl::StrCat("differential snapshot: ", what)),
                     ListingFailure::kMalformedList);
}

// What became of a request that got no answer. The server's name may be known, and its certificate
// be renewed, a moment later; but one that we do not trust is not asked again and again.
absl::StatusOr<DifferentialError> OfTransport(const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsNotFound(status)) {
    return DifferentialError{.code = Code::kUnavailable, .message = std::string(status.message())};
  }
  if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) {
    return status;
  }
  return WithFailure(
      absl::UnavailableError(absl::StrCat("differential snapshot: ", status.message())),
      ListingFailure::kMetadataUnavailable);
}

// A server that is starting may not know an object yet.
bool MayPass(Code code) {
  return absl::IsUnavailable(StatusOf({.code = code, .message = ""})) || code == Code::kNotFound;
}

}  // namespace

// One call of ListExtents().
class DifferentialSource::Listing {
 public:
  Listing(DifferentialSource& source, const CallContext& ctx, const DiffRequest& request,
          ExtentSink sink)
      : source_(source),
        ctx_(ctx),
        device_bytes_(request.size_bytes),
        on_context_(request.on_context),
        sink_(sink),
        backoff_(source.options_.backoff, source.random_),
        entries_max_(source.options_.entries_max),
        listed_to_bytes_(source.options_.from_bytes),
        passed_to_bytes_(source.options_.from_bytes) {
    if (listed_to_bytes_ > 0) {
      cursor_ = absl::StrCat(listed_to_bytes_);
    }
  }

  absl::Status Run();

 private:
  using Answer = std::variant<DifferentialPage, DifferentialError>;
  absl::StatusOr<Answer> Fetch();

  // OK: the loop may ask again.
  absl::Status Recover(const DifferentialError& error);
  absl::Status Take(DifferentialPage& page);

  absl::Status CheckAgainstPagesBefore(DifferentialPage& page);
  absl::Status Pass(const ChangedBlock& block);

  absl::Status PassTail();
  absl::Status Flush();

  DifferentialSource& source_;
  const CallContext& ctx_;
  const int64_t device_bytes_;  // 0: not known
  const std::function<void(const std::string&)>& on_context_;
  const ExtentSink sink_;
  Backoff backoff_;
  int64_t entries_max_;
  std::string cursor_;
  bool renew_token_ = false;
  bool restarted_ = false;
  bool is_complete_ = false;
  int empty_pages_ = 0;
  int64_t volume_size_bytes_ = -1;  // Of the pages so far; -1: none existed.
  int64_t listed_to_bytes_;         // The end of the last block, since the listing began.
  int64_t passed_to_bytes_;         // The end of what `sink_` and pending_ have.
  std::optional<ListedExtent> pending_;
  std::string pending_context_;  // "": none, or it is not wanted
};

absl::Status DifferentialSource::Listing::Run() {
  do {
    RETURN_IF_ERROR(ctx_.Check());
    ASSIGN_OR_RETURN(auto answer, Fetch());
    if (const auto* const error = std::get_if<DifferentialError>(&answer)) {
      RETURN_IF_ERROR(Recover(*error));
    } else {
      RETURN_IF_ERROR(Take(std::get<DifferentialPage>(answer)));
    }
  } while (!is_complete_);
  RETURN_IF_ERROR(Flush());
  return PassTail();
}

absl::StatusOr<DifferentialSource::Listing::Answer> DifferentialSource::Listing::Fetch() {
  ASSIGN_OR_RETURN(const Secret token, source_.options_.token(ctx_, renew_token_));
  net::HttpRequest request{.method = "GET", .url = source_.options_.url, .headers = {}, .body = ""};
  absl::StrAppend(&request.url.target, "?maxEntries=", entries_max_);
  if (!cursor_.empty()) {
    absl::StrAppend(&request.url.target, "&startOffset=", net::PercentEncode(cursor_));
  }
  request.headers = {{"Accept", "application/json"},
                     {"Authorization", absl::StrCat("Bearer ", token.Reveal())}};
  request.answer_bytes_max = kPageTextBytesMax;
  const absl::StatusOr<net::HttpResponse> response = source_.http_.Send(ctx_, request);
  if (!response.ok()) {
    ASSIGN_OR_RETURN(DifferentialError error, OfTransport(response.status()));
    return error;
  }
  if (response->status != 200) {
    DifferentialError error = ParseError(response->status, response->body);
    error.message = HarmlessText(error.message, {token.Reveal()});
    return error;
  }
  absl::StatusOr<DifferentialPage> page = ParsePage(response->body);
  if (!page.ok()) {
    return MalformedAnswer(page.status().message());
  }
  return *std::move(page);
}

absl::Status DifferentialSource::Listing::Recover(const DifferentialError& error) {
  if (error.code == Code::kUnauthenticated && !renew_token_) {  // It may have expired early.
    renew_token_ = true;
    return absl::OkStatus();
  }
  // A server with a new key refuses cursors of the old one. The listing restarts once, from the
  // beginning; Pass() leaves out what was passed on already.
  if (error.code == Code::kInvalidOffset && !cursor_.empty() && !restarted_) {
    restarted_ = true;
    cursor_.clear();
    listed_to_bytes_ = 0;
    return absl::OkStatus();
  }
  // The last page ended at the end of the volume, and yet named a next one.
  if (error.code == Code::kOffsetOutOfRange && volume_size_bytes_ >= 0 &&
      listed_to_bytes_ == volume_size_bytes_) {
    is_complete_ = true;
    return absl::OkStatus();
  }
  if (!MayPass(error.code) || !backoff_.MayTryAgain()) {
    return StatusOf(error);
  }
  if (error.code == Code::kDeadlineExceeded) {
    // A shorter page takes the server less time.
    entries_max_ = std::max(entries_max_ / 2, std::min(entries_max_, kEntriesMin));
  }
  ctx_.clock->SleepFor(std::min(ctx_.TimeLeft(), backoff_.NextDelay()), ctx_.stop);
  return absl::OkStatus();
}

absl::Status DifferentialSource::Listing::Take(DifferentialPage& page) {
  backoff_.Reset();
  renew_token_ = false;
  RETURN_IF_ERROR(CheckAgainstPagesBefore(page));
  for (const ChangedBlock& block : page.blocks) {
    listed_to_bytes_ = block.extent.end_bytes();
    RETURN_IF_ERROR(Pass(block));
  }
  is_complete_ = page.next_offset.empty();
  cursor_ = std::move(page.next_offset);
  if (!is_complete_ && ctx_.clock->Now() >= page.expires_at - kExpirySkew) {
    return StatusOf({.code = Code::kResultExpired,
                     .message = "the storage does not keep the result long enough to read it"});
  }
  return absl::OkStatus();
}

absl::Status DifferentialSource::Listing::CheckAgainstPagesBefore(DifferentialPage& page) {
  if (volume_size_bytes_ >= 0 && page.volume_size_bytes != volume_size_bytes_) {
    return MalformedAnswer(absl::StrCat("pages of a volume of ", volume_size_bytes_,
                                        " bytes and of ", page.volume_size_bytes));
  }
  volume_size_bytes_ = page.volume_size_bytes;
  empty_pages_ = page.blocks.empty() ? empty_pages_ + 1 : 0;
  const bool stands_still = page.blocks.empty() && !page.next_offset.empty() &&
                            (page.next_offset == cursor_ || empty_pages_ > kEmptyPagesMax);
  if (stands_still) {
    return MalformedAnswer("a listing that never ends");
  }
  const absl::Status in_order = CheckBlocks(listed_to_bytes_, page.volume_size_bytes, page.blocks);
  return in_order.ok() ? in_order : MalformedAnswer(in_order.message());
}

absl::Status DifferentialSource::Listing::Pass(const ChangedBlock& block) {
  const int64_t begin_bytes = std::max(block.extent.offset_bytes, passed_to_bytes_);
  const int64_t end_bytes =
      std::min(block.extent.end_bytes(), device_bytes_ > 0 ? device_bytes_ : volume_size_bytes_);
  if (end_bytes <= begin_bytes) {
    return absl::OkStatus();  // Behind the device, or passed on before the listing restarted.
  }
  const ExtentKind kind = block.zero_out ? ExtentKind::kZero : ExtentKind::kData;
  passed_to_bytes_ = end_bytes;
  const bool has_context = on_context_ && !block.context.empty();
  if (pending_.has_value() && pending_->kind == kind && !has_context && pending_context_.empty() &&
      pending_->extent.end_bytes() == begin_bytes) {
    pending_->extent.length_bytes += end_bytes - begin_bytes;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Flush());
  pending_ = {.extent = {begin_bytes, end_bytes - begin_bytes}, .kind = kind};
  pending_context_ = has_context ? block.context : "";
  return absl::OkStatus();
}

absl::Status DifferentialSource::Listing::PassTail() {
  // A device may be longer than the volume that the driver lists: what is there is read as
  // unknown.
  const int64_t reported_bytes = std::max(volume_size_bytes_, passed_to_bytes_);
  return reported_bytes >= device_bytes_
             ? absl::OkStatus()
             : sink_({.extent = {reported_bytes, device_bytes_ - reported_bytes},
                      .kind = ExtentKind::kUnknown});
}

absl::Status DifferentialSource::Listing::Flush() {
  if (!pending_context_.empty()) {
    on_context_(std::exchange(pending_context_, ""));
  }
  const std::optional<ListedExtent> last = std::exchange(pending_, std::nullopt);
  return last.has_value() ? sink_(*last) : absl::OkStatus();
}

DifferentialSource::DifferentialSource(DifferentialSourceOptions options, Random& random)
    : options_(std::move(options)), random_(random), http_(options_.http) {}

absl::Status DifferentialSource::ListExtents(const CallContext& ctx, const DiffRequest& request,
                                             ExtentSink sink) {
  return Listing(*this, ctx, request, sink).Run();
}

bool IsResultGone(const absl::Status& status) { return kResultGone.IsOn(status); }

}  // namespace csidelta::incremental
