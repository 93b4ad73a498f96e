#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/object_store.h"
#include "storage/s3_signer.h"

namespace csidelta::storage {

// The XML that S3 and STS answer with. The functions below take whatever bytes come: no document
// types, no entities of the document's own, at most kXmlBytesMax bytes, kXmlDepthMax levels and
// kXmlTextBytesMax bytes in one value; unknown elements are passed over. INVALID_ARGUMENT says what
// is wrong with a document, without repeating it. Pure.

inline constexpr int64_t kXmlBytesMax = int64_t{8} << 20;  // A page has 1000 keys of 1 KiB at most.
inline constexpr int kXmlDepthMax = 16;
inline constexpr int64_t kXmlTextBytesMax = int64_t{64} << 10;

// Called at the end of each element, with its path ("Error/Code") and the text directly in it, and
// before that with each of its attributes ("Error/Code/@name").
using ElementSink = absl::FunctionRef<absl::Status(absl::string_view path, std::string text)>;

// Feeds `sink` a document. The first error of `sink` ends it and is returned.
absl::Status ReadXml(absl::string_view xml, ElementSink sink);
// The same of what is below `root`, with paths from there. A document with another root is "not
// `what`".
absl::Status ReadXmlBelow(absl::string_view root, absl::string_view what, absl::string_view xml,
                          ElementSink sink);

// Puts `text` where the place of `path` is, if it has one.
void PickText(absl::string_view path, const std::string& text,
              std::initializer_list<std::pair<absl::string_view, std::string*>> places);

// Storage classes of objects that cannot be read until the bucket has restored them.
inline constexpr absl::string_view kArchiveClasses[] = {"GLACIER", "DEEP_ARCHIVE"};

// Keys as they stand in the bucket, decoded.
struct ListPage {
  std::vector<ObjectInfo> objects;
  std::vector<std::string> folders;  // with "/" behind; of a listing with a delimiter
  std::string next_token;            // "": this is the last page
  bool is_by_marker = false;         // The token is a key: the next page begins behind it.
};

// A ListBucketResult of version 2, or of version 1, which says its Marker. A page that is
// truncated, but does not say where to go on, is an error; of version 1, that is its last key.
absl::StatusOr<ListPage> ParseListPage(absl::string_view xml);

// A ListVersionsResult, ordered as VersionPage says whatever the order of the document. Keys are
// those in the bucket.
absl::StatusOr<VersionPage> ParseVersionPage(absl::string_view xml);

// A Retention.
absl::StatusOr<Retention> ParseRetention(absl::string_view xml);

struct S3Error {
  std::string code;  // "NoSuchKey"
  std::string message;
  std::string region;    // "" unless the bucket is in another one than the request was for
  std::string endpoint;  // "" unless the bucket is elsewhere
};

// An Error; also in an ErrorResponse, as STS wraps it.
absl::StatusOr<S3Error> ParseS3Error(absl::string_view xml);

// Of a DeleteResult: what became of one of the objects that were to be deleted.
struct DeletedObject {
  std::string key;
  bool is_deleted = false;
  S3Error error;
};
absl::StatusOr<std::vector<DeletedObject>> ParseDeleteResult(absl::string_view xml);

// An AssumeRoleWithWebIdentityResponse: credentials with session token and expiry.
absl::StatusOr<Credentials> ParseAssumeRoleResponse(absl::string_view xml);

}  // namespace csidelta::storage
