#pragma once

#include <ostream>
#include <string>

namespace csidelta::support {

// How a server, of any dialect, answers requests to delete many objects.
enum class BatchManner {
  kHeeded,
  kNotImplemented,  // 501
  kNotAllowed,      // 405
  kMalformed,       // 400
  kFails,           // 500
  kLeavesOut,       // All but the last are deleted, and named.
  // Says that all are deleted, and deletes none: besides
  kForeign,  // it names another object,
  kCutOff,   // its answer ends in the middle,
  kHostile,  // it begins with what no such answer has.
};

// How a server differs from AWS's S3, as servers, gateways and releases in the field do. Without
// any of these FakeS3Server follows AWS's documentation.
struct S3Quirks {
  enum class Condition { kHeeded, kNotImplemented, kInvalid, kIgnored };
  enum class Region { kAny, kBySignature, kByHost };

  const char* name = "";
  Condition if_none_match = Condition::kHeeded;
  bool omits_etag = false;         // PUT is answered without ETag and without x-amz-*.
  bool omits_length = false;       // HEAD is answered without Content-Length (R2, Yandex).
  int head_status = 0;             // HEAD is refused so.
  bool refuses_checksum = false;   // As Backblaze B2 did; a PUT needs Content-MD5 then.
  bool odd_statuses = false;       // PUT: 204. DELETE: 200, or 404 when there is no such key.
  bool lists_v1 = false;           // Knows nothing of list-type=2, and reads "marker".
  bool lists_empty_pages = false;  // Before each page but the first, as AWS may.
  bool throttles = false;          // Each request once, by the name that KMS has for it.
  BatchManner batch = BatchManner::kHeeded;
  // What a request for another region is answered with: AuthorizationHeaderMalformed, or a redirect
  // of any host that does not name the region.
  Region region = Region::kAny;
};
inline std::ostream& operator<<(std::ostream& out, const S3Quirks& quirks) {
  return out << quirks.name;
}

// The modes in which the contract of all stores is run.
inline const S3Quirks kS3Quirks[] = {
    {.name = "ConditionNotImplemented", .if_none_match = S3Quirks::Condition::kNotImplemented},
    {.name = "ConditionInvalid", .if_none_match = S3Quirks::Condition::kInvalid},
    {.name = "ConditionIgnored", .if_none_match = S3Quirks::Condition::kIgnored},
    {.name = "WithoutEtag", .omits_etag = true},
    {.name = "WithoutLength", .omits_length = true},
    {.name = "HeadForbidden", .head_status = 403},
    {.name = "HeadNotAllowed", .head_status = 405},
    {.name = "HeadNotImplemented", .head_status = 501},
    {.name = "WithoutChecksum", .refuses_checksum = true},
    {.name = "OddStatuses", .odd_statuses = true},
    {.name = "OddStatusesWithoutEtag", .omits_etag = true, .odd_statuses = true},
    {.name = "ListsV1", .lists_v1 = true},
    {.name = "EmptyPages", .lists_empty_pages = true},
    {.name = "Throttled", .throttles = true},
    {.name = "OtherRegionBySignature", .region = S3Quirks::Region::kBySignature},
    {.name = "OtherRegionByHost", .region = S3Quirks::Region::kByHost},
    {.name = "BatchNotImplemented", .batch = BatchManner::kNotImplemented},
    {.name = "BatchNotAllowed", .batch = BatchManner::kNotAllowed},
    {.name = "BatchMalformed", .batch = BatchManner::kMalformed},
    {.name = "BatchFails", .batch = BatchManner::kFails},
    {.name = "BatchLeavesOut", .batch = BatchManner::kLeavesOut},
    {.name = "BatchForeign", .batch = BatchManner::kForeign},
    {.name = "BatchCutOff", .batch = BatchManner::kCutOff},
    {.name = "BatchHostile", .batch = BatchManner::kHostile},
};

}  // namespace csidelta::support
