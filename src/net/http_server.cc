#include "net/http_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <exception>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "net/gzip.h"
#include "net/tls_context.h"

namespace csidelta::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr std::size_t kRequestReadBytesMax = std::size_t{16} << 10;
constexpr std::size_t kGzipBytesMin = std::size_t{1} << 10;
// How long what a client still sends is thrown away, so that it can read why.
constexpr absl::Duration kLingerTimeMax = absl::Seconds(2);
constexpr absl::Duration kTimeMax = absl::Hours(24);
// Out of descriptors: there may be some again.
constexpr absl::Duration kAcceptAgainAfter = absl::Milliseconds(100);

asio::steady_timer::duration TimerDuration(absl::Duration duration) {
  return absl::ToChronoMilliseconds(std::min(duration, kTimeMax));
}

// The HTTP status for a request that could not be read; 0: there is no client to answer.
int StatusOfFault(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return 431;
  }
  if (error == http::error::body_limit) {
    return 413;
  }
  const bool is_end = error == http::error::end_of_stream || error == http::error::partial_message;
  return !is_end && error.category() == make_error_code(http::error::bad_method).category() ? 400
                                                                                            : 0;
}

HttpResponse Fault(int status) {
  HttpResponse response;
  response.status = status;
  response.headers["content-type"] = "text/plain";
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  response.body = absl::StrCat(absl::string_view(reason.data(), reason.size()), "\n");
  return response;
}

