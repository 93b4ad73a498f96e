#include "net/connection.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "net/resolver.h"
#include "net/tls_context.h"

namespace csidelta::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr std::size_t kReadBytesMax = std::size_t{64} << 10;
// How long an answer may take that comes although the request could not be sent.
constexpr absl::Duration kEarlyAnswerTimeMax = absl::Seconds(2);
// How long one of several addresses may keep us from the next.
constexpr absl::Duration kAddressTimeMax = absl::Seconds(5);
constexpr int kProbeAfterSeconds = 30;
constexpr int kProbeIntervalSeconds = 10;
constexpr int kProbesMax = 3;
constexpr absl::Duration kWaitMax = absl::Hours(1);
// A clock of a test's own cannot wake the I/O loop: it is looked at this often.
constexpr absl::Duration kForeignClockLookInterval = absl::Milliseconds(10);

absl::Status Lost(absl::string_view what, const error_code& error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", error.message()));
}

absl::Status TooLarge(int64_t body_bytes_max) {
  return absl::InternalError(absl::StrCat("answer larger than ", body_bytes_max, " bytes"));
}

template <typename Message>
void AddAuthorization(const Url& proxy, Message& message) {
  if (!proxy.user_info.empty()) {
    message.set(http::field::proxy_authorization,
                absl::StrCat("Basic ", absl::Base64Escape(proxy.user_info)));
  }
}

// The body of a request: pieces that are borrowed and sent one behind the other.
struct PiecesBody {
  using value_type = std::array<absl::string_view, 3>;
  static uint64_t size(const value_type& pieces) {
    return pieces[0].size() + pieces[1].size() + pieces[2].size();
  }
  class writer {  // NOLINT(readability-identifier-naming): the name that Beast wants.
   public:
    using const_buffers_type = std::array<asio::const_buffer, 3>;
    template <bool kIsRequest, typename Fields>
    writer(const http::header<kIsRequest, Fields>& /*header*/, const value_type& pieces)
        : pieces_(pieces) {}
    void init(error_code& error) { error = {}; }
    boost::optional<std::pair<const_buffers_type, bool>> get(error_code& error) {
      error = {};
      const_buffers_type buffers;
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        buffers[i] = asio::const_buffer(pieces_[i].data(), pieces_[i].size());
      }
      return std::pair(buffers, false);
    }

   private:
    const value_type& pieces_;
  };
};

// The body is borrowed from `request`.
http::request<PiecesBody> BuildMessage(const HttpRequest& request, const Destination& destination) {
  http::request<PiecesBody> message;
  message.version(11);
  message.method_string(request.method);
  message.target(request.url.target);
  message.set(http::field::host, request.url.HostHeader());
  if (destination.proxy.has_value() && destination.tls == nullptr) {  // RFC 9112 §3.2.2
    message.target(absl::StrCat("http://", request.url.HostHeader(), request.url.target));
    AddAuthorization(*destination.proxy, message);
  }
  for (const auto& [name, value] : request.headers) {
    message.set(name, value);
  }
  message.body() = {request.body, request.borrowed_body, request.body_end};
  if (request.BodyBytes() > 0 || request.method == "POST" || request.method == "PUT") {
    message.prepare_payload();
  }
  return message;
}

}  // namespace

class Connection::Impl {
 public:
  explicit Impl(const Destination& destination);
  ~Impl();
  absl::Status Connect(const CallContext& ctx);
  absl::StatusOr<HttpResponse> Exchange(const CallContext& ctx, const HttpRequest& request,
                                        const HttpLimits& limits,
                                        const absl::FunctionRef<bool(absl::string_view)>* sink,
                                        Progress& progress);
  TlsSession Session() const;
  bool IsQuiet();

 private:
  using Parser = http::response_parser<http::buffer_body>;

  // What moved in the present stretch of silence_max_.
  struct Window {
    absl::Duration since;  // By the clock's Uptime().
    std::size_t moved_bytes = 0;
  };

