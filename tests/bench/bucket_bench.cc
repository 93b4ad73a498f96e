// A bucket of each kind in memory, which waits before it answers: `bucket_bench MILLISECONDS`.
//
// Each speaks TLS on port 443 of an address of loopback, for the host that clients of the real one
// ask for. Prints {"s3": AUTHORITY, "azure": AUTHORITY, "google": AUTHORITY}, certificates as PEM,
// then for each line of the input how many requests each has had, and ends with the input. The
// servers are those of tests/support, and keep all objects that they are sent.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/support/fake_azure_server.h"
#include "tests/support/fake_google_server.h"
#include "tests/support/fake_s3_server.h"

namespace {

constexpr std::size_t kPageObjects = 1000;
constexpr uint16_t kPort = 443;

void Print(const auto& s3, const auto& azure, const auto& google) {
  std::cout << nlohmann::json{{"s3", s3}, {"azure", azure}, {"google", google}} << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  int64_t delay_ms = -1;
  if (argc != 2 || !absl::SimpleAtoi(argv[1], &delay_ms) || delay_ms < 0) {
    std::cerr << "usage: bucket_bench MILLISECONDS\n";
    return 2;
  }
  const auto http = [delay_ms](const char* address, const char* host) {
    return csidelta::support::TestServerOptions{.tls = true,
                                                .names = absl::StrCat("DNS:", host),
                                                .delay = absl::Milliseconds(delay_ms),
                                                .address = address,
                                                .port = kPort,
                                                .is_bench = true};
  };
  csidelta::support::FakeS3Server s3(
      {.page_objects_max = kPageObjects, .http = http("127.0.0.1", "s3.test")});
  csidelta::support::FakeAzureServer azure(
      {.account_in_path = false,
       .page_objects_max = kPageObjects,
       .http = http("127.0.0.2", "teststore.blob.core.windows.net")});
  csidelta::support::FakeGoogleServer google({.page_objects_max = kPageObjects,
                                              .accepts = [](const std::string&) { return true; },
                                              .http = http("127.0.0.3", "storage.googleapis.com")});
  Print(s3.authority().ca_pem(), azure.authority().ca_pem(), google.authority().ca_pem());
  std::string line;
  while (std::getline(std::cin, line)) {
    Print(s3.request_count(), azure.request_count(), google.request_count());
  }
  return 0;
}