HttpCall CallOf(http::request<http::string_body>& request) {
  HttpCall call;
  call.method = std::string(request.method_string());
  call.target = std::string(request.target());
  for (const auto& field : request) {
    std::string& value = call.headers[absl::AsciiStrToLower(
        absl::string_view(field.name_string().data(), field.name_string().size()))];
    value = value.empty() ? std::string(field.value())
                          : absl::StrCat(value, ", ", std::string(field.value()));
  }
  call.body = std::move(request.body());
  return call;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpHandler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        acceptor_(io_),
        accept_timer_(io_),
        stop_timer_(io_),
        work_(io_.get_executor()),
        handlers_(static_cast<std::size_t>(options_.limits.handlers_max)) {}

  ~Impl() { Stop(); }

  absl::Status Open() {
    if (options_.read_certificate) {
      ASSIGN_OR_RETURN(certificate_, options_.read_certificate());
      RETURN_IF_ERROR(UseCertificate());
      certificate_looked_at_ = options_.clock->Now();
    }
    error_code error;
    const auto address = asio::ip::make_address(options_.address, error);
    if (error) {
      return absl::InvalidArgumentError(absl::StrCat("not an address: ", options_.address));
    }
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
      acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
      acceptor_.bind(endpoint, error);
    }
    if (!error) {
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    if (!error) {
      acceptor_.non_blocking(true, error);
    }
    if (error) {
      return absl::FailedPreconditionError(absl::StrCat("listen on ", options_.address, " port ",
                                                        options_.port, ": ", error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    AwaitConnection();
    io_thread_ = std::jthread([this] { Run(); });
    return absl::OkStatus();
  }

  void Stop() {
    if (!io_thread_.joinable()) {
      return;
    }
    asio::post(io_, [this] { BeginStop(); });
    io_thread_.join();
    handlers_.join();
  }

  uint16_t port() const { return port_; }

 private:
  class Session;
  using SessionPtr = std::shared_ptr<Session>;

  void Run();
  void AwaitConnection();
  void TakeConnection();
  bool MakeRoom();
  void ThereIsRoom();
  void Ended(const SessionPtr& session);
  void BeginStop();
  void ReloadCertificate();
  absl::Status UseCertificate();
  HttpResponse Answer(const HttpCall& call) const;

  const HttpServerOptions options_;
  const HttpHandler handler_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer accept_timer_;
  asio::steady_timer stop_timer_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::stop_source stop_handlers_;
  uint16_t port_ = 0;
  // Only the I/O thread has these.
  bool waits_for_room_ = false;
  bool stopping_ = false;
  uint64_t idle_count_ = 0;
  std::set<SessionPtr> sessions_;
  ServerCertificate certificate_;
  absl::Time certificate_looked_at_;
  std::shared_ptr<asio::ssl::context> tls_;
  asio::thread_pool handlers_;
  std::jthread io_thread_;
};

// One connection. Lives in the I/O thread, held by what it waits for:
//
//   handshake --> idle --a byte--> reading --whole--> answering --> writing --+--> idle
//       |          |                  |                                       +--> lingering
//       +----------+------------------+--time is over, connection lost--> ended <--------+
class HttpServer::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Impl& server, tcp::socket socket);
  void Begin();

  // 0 when it is not idle; else the smaller, the longer.
  uint64_t idle_rank() const { return idle_rank_; }

  void End();

  // Whatever waits for the socket fails, and ends the session.
  void Cut();

 private:
  template <typename Function>
  void WithStream(Function function) {
    if (tls_ != nullptr) {
      function(*tls_);
    } else {
      function(socket_);
    }
  }

  void LimitTime(absl::Duration time_max);

  // The first byte is waited for apart, because from then on the client is in a hurry.
  void AwaitRequest();
  void ReadRequest();
  void TakeRequest(const error_code& error);
  void Reply(HttpResponse answer);
  void TakeWritten(const error_code& error);

  // A socket that is closed with bytes unread is reset, and the answer with it.
  void Linger();
  void ThrowAway();
  void ThrowAwaySome();

  Impl& server_;
  const HttpServerLimits& limits_;
  tcp::socket socket_;
  std::unique_ptr<asio::ssl::stream<tcp::socket&>> tls_;
  asio::steady_timer timer_;
  uint64_t timer_number_ = 0;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> message_;
  std::array<char, 4096> waste_;
  uint64_t idle_rank_ = 0;
  bool served_one_ = false;
  bool keep_alive_ = false;
  bool is_head_ = false;
  bool has_ended_ = false;
};

HttpServer::Impl::Session::Session(Impl& server, tcp::socket socket)
    : server_(server),
      limits_(server.options_.limits),
      socket_(std::move(socket)),
      timer_(server.io_),
      buffer_(static_cast<std::size_t>(limits_.header_bytes_max + limits_.body_bytes_max) +
              kRequestReadBytesMax) {
  if (server.tls_ != nullptr) {
    tls_ = std::make_unique<asio::ssl::stream<tcp::socket&>>(socket_, *server.tls_);
  }
}

void HttpServer::Impl::Session::Begin() {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  LimitTime(limits_.request_time_max);
  if (tls_ == nullptr) {
    AwaitRequest();
    return;
  }
  tls_->async_handshake(asio::ssl::stream_base::server,
                        [self = shared_from_this()](const error_code& error) {
                          error ? self->End() : self->AwaitRequest();
                        });
}

void HttpServer::Impl::Session::End() {
  if (has_ended_) {
    return;
  }
  has_ended_ = true;
  timer_.cancel();
  Cut();
  server_.Ended(shared_from_this());
}

void HttpServer::Impl::Session::Cut() {
  error_code ignored;
  socket_.close(ignored);
}

void HttpServer::Impl::Session::LimitTime(absl::Duration time_max) {
  // A timer that has expired already cannot be cancelled: its number shows that it is an old one.
  timer_.expires_after(TimerDuration(time_max));
  timer_.async_wait([self = shared_from_this(), number = ++timer_number_](const error_code& error) {
    if (!error && number == self->timer_number_) {
      self->Cut();
    }
  });
}

void HttpServer::Impl::Session::AwaitRequest() {
  if (server_.stopping_) {
    End();
    return;
  }
  if (buffer_.size() > 0) {  // The client sent the next request along with the one before.
    ReadRequest();
    return;
  }
  // The first request has its time from Begin() on, handshake included: a client that connects and
  // sends nothing must not hold its place for as long as an idle one may.
  if (served_one_) {
    LimitTime(limits_.idle_time_max);
  }
  idle_rank_ = ++server_.idle_count_;
  server_.ThereIsRoom();
  WithStream([this](auto& stream) {
    stream.async_read_some(buffer_.prepare(kRequestReadBytesMax),
                           [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                             self->idle_rank_ = 0;
                             self->buffer_.commit(bytes);
                             error ? self->End() : self->ReadRequest();
                           });
  });
}

void HttpServer::Impl::Session::ReadRequest() {
  if (served_one_) {
    LimitTime(limits_.request_time_max);
  }
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(limits_.header_bytes_max));
  parser_->body_limit(static_cast<uint64_t>(limits_.body_bytes_max));
  WithStream([this](auto& stream) {
    http::async_read(stream, buffer_, *parser_,
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       self->TakeRequest(error);
                     });
  });
}