  // In pieces, so that a request which moves is told from one that hangs.
  absl::Status Send(const CallContext& ctx, const HttpRequest& request);
  absl::StatusOr<HttpResponse> ReadAnswer(const CallContext& ctx, Parser& parser,
                                          int64_t body_bytes_max,
                                          const absl::FunctionRef<bool(absl::string_view)>* sink,
                                          Progress& progress);
  absl::Status ConnectAll(const CallContext& ctx);
  absl::Status ConnectTcp(const CallContext& ctx, const std::string& address, uint16_t port);

  // A watch may be silent for minutes: probes tell whether the other machine is still there.
  void NoticeDeadPeers();

  // RFC 9110 §9.3.6.
  absl::Status AskProxy(const CallContext& ctx);
  absl::Status ShakeHands(const CallContext& ctx);
  absl::Status ReadHeader(const CallContext& ctx, Parser& parser, Progress& progress);

  // Some of the body's bytes, valid until the next call; may be none.
  absl::StatusOr<absl::string_view> ReadBody(const CallContext& ctx, Parser& parser);

  template <typename Function>
  void WithStream(Function function) {
    if (tls_ != nullptr) {
      function(*tls_);
    } else {
      function(socket_);
    }
  }

  // Starts an asynchronous operation with `start(handler)` and runs it to its end, or until ctx is
  // over; then closes the socket, which ends it too.
  template <typename Start>
  absl::Status Await(const CallContext& ctx, absl::string_view what, Start start) {
    RETURN_IF_ERROR(ctx.Check());
    bool done = false;
    error_code error;
    start([&](const error_code& result, auto... bytes) {
      error = result;
      moved_bytes_ = (std::size_t{0} + ... + bytes);
      done = true;
    });
    absl::Status over;
    absl::Duration silent_since = ctx.clock->Uptime();
    int unacknowledged = Unacknowledged();
    const std::stop_callback wake(ctx.stop, [this] { asio::post(io_, [] {}); });
    // NOLINTNEXTLINE(bugprone-infinite-loop): run_one_for() calls the handler that ends it.
    while (!done) {
      if (HasDrained(unacknowledged)) {
        silent_since = ctx.clock->Uptime();
      }
      if (over.ok() && !(over = CheckMoving(ctx, silent_since)).ok()) {
        error_code ignored;
        socket_.close(ignored);
      }
      io_.restart();
      io_.run_one_for(absl::ToChronoMilliseconds(WaitTime(ctx, silent_since + silence_max_)));
    }
    if (!over.ok()) {
      return over;
    }
    if (error && error != http::error::need_buffer) {
      return Lost(what, error);
    }
    return absl::OkStatus();
  }

  // How many bytes the socket took that the peer has not acknowledged; 0 where it cannot be told.
  int Unacknowledged();

  // Whether the peer acknowledged as many of `before` as keep it from being silent, or the last of
  // them; then `before` are those that are left. On a slow line the socket's buffer alone holds
  // more than moves in silence_max_.
  bool HasDrained(int& before);

  // After a piece of a body that is not the last.
  absl::Status CheckPace(const CallContext& ctx, Window& window) const;
  absl::Status CheckMoving(const CallContext& ctx, absl::Duration silent_since) const;
  static absl::Duration WaitTime(const CallContext& ctx, absl::Duration silence_ends);

  const Destination destination_;
  absl::Duration silence_max_ = absl::InfiniteDuration();  // Of the running exchange.
  int64_t silence_bytes_min_ = 1;
  std::size_t moved_bytes_ = 0;  // By the last operation.
  asio::io_context io_;
  tcp::socket socket_;
  std::unique_ptr<asio::ssl::context> tls_context_;
  std::unique_ptr<asio::ssl::stream<tcp::socket&>> tls_;
  boost::beast::flat_buffer buffer_;
  // Not initialized: a connection that waits for events would hold memory that it seldom needs.
  const std::unique_ptr<char[]> chunk_ = std::make_unique_for_overwrite<char[]>(kReadBytesMax);
};

Connection::Impl::Impl(const Destination& destination) : destination_(destination), socket_(io_) {
  buffer_.reserve(kReadBytesMax);  // Beast reads no more at once than has room already.
}

