// A bucket of each kind in memory, which waits before it answers: `bucket_bench MILLISECONDS`.
//
// Prints {"s3": ADDRESS, "azure": ADDRESS, "google": ADDRESS}, then for each line of the input how
// many requests each has had, and ends with the input. What the servers accept is what those of
// tests/support accept; they keep everything that they are sent.
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/support/fake_azure_server.h"
#include "tests/support/fake_google_server.h"
#include "tests/support/fake_s3_server.h"

namespace {

constexpr std::size_t kPageObjects = 1000;

void Print(const auto& s3, const auto& azure, const auto& google) {
  std::cout << "{\"s3\": " << s3 << ", \"azure\": " << azure << ", \"google\": " << google << "}"
            << std::endl;
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }

}  // namespace

int main(int argc, char** argv) {
  using csidelta::support::TestServerOptions;
  int64_t delay_ms = -1;
  if (argc != 2 || !absl::SimpleAtoi(argv[1], &delay_ms) || delay_ms < 0) {
    std::cerr << "usage: bucket_bench MILLISECONDS\n";
    return 2;
  }
  const TestServerOptions http{.delay = absl::Milliseconds(delay_ms)};
  const csidelta::support::FakeS3Server s3({.page_objects_max = kPageObjects, .http = http});
  const csidelta::support::FakeAzureServer azure({.page_objects_max = kPageObjects, .http = http});
  const csidelta::support::FakeGoogleServer google(
      {.page_objects_max = kPageObjects,
       .accepts = [](const std::string&) { return true; },
       .http = http});
  Print(Quoted(s3.url()), Quoted(azure.uri()), Quoted(google.url()));
  std::string line;
  while (std::getline(std::cin, line)) {
    Print(s3.request_count(), azure.request_count(), google.request_count());
  }
  return 0;
}