void HttpServer::Impl::Session::TakeRequest(const error_code& error) {
  served_one_ = true;
  keep_alive_ = false;
  if (error) {
    const int status = StatusOfFault(error);
    status == 0 ? End() : Reply(Fault(status));
    return;
  }
  if (std::ssize(parser_->get().target()) > limits_.target_bytes_max) {
    Reply(Fault(414));
    return;
  }
  keep_alive_ = parser_->get().keep_alive();
  is_head_ = parser_->get().method() == http::verb::head;
  timer_.cancel();
  ++timer_number_;
  asio::post(server_.handlers_, [self = shared_from_this(), call = CallOf(parser_->get()),
                                 work = asio::make_work_guard(server_.io_)]() mutable {
    HttpResponse response = self->server_.Answer(call);
    Impl& server = self->server_;
    asio::post(server.io_, [self = std::move(self), answer = std::move(response)]() mutable {
      self->Reply(std::move(answer));
    });
  });
}

void HttpServer::Impl::Session::Reply(HttpResponse answer) {
  keep_alive_ = keep_alive_ && !server_.stopping_;
  message_ = {};
  message_.version(11);
  message_.result(static_cast<unsigned>(answer.status));
  for (const auto& [name, value] : answer.headers) {
    message_.set(name, value);
  }
  message_.content_length(answer.body.size());
  message_.keep_alive(keep_alive_);
  if (!is_head_) {
    message_.body() = std::move(answer.body);
  }
  is_head_ = false;
  LimitTime(limits_.answer_time_max);
  WithStream([this](auto& stream) {
    http::async_write(stream, message_,
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        self->TakeWritten(error);
                      });
  });
}

void HttpServer::Impl::Session::TakeWritten(const error_code& error) {
  message_ = {};
  if (error) {
    End();
  } else if (keep_alive_) {
    AwaitRequest();
  } else {
    Linger();
  }
}

void HttpServer::Impl::Session::Linger() {
  LimitTime(kLingerTimeMax);
  if (tls_ == nullptr) {
    ThrowAway();
    return;
  }
  tls_->async_shutdown([self = shared_from_this()](const error_code&) { self->ThrowAway(); });
}

void HttpServer::Impl::Session::ThrowAway() {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) {
    End();
    return;
  }
  ThrowAwaySome();
}

void HttpServer::Impl::Session::ThrowAwaySome() {
  socket_.async_read_some(asio::buffer(waste_),
                          [self = shared_from_this()](const error_code& error, std::size_t) {
                            error ? self->End() : self->ThrowAwaySome();
                          });
}

void HttpServer::Impl::Run() {
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& error) {
      CSIDELTA_LOG(kError, "HTTP server", {"error", error.what()});
    }
  }
}

void HttpServer::Impl::AwaitConnection() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const error_code& error) {
    if (!error && !stopping_) {
      TakeConnection();
    }
  });
}

void HttpServer::Impl::TakeConnection() {
  if (!MakeRoom()) {
    waits_for_room_ = true;
    return;
  }
  error_code error;
  tcp::socket socket(io_);
  acceptor_.accept(socket, error);
  if (!error) {
    ReloadCertificate();
    const auto session = std::make_shared<Session>(*this, std::move(socket));
    sessions_.insert(session);
    session->Begin();
  } else if (error != asio::error::would_block && error != asio::error::connection_aborted) {
    CSIDELTA_LOG(kWarn, "cannot accept a connection", {"error", error.message()});
    accept_timer_.expires_after(TimerDuration(kAcceptAgainAfter));
    accept_timer_.async_wait([this](const error_code& cancelled) {
      if (!cancelled && !stopping_) {
        AwaitConnection();
      }
    });
    return;
  }
  AwaitConnection();
}

