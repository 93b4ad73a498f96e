#include "conformance/listing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace csidelta::conformance {
namespace {

// What upstream's sidecar takes from a driver in one message.
constexpr int64_t kMessageBytesMax = 4 << 20;

// Calls `visit(tuple, place)` for each tuple, until it returns a fault, and returns that.
template <typename Visit>
std::string FindFault(const Listing& listing, const Visit& visit) {
  for (std::size_t m = 0; m < listing.messages.size(); ++m) {
    const std::vector<Tuple>& tuples = listing.messages[m].tuples;
    for (std::size_t t = 0; t < tuples.size(); ++t) {
      if (const std::string fault = visit(tuples[t].extent, listing.messages[m]); !fault.empty()) {
        return absl::StrCat("tuple ", t + 1, " of message ", m + 1, ", ",
                            Describe(tuples[t].extent), ", ", fault);
      }
    }
  }
  return "";
}

std::string FindDisorder(const Listing& listing) {
  std::optional<int64_t> before;
  return FindFault(listing, [&before](const Extent& extent, const Message&) {
    const bool late = before.has_value() && extent.offset_bytes < *before;
    const std::string fault = late ? absl::StrCat("comes behind one that begins at ", *before) : "";
    before = extent.offset_bytes;
    return fault;
  });
}

std::string FindOverlap(const Listing& listing) {
  std::vector<Extent> sorted;
  for (const Message& message : listing.messages) {
    for (const Tuple& tuple : message.tuples) {
      if (IsWellFormed(tuple.extent)) {
        sorted.push_back(tuple.extent);
      }
    }
  }
  std::sort(sorted.begin(), sorted.end(), [](const Extent& left, const Extent& right) {
    return left.offset_bytes < right.offset_bytes;
  });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].offset_bytes < sorted[i - 1].end_bytes()) {
      return absl::StrCat(Describe(sorted[i]), " overlaps ", Describe(sorted[i - 1]));
    }
  }
  return "";
}

std::string FindMalformed(const Listing& listing) {
  return FindFault(listing, [](const Extent& extent, const Message&) -> std::string {
    return IsWellFormed(extent) ? "" : "is no range of bytes";
  });
}

std::string FindBeyond(const Listing& listing, int64_t volume_bytes) {
  return FindFault(listing, [&](const Extent& extent, const Message& message) -> std::string {
    const int64_t end_bytes = std::max(volume_bytes, message.capacity_bytes);
    return extent.offset_bytes < end_bytes ? "" : absl::StrCat("the volume ends at ", end_bytes);
  });
}

std::string FindOtherCapacity(const Listing& listing, int64_t volume_bytes) {
  for (std::size_t m = 0; m < listing.messages.size(); ++m) {
    const int64_t capacity_bytes = listing.messages[m].capacity_bytes;
    if (capacity_bytes != listing.messages.front().capacity_bytes) {
      return absl::StrCat("message ", m + 1, " says ", capacity_bytes, ", the first one ",
                          listing.messages.front().capacity_bytes);
    }
    if (capacity_bytes < volume_bytes) {
      return absl::StrCat("message ", m + 1, " says ", capacity_bytes, ", the device has ",
                          volume_bytes);
    }
  }
  return "";
}

absl::string_view TypeName(BlockType type) {
  switch (type) {
    case BlockType::kFixed:
      return "FIXED_LENGTH";
    case BlockType::kVariable:
      return "VARIABLE_LENGTH";
    case BlockType::kNotSaid:
    case BlockType::kUnknown:
      break;
  }
  return "UNKNOWN";
}

std::string FindOtherType(const Listing& listing) {
  std::optional<int64_t> fixed_bytes;
  for (std::size_t m = 0; m < listing.messages.size(); ++m) {
    const Message& message = listing.messages[m];
    if (message.type == BlockType::kUnknown || message.type != listing.messages.front().type) {
      return absl::StrCat("message ", m + 1, " says ", TypeName(message.type), ", the first one ",
                          TypeName(listing.messages.front().type));
    }
    for (const Tuple& tuple : message.tuples) {
      if (!fixed_bytes.has_value()) {
        fixed_bytes = tuple.extent.length_bytes;
      }
      if (message.type == BlockType::kFixed && tuple.extent.length_bytes != *fixed_bytes) {
        return absl::StrCat(Describe(tuple.extent), " has another length than ", *fixed_bytes);
      }
    }
  }
  return "";
}

