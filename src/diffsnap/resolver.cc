#include "diffsnap/resolver.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "csi/bound_snapshot.h"
#include "diffsnap/cursor.h"
#include "objects/client.h"

namespace csidelta::diffsnap {
namespace {

using objects::VolumeSnapshotContent;

std::optional<IndexedContent> ReadContent(const VolumeSnapshotContent& content) {
  IndexedContent indexed{.volume_handle = content.source_volume(),
                         .namespace_name = content.snapshot_namespace(),
                         .handles = {}};
  for (std::string handle : {content.handle(), content.source_handle()}) {
    if (!handle.empty() && handle.size() <= ContentIndex::kHandleBytesMax) {
      indexed.handles.insert(std::move(handle));
    }
  }
  return indexed.handles.empty() ? std::nullopt : std::optional(std::move(indexed));
}

using csi::BoundSnapshot;
using Kind = Resolution::Kind;
using objects::DifferentialSnapshot;
using objects::VolumeSnapshot;
using objects::VolumeSnapshotClass;
using objects::VolumeSnapshotContent;

constexpr char kMismatch[] =
    "VolumeMismatch: spec.baseSnapshotHandle is a snapshot of another volume";

// One object on its way to a Resolution.
class Resolving {
 public:
  Resolving(const CallContext& ctx, k8s::ApiClient& api, const ContentIndex& contents,
            const std::string& driver, const DifferentialSnapshot& object);
  absl::StatusOr<Resolution> Run();

 private:
  // Its target was seen to be ours before.
  bool WasAccepted() const { return object_.resolved().driver == driver_; }

  Resolution Decided(Kind kind, std::string error) const {
    return {.kind = kind, .error = std::move(error), .resolved = {.driver = driver_}};
  }

  // `why`: what ReadBoundSnapshot() said.
  absl::StatusOr<Resolution> WithoutTarget(const absl::Status& why);

  // Whose the target will be, by its content or else its class; "" while neither says.
  absl::StatusOr<std::string> DriverOfTarget();

  // The object; one without a field when none exists.
  template <typename Object>
  absl::StatusOr<Object> Find(const k8s::ObjectKey& key) {
    ASSIGN_OR_RETURN(std::optional<Object> found, objects::Find<Object>(ctx_, api_, key));
    return std::move(found).value_or(Object());
  }

  // What can never be served of the spec alone; "" when nothing is wrong.
  std::string FaultOfSpec(const BoundSnapshot& target) const;
  std::string FaultOfStartOffset(const BoundSnapshot& target) const;

  // Fills in resolved_.base_handle, or says why not.
  absl::StatusOr<std::optional<Resolution>> ResolveBase(const BoundSnapshot& target);
  static std::string FaultOfBase(const BoundSnapshot& base, const BoundSnapshot& target);

  // What the contents that have the base's handle say against it; "" when nothing.
  std::string FaultOfHandle(const std::vector<IndexedContent>& known,
                            const BoundSnapshot& target) const;

