#include "incremental/sources/differential_wire.h"

#include <algorithm>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/json_text.h"
#include "base/status_macros.h"

namespace csidelta::incremental {
namespace {

constexpr int64_t kUnknownMembersMax = 64;        // of one object
constexpr int64_t kInstantMin = 1'000'000'000;    // 2001; less is a length of time
constexpr int64_t kInstantMax = 253'402'300'799;  // the year 9999
constexpr std::size_t kErrorMessageBytesMax = 1024;
constexpr absl::string_view kBlanks = " \n\t\r";

struct ErrorRow {
  DifferentialErrorCode code;
  int http_status;
  absl::string_view name;
};

// Of several with one HTTP status the first stands for an answer without a code that we know.
constexpr ErrorRow kErrors[] = {
    {DifferentialErrorCode::kInvalidArgument, 400, "InvalidArgument"},
    {DifferentialErrorCode::kInvalidOffset, 400, "InvalidOffset"},
    {DifferentialErrorCode::kUnauthenticated, 401, "Unauthenticated"},
    {DifferentialErrorCode::kPermissionDenied, 403, "PermissionDenied"},
    {DifferentialErrorCode::kNotFound, 404, "NotFound"},
    {DifferentialErrorCode::kMethodNotAllowed, 405, "MethodNotAllowed"},
    {DifferentialErrorCode::kNotAcceptable, 406, "NotAcceptable"},
    {DifferentialErrorCode::kFullBackupRequired, 409, "FullBackupRequired"},
    {DifferentialErrorCode::kResultExpired, 410, "ResultExpired"},
    {DifferentialErrorCode::kBaseSnapshotGone, 410, "BaseSnapshotGone"},
    {DifferentialErrorCode::kTargetSnapshotGone, 410, "TargetSnapshotGone"},
    {DifferentialErrorCode::kUriTooLong, 414, "UriTooLong"},
    {DifferentialErrorCode::kOffsetOutOfRange, 416, "OffsetOutOfRange"},
    {DifferentialErrorCode::kThrottled, 429, "Throttled"},
    {DifferentialErrorCode::kInternal, 500, "Internal"},
    {DifferentialErrorCode::kUnsupported, 501, "Unsupported"},
    {DifferentialErrorCode::kUnavailable, 503, "Unavailable"},
    {DifferentialErrorCode::kNotSynced, 503, "NotSynced"},
    {DifferentialErrorCode::kDriverContractViolation, 502, "DriverContractViolation"},
    {DifferentialErrorCode::kDeadlineExceeded, 504, "DeadlineExceeded"},
};

const ErrorRow& RowOf(DifferentialErrorCode code) {
  return *std::find_if(std::begin(kErrors), std::end(kErrors),
                       [&](const ErrorRow& row) { return row.code == code; });
}

// The names of one object's members: known ones by their place in `known`, all of them once.
class Members {
 public:
  explicit Members(absl::Span<const absl::string_view> known) : known_(known) {}

  // The place of the next member's name; -1 when it is unknown. False after the last one.
  bool Next(JsonReader& reader, int& place) {
    absl::string_view name;
    if (!reader.NextMember(name)) {
      return false;
    }
    const auto found = std::find(known_.begin(), known_.end(), name);
    place = found == known_.end() ? -1 : static_cast<int>(found - known_.begin());
    const bool twice =
        place >= 0 ? Has(place) : std::find(others_.begin(), others_.end(), name) != others_.end();
    if (twice) {
      reader.Fail(absl::StrCat("member \"", name.substr(0, 64), "\" stands here twice"));
    } else if (std::ssize(others_) >= kUnknownMembersMax) {
      reader.Fail("too many members");
    } else if (place >= 0) {
      seen_ |= 1U << place;
    } else {
      others_.emplace_back(name);
    }
    return !reader.failed();
  }

  bool Has(int place) const { return (seen_ & (1U << place)) != 0; }

