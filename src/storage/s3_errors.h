#pragma once

#include <string>

#include "absl/status/status.h"
#include "net/http_client.h"
#include "storage/s3_xml.h"

namespace csidelta::storage {

// What an answer of S3 says that is no success: its XML where it has some, else its headers. Pure.
S3Error ReadS3Error(const net::HttpResponse& response);

// The status that object_store.h wants for such an answer. The server's own message is shortened
// and without control characters, its credentials never in it. `region` is the one that the request
// was signed for. IsRetained() where the server says that an object lock is why. Pure.
absl::Status S3Status(const net::HttpResponse& response, const S3Error& error,
                      const std::string& region);

}  // namespace csidelta::storage
