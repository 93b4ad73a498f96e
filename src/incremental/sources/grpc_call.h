#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// What our clients of gRPC services share.
namespace csidelta::incremental {

// A message as bytes, whole.
using MessageReceiver = absl::FunctionRef<absl::Status(absl::string_view wire)>;

// gRPC's own lines would stand between a program's; what matters of them is in the status.
void SilenceGrpc();

// Lets a stream bring half a mebibyte that was not requested yet. Without it gRPC takes what a
// fast server gives: many mebibytes, and the more the longer the stream is.
void LimitLookahead(grpc::ChannelArguments& options);

// The moment that far away, on a clock that no one can set.
gpr_timespec GrpcDeadlineIn(absl::Duration duration);

// What a server said as a status of the program: codes are the same; its text is made short and
// printable, and each of `secrets` in it ***.
absl::Status StatusOfServer(const grpc::Status& status,
                            const std::vector<absl::string_view>& secrets);

// Whether it is our own gRPC's word that a message was longer than the channel takes.
bool IsMessageTooLong(const grpc::Status& status);

grpc::ByteBuffer ToBuffer(const google::protobuf::MessageLite& message);

// Hands the message to `receiver` in one piece.
absl::Status ReceiveWhole(const grpc::ByteBuffer& buffer, MessageReceiver receiver);

// One answer that is a stream of messages, as it is being read: with a limit for the whole call,
// and one for each wait. Destroying it ends the call. Not thread-safe, but for Cancel().
class GrpcReader {
 public:
  // `method` lives for ever.
  GrpcReader(std::shared_ptr<grpc::Channel> channel, const char* method,
             const grpc::ByteBuffer& request, absl::Duration time_max);
  ~GrpcReader();
  GrpcReader(const GrpcReader&) = delete;
  GrpcReader& operator=(const GrpcReader&) = delete;

  // The next message. False at the stream's end, or when none existed until then: that ends the
  // call, too.
  bool Read(grpc::ByteBuffer& buffer, gpr_timespec until);
  bool timed_out() const { return timed_out_; }

  // From any thread: the wait of Read() ends soon.
  void Cancel() { call_.TryCancel(); }

  // How the stream ended. REQUIRES that Read() was false, or Cancel().
  grpc::Status Finish();

 private:
  bool Await(gpr_timespec until);

  const std::shared_ptr<grpc::Channel> channel_;
  const grpc::internal::RpcMethod method_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext call_;
  std::unique_ptr<grpc::ClientAsyncReader<grpc::ByteBuffer>> reader_;
  bool began_ = false;
  bool finished_ = false;
  bool timed_out_ = false;
};

}  // namespace csidelta::incremental
