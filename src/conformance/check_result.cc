#include "conformance/check_result.h"

#include <utility>

#include "base/check.h"

namespace csidelta::conformance {
namespace {

struct Rule {
  absl::string_view name;
  absl::string_view text;
};

constexpr Rule kRules[] = {
    {"announced",
     "a driver announces SNAPSHOT_METADATA_SERVICE or DIFFERENTIAL_SNAPSHOT_SERVICE among its "
     "capabilities, and serves what it announces"},
    {"content",
     "a volume made of a snapshot holds what its source held when the snapshot was made"},
    {"block-size",
     "a block device has what was requested, and no less than its snapshot, or is OUT_OF_RANGE"},
    {"snapshot-size", "the size of a snapshot is 0, or no smaller than its volume"},
    {"snapshot-topology",
     "a driver whose snapshots name a topology announces SNAPSHOT_ACCESSIBILITY_CONSTRAINTS"},
    {"no-space", "a snapshot for which there is not enough space is RESOURCE_EXHAUSTED"},
    {"clean-up", "what was made is deleted when it is asked for"},
    {"ends-well", "a list of two snapshots that exist ends with OK"},
    {"order", "tuples ascend by offset, within a message and from one to the next"},
    {"overlap", "no tuple begins before the one before it has ended"},
    {"size", "a tuple begins at 0 or behind it, has a byte at least, and ends at an int64"},
    {"bounds", "no tuple begins at or past the end of the volume"},
    {"capacity", "the capacity is the same in all messages, and no smaller than the volume"},
    {"type",
     "the type is FIXED_LENGTH or VARIABLE_LENGTH in all messages; fixed tuples have one size"},
    {"max-results", "a message has no more tuples than were asked for, and at most 4 MiB"},
    {"complete",
     "every byte that differs is in a tuple; of what is allocated, every byte not zero"},
    {"resume", "asked from the end of any tuple on, the list has all that comes behind it"},
    {"clipping", "the first tuple ends behind the starting offset"},
    {"out-of-range",
     "a starting offset that is negative or past the end of the volume is OUT_OF_RANGE"},
    {"at-the-end", "from the end of the volume on there is nothing, or OUT_OF_RANGE"},
    {"no-argument", "a request without a handle is INVALID_ARGUMENT"},
    {"unknown-handle", "an unknown handle is NOT_FOUND"},
    {"foreign-pair",
     "snapshots of two volumes are not compared: INVALID_ARGUMENT, NOT_FOUND or "
     "FAILED_PRECONDITION"},
    {"reversed-pair", "a pair in the wrong order is refused, or its list is complete"},
    {"same-snapshot", "a snapshot compared with itself is refused, or is an empty list"},
    {"deleted-base", "a base that was deleted is NOT_FOUND, or its list is complete"},
    {"cursor", "each next_offset leads on, and the last page has none"},
    {"page-again", "a page that is asked for again is the same, or as good"},
    {"expiry", "a timeout is 0 or a time to come, in seconds since 1970"},
    {"zero-out", "what is called zero reads as zeros"},
    {"mode", "a mode other than Block is UNIMPLEMENTED or INVALID_ARGUMENT"},
    {"forged-cursor", "a start_offset that was never handed out is INVALID_ARGUMENT"},
    {"volume", "a volume_id that is not the target's is INVALID_ARGUMENT"},
};

}  // namespace

absl::string_view RuleText(absl::string_view rule) {
  for (const Rule& known : kRules) {
    if (known.name == rule) {
      return known.text;
    }
  }
  CSIDELTA_CHECK(false);
  return "";
}

CheckResult MakeCheckResult(absl::string_view subject, absl::string_view rule, std::string fault) {
  return {.verdict = fault.empty() ? Verdict::kPass : Verdict::kFail,
          .subject = std::string(subject),
          .rule = std::string(rule),
          .detail = std::move(fault)};
}

}  // namespace csidelta::conformance