  const CallContext& ctx_;
  k8s::ApiClient& api_;
  const ContentIndex& contents_;
  const std::string& driver_;
  const DifferentialSnapshot& object_;
  const std::string namespace_;
  const std::string target_name_;
  objects::ResolvedNames resolved_;
};

Resolving::Resolving(const CallContext& ctx, k8s::ApiClient& api, const ContentIndex& contents,
                     const std::string& driver, const DifferentialSnapshot& object)
    : ctx_(ctx),
      api_(api),
      contents_(contents),
      driver_(driver),
      object_(object),
      namespace_(object.namespace_name()),
      target_name_(object.target_name()) {}

absl::StatusOr<Resolution> Resolving::Run() {
  const absl::StatusOr<BoundSnapshot> target =
      csi::ReadBoundSnapshot(ctx_, api_, namespace_, target_name_, "");
  if (!target.ok()) {
    return WithoutTarget(target.status());
  }
  if (target->driver != driver_) {
    return Resolution{.kind = Kind::kForeign};
  }
  if (std::string fault = FaultOfSpec(*target); !fault.empty()) {
    return Decided(Kind::kFailure, std::move(fault));
  }
  resolved_ = {
      .driver = driver_,
      .base_handle = "",
      .target_handle = target->snapshot_handle,
      .volume_handle = target->volume_handle.empty() ? object_.volume_id() : target->volume_handle,
      .class_name = target->class_name,
      .volume_size_bytes = target->restore_size_bytes.value_or(0)};
  ASSIGN_OR_RETURN(const std::optional<Resolution> refused, ResolveBase(*target));
  return refused.has_value() ? *refused : Resolution{.kind = Kind::kSuccess, .resolved = resolved_};
}

absl::StatusOr<Resolution> Resolving::WithoutTarget(const absl::Status& why) {
  if (absl::IsNotFound(why)) {
    // A target that was never seen may be any driver's.
    return WasAccepted()
               ? Decided(Kind::kFailure, absl::StrCat("TargetSnapshotNotFound: ", why.message()))
               : Resolution{};
  }
  if (!absl::IsFailedPrecondition(why)) {
    return why;
  }
  ASSIGN_OR_RETURN(const std::string driver, DriverOfTarget());
  if (driver == driver_ || (driver.empty() && WasAccepted())) {
    return Decided(Kind::kNotReady, absl::StrCat("NotReady: ", why.message()));
  }
  return Resolution{.kind = driver.empty() ? Kind::kUnresolved : Kind::kForeign};
}

absl::StatusOr<std::string> Resolving::DriverOfTarget() {
  ASSIGN_OR_RETURN(const VolumeSnapshot target,
                   Find<VolumeSnapshot>(VolumeSnapshot::Key(namespace_, target_name_)));
  if (const std::string content = target.bound_content(); !content.empty()) {
    ASSIGN_OR_RETURN(const VolumeSnapshotContent found,
                     Find<VolumeSnapshotContent>(VolumeSnapshotContent::Key("", content)));
    return found.driver();
  }
  const std::string class_name = target.class_name();
  if (class_name.empty()) {
    return "";
  }
  ASSIGN_OR_RETURN(const VolumeSnapshotClass found,
                   Find<VolumeSnapshotClass>(VolumeSnapshotClass::Key("", class_name)));
  return found.driver();
}

std::string Resolving::FaultOfSpec(const BoundSnapshot& target) const {
  if (const std::string mode = object_.mode(); !mode.empty() && mode != "Block") {
    return absl::StrCat("UnsupportedMode: there is no mode ", mode, "; use Block");
  }
  const std::string volume_id = object_.volume_id();
  if (!volume_id.empty() && !target.volume_handle.empty() && volume_id != target.volume_handle) {
    return absl::StrCat("VolumeMismatch: ", target_name_, " is of volume ", target.volume_handle,
                        ", not of spec.volumeId ", volume_id);
  }
  if (!object_.base_name().empty() && !object_.base_handle().empty()) {
    return "InvalidArgument: the base has a name or a handle, not both";
  }
  return absl::StrCat(FaultOfStartOffset(target), FaultOfParameters(object_));
}

std::string Resolving::FaultOfStartOffset(const BoundSnapshot& target) const {
  const absl::StatusOr<Cursor> start = ParseStartOffset(object_.start_offset());
  if (!start.ok()) {
    return absl::StrCat("InvalidOffset: ", start.status().message());
  }
  if (target.restore_size_bytes.has_value() && start->from_bytes > *target.restore_size_bytes) {
    return absl::StrCat("InvalidOffset: spec.startOffset is past the end of the volume's ",
                        *target.restore_size_bytes, " bytes");
  }
  return "";
}

absl::StatusOr<std::optional<Resolution>> Resolving::ResolveBase(const BoundSnapshot& target) {
  if (const std::string handle = object_.base_handle(); !handle.empty()) {
    const absl::StatusOr<std::vector<IndexedContent>> known = contents_.FindByHandle(handle);
    if (absl::IsResourceExhausted(known.status())) {
      return Decided(Kind::kNotReady, absl::StrCat("NotReady: ", known.status().message()));
    }
    RETURN_IF_ERROR(known.status());
    // The content may have been made just before the object.
    const absl::Time created = object_.created_at().value_or(absl::InfinitePast());
    if (known->empty() && ctx_.clock->Now() < created + ContentIndex::kLagMax) {
      return Decided(Kind::kNotReady,
                     "NotReady: the cluster does not know spec.baseSnapshotHandle so far");
    }
    if (std::string fault = FaultOfHandle(*known, target); !fault.empty()) {
      return Decided(Kind::kFailure, std::move(fault));
    }
    resolved_.base_handle = handle;
    return std::nullopt;
  }
  const std::string name = object_.base_name();
  if (name.empty()) {
    return std::nullopt;
  }
  const absl::StatusOr<BoundSnapshot> base =
      csi::ReadBoundSnapshot(ctx_, api_, namespace_, name, "");
  if (absl::IsNotFound(base.status())) {
    return Decided(Kind::kFailure,
                   absl::StrCat("BaseSnapshotNotFound: ", base.status().message(),
                                "; if it was deleted, give its handle in baseSnapshotHandle"));
  }
  if (absl::IsFailedPrecondition(base.status())) {
    return Decided(Kind::kNotReady, absl::StrCat("NotReady: ", base.status().message()));
  }
  RETURN_IF_ERROR(base.status());
  if (std::string fault = FaultOfBase(*base, target); !fault.empty()) {
    return Decided(Kind::kFailure, std::move(fault));
  }
  resolved_.base_handle = base->snapshot_handle;
  return std::nullopt;
}

std::string Resolving::FaultOfBase(const BoundSnapshot& base, const BoundSnapshot& target) {
  if (base.driver != target.driver) {
    return absl::StrCat("DriverMismatch: ", base.name, " is driver ", base.driver, "'s, ",
                        target.name, " is ", target.driver, "'s");
  }
  if (!base.volume_handle.empty() && !target.volume_handle.empty() &&
      base.volume_handle != target.volume_handle) {
    return absl::StrCat("VolumeMismatch: ", base.name, " is of volume ", base.volume_handle, ", ",
                        target.name, " of volume ", target.volume_handle);
  }
  return "";
}

std::string Resolving::FaultOfHandle(const std::vector<IndexedContent>& known,
                                     const BoundSnapshot& target) const {
  bool is_managed = false;
  for (const IndexedContent& content : known) {
    if (!content.volume_handle.empty() && !target.volume_handle.empty()) {
      if (content.volume_handle != target.volume_handle) {
        return absl::StrCat(kMismatch);
      }
      is_managed = true;
    }
    // One that was made for an existing snapshot does not say of which volume it is.
    is_managed = is_managed || content.namespace_name == namespace_;
  }
  return known.empty() || is_managed ? "" : absl::StrCat(kMismatch);
}

}  // namespace

ContentIndex::ContentIndex(std::string driver, std::size_t contents_max)
    : Index(
          [this](const VolumeSnapshotContent& content) {
            return content.driver() == driver_ ? ReadContent(content) : std::nullopt;
          },
          [](const IndexedContent& content) { return content.handles; }, contents_max),
      driver_(std::move(driver)),
      contents_max_(contents_max) {}

absl::StatusOr<std::vector<IndexedContent>> ContentIndex::FindByHandle(
    const std::string& handle) const {
  if (!is_synced()) {
    return absl::AbortedError("the VolumeSnapshotContents are still being listed");
  }
  if (!is_complete()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the cluster has more than ", contents_max_, " VolumeSnapshotContents of ",
                     driver_, ": a base cannot be looked up by its handle; delete old ones"));
  }
  return Find(handle);
}

std::string FaultOfParameters(const DifferentialSnapshot& object) {
  return objects::AreDriverParameters(object.parameters())
             ? ""
             : "InvalidArgument: spec.parameters are too many, have more than 4096 bytes, or begin "
               "with csi.storage.k8s.io/";
}

absl::StatusOr<Resolution> Resolve(const CallContext& ctx, k8s::ApiClient& api,
                                   const ContentIndex& contents, const std::string& driver,
                                   const DifferentialSnapshot& object) {
  return Resolving(ctx, api, contents, driver, object).Run();
}

}  // namespace csidelta::diffsnap
