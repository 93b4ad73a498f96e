#include "diffsnap/page_service.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace csidelta::diffsnap {
namespace {

constexpr std::size_t kNameBytesMax = 253;

// What Kubernetes lets be part of a path as the name of an object or namespace.
bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax && text[0] != '.' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == text.npos;
}

absl::Status Wrong(absl::string_view parameter, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameter \"", absl::CHexEscape(parameter.substr(0, 64)), "\" ", what));
}

absl::StatusOr<std::string> PercentDecode(absl::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded.push_back(text[at]);
      continue;
    }
    const absl::string_view digits = text.substr(at + 1, 2);
    int value = 0;
    if (digits.size() != 2 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit) ||
        !absl::SimpleHexAtoi(digits, &value)) {
      return absl::InvalidArgumentError("malformed percent-encoding");
    }
    decoded.push_back(static_cast<char>(value));
    at += 2;
  }
  return decoded;
}

absl::StatusOr<std::map<std::string, std::string>> ParseParameters(absl::string_view text) {
  std::map<std::string, std::string> parameters;
  for (const absl::string_view part : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string name(halves.first);
    if (name != "startOffset" && name != "nextOffset" && name != "maxEntries") {
      return Wrong(name, "is unknown: there are startOffset and maxEntries");
    }
    absl::StatusOr<std::string> value = PercentDecode(halves.second);
    if (!value.ok()) {
      return Wrong(name, "has a malformed percent-encoding");
    }
    if (!parameters.emplace(name, *std::move(value)).second) {
      return Wrong(name, "is said twice");
    }
  }
  return parameters;
}

absl::StatusOr<int64_t> EntriesOf(const std::string& text) {
  if (text.find_first_not_of("0123456789") != text.npos) {
    return Wrong("maxEntries", "is no whole number");
  }
  int64_t entries = 0;
  if (!text.empty() && !absl::SimpleAtoi(text, &entries)) {
    return incremental::kPageEntriesMax;  // Digits only: it is larger than any limit.
  }
  return entries == 0 ? incremental::kPageEntriesDefault
                      : std::min(entries, incremental::kPageEntriesMax);
}

using incremental::DifferentialError;
using incremental::DifferentialErrorCode;
using incremental::DifferentialPage;

constexpr std::size_t kDriverMessageBytesMax = 1024;

DifferentialError ExpiredError() {
  return {.code = DifferentialErrorCode::kResultExpired,
          .message = "the storage keeps this result no longer: make a new DifferentialSnapshot"};
}

DifferentialError ViolationError(const absl::Status& status) {
  return {.code = DifferentialErrorCode::kDriverContractViolation,
          .message = absl::StrCat("the driver's list is not to be trusted: ",
                                  status.message().substr(0, kDriverMessageBytesMax))};
}

DifferentialError ErrorOfDriver(const absl::Status& status, const DriverRequest& request,
                                const Cursor& cursor) {
  DifferentialErrorCode code = DifferentialErrorCode::kInternal;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      code = cursor == Cursor{} ? DifferentialErrorCode::kInvalidArgument
                                : DifferentialErrorCode::kInvalidOffset;
      break;
    case absl::StatusCode::kNotFound:
      code = request.base_handle.empty() ? DifferentialErrorCode::kTargetSnapshotGone
                                         : DifferentialErrorCode::kBaseSnapshotGone;
      break;
    case absl::StatusCode::kPermissionDenied:
      code = DifferentialErrorCode::kPermissionDenied;
      break;
    case absl::StatusCode::kFailedPrecondition:
      code = DifferentialErrorCode::kFullBackupRequired;
      break;
    case absl::StatusCode::kOutOfRange:
      code = DifferentialErrorCode::kOffsetOutOfRange;
      break;
    case absl::StatusCode::kResourceExhausted:
      code = DifferentialErrorCode::kThrottled;
      break;
    case absl::StatusCode::kUnimplemented:
      code = DifferentialErrorCode::kUnsupported;
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      code = DifferentialErrorCode::kUnavailable;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      code = DifferentialErrorCode::kDeadlineExceeded;
      break;
    default:
      break;
  }
  return {
      .code = code,
      .message = absl::StrCat("the driver: ", status.message().substr(0, kDriverMessageBytesMax))};
}

