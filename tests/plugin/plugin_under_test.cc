// A plugin whose actions do what the item asks for, in the annotation "do": for the tests of the
// server and of the host's plugin manager.
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "plugin/program.h"

namespace csidelta {
namespace {

constexpr std::size_t kHugeBytes = std::size_t{32} << 20;

std::string Wish(const objects::Object& item) { return item.Annotation("do"); }

// What every kind of action may be asked for; OK when it is something else.
absl::Status ActOut(const CallContext& ctx, const objects::Object& item) {
  const std::string wish = Wish(item);
  if (wish == "fail") {
    return absl::FailedPreconditionError("asked to fail");
  }
  if (wish == "fail-badly") {
    return absl::UnknownError(absl::StrCat("\xff\xfe bad bytes ", std::string(100000, 'x')));
  }
  if (wish == "throw") {
    throw std::runtime_error("asked to throw");
  }
  if (wish == "throw-int") {
    throw 7;
  }
  if (wish == "hang" || wish == "hang-deaf") {
    CSIDELTA_LOG(kInfo, absl::StrCat("hanging in ", wish));
  }
  if (wish == "hang") {
    ctx.clock->SleepUntil(absl::InfiniteFuture(), ctx.stop);
    return ctx.Check();
  }
  if (wish == "hang-deaf") {
    ctx.clock->SleepUntil(absl::InfiniteFuture(), std::stop_token());
  }
  if (wish == "crash") {
    std::jthread([] { throw std::runtime_error("asked to crash"); }).join();
  }
  if (wish == "log") {
    CSIDELTA_LOG(kDebug, "a debug line", {"namespace", "n"});
    CSIDELTA_LOG(kInfo, "an info line", {"name", "7"});
    CSIDELTA_LOG(kWarn, "a warn line", {"resource", "pods"});
    CSIDELTA_LOG(kError, "an error line\nof two", {"text", "\xff"});
  }
  return absl::OkStatus();
}

// The item with whatever change was asked for; absent when none was.
std::optional<objects::Object> Changed(const objects::Object& item) {
  const std::string wish = Wish(item);
  if (wish.empty() || wish == "log") {
    return std::nullopt;
  }
  if (wish == "not-an-object") {
    return objects::Object(Json("text"));
  }
  objects::Object changed = item;
  changed.SetAnnotation("seen", "yes");
  if (wish == "huge") {
    changed.SetAnnotation("huge", std::string(kHugeBytes, 'h'));
  }
  return changed;
}

std::vector<velero::ResourceIdentifier> SomeItems() {
  return {{"", "persistentvolumes", "", "pv1"}, {"velero.io", "datauploads", "velero", "du1"}};
}

absl::StatusOr<velero::OperationProgress> ProgressOf(absl::string_view operation_id) {
  velero::OperationProgress progress;
  if (operation_id == "transient") {
    return absl::UnavailableError("the API server is away");
  }
  if (operation_id == "lost") {
    return absl::NotFoundError("no such operation");
  }
  if (operation_id == "throw") {
    throw std::runtime_error("asked to throw");
  }
  if (operation_id == "unknown") {
    return progress;
  }
  progress.completed = operation_id != "running";
  progress.error = operation_id == "failed" ? "it failed \xff" : "";
  progress.completed_units = 1;
  progress.total_units = 2;
  progress.units = "Bytes";
  progress.description = "half way";
  progress.started = absl::FromUnixSeconds(1);
  progress.updated = absl::FromUnixSeconds(2) + absl::Nanoseconds(3);
  return progress;
}

absl::Status CancelOf(absl::string_view operation_id) {
  return operation_id == "lost" ? absl::NotFoundError("no such operation") : absl::OkStatus();
}

velero::ResourceSelector Selector() {
  velero::ResourceSelector selector;
  selector.included_resources = {"persistentvolumeclaims"};
  selector.excluded_namespaces = {"kube-system"};
  selector.label_selector = "a=b";
  return selector;
}

class ScriptedBackup final : public velero::BackupItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return Selector(); }

  absl::StatusOr<velero::BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& /*backup*/) override {
    if (absl::Status status = ActOut(ctx, item); !status.ok()) {
      return status;
    }
    velero::BackupItemResult result;
    result.item = Changed(item);
    if (Wish(item) == "operation") {
      result.operation_id = "op-1";
      result.additional_items = SomeItems();
      result.post_operation_items = {SomeItems().back()};
    }
    return result;
  }

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view operation_id,
                                                     const objects::Object& /*backup*/) override {
    return ProgressOf(operation_id);
  }

  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view operation_id,
                      const objects::Object& /*backup*/) override {
    return CancelOf(operation_id);
  }
};

class ScriptedRestore final : public velero::RestoreItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return Selector(); }

  absl::StatusOr<velero::RestoreItemResult> Execute(const CallContext& ctx,
                                                    const objects::Object& item,
                                                    const objects::Object& /*item_from_backup*/,
                                                    const objects::Object& /*restore*/) override {
    if (absl::Status status = ActOut(ctx, item); !status.ok()) {
      return status;
    }
    velero::RestoreItemResult result;
    result.item = Changed(item);
    if (Wish(item) == "operation") {
      result.operation_id = "op-2";
      result.additional_items = SomeItems();
      result.wait_for_additional_items = true;
      result.additional_items_ready_timeout = absl::Seconds(60) + absl::Milliseconds(5);
    }
    result.skip_restore = Wish(item) == "skip";
    return result;
  }

  absl::StatusOr<velero::OperationProgress> Progress(const CallContext& /*ctx*/,
                                                     absl::string_view operation_id,
                                                     const objects::Object& /*restore*/) override {
    return ProgressOf(operation_id);
  }

  absl::Status Cancel(const CallContext& /*ctx*/, absl::string_view operation_id,
                      const objects::Object& /*restore*/) override {
    return CancelOf(operation_id);
  }

  absl::StatusOr<bool> AreAdditionalItemsReady(const CallContext& /*ctx*/,
                                               const std::vector<velero::ResourceIdentifier>& items,
                                               const objects::Object& /*restore*/) override {
    return items == SomeItems();
  }
};

class ScriptedDelete final : public velero::DeleteItemAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return Selector(); }
  absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                       const objects::Object& /*backup*/) override {
    return ActOut(ctx, item);
  }
};

class ScriptedItemBlock final : public velero::ItemBlockAction {
 public:
  velero::ResourceSelector AppliesTo() const override { return Selector(); }
  absl::StatusOr<std::vector<velero::ResourceIdentifier>> GetRelatedItems(
      const CallContext& ctx, const objects::Object& item,
      const objects::Object& /*backup*/) override {
    if (absl::Status status = ActOut(ctx, item); !status.ok()) {
      return status;
    }
    return SomeItems();
  }
};

absl::Status RegisterScripted(const plugin::Arguments& /*arguments*/, plugin::Registry& registry) {
  registry.backup.Add("example.io/scripted", std::make_unique<ScriptedBackup>());
  registry.restore.Add("example.io/scripted", std::make_unique<ScriptedRestore>());
  registry.deletion.Add("example.io/scripted", std::make_unique<ScriptedDelete>());
  registry.item_block.Add("example.io/scripted", std::make_unique<ScriptedItemBlock>());
  return absl::OkStatus();
}

}  // namespace
}  // namespace csidelta

int main(int argc, char** argv) {
  return csidelta::plugin::RunProgram(argc, argv, csidelta::RegisterScripted);
}