std::string FindLargeMessage(const Listing& listing, int64_t results_max) {
  for (std::size_t m = 0; m < listing.messages.size(); ++m) {
    const Message& message = listing.messages[m];
    if (results_max > 0 && std::ssize(message.tuples) > results_max) {
      return absl::StrCat("message ", m + 1, " has ", message.tuples.size(), " tuples, ",
                          results_max, " were asked for");
    }
    if (message.wire_bytes > kMessageBytesMax) {
      return absl::StrCat("message ", m + 1, " has ", message.wire_bytes, " bytes");
    }
  }
  return "";
}

std::string FindEarlyStart(const Listing& listing, int64_t from_bytes) {
  bool first = true;
  return FindFault(listing, [&](const Extent& extent, const Message&) -> std::string {
    const bool early =
        std::exchange(first, false) && IsWellFormed(extent) && extent.end_bytes() <= from_bytes;
    return early ? absl::StrCat("ends before ", from_bytes, ", where the list was to begin") : "";
  });
}

std::vector<Extent> Collect(const Listing& listing, bool only_zeros) {
  std::vector<Extent> extents;
  for (const Message& message : listing.messages) {
    for (const Tuple& tuple : message.tuples) {
      if (IsWellFormed(tuple.extent) && (tuple.zero || !only_zeros)) {
        extents.push_back(tuple.extent);
      }
    }
  }
  return MergeExtents(std::move(extents));
}

}  // namespace

int64_t Listing::TupleCount() const {
  int64_t count = 0;
  for (const Message& message : messages) {
    count += std::ssize(message.tuples);
  }
  return count;
}

std::vector<CheckResult> CheckForm(absl::string_view subject, const Listing& listing,
                                   const Question& question) {
  std::vector<CheckResult> results = {
      MakeCheckResult(subject, "ends-well", listing.end.ok() ? "" : DescribeEnd(listing.end)),
      MakeCheckResult(subject, "order", FindDisorder(listing)),
      MakeCheckResult(subject, "overlap", FindOverlap(listing)),
      MakeCheckResult(subject, "size", FindMalformed(listing)),
      MakeCheckResult(subject, "bounds", FindBeyond(listing, question.volume_bytes)),
      MakeCheckResult(subject, "capacity", FindOtherCapacity(listing, question.volume_bytes)),
      MakeCheckResult(subject, "max-results", FindLargeMessage(listing, question.results_max)),
      MakeCheckResult(subject, "clipping", FindEarlyStart(listing, question.from_bytes))};
  if (listing.messages.empty() || listing.messages.front().type != BlockType::kNotSaid) {
    results.push_back(MakeCheckResult(subject, "type", FindOtherType(listing)));
  }
  return results;
}

CheckResult CheckCoverage(absl::string_view subject, absl::string_view rule, const Listing& listing,
                          const std::vector<Extent>& truth, const Question& question) {
  if (!listing.end.ok()) {
    return MakeCheckResult(subject, rule, DescribeEnd(listing.end));
  }
  std::vector<Extent> listed = ListedExtents(listing);
  if (question.from_bytes > 0) {
    listed.push_back({0, question.from_bytes});
  }
  const std::vector<Extent> missing = SubtractExtents(truth, MergeExtents(std::move(listed)));
  if (missing.empty()) {
    return MakeCheckResult(subject, rule, "");
  }
  return MakeCheckResult(
      subject, rule,
      absl::StrCat(
          TotalBytes(missing), " bytes are in no tuple, in ", missing.size(),
          missing.size() == 1 ? " place: " : " places; the first: ", Describe(missing.front())));
}

std::vector<Extent> ListedExtents(const Listing& listing) { return Collect(listing, false); }

std::vector<Extent> ListedZeros(const Listing& listing) { return Collect(listing, true); }

std::string DescribeEnd(const absl::Status& status) {
  return absl::StrCat("it answered ", absl::StatusCodeToString(status.code()),
                      status.message().empty() ? "" : ": ", status.message());
}

}  // namespace csidelta::conformance