Connection::Impl::~Impl() {
  if (tls_ != nullptr) {  // Else OpenSSL takes the end for a fault, and spoils the session.
    SSL_set_shutdown(tls_->native_handle(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  }
  error_code ignored;
  socket_.close(ignored);
}

absl::Status Connection::Impl::Connect(const CallContext& ctx) {
  const CallContext limited = ctx.WithTimeout(destination_.connect_time_max);
  absl::Status status = ConnectAll(limited);
  if (absl::IsDeadlineExceeded(status) && ctx.Check().ok()) {
    status = absl::UnavailableError("no connection in time");
  }
  return Annotate(status, absl::StrCat("connect to ", destination_.url.Authority()));
}

absl::StatusOr<HttpResponse> Connection::Impl::Exchange(
    const CallContext& ctx, const HttpRequest& request, const HttpLimits& limits,
    const absl::FunctionRef<bool(absl::string_view)>* sink, Progress& progress) {
  silence_max_ = limits.silence_max;
  silence_bytes_min_ = limits.silence_bytes_min;
  const absl::Status sent = Send(ctx, request);
  if (!sent.ok() && !absl::IsUnavailable(sent)) {
    return sent;
  }
  std::optional<Parser> reader;
  do {  // Interim answers (1xx) come before the real one.
    reader.emplace();
    reader->header_limit(static_cast<uint32_t>(limits.header_bytes_max));
    reader->body_limit(boost::none);
    reader->skip(request.method == "HEAD");
    const absl::Status read =
        ReadHeader(sent.ok() ? ctx : ctx.WithTimeout(kEarlyAnswerTimeMax), *reader, progress);
    if (!read.ok()) {
      return sent.ok() ? read : sent;
    }
  } while (reader->get().result_int() < 200);
  const int64_t body_bytes_max =
      request.answer_bytes_max >= 0 ? request.answer_bytes_max : limits.body_bytes_max;
  absl::StatusOr<HttpResponse> response = ReadAnswer(ctx, *reader, body_bytes_max, sink, progress);
  progress.may_be_kept = progress.may_be_kept && sent.ok();
  return response;
}

TlsSession Connection::Impl::Session() const {
  if (tls_ == nullptr) {
    return nullptr;
  }
  const TlsSession session(SSL_get1_session(tls_->native_handle()), SSL_SESSION_free);
  return session != nullptr && SSL_SESSION_is_resumable(session.get()) == 1 ? session : nullptr;
}

bool Connection::Impl::IsQuiet() {
  pollfd entry{.fd = socket_.native_handle(), .events = POLLIN, .revents = 0};
  return socket_.is_open() && buffer_.size() == 0 && poll(&entry, 1, 0) == 0;
}

absl::Status Connection::Impl::Send(const CallContext& ctx, const HttpRequest& request) {
  http::request<PiecesBody> message = BuildMessage(request, destination_);
  http::request_serializer<PiecesBody> serializer(message);
  Window window{.since = ctx.clock->Uptime()};
  while (!serializer.is_done()) {
    RETURN_IF_ERROR(Await(ctx, "send", [&](auto handler) {
      WithStream(
          [&](auto& stream) { http::async_write_some(stream, serializer, std::move(handler)); });
    }));
    if (!serializer.is_done()) {
      RETURN_IF_ERROR(CheckPace(ctx, window));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HttpResponse> Connection::Impl::ReadAnswer(
    const CallContext& ctx, Parser& parser, int64_t body_bytes_max,
    const absl::FunctionRef<bool(absl::string_view)>* sink, Progress& progress) {
  HttpResponse response;
  response.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    const std::string name = absl::AsciiStrToLower(
        absl::string_view(field.name_string().data(), field.name_string().size()));
    std::string& value = response.headers[name];
    const bool is_list = name == "x-goog-hash" && !value.empty();
    value = absl::StrCat(is_list ? value : "", is_list ? "," : "", std::string(field.value()));
  }
  const bool streams = sink != nullptr && response.status == 200;
  if (!streams && !parser.is_done()) {
    const uint64_t promised_bytes = parser.content_length_remaining().value_or(0);
    if (promised_bytes > static_cast<uint64_t>(body_bytes_max)) {
      return TooLarge(body_bytes_max);
    }
    response.body.reserve(promised_bytes);
  }
  bool more = true;
  Window window{.since = ctx.clock->Uptime()};
  while (more && !parser.is_done()) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, ReadBody(ctx, parser));
    if (streams) {
      more = bytes.empty() || (*sink)(bytes);
    } else {
      response.body.append(bytes.data(), bytes.size());
    }
    if (std::ssize(response.body) > body_bytes_max) {
      return TooLarge(body_bytes_max);
    }
    if (more && !parser.is_done()) {
      RETURN_IF_ERROR(CheckPace(ctx, window));
    }
  }
  progress.may_be_kept = parser.is_done() && parser.get().keep_alive();
  return response;
}

absl::Status Connection::Impl::ConnectAll(const CallContext& ctx) {
  const Url& first = destination_.proxy.has_value() ? *destination_.proxy : destination_.url;
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ResolveHost(ctx, first.host));
  absl::Status status;
  for (const std::string& address : addresses) {
    RETURN_IF_ERROR(ctx.Check());
    const bool is_last = &address == &addresses.back();
    status = ConnectTcp(is_last ? ctx : ctx.WithTimeout(kAddressTimeMax), address, first.port);
    if (status.ok()) {
      break;
    }
  }
  RETURN_IF_ERROR(status);
  if (destination_.tls == nullptr) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(destination_.proxy.has_value() ? AskProxy(ctx) : absl::OkStatus());
  return ShakeHands(ctx);
}

absl::Status Connection::Impl::ConnectTcp(const CallContext& ctx, const std::string& address,
                                          uint16_t port) {
  error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("not an address: ", address));
  }
  socket_ = tcp::socket(io_);
  RETURN_IF_ERROR(Await(ctx, absl::StrCat("connect to ", address), [&](auto handler) {
    socket_.async_connect(tcp::endpoint(ip, port), std::move(handler));
  }));
  socket_.set_option(tcp::no_delay(true), error);
  NoticeDeadPeers();
  return absl::OkStatus();
}

