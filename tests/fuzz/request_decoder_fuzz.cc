// Requests of the host, from the bytes on the wire to an action and back. Whatever comes in, the
// answer is an error or an object that the host can decode.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "plugin/convert.h"
#include "plugin/item_action_adapters.h"

namespace csidelta::plugin::request_decoder_fuzz {
namespace {

constexpr char kName[] = "a.b/c";

// Changes every item a little, so that encoding is exercised as well.
class TouchingBackup final : public velero::BackupItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return {}; }
  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& /*ctx*/,
                                                   const objects::Object& item,
                                                   const objects::Object& /*backup*/) override {
    velero::BackupItemResult result;
    result.item = item;
    result.item->SetAnnotation("touched", "yes");
    result.operation_id = item.name();
    return result;
  }
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view operation_id,
                                                     const objects::Object& /*backup*/) override {
    velero::OperationProgress progress;
    progress.description = std::string(operation_id);
    return progress;
  }
  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const objects::Object& /*backup*/) override {
    return absl::OkStatus();
  }
};

// Leaves every item alone.
class EchoRestore final : public velero::RestoreItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return {}; }
  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& /*ctx*/,
                                                    const objects::Object& /*item*/,
                                                    const objects::Object& /*item_from_backup*/,
                                                    const objects::Object& /*restore*/) override {
    return velero::RestoreItemResult();
  }
  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view /*operation_id*/,
                                                     const objects::Object& /*restore*/) override {
    return velero::OperationProgress();
  }
  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view /*operation_id*/,
                      const objects::Object& /*restore*/) override {
    return absl::OkStatus();
  }
  absl::StatusOr<bool> AreAdditionalItemsReady(const CallContext& /*ctx*/,
                                               const std::vector<velero::ResourceIdentifier>& items,
                                               const objects::Object& /*restore*/) override {
    return items.empty();
  }
};

void CheckObject(const std::string& bytes) {
  const absl::StatusOr<Json> item = ParseJsonObject(bytes);
  CSIDELTA_CHECK(item.ok() && !GetString(*item, {"kind"}).empty());
}

void FuzzBackup(v2::BackupItemAction::Service& adapter, const std::string& bytes) {
  v2::ExecuteRequest request;
  if (!request.ParseFromString(bytes)) {
    return;
  }
  request.set_plugin(kName);
  v2::ExecuteResponse response;
  if (adapter.Execute(nullptr, &request, &response).ok()) {
    CheckObject(response.item());
    CSIDELTA_CHECK(ToUtf8(response.operationid()) == response.operationid());
  }
  v2::BackupItemActionProgressRequest question;
  question.set_plugin(kName);
  question.set_operationid(request.item());
  question.set_backup(request.backup());
  v2::BackupItemActionProgressResponse progress;
  adapter.Progress(nullptr, &question, &progress);
  CSIDELTA_CHECK(progress.has_progress());
}

void FuzzRestore(v2::RestoreItemAction::Service& adapter, const std::string& bytes) {
  v2::RestoreItemActionExecuteRequest request;
  if (request.ParseFromString(bytes)) {
    request.set_plugin(kName);
    v2::RestoreItemActionExecuteResponse response;
    if (adapter.Execute(nullptr, &request, &response).ok()) {
      CheckObject(response.item());
      CSIDELTA_CHECK(response.item() == request.item());
    }
  }
  v2::RestoreItemActionItemsReadyRequest question;
  if (question.ParseFromString(bytes)) {
    question.set_plugin(kName);
    v2::RestoreItemActionItemsReadyResponse ready;
    adapter.AreAdditionalItemsReady(nullptr, &question, &ready);
  }
}

}  // namespace
}  // namespace csidelta::plugin::request_decoder_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace csidelta::plugin;
  using namespace csidelta::plugin::request_decoder_fuzz;
  static Registry& registry = *[] {
    auto* made = new Registry;
    made->backup.Add(kName, std::make_unique<TouchingBackup>());
    made->restore.Add(kName, std::make_unique<EchoRestore>());
    return made;
  }();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  CallTracker calls;
  const auto backup = MakeAdapter(registry.backup, calls);
  const auto restore = MakeAdapter(registry.restore, calls);
  FuzzBackup(*backup, bytes);
  FuzzRestore(*restore, bytes);
  return 0;
}
