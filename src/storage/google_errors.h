#pragma once

#include "absl/status/status.h"
#include "net/http_client.h"
#include "storage/s3_xml.h"

namespace csidelta::storage {

// What an answer of Google Cloud Storage, or of a service that gives tokens, says that is no
// success: the reason as the code, and the message. Services use three forms of JSON, and plain
// text or a page for downloads. Pure. Source:
// docs.cloud.google.com/storage/docs/json_api/v1/status-codes and RFC 6749, section 5.2.
S3Error ReadGoogleError(const net::HttpResponse& response);

// The status that object_store.h wants for such an answer. `of_object`: the request was for an
// object, so that a plain 404 is the object's. IsRetained() where a hold or a retention is why.
// Pure.
absl::Status GoogleStatus(const net::HttpResponse& response, bool of_object);

}  // namespace csidelta::storage