 private:
  const absl::Span<const absl::string_view> known_;  // Borrowed.
  unsigned seen_ = 0;
  std::vector<std::string> others_;
};

// Whether `text` is a decimal number as JSON writes them: digits, no sign, no zero in front.
bool IsPlainNumber(absl::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos &&
         (text.size() == 1 || text[0] != '0');
}

char NextCharacter(const JsonReader& reader) {
  const absl::string_view rest = reader.rest();
  const std::size_t at = rest.find_first_not_of(kBlanks);
  return at == rest.npos ? '\0' : rest[at];
}

int64_t TakeInteger(JsonReader& reader) {
  if (NextCharacter(reader) == '"') {
    const absl::string_view text = reader.String();
    int64_t value = 0;
    if (!IsPlainNumber(text) || !absl::SimpleAtoi(text, &value)) {
      reader.Fail("expected an integer from 0 to 2^63-1");
    }
    return value;
  }
  if (NextCharacter(reader) == '0') {
    const absl::string_view rest = reader.rest();
    const std::size_t at = rest.find_first_not_of(kBlanks) + 1;
    if (at < rest.size() && rest[at] >= '0' && rest[at] <= '9') {
      reader.Fail("a number begins with 0");
    }
  }
  const uint64_t value = reader.Unsigned();
  if (value > uint64_t{std::numeric_limits<int64_t>::max()}) {
    reader.Fail("a number is beyond 2^63-1");
    return 0;
  }
  return static_cast<int64_t>(value);
}

bool TakeBool(JsonReader& reader) {
  const char first = NextCharacter(reader);
  if (first != 't' && first != 'f') {
    reader.Fail("expected true or false");
  }
  reader.Skip();
  return first == 't';
}

std::string TakeContext(JsonReader& reader) {
  std::string context;
  const absl::string_view text = reader.String();
  if (std::ssize(text) > 2 * kBlockContextBytesMax || !absl::Base64Unescape(text, &context)) {
    reader.Fail("a context is no base64");
  } else if (std::ssize(context) > kBlockContextBytesMax) {
    reader.Fail(absl::StrCat("a context is longer than ", kBlockContextBytesMax, " bytes"));
  }
  return context;
}

std::string TakeCursor(JsonReader& reader) {
  if (reader.TakeNull()) {
    return "";
  }
  const absl::string_view text = reader.String();
  if (std::ssize(text) > kPageCursorBytesMax) {
    reader.Fail(absl::StrCat("nextOffset is longer than ", kPageCursorBytesMax, " bytes"));
    return "";
  }
  if (!IsUtf8(text)) {
    reader.Fail("nextOffset is not UTF-8");
  }
  return std::string(text);
}

ChangedBlock TakeBlock(JsonReader& reader) {
  enum { kOffset, kSize, kContext, kZeroOut };
  static constexpr absl::string_view kNames[] = {"offset", "size", "context", "zeroOut"};
  Members members(kNames);
  ChangedBlock block;
  int place = 0;
  reader.BeginObject();
  while (members.Next(reader, place)) {
    if (place == kOffset) {
      block.extent.offset_bytes = TakeInteger(reader);
    } else if (place == kSize) {
      block.extent.length_bytes = TakeInteger(reader);
    } else if (place >= 0 && reader.TakeNull()) {
      continue;  // As good as absent.
    } else if (place == kContext) {
      block.context = TakeContext(reader);
    } else if (place == kZeroOut) {
      block.zero_out = TakeBool(reader);
    } else {
      reader.Skip();
    }
  }
  if (!members.Has(kOffset) || !members.Has(kSize)) {
    reader.Fail("a block without offset or size");
  } else if (!IsWellFormed(block.extent)) {
    reader.Fail(absl::StrCat("block ", Describe(block.extent), " is empty or overflows"));
  }
  return block;
}

std::vector<ChangedBlock> TakeBlocks(JsonReader& reader) {
  std::vector<ChangedBlock> blocks;
  reader.BeginArray();
  while (reader.NextElement()) {
    if (std::ssize(blocks) >= kPageEntriesMax) {
      reader.Fail(absl::StrCat("more than ", kPageEntriesMax, " blocks in one page"));
      break;
    }
    blocks.push_back(TakeBlock(reader));
  }
  return blocks;
}

absl::Time InstantOf(int64_t seconds) {
  return seconds < kInstantMin || seconds > kInstantMax ? absl::InfiniteFuture()
                                                        : absl::FromUnixSeconds(seconds);
}

}  // namespace

std::string EncodePage(const DifferentialPage& page) {
  constexpr std::size_t kBlockBytesTypical = 40;
  std::string text = "{\"changeBlockList\":[";
  text.reserve(256 + page.blocks.size() * kBlockBytesTypical);
  absl::string_view comma;
  for (const ChangedBlock& block : page.blocks) {
    absl::StrAppend(&text, comma, "{\"offset\":", block.extent.offset_bytes,
                    ",\"size\":", block.extent.length_bytes);
    if (!block.context.empty()) {
      absl::StrAppend(&text, ",\"context\":\"", absl::Base64Escape(block.context), "\"");
    }
    absl::StrAppend(&text, block.zero_out ? ",\"zeroOut\":true}" : "}");
    comma = ",";
  }
  text.push_back(']');
  if (!page.next_offset.empty()) {
    absl::StrAppend(&text, ",\"nextOffset\":", JsonText(page.next_offset));
  }
  const int64_t timeout =
      page.expires_at == absl::InfiniteFuture() ? 0 : absl::ToUnixSeconds(page.expires_at);
  absl::StrAppend(&text, ",\"volumeSize\":", page.volume_size_bytes, ",\"timeout\":", timeout, "}");
  return text;
}

absl::StatusOr<DifferentialPage> ParsePage(absl::string_view json) {
  enum { kList, kNextOffset, kVolumeSize, kTimeout };
  if (std::ssize(json) > kPageTextBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a page of more than ", kPageTextBytesMax, " bytes"));
  }
  static constexpr absl::string_view kNames[] = {"changeBlockList", "nextOffset", "volumeSize",
                                                 "timeout"};
  Members members(kNames);
  DifferentialPage page;
  JsonReader reader(json);
  int place = 0;
  reader.BeginObject();
  while (members.Next(reader, place)) {
    if (place == kList) {
      page.blocks = TakeBlocks(reader);
    } else if (place == kNextOffset) {
      page.next_offset = TakeCursor(reader);
    } else if (place == kVolumeSize) {
      page.volume_size_bytes = TakeInteger(reader);
    } else if (place == kTimeout) {
      page.expires_at = reader.TakeNull() ? absl::InfiniteFuture() : InstantOf(TakeInteger(reader));
    } else {
      reader.Skip();
    }
  }
  RETURN_IF_ERROR(Annotate(reader.Finish(), "page"));
  if (!members.Has(kList) || !members.Has(kVolumeSize)) {
    return absl::InvalidArgumentError("page without changeBlockList or volumeSize");
  }
  return page;
}

absl::Status CheckBlocks(int64_t from_bytes, int64_t volume_size_bytes,
                         std::vector<ChangedBlock>& blocks) {
  int64_t begin_min = from_bytes;
  for (ChangedBlock& block : blocks) {
    Extent& extent = block.extent;
    const bool is_first = &block == &blocks.front();
    const bool is_last = &block == &blocks.back();
    if (!IsWellFormed(extent) || extent.end_bytes() <= begin_min ||
        (extent.offset_bytes < begin_min && !is_first)) {
      return absl::InvalidArgumentError(
          absl::StrCat("block ", Describe(extent), " does not come behind byte ", begin_min));
    }
    if (std::max(extent.offset_bytes, begin_min) >= volume_size_bytes ||
        (extent.end_bytes() > volume_size_bytes && !is_last)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "block ", Describe(extent), " lies beyond the volume of ", volume_size_bytes, " bytes"));
    }
    const int64_t end_bytes = std::min(extent.end_bytes(), volume_size_bytes);
    extent.offset_bytes = std::max(extent.offset_bytes, begin_min);
    extent.length_bytes = end_bytes - extent.offset_bytes;
    begin_min = end_bytes;
  }
  return absl::OkStatus();
}