absl::Status CheckSizes(const DriverRequest& request, const Cursor& cursor,
                        const DriverPage& answer) {
  if (answer.volume_size_bytes < 0 ||
      (cursor.volume_size_bytes != 0 && answer.volume_size_bytes != cursor.volume_size_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("a volume of ", answer.volume_size_bytes,
                                                   " bytes, and of ", cursor.volume_size_bytes,
                                                   " in the page before"));
  }
  if (std::ssize(answer.blocks) > request.entries_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(answer.blocks.size(), " blocks, asked for ", request.entries_max, " at most"));
  }
  for (const incremental::ChangedBlock& block : answer.blocks) {
    if (std::ssize(block.context) > incremental::kBlockContextBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("the context of block ",
                                                     Describe(block.extent), " is longer than ",
                                                     incremental::kBlockContextBytesMax, " bytes"));
    }
  }
  return absl::OkStatus();
}

// One block from `from_bytes` to the end of the volume, whose size `allocated` says. A list of what
// is allocated would not do: it omits what was freed since the base.
absl::StatusOr<DriverPage> EverythingFrom(int64_t from_bytes, const DriverPage& allocated) {
  const int64_t size_bytes = allocated.volume_size_bytes;
  if (size_bytes <= 0) {
    return ContractViolation(absl::StrCat("a volume of ", size_bytes, " bytes"));
  }
  if (from_bytes > size_bytes) {
    return absl::OutOfRangeError(absl::StrCat("the volume ends at ", size_bytes));
  }
  DriverPage page;
  page.volume_size_bytes = size_bytes;
  if (from_bytes < size_bytes) {
    page.blocks.push_back({.extent = {from_bytes, size_bytes - from_bytes}});
  }
  return page;
}

// That the listing goes on somewhere, and not where it was.
absl::Status CheckProgress(const Cursor& cursor, const DriverPage& answer) {
  if (!answer.more) {
    return absl::OkStatus();
  }
  if (std::ssize(answer.driver_token) > kDriverTokenBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token longer than ", kDriverTokenBytesMax, " bytes"));
  }
  if (answer.blocks.empty() && answer.driver_token == cursor.driver_token) {
    return absl::InvalidArgumentError("an empty page that is followed by itself");
  }
  return absl::OkStatus();
}

absl::Status HoldToContract(const DriverRequest& request, const Cursor& cursor,
                            DriverPage& answer) {
  RETURN_IF_ERROR(CheckSizes(request, cursor, answer));
  RETURN_IF_ERROR(CheckProgress(cursor, answer));
  return incremental::CheckBlocks(cursor.from_bytes, answer.volume_size_bytes, answer.blocks);
}

int64_t SecondsOf(absl::Time instant) {
  return instant == absl::InfiniteFuture() ? 0 : std::max<int64_t>(absl::ToUnixSeconds(instant), 1);
}

DifferentialPage PageOf(const CursorCodec& codec, const CursorScope& scope, const Cursor& cursor,
                        DriverPage answer) {
  DifferentialPage page;
  if (answer.more) {
    const int64_t end_bytes =
        answer.blocks.empty() ? cursor.from_bytes : answer.blocks.back().extent.end_bytes();
    page.next_offset = codec.Encode(scope, {.from_bytes = end_bytes,
                                            .volume_size_bytes = answer.volume_size_bytes,
                                            .expires_at_seconds = SecondsOf(answer.expires_at),
                                            .driver_token = std::move(answer.driver_token)});
  }
  page.blocks = std::move(answer.blocks);
  page.volume_size_bytes = answer.volume_size_bytes;
  page.expires_at = answer.expires_at;
  return page;
}

}  // namespace

absl::StatusOr<PageQuery> ParsePageQuery(absl::string_view target) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  const std::vector<absl::string_view> steps = absl::StrSplit(parts.first, '/');
  if (steps.size() != 3 || !steps[0].empty() || !IsName(steps[1]) || !IsName(steps[2])) {
    return absl::NotFoundError("no such path: pages are at /{namespace}/{name}");
  }
  ASSIGN_OR_RETURN(auto parameters, ParseParameters(parts.second));
  PageQuery query;
  query.namespace_name = std::string(steps[1]);
  query.name = std::string(steps[2]);
  query.start_offset = parameters["startOffset"];
  const std::string& alias = parameters["nextOffset"];
  if (!alias.empty() && !query.start_offset.empty() && alias != query.start_offset) {
    return Wrong("nextOffset", "is not what startOffset says: give one of them");
  }
  if (!alias.empty()) {
    query.start_offset = alias;
  }
  ASSIGN_OR_RETURN(query.entries_max, EntriesOf(parameters["maxEntries"]));
  return query;
}