bool HttpServer::Impl::MakeRoom() {
  if (std::ssize(sessions_) < options_.limits.connections_max) {
    return true;
  }
  SessionPtr idlest;
  for (const SessionPtr& session : sessions_) {
    if (session->idle_rank() != 0 &&
        (idlest == nullptr || session->idle_rank() < idlest->idle_rank())) {
      idlest = session;
    }
  }
  if (idlest == nullptr) {
    return false;
  }
  idlest->End();
  return true;
}

void HttpServer::Impl::Ended(const SessionPtr& session) {
  sessions_.erase(session);
  if (stopping_ && sessions_.empty()) {
    stop_timer_.cancel();
  }
  ThereIsRoom();
}

void HttpServer::Impl::ThereIsRoom() {
  if (waits_for_room_ && !stopping_) {
    waits_for_room_ = false;
    AwaitConnection();
  }
}

void HttpServer::Impl::BeginStop() {
  stopping_ = true;
  work_.reset();
  error_code ignored;
  acceptor_.close(ignored);
  accept_timer_.cancel();
  const std::vector<SessionPtr> open(sessions_.begin(), sessions_.end());
  for (const SessionPtr& session : open) {
    if (session->idle_rank() != 0) {
      session->End();
    }
  }
  if (sessions_.empty()) {
    return;
  }
  stop_timer_.expires_after(TimerDuration(options_.limits.stop_time_max));
  stop_timer_.async_wait([this](const error_code& error) {
    if (error) {
      return;
    }
    stop_handlers_.request_stop();
    for (const SessionPtr& session : sessions_) {
      session->Cut();
    }
  });
}

void HttpServer::Impl::ReloadCertificate() {
  const absl::Time now = options_.clock->Now();
  if (!options_.read_certificate || now - certificate_looked_at_ < kCertificateAgeMax) {
    return;
  }
  certificate_looked_at_ = now;
  absl::StatusOr<ServerCertificate> found = options_.read_certificate();
  absl::Status status = found.status();
  if (status.ok() && *found != certificate_) {
    std::swap(certificate_, *found);
    status = UseCertificate();
    if (!status.ok()) {
      std::swap(certificate_, *found);
    }
  }
  if (!status.ok()) {
    CSIDELTA_LOG(kWarn, "the server's certificate cannot be renewed: the one before stays",
                 {"error", std::string(status.message())});
  }
}

absl::Status HttpServer::Impl::UseCertificate() {
  ASSIGN_OR_RETURN(SslContext context,
                   MakeServerSslContext(certificate_.certificate_pem, certificate_.key_pem));
  tls_ = std::make_shared<asio::ssl::context>(context.release());
  return absl::OkStatus();
}

namespace {

HttpResponse BrokenHandler(const HttpCall& call, absl::string_view error) {
  CSIDELTA_LOG(kError, "a request could not be answered", {"method", call.method},
               {"error", std::string(error)});
  HttpResponse response;
  response.status = 500;
  response.headers["content-type"] = "text/plain; charset=utf-8";
  response.body = "internal error; the log of the server says more\n";
  return response;
}

// Nothing that is thrown over one request may end the others.
HttpResponse Guarded(const HttpHandler& handler, const CallContext& ctx, const HttpCall& call) {
  try {
    return handler(ctx, call);
  } catch (const std::exception& error) {
    return BrokenHandler(call, error.what());
  } catch (...) {
    return BrokenHandler(call, "unknown exception");
  }
}

}  // namespace

HttpResponse HttpServer::Impl::Answer(const HttpCall& call) const {
  CallContext ctx;
  ctx.clock = options_.clock;
  ctx.stop = stop_handlers_.get_token();
  HttpResponse response =
      Guarded(handler_, ctx.WithTimeout(options_.limits.handler_time_max), call);
  const auto accepted = call.headers.find("accept-encoding");
  if (response.status == 200 && response.body.size() >= kGzipBytesMin &&
      accepted != call.headers.end() && AcceptsGzip(accepted->second)) {
    response.body = Gzip(response.body);
    response.headers["content-encoding"] = "gzip";
    response.headers["vary"] = "accept-encoding";
  }
  return response;
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                              HttpHandler handler) {
  try {
    auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
    RETURN_IF_ERROR(impl->Open());
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("HTTP server: ", error.what()));
  }
}

uint16_t HttpServer::port() const { return impl_->port(); }

void HttpServer::Stop() { impl_->Stop(); }

}  // namespace csidelta::net
