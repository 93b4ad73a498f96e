#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/extent.h"
#include "tests/support/test_authority.h"

namespace csidelta::support {

// One request as the server saw it.
struct ServedQuery {
  bool is_delta = false;
  std::string token;
  std::string namespace_name;
  std::string base;
  std::string target;
  int64_t starting_offset_bytes = 0;
  int32_t results_max = 0;
};

// What one message says. Tuples are what they are: nothing is checked.
struct ServedMessage {
  int type = 2;
  int64_t capacity_bytes = 0;
  std::vector<Extent> tuples;
};

// One stream, for the part of the driver.
class ServedStream {
 public:
  virtual ~ServedStream() = default;
  // False when the client has gone.
  virtual bool Send(const ServedMessage& message) = 0;
  // Blocks until the server is taken down: a driver that hangs.
  virtual void Hang() = 0;
};

// Serves snapshot metadata as beside a CSI driver: real gRPC over real TLS, on a loopback port; the
// answers are the test's. Remembers what it was asked. The handler is called by several threads.
class FakeMetadataServer {
 public:
  using Handler = std::function<absl::Status(const ServedQuery& query, ServedStream& stream)>;

  FakeMetadataServer(const Credentials& credentials, Handler handler);
  ~FakeMetadataServer();

  // "127.0.0.1:port".
  std::string address() const;
  std::vector<ServedQuery> queries() const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

// A driver that keeps its promises: sends of `tuples` those that end after `starting_offset_bytes`,
// as many in a message as it was asked for, or `per_message`; from the beginning a message at
// least.
absl::Status ServeTuples(const ServedQuery& query, ServedStream& stream, int64_t capacity_bytes,
                         const std::vector<Extent>& tuples, int per_message = 256);

}  // namespace csidelta::support
