// An answer of an object store, as anybody may send it: reading it neither crashes nor runs away,
// and what comes out holds its promises.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "storage/azure_object_store.h"
#include "storage/s3_errors.h"
#include "storage/s3_xml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t bytes) {
  const absl::string_view xml(reinterpret_cast<const char*>(data), bytes);
  for (const auto& page :
       {csidelta::storage::ParseListPage(xml), csidelta::storage::ParseBlobList(xml)}) {
    if (!page.ok()) {
      CSIDELTA_CHECK(page.status().code() == absl::StatusCode::kInvalidArgument);
      continue;
    }
    for (const csidelta::storage::ObjectInfo& object : page->objects) {
      CSIDELTA_CHECK(object.size_bytes >= 0);
      CSIDELTA_CHECK(object.key.size() <= bytes);
    }
  }
  if (const auto role = csidelta::storage::ParseAssumeRoleResponse(xml); role.ok()) {
    CSIDELTA_CHECK(!role->access_key_id.empty() && !role->session_token.empty());
  }
  csidelta::net::HttpResponse response;
  response.status = bytes == 0 ? 500 : 300 + data[0];
  response.body = std::string(xml);
  if (const auto objects = csidelta::storage::ParseDeleteResult(xml); objects.ok()) {
    for (const csidelta::storage::DeletedObject& object : *objects) {
      CSIDELTA_CHECK(object.key.size() <= bytes);
      CSIDELTA_CHECK(!object.is_deleted || object.error.code.empty());
    }
  }
  response.headers["content-type"] = "multipart/mixed; boundary=x";
  if (const auto parts = csidelta::storage::ParseBatchAnswer(response); parts.ok()) {
    for (const auto& [id, part] : *parts) {
      CSIDELTA_CHECK(id.size() + part.body.size() <= bytes);
    }
  }
  const csidelta::storage::S3Error error = csidelta::storage::ReadS3Error(response);
  const absl::Status status = csidelta::storage::S3Status(response, error, "us-east-1");
  CSIDELTA_CHECK(!status.ok() && status.message().size() < 2000);
  return 0;
}