absl::string_view ErrorName(DifferentialErrorCode code) { return RowOf(code).name; }

int HttpStatusOf(DifferentialErrorCode code) { return RowOf(code).http_status; }

std::string EncodeError(const DifferentialError& error) {
  return DumpJson({{"code", std::string(ErrorName(error.code))}, {"message", error.message}});
}

DifferentialError ParseError(int http_status, absl::string_view body) {
  const absl::StatusOr<Json> object = ParseJsonObject(body, /*values_max=*/64);
  const std::string name = object.ok() ? GetString(*object, {"code"}) : "";
  DifferentialError error;
  error.message = object.ok() ? GetString(*object, {"message"}) : "";
  error.message.resize(std::min(error.message.size(), kErrorMessageBytesMax));
  const ErrorRow* found = nullptr;
  for (const ErrorRow& row : kErrors) {
    if (row.http_status == http_status && (found == nullptr || row.name == name)) {
      found = &row;
    }
  }
  error.code = found != nullptr         ? found->code
               : http_status / 100 == 4 ? DifferentialErrorCode::kInvalidArgument
                                        : DifferentialErrorCode::kInternal;
  if (error.message.empty()) {
    error.message = absl::StrCat("HTTP status ", http_status);
  }
  return error;
}

}  // namespace csidelta::incremental
