#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/extent.h"
#include "conformance/check_result.h"

// What a driver listed, as raw as it came, and what is to be said of it. Pure functions.
namespace csidelta::conformance {

// Not well-formed until that is judged. A number beyond int64 is negative.
struct Tuple {
  Extent extent;
  bool zero = false;  // the driver says so
};

enum class BlockType { kNotSaid, kFixed, kVariable, kUnknown };

struct Message {
  BlockType type = BlockType::kNotSaid;  // pages say none
  int64_t capacity_bytes = 0;
  std::vector<Tuple> tuples;
  int64_t wire_bytes = 0;
};

struct Listing {
  std::vector<Message> messages;
  absl::Status end = {};  // the driver's final status

  int64_t TupleCount() const;
};

// What was asked for.
struct Question {
  int64_t from_bytes = 0;
  int64_t results_max = 0;  // in one message; 0: any number
  int64_t volume_bytes = 0;
};

// Everything that can be said of a list without the volume's bytes: one check result per rule.
std::vector<CheckResult> CheckForm(absl::string_view subject, const Listing& listing,
                                   const Question& question);

// Whether all of `truth` from question.from_bytes on is listed. `truth` is normal.
CheckResult CheckCoverage(absl::string_view subject, absl::string_view rule, const Listing& listing,
                          const std::vector<Extent>& truth, const Question& question);

// The well-formed tuples as a normal list.
std::vector<Extent> ListedExtents(const Listing& listing);
// Of those that the driver calls zero.
std::vector<Extent> ListedZeros(const Listing& listing);

// "gRPC code: text".
std::string DescribeEnd(const absl::Status& status);

}  // namespace csidelta::conformance
