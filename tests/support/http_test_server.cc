#include "tests/support/http_test_server.h"

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/clock.h"

namespace csidelta::support {
namespace {

constexpr int kPollIntervalMs = 20;  // How late a tunnel notices a stop.

int ConnectTo(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CSIDELTA_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

// Moves what is there from one socket to the other; false at the end.
bool Pump(int from, int to) {
  std::array<char, 16384> bytes;
  const ssize_t count = recv(from, bytes.data(), bytes.size(), 0);
  return count > 0 &&
         send(to, bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
}

std::string HeadLines(int status, const Headers& headers) {
  std::string head = absl::StrCat("HTTP/1.1 ", status, " Text\r\n");
  for (const auto& [name, value] : headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  return head;
}

SSL_CTX* MakeServerContext(TestAuthority& authority, const TestServerOptions& options) {
  const Credentials own = authority.IssueServer(options.names);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  BIO* certificate_bio = BIO_new_mem_buf(own.certificate_pem.data(), -1);
  BIO* key_bio = BIO_new_mem_buf(own.key_pem.data(), -1);
  X509* certificate = PEM_read_bio_X509(certificate_bio, nullptr, nullptr, nullptr);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
  CSIDELTA_CHECK(SSL_CTX_use_certificate(context, certificate) == 1);
  CSIDELTA_CHECK(SSL_CTX_use_PrivateKey(context, key) == 1);
  if (options.ask_for_client_certificate) {
    const std::string ca_pem = authority.ca_pem();
    BIO* ca_bio = BIO_new_mem_buf(ca_pem.data(), -1);
    X509* ca = PEM_read_bio_X509(ca_bio, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    X509_free(ca);
    BIO_free(ca_bio);
  }
  X509_free(certificate);
  EVP_PKEY_free(key);
  BIO_free(certificate_bio);
  BIO_free(key_bio);
  return context;
}

std::string PeerCommonName(SSL* tls) {
  X509* peer = tls == nullptr ? nullptr : SSL_get1_peer_certificate(tls);
  if (peer == nullptr) {
    return "";
  }
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, name.data(),
                            static_cast<int>(name.size()));
  X509_free(peer);
  return name.data();
}

}  // namespace

ServedConnection::ServedConnection(int fd, ssl_st* tls, std::stop_token stop)
    : fd_(fd), tls_(tls), stop_(std::move(stop)) {}

bool ServedConnection::Raw(std::string bytes) {
  if (held_.has_value()) {
    *held_ = held_->empty() ? std::move(bytes) : absl::StrCat(*held_, bytes);
    return !is_cut_;
  }
  std::size_t sent = 0;
  while (!is_cut_ && sent < bytes.size()) {
    const std::size_t left = std::min(bytes.size() - sent, std::size_t{1} << 20);
    const ssize_t count = tls_ != nullptr
                              ? SSL_write(tls_, bytes.data() + sent, static_cast<int>(left))
                              : send(fd_, bytes.data() + sent, left, MSG_NOSIGNAL);
    if (count <= 0) {
      is_cut_ = true;
      break;
    }
    sent += static_cast<std::size_t>(count);
  }
  return !is_cut_;
}

void ServedConnection::Send(int status, const std::string& body, const Headers& headers) {
  std::string answer =
      absl::StrCat(HeadLines(status, headers), "Content-Length: ", body.size(), "\r\n\r\n", body);
  const std::size_t middle = answer.size() - body.size() + body.size() / 2;
  if (spoiling_ == Spoiling::kFlipped && !body.empty()) {
    answer[middle] = static_cast<char>(answer[middle] ^ 1);
  }
  const bool is_short = spoiling_ == Spoiling::kShort && !body.empty();
  Raw(is_short ? answer.substr(0, middle) : std::move(answer));
  is_cut_ = is_cut_ || is_short;
}

void ServedConnection::Spoil(Spoiling spoiling) {
  spoiling_ = spoiling;
  is_cut_ = is_cut_ || spoiling == Spoiling::kCut;
}

void ServedConnection::StartStream(int status, const Headers& headers) {
  Raw(absl::StrCat(HeadLines(status, headers), "Transfer-Encoding: chunked\r\n\r\n"));
}

bool ServedConnection::Chunk(const std::string& bytes) {
  return Raw(absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n"));
}

void ServedConnection::EndStream() { Raw("0\r\n\r\n"); }

void ServedConnection::Cut() { is_cut_ = true; }

bool ServedConnection::PeerIsGone() {
  pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
  char byte = 0;
  return is_cut_ || (poll(&entry, 1, 0) > 0 && recv(fd_, &byte, 1, MSG_PEEK) <= 0);
}

void ServedConnection::AwaitPeerGone(const std::stop_token& stop) {
  const int wake = eventfd(0, EFD_CLOEXEC);
  {
    const std::stop_callback stopping(stop, [wake] { eventfd_write(wake, 1); });
    std::array<pollfd, 2> polls{pollfd{.fd = fd_, .events = POLLRDHUP, .revents = 0},
                                pollfd{.fd = wake, .events = POLLIN, .revents = 0}};
    poll(polls.data(), polls.size(), is_cut_ ? 0 : -1);
  }
  close(wake);
}

void ServedConnection::Tunnel(uint16_t port) {
  const int other = ConnectTo(port);
  bool is_open = true;
  while (is_open && !stop_.stop_requested()) {
    std::array<pollfd, 2> polls{pollfd{.fd = fd_, .events = POLLIN, .revents = 0},
                                pollfd{.fd = other, .events = POLLIN, .revents = 0}};
    poll(polls.data(), polls.size(), kPollIntervalMs);
    if (polls[0].revents != 0) {
      is_open = Pump(fd_, other);
    }
    if (is_open && polls[1].revents != 0) {
      is_open = Pump(other, fd_);
    }
  }
  close(other);
  is_cut_ = true;
}

bool ServedConnection::ReadMore() {
  std::array<char, 65536> bytes;
  ssize_t count = 0;
  if (!stop_.stop_requested() && !is_cut_) {
    count = tls_ != nullptr ? SSL_read(tls_, bytes.data(), static_cast<int>(bytes.size()))
                            : TEMP_FAILURE_RETRY(recv(fd_, bytes.data(), bytes.size(), 0));
  }
  input_.append(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  return count > 0;
}

bool ServedConnection::ReadUntil(const std::function<bool()>& is_enough) {
  while (!is_enough()) {
    if (!ReadMore()) {
      return false;
    }
  }
  return true;
}

// A body in chunks (RFC 9112 §7.1), without trailers.
bool ServedConnection::ReadChunks(std::string& body) {
  for (uint64_t chunk_bytes = 1; chunk_bytes > 0;) {
    std::size_t line_end = 0;
    if (!ReadUntil([&] { return (line_end = input_.find("\r\n")) != std::string::npos; })) {
      return false;
    }
    CSIDELTA_CHECK(absl::SimpleHexAtoi(input_.substr(0, line_end), &chunk_bytes));
    input_.erase(0, line_end + 2);
    if (!ReadUntil([&] { return input_.size() >= chunk_bytes + 2; })) {
      return false;
    }
    body.append(input_, 0, chunk_bytes);
    input_.erase(0, chunk_bytes + 2);
  }
  return true;
}

bool ServedConnection::ReadRequest(ServedRequest& request, bool leave_body) {
  std::size_t head_end = 0;
  if (!ReadUntil([&] { return (head_end = input_.find("\r\n\r\n")) != std::string::npos; })) {
    return false;
  }
  const std::vector<std::string> lines = absl::StrSplit(input_.substr(0, head_end), "\r\n");
  input_.erase(0, head_end + 4);
  const std::vector<std::string> words = absl::StrSplit(lines.front(), ' ');
  CSIDELTA_CHECK(words.size() == 3);
  request.method = words[0];
  request.target = words[1];
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    const std::vector<std::string> parts = absl::StrSplit(*line, absl::MaxSplits(": ", 1));
    request.headers[absl::AsciiStrToLower(parts.front())] = parts.back();
  }
  if (leave_body) {
    return true;
  }
  const auto coding = request.headers.find("transfer-encoding");
  if (coding != request.headers.end() && coding->second == "chunked") {
    return ReadChunks(request.body);
  }
  std::size_t body_bytes = 0;
  if (const auto length = request.headers.find("content-length"); length != request.headers.end()) {
    CSIDELTA_CHECK(absl::SimpleAtoi(length->second, &body_bytes));
  }
  if (!ReadUntil([&] { return input_.size() >= body_bytes; })) {
    return false;
  }
  std::string rest = input_.substr(body_bytes);
  input_.resize(body_bytes);
  request.body = std::exchange(input_, std::move(rest));
  return true;
}

HttpTestServer::HttpTestServer(Handler handler, TestServerOptions options)
    : handler_(std::move(handler)), options_(std::move(options)) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets that the client has closed.
  if (options_.tls) {
    tls_ = MakeServerContext(authority_, options_);
  }
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options_.port);
  CSIDELTA_CHECK(inet_pton(AF_INET, options_.address.c_str(), &address.sin_addr) == 1);
  socklen_t address_bytes = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  CSIDELTA_CHECK(bind(listener_, plain, address_bytes) == 0);
  CSIDELTA_CHECK(listen(listener_, 64) == 0);
  CSIDELTA_CHECK(getsockname(listener_, plain, &address_bytes) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this](const std::stop_token& stop) { Accept(stop); });
}

HttpTestServer::~HttpTestServer() {
  acceptor_.request_stop();
  shutdown(listener_, SHUT_RDWR);  // Wakes the acceptor.
  acceptor_.join();
  {
    std::scoped_lock lock(mutex_);
    for (const int fd : open_) {
      shutdown(fd, SHUT_RDWR);  // Wakes those that block in a read or a write.
    }
  }
  connections_.clear();
  close(listener_);
  SSL_CTX_free(tls_);
}

std::string HttpTestServer::url(const std::string& host) const {
  return absl::StrCat(options_.tls ? "https" : "http", "://", host, ":", port_);
}

void HttpTestServer::Accept(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd entry{.fd = listener_, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, -1) <= 0) {
      continue;
    }
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      continue;
    }
    const int number = ++connection_count_;
    std::scoped_lock lock(mutex_);
    open_.push_back(fd);
    for (const int ended : std::exchange(ended_, {})) {
      connections_.erase(ended);
    }
    connections_[number] = std::jthread(
        [this, fd, number](const std::stop_token& own_stop) { Serve(fd, number, own_stop); });
  }
}

void HttpTestServer::Serve(int fd, int number, const std::stop_token& stop) {
  SSL* tls = nullptr;
  bool is_open = true;
  if (tls_ != nullptr) {
    tls = SSL_new(tls_);
    SSL_set_fd(tls, fd);
    is_open = SSL_accept(tls) == 1;
  }
  ServedConnection connection(fd, tls, stop);
  while (is_open && !connection.is_cut_) {
    ServedRequest request;
    request.connection = number;
    request.client_common_name = PeerCommonName(tls);
    request.tls_is_resumed = tls != nullptr && SSL_session_reused(tls) == 1;
    is_open = connection.ReadRequest(request, options_.leave_body);
    if (is_open) {
      ++request_count_;
      Clock::Real().SleepFor(options_.delay, stop);
      if (options_.is_bench) {
        connection.held_.emplace();
      }
      handler_(request, connection);
      connection.Raw(std::exchange(connection.held_, std::nullopt).value_or(""));
    }
  }
  SSL_free(tls);
  std::scoped_lock lock(mutex_);
  std::erase(open_, fd);
  close(fd);
  ended_.push_back(number);
}

}  // namespace csidelta::support
