#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/test_authority.h"

struct ssl_st;
struct ssl_ctx_st;

namespace csidelta::support {

struct ServedRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string client_common_name;  // of a verified client certificate
  bool tls_is_resumed = false;     // by the session of an earlier connection
  int connection = 0;              // counts from 1; the same number means the connection was kept
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// What is wrong with an answer to a request that was done otherwise.
enum class Spoiling {
  kNone,
  kCut,      // done, but not answered
  kShort,    // ends in the middle of its body
  kFlipped,  // one bit of the body is another; of a write: of the object, as the answer says
};

// One connection's far end, as a handler sees it. It can answer properly, or in every wrong way.
class ServedConnection {
 public:
  // A whole answer with Content-Length.
  void Send(int status, const std::string& body, const Headers& headers = {});
  // An answer in chunks.
  void StartStream(int status, const Headers& headers = {});
  bool Chunk(const std::string& bytes);  // false: the other side is gone
  void EndStream();
  // Bytes as they are; for answers that are none.
  bool Raw(std::string bytes);
  // Closes without saying good-bye.
  void Cut();
  // From now on passes bytes between this connection and a port of this machine.
  void Tunnel(uint16_t port);
  // What becomes of the answers from now on.
  void Spoil(Spoiling spoiling);
  // Whether the other side has closed.
  bool PeerIsGone();
  // Returns when it has, or with `stop`.
  void AwaitPeerGone(const std::stop_token& stop);
  // Requested when the server is destroyed.
  std::stop_token stop() const { return stop_; }

 private:
  friend class HttpTestServer;
  ServedConnection(int fd, ssl_st* tls, std::stop_token stop);

  bool ReadMore();
  bool ReadUntil(const std::function<bool()>& is_enough);
  bool ReadRequest(ServedRequest& request, bool leave_body);
  bool ReadChunks(std::string& body);

  int fd_;
  ssl_st* tls_;
  std::stop_token stop_;
  std::string input_;
  Spoiling spoiling_ = Spoiling::kNone;
  std::optional<std::string> held_ = {};  // what is sent once the handler has returned
  std::atomic<bool> is_cut_ = false;      // also read by who waits for PeerIsGone()
};

struct TestServerOptions {
  bool tls = false;
  std::string names = "DNS:localhost,DNS:api.test,IP:127.0.0.1";  // in the certificate
  bool ask_for_client_certificate = false;
  bool leave_body = false;    // the handler answers without the body being read, and cuts
  absl::Duration delay = {};  // before each answer, as of a server that is far away
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: the system chooses
  // For benchmarks, whose figures are those of clients: answers are sent when the handler has
  // returned. Fakes of buckets keep no requests, verify no checksums, and serve stock restic.
  bool is_bench = false;
};

// An HTTP/1.1 server on a port of loopback. Each connection has a thread, in which `handler` runs
// for every request; it must end when the connection's stop is requested.
class HttpTestServer {
 public:
  using Handler = std::function<void(const ServedRequest& request, ServedConnection& connection)>;

  explicit HttpTestServer(Handler handler, TestServerOptions options = {});
  ~HttpTestServer();
  HttpTestServer(const HttpTestServer&) = delete;
  HttpTestServer& operator=(const HttpTestServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url(const std::string& host = "127.0.0.1") const;
  TestAuthority& authority() { return authority_; }
  int connection_count() const { return connection_count_.load(); }
  int64_t request_count() const { return request_count_.load(); }

 private:
  void Accept(const std::stop_token& stop);
  void Serve(int fd, int number, const std::stop_token& stop);

  Handler handler_;
  TestServerOptions options_;
  TestAuthority authority_;
  ssl_ctx_st* tls_ = nullptr;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> connection_count_ = 0;
  std::atomic<int64_t> request_count_ = 0;
  std::mutex mutex_;
  std::vector<int> open_;                    // Guarded by mutex_.
  std::map<int, std::jthread> connections_;  // by number
  std::vector<int> ended_;  // Guarded by mutex_; their threads need nothing any more.
  std::jthread acceptor_;
};

}  // namespace csidelta::support
