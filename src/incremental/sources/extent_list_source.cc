#include "incremental/sources/extent_list_source.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "incremental/sources/listing_failure.h"
#include "storage/posix_file.h"

namespace csidelta::incremental {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// Joining early keeps a list of many duplicates small.
constexpr std::size_t kCompactFrom = std::size_t{1} << 12;
// Of a snapshot's id, as messages show it.
constexpr std::size_t kIdPrefixMin = 8;
// How often a wait for a silent pipe looks at its context.
constexpr int kPollSliceMs = 200;

absl::StatusOr<int64_t> WholeNumber(const Json& object, absl::string_view member) {
  const Json* value = FindJson(object, {member});
  const int64_t number = GetInt(object, {member}, -1);
  if (value == nullptr || number < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", member, "\" is no whole number from 0 to 2^63-1"));
  }
  return number;
}

absl::Status OnlyMembers(const Json& object, std::initializer_list<absl::string_view> known) {
  for (const auto& member : object.items()) {
    if (std::find(known.begin(), known.end(), member.key()) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("unknown member \"", member.key(), "\""));
    }
    const bool is_flag =
        member.key() == "end" || member.key() == "allocated" || member.key() == "zero";
    if (is_flag && !member.value().is_boolean()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", member.key(), "\" is no boolean"));
    }
  }
  return absl::OkStatus();
}

// {"end":true} and the like: one member, and it is true.
absl::Status OnlyTrue(const Json& object, absl::string_view member) {
  RETURN_IF_ERROR(OnlyMembers(object, {member}));
  return GetBool(object, {member})
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("\"", member, "\" is not true"));
}

std::vector<ListedExtent> MergeKinds(std::vector<Extent> data, std::vector<Extent> zero) {
  const std::vector<Extent> read = MergeExtents(std::move(data));
  std::vector<ListedExtent> list;
  list.reserve(read.size());
  for (const Extent& extent : read) {
    list.push_back({.extent = extent, .kind = ExtentKind::kData});
  }
  for (const Extent& extent : SubtractExtents(MergeExtents(std::move(zero)), read)) {
    list.push_back({.extent = extent, .kind = ExtentKind::kZero});
  }
  std::sort(list.begin(), list.end(), [](const ListedExtent& left, const ListedExtent& right) {
    return left.extent.offset_bytes < right.extent.offset_bytes;
  });
  return list;
}

// Reads until the end of input, looking at `ctx` while a pipe is silent.
absl::Status FeedAll(const CallContext& ctx, int fd, ExtentListReader& reader) {
  std::array<char, kReadBytes> buffer;
  while (true) {
    RETURN_IF_ERROR(ctx.Check());
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, kPollSliceMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      continue;
    }
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
      continue;
    }
    if (got < 0) {
      return storage::ErrnoToStatus(errno, "read");
    }
    if (got == 0) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(reader.Feed({buffer.data(), static_cast<std::size_t>(got)}));
  }
}

}  // namespace

absl::StatusOr<ExtentListLine> ParseExtentListLine(absl::string_view line) {
  if (absl::StripAsciiWhitespace(line).empty()) {
    return ExtentListLine{};
  }
  ASSIGN_OR_RETURN(const Json object, ParseJsonObject(line));
  if (FindJson(object, {"end"}) != nullptr) {
    RETURN_IF_ERROR(OnlyTrue(object, "end"));
    return ExtentListLine{.end = true};
  }
  if (FindJson(object, {"allocated"}) != nullptr) {
    RETURN_IF_ERROR(OnlyTrue(object, "allocated"));
    return ExtentListLine{.base = ""};
  }
  if (FindJson(object, {"base"}) != nullptr) {
    RETURN_IF_ERROR(OnlyMembers(object, {"base"}));
    const std::string base = GetString(object, {"base"});
    if (base.empty()) {
      return absl::InvalidArgumentError("\"base\" names no snapshot");
    }
    return ExtentListLine{.base = base};
  }
  RETURN_IF_ERROR(OnlyMembers(object, {"offset", "length", "zero", "context"}));
  ListedExtent listed;
  ASSIGN_OR_RETURN(listed.extent.offset_bytes, WholeNumber(object, "offset"));
  ASSIGN_OR_RETURN(listed.extent.length_bytes, WholeNumber(object, "length"));
  listed.kind = GetBool(object, {"zero"}) ? ExtentKind::kZero : ExtentKind::kData;
  if (!IsWellFormed(listed.extent)) {
    return absl::InvalidArgumentError(
        absl::StrCat("extent ", Describe(listed.extent), " is empty or overflows"));
  }
  return ExtentListLine{.extent = listed};
}