void Connection::Impl::NoticeDeadPeers() {
  const std::pair<int, int> options[] = {{TCP_KEEPIDLE, kProbeAfterSeconds},
                                         {TCP_KEEPINTVL, kProbeIntervalSeconds},
                                         {TCP_KEEPCNT, kProbesMax}};
  error_code ignored;
  socket_.set_option(tcp::socket::keep_alive(true), ignored);
  for (const auto& [option, value] : options) {
    setsockopt(socket_.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  }
}

absl::Status Connection::Impl::AskProxy(const CallContext& ctx) {
  http::request<http::empty_body> message;
  message.version(11);
  message.method(http::verb::connect);
  message.target(destination_.url.Authority());
  message.set(http::field::host, destination_.url.Authority());
  AddAuthorization(*destination_.proxy, message);
  RETURN_IF_ERROR(Await(ctx, "send to proxy", [&](auto handler) {
    http::async_write(socket_, message, std::move(handler));
  }));
  http::response_parser<http::empty_body> parser;
  parser.skip(true);  // An answer to CONNECT has no body.
  RETURN_IF_ERROR(Await(ctx, "read from proxy", [&](auto handler) {
    http::async_read_header(socket_, buffer_, parser, std::move(handler));
  }));
  const unsigned status = parser.get().result_int();
  if (status == 407) {
    return absl::FailedPreconditionError("the proxy wants another user or password");
  }
  if (status / 100 != 2) {
    return absl::UnavailableError(absl::StrCat("the proxy answered ", status));
  }
  return absl::OkStatus();
}

absl::Status Connection::Impl::ShakeHands(const CallContext& ctx) {
  SSL_CTX_up_ref(destination_.tls);
  tls_context_ = std::make_unique<asio::ssl::context>(destination_.tls);
  tls_ = std::make_unique<asio::ssl::stream<tcp::socket&>>(socket_, *tls_context_);
  SSL* ssl = tls_->native_handle();
  RETURN_IF_ERROR(ExpectServer(ssl, destination_.server_name));
  if (destination_.session != nullptr) {
    SSL_set_session(ssl, destination_.session.get());
  }
  const absl::Status status = Await(ctx, "TLS handshake", [&](auto handler) {
    tls_->async_handshake(asio::ssl::stream_base::client, std::move(handler));
  });
  const long verified = SSL_get_verify_result(ssl);
  if (absl::IsUnavailable(status) && verified != X509_V_OK) {
    const bool is_of_other =
        verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH;
    return absl::FailedPreconditionError(absl::StrCat(
        "TLS: the certificate of ", destination_.server_name,
        " is not trusted: ", X509_verify_cert_error_string(verified),
        is_of_other ? absl::StrCat("; its names are ", NamesOfServer(ssl))
                    : "; if it is the server that is meant, add its CA to those to trust"));
  }
  return status;
}

absl::Status Connection::Impl::ReadHeader(const CallContext& ctx, Parser& parser,
                                          Progress& progress) {
  const absl::Status status = Await(ctx, "read answer", [&](auto handler) {
    WithStream([&](auto& stream) {
      http::async_read_header(stream, buffer_, parser, std::move(handler));
    });
  });
  progress.answer_started = parser.got_some();
  return status;
}

absl::StatusOr<absl::string_view> Connection::Impl::ReadBody(const CallContext& ctx,
                                                             Parser& parser) {
  auto& body = parser.get().body();
  body.data = chunk_.get();
  body.size = kReadBytesMax;
  RETURN_IF_ERROR(Await(ctx, "read body", [&](auto handler) {
    WithStream(
        [&](auto& stream) { http::async_read_some(stream, buffer_, parser, std::move(handler)); });
  }));
  return absl::string_view(chunk_.get(), kReadBytesMax - body.size);
}

int Connection::Impl::Unacknowledged() {
  int bytes = 0;
  return socket_.is_open() && ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

bool Connection::Impl::HasDrained(int& before) {
  const int now = Unacknowledged();
  const bool drained = before > 0 && (now == 0 || before - now >= silence_bytes_min_);
  before = drained || now > before ? now : before;
  return drained;
}

absl::Status Connection::Impl::CheckPace(const CallContext& ctx, Window& window) const {
  window.moved_bytes += moved_bytes_;
  const absl::Duration now = ctx.clock->Uptime();
  if (now - window.since < silence_max_) {
    return absl::OkStatus();
  }
  if (static_cast<int64_t>(window.moved_bytes) < silence_bytes_min_) {
    return absl::UnavailableError(
        absl::StrCat("the server was all but silent: ", window.moved_bytes, " bytes in ",
                     absl::FormatDuration(now - window.since)));
  }
  window = {.since = now};
  return absl::OkStatus();
}

absl::Status Connection::Impl::CheckMoving(const CallContext& ctx,
                                           absl::Duration silent_since) const {
  RETURN_IF_ERROR(ctx.Check());
  if (ctx.clock->Uptime() - silent_since >= silence_max_) {
    return absl::UnavailableError(
        absl::StrCat("the server was silent for ", absl::FormatDuration(silence_max_)));
  }
  return absl::OkStatus();
}

absl::Duration Connection::Impl::WaitTime(const CallContext& ctx, absl::Duration silence_ends) {
  if (ctx.clock != &Clock::Real()) {
    return kForeignClockLookInterval;
  }
  const absl::Duration left =
      std::min(ctx.deadline, silence_ends) - ctx.clock->Uptime() + absl::Milliseconds(1);
  return std::clamp(left, absl::Milliseconds(1), kWaitMax);
}

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() = default;

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const CallContext& ctx,
                                                             const Destination& destination) {
  try {
    auto impl = std::make_unique<Impl>(destination);
    RETURN_IF_ERROR(impl->Connect(ctx));
    return std::unique_ptr<Connection>(new Connection(std::move(impl)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("connect: ", error.what()));
  }
}

absl::StatusOr<HttpResponse> Connection::Exchange(
    const CallContext& ctx, const HttpRequest& request, const HttpLimits& limits,
    const absl::FunctionRef<bool(absl::string_view bytes)>* sink, Progress& progress) {
  try {
    return impl_->Exchange(ctx, request, limits, sink, progress);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("HTTP: ", error.what()));
  }
}

TlsSession Connection::Session() const { return impl_->Session(); }

bool Connection::IsQuiet() { return impl_->IsQuiet(); }

}  // namespace csidelta::net