PageService::PageService(const PairTable& pairs, DifferentialDriver& driver, CursorCodec codec,
                         ClassSecrets* secrets)
    : pairs_(pairs), driver_(driver), codec_(std::move(codec)), secrets_(secrets) {}

absl::StatusOr<DriverPage> PageService::AskDriver(const CallContext& ctx, const ResolvedPair& pair,
                                                  DriverRequest& request) {
  absl::StatusOr<DriverPage> answer = driver_.GetPage(ctx, request);
  const bool is_unknown_base =
      !request.base_handle.empty() &&
      (absl::IsNotFound(answer.status()) || absl::IsFailedPrecondition(answer.status()));
  if (!pair.lists_all_for_unknown_base || !is_unknown_base) {
    return answer;
  }
  // That the driver lists the target alone proves that it is the base which is gone.
  request.base_handle = "";
  DriverRequest of_target = request;
  of_target.from_bytes = 0;
  of_target.driver_token = "";
  of_target.entries_max = 1;
  ASSIGN_OR_RETURN(const DriverPage allocated, driver_.GetPage(ctx, of_target));
  CSIDELTA_LOG(kInfo, "the base is not known any more: everything is listed as changed",
               {"namespace", pair.scope.namespace_name}, {"target", pair.scope.target_handle},
               {"status", answer.status().ToString()});
  return EverythingFrom(request.from_bytes, allocated);
}

PageResult PageService::GetPage(const CallContext& ctx, const PageQuery& query) {
  if (!pairs_.is_synced()) {
    return DifferentialError{.code = DifferentialErrorCode::kNotSynced,
                             .message = "the objects are still being read: ask again"};
  }
  const std::shared_ptr<const ResolvedPair> pair = pairs_.Find(query.namespace_name, query.name);
  if (pair == nullptr) {
    return DifferentialError{
        .code = DifferentialErrorCode::kNotFound,
        .message = absl::StrCat("DifferentialSnapshot ", query.namespace_name, "/", query.name,
                                " is not served: look at its status")};
  }
  const absl::StatusOr<Cursor> cursor = query.start_offset.empty()
                                            ? ParseStartOffset(pair->start_offset)
                                            : codec_.Decode(pair->scope, query.start_offset);
  if (!cursor.ok()) {
    return DifferentialError{.code = DifferentialErrorCode::kInvalidOffset,
                             .message = std::string(cursor.status().message())};
  }
  if (cursor->expires_at_seconds != 0 &&
      ctx.clock->Now() >= absl::FromUnixSeconds(cursor->expires_at_seconds)) {
    return ExpiredError();
  }
  DriverRequest request{.base_handle = pair->scope.base_handle,
                        .target_handle = pair->scope.target_handle,
                        .volume_handle = pair->volume_handle,
                        .volume_size_bytes = cursor->volume_size_bytes != 0
                                                 ? cursor->volume_size_bytes
                                                 : pair->volume_size_bytes,
                        .parameters = pair->parameters,
                        .secrets = {},
                        .from_bytes = cursor->from_bytes,
                        .driver_token = cursor->driver_token,
                        .entries_max = query.entries_max};
  if (secrets_ != nullptr) {
    absl::StatusOr<DriverSecrets> secrets = secrets_->Read(ctx, pair->secrets_owner);
    if (!secrets.ok()) {
      return DifferentialError{.code = DifferentialErrorCode::kUnavailable,
                               .message = std::string(secrets.status().message())};
    }
    request.secrets = *std::move(secrets);
  }
  absl::StatusOr<DriverPage> answer = AskDriver(ctx, *pair, request);
  if (IsContractViolation(answer.status())) {
    return ViolationError(answer.status());
  }
  if (!answer.ok()) {
    return ErrorOfDriver(answer.status(), request, *cursor);
  }
  if (ctx.clock->Now() >= answer->expires_at) {
    return ExpiredError();
  }
  if (absl::Status kept = HoldToContract(request, *cursor, *answer); !kept.ok()) {
    return ViolationError(kept);
  }
  return PageOf(codec_, pair->scope, *cursor, *std::move(answer));
}

}  // namespace csidelta::diffsnap
