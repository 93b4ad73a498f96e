#include "tests/support/fake_metadata_server.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "snapshot_metadata.grpc.pb.h"

namespace csidelta::support {
namespace {

template <typename Response>
class GrpcStream : public ServedStream {
 public:
  GrpcStream(grpc::ServerWriter<Response>& writer, std::stop_token over)
      : writer_(writer), over_(std::move(over)) {}

  bool Send(const ServedMessage& message) override {
    Response response;
    response.set_block_metadata_type(
        static_cast<snapshotmetadata::BlockMetadataType>(message.type));
    response.set_volume_capacity_bytes(message.capacity_bytes);
    for (const Extent& tuple : message.tuples) {
      auto* added = response.add_block_metadata();
      added->set_byte_offset(tuple.offset_bytes);
      added->set_size_bytes(tuple.length_bytes);
    }
    return writer_.Write(response);
  }

  void Hang() override {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    never.wait(lock, over_, [] { return false; });
  }

 private:
  grpc::ServerWriter<Response>& writer_;
  const std::stop_token over_;
};

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.raw_code()), std::string(status.message())};
}

}  // namespace

class FakeMetadataServer::Service : public snapshotmetadata::SnapshotMetadata::Service {
 public:
  Service(const Credentials& credentials, Handler handler) : handler_(std::move(handler)) {
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({credentials.key_pem, credentials.certificate_pem});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
    builder.SetMaxSendMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    CSIDELTA_CHECK(server_ != nullptr && port_ != 0);
  }

  ~Service() override {
    over_.request_stop();
    server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
    server_->Wait();
  }

  int port() const { return port_; }

  std::vector<ServedQuery> queries() const {
    std::scoped_lock lock(mutex_);
    return queries_;
  }

  grpc::Status GetMetadataAllocated(
      grpc::ServerContext*, const snapshotmetadata::GetMetadataAllocatedRequest* request,
      grpc::ServerWriter<snapshotmetadata::GetMetadataAllocatedResponse>* writer) override {
    return Serve({.is_delta = false,
                  .token = request->security_token(),
                  .namespace_name = request->namespace_(),
                  .base = "",
                  .target = request->snapshot_name(),
                  .starting_offset_bytes = request->starting_offset(),
                  .results_max = request->max_results()},
                 *writer);
  }

  grpc::Status GetMetadataDelta(
      grpc::ServerContext*, const snapshotmetadata::GetMetadataDeltaRequest* request,
      grpc::ServerWriter<snapshotmetadata::GetMetadataDeltaResponse>* writer) override {
    return Serve({.is_delta = true,
                  .token = request->security_token(),
                  .namespace_name = request->namespace_(),
                  .base = request->base_snapshot_id(),
                  .target = request->target_snapshot_name(),
                  .starting_offset_bytes = request->starting_offset(),
                  .results_max = request->max_results()},
                 *writer);
  }

 private:
  template <typename Response>
  grpc::Status Serve(const ServedQuery& query, grpc::ServerWriter<Response>& writer) {
    {
      std::scoped_lock lock(mutex_);
      queries_.push_back(query);
    }
    GrpcStream<Response> stream(writer, over_.get_token());
    return ToGrpc(handler_(query, stream));
  }

  const Handler handler_;
  std::stop_source over_;
  mutable std::mutex mutex_;
  std::vector<ServedQuery> queries_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

FakeMetadataServer::FakeMetadataServer(const Credentials& credentials, Handler handler)
    : service_(std::make_unique<Service>(credentials, std::move(handler))) {}

FakeMetadataServer::~FakeMetadataServer() = default;

std::string FakeMetadataServer::address() const {
  return absl::StrCat("127.0.0.1:", service_->port());
}

std::vector<ServedQuery> FakeMetadataServer::queries() const { return service_->queries(); }

absl::Status ServeTuples(const ServedQuery& query, ServedStream& stream, int64_t capacity_bytes,
                         const std::vector<Extent>& tuples, int per_message) {
  const int results_max = query.results_max > 0 ? query.results_max : per_message;
  ServedMessage message{.type = 2, .capacity_bytes = capacity_bytes, .tuples = {}};
  bool sent = false;
  for (const Extent& tuple : tuples) {
    if (tuple.end_bytes() <= query.starting_offset_bytes) {
      continue;
    }
    message.tuples.push_back(tuple);
    if (static_cast<int>(message.tuples.size()) >= std::min(results_max, per_message)) {
      if (!stream.Send(message)) {
        return absl::CancelledError("the client has gone");
      }
      message.tuples.clear();
      sent = true;
    }
  }
  const bool says_nothing_else = !sent && query.starting_offset_bytes == 0;
  if ((!message.tuples.empty() || says_nothing_else) && !stream.Send(message)) {
    return absl::CancelledError("the client has gone");
  }
  return absl::OkStatus();
}

}  // namespace csidelta::support