absl::Status ExtentListReader::Feed(absl::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const absl::string_view piece = bytes.substr(0, newline);
    if (partial_.size() + piece.size() > std::size_t{kExtentListLineBytesMax}) {
      return absl::InvalidArgumentError(absl::StrCat("line ", line_number_ + 1, " is longer than ",
                                                     kExtentListLineBytesMax, " bytes"));
    }
    partial_.append(piece.data(), piece.size());
    if (newline == absl::string_view::npos) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(TakeLine(partial_));
    partial_.clear();
    bytes.remove_prefix(newline + 1);
  }
  return absl::OkStatus();
}

absl::Status ExtentListReader::TakeLine(absl::string_view text) {
  ++line_number_;
  ASSIGN_OR_RETURN(ExtentListLine line,
                   Annotate(ParseExtentListLine(text), absl::StrCat("line ", line_number_)));
  if (!line.end && !line.extent.has_value() && !line.base.has_value()) {
    return absl::OkStatus();
  }
  if (ended_) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_number_, " stands past the end of the list"));
  }
  if (line.base.has_value() == base_.has_value()) {
    return absl::InvalidArgumentError(
        base_.has_value()
            ? absl::StrCat("line ", line_number_, " says a second time what the list is")
            : absl::StrCat("line ", line_number_,
                           " does not say what the list is; begin it with {\"base\":ID}, the "
                           "snapshot since which the extents changed, or {\"allocated\":true}"));
  }
  if (line.base.has_value()) {
    base_ = *std::move(line.base);
    return absl::OkStatus();
  }
  ended_ = ended_ || line.end;
  return line.extent.has_value() ? Add(*line.extent) : absl::OkStatus();
}

absl::Status ExtentListReader::Add(const ListedExtent& listed) {
  std::vector<Extent>& list = listed.kind == ExtentKind::kZero ? zero_ : data_;
  AppendExtent(list, listed.extent);  // A sorted list never grows by what touches.
  if (list.size() >= kCompactFrom && list.size() == list.capacity()) {
    list = MergeExtents(std::move(list));
  }
  return std::ssize(data_) + std::ssize(zero_) <= extents_max_
             ? absl::OkStatus()
             : absl::ResourceExhaustedError(
                   absl::StrCat("more than ", extents_max_, " extents; merge them, or scan"));
}

absl::StatusOr<ExtentList> ExtentListReader::Finish() {
  if (!partial_.empty()) {
    RETURN_IF_ERROR(TakeLine(partial_));
    partial_.clear();
  }
  if (!ended_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the list ends after line ", line_number_,
                     " without {\"end\":true}; the program that wrote it may have died: make it "
                     "again"));
  }
  return ExtentList{.base = *base_, .extents = MergeKinds(std::move(data_), std::move(zero_))};
}

absl::StatusOr<ExtentListSource> ExtentListSource::Open(const CallContext& ctx,
                                                        const std::string& path) {
  const std::string what = absl::StrCat("extent list ", path == "-" ? "from standard input" : path);
  UniqueFd opened;
  if (path != "-") {
    opened = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened.valid()) {
      return storage::ErrnoToStatus(errno, absl::StrCat("open ", what));
    }
  }
  const int fd = path == "-" ? STDIN_FILENO : opened.get();
  ExtentListReader reader;
  RETURN_IF_ERROR(Annotate(FeedAll(ctx, fd, reader), what));
  ASSIGN_OR_RETURN(ExtentList list, Annotate(reader.Finish(), what));
  return ExtentListSource(std::move(list));
}

bool ExtentListSource::IsOfBase(const DiffRequest& request) const {
  if (list_.base.empty()) {
    return request.base.empty();
  }
  const bool is_id =
      list_.base.size() >= kIdPrefixMin && absl::StartsWith(request.base, list_.base);
  return is_id || std::find(request.base_names.begin(), request.base_names.end(), list_.base) !=
                      request.base_names.end();
}

absl::Status ExtentListSource::ListExtents(const CallContext& ctx, const DiffRequest& request,
                                           ExtentSink sink) {
  if (!IsOfBase(request)) {
    return WithFailure(
        absl::FailedPreconditionError(absl::StrCat(
            "the list is of ",
            list_.base.empty() ? "what is allocated" : absl::StrCat("changes since ", list_.base),
            request.base.empty() ? ", and there is no earlier backup to build on"
                                 : absl::StrCat(", and this backup builds on ", request.base))),
        ListingFailure::kOtherBase);
  }
  constexpr int64_t kCheckEvery = 4096;
  int64_t count = 0;
  for (const ListedExtent& listed : list_.extents) {
    if (count++ % kCheckEvery == 0) {
      RETURN_IF_ERROR(ctx.Check());
    }
    RETURN_IF_ERROR(sink(listed));
  }
  return absl::OkStatus();
}

}  // namespace csidelta::incremental
