#include "doctor/checkup.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/yaml.h"
#include "datamover/keyring.h"
#include "datamover/repository_access.h"
#include "datamover/settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "k8s/object.h"
#include "longhorn/types.h"
#include "objects/access.h"
#include "objects/backup.h"
#include "objects/backup_storage_location.h"
#include "objects/cluster.h"
#include "objects/copy_record.h"
#include "objects/core.h"
#include "objects/keys.h"
#include "objects/node.h"
#include "objects/protected_volume.h"
#include "objects/storage_class.h"
#include "objects/swap_record.h"
#include "objects/volume_task.h"
#include "objects/workload.h"
#include "tests/support/fake_locked_store.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/http_test_server.h"
#include "tests/support/kind_names.h"
#include "tests/support/lent_store.h"
#include "tests/support/metadata_cluster.h"
#include "tests/support/mover_kinds.h"
#include "tests/support/paths.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/test_authority.h"
#include "velero/labels.h"
#include "velero/volume_decision.h"

namespace csidelta::doctor::checkup_test {
namespace {

using support::FakeApiClient;
using support::MakeObject;
using ::testing::HasSubstr;

constexpr char kMover[] = "csi-delta";
constexpr char kCloud[] = "[default]\naws_access_key_id = A\naws_secret_access_key = B\n";

// A cluster in which nothing is wrong.
class Cluster {
 public:
  Cluster() {
    clock_.SetAutoAdvance(true);
    SeedKinds();
    SeedVelero();
    SeedMover();
    SeedVolume();
  }

  FakeApiClient& api() { return api_; }
  support::FakeObjectStore& bucket() { return bucket_; }
  support::FakeLockedStore& locked_bucket() { return locked_bucket_; }
  bool has_locked_bucket = false;  // instead of the other
  support::FakeClock& clock() { return clock_; }
  std::string Now() { return FormatRfc3339(clock_.Now()); }

  // The driver serves snapshot metadata, by an object with this certificate of an authority; "":
  // its own.
  void ServeMetadata(const std::string& ca_pem) {
    metadata_server_ = std::make_unique<support::HttpTestServer>(
        [](const support::ServedRequest&, support::ServedConnection& connection) {
          connection.Send(400, "");
        },
        support::TestServerOptions{.tls = true});
    AdvertiseMetadata(support::MakeMetadataService(
        absl::StrCat("127.0.0.1:", metadata_server_->port()),
        ca_pem.empty() ? metadata_server_->authority().ca_pem() : ca_pem));
  }
  void AdvertiseMetadata(const Json& service) {
    api_.Seed(support::MetadataServiceType(), service);
    api_.ServeVersion(support::MetadataServiceType().plural, "v1beta1");
  }

  // How the Pod of a probe ends; "" for never.
  std::string probe_phase = "Succeeded";
  std::string probe_words;

  std::string probe_class;
  std::vector<std::string> velero_namespaces = {"velero"};
  std::string restore;
  std::set<std::string> stored_handles;  // that the driver lists, if any
  std::function<void()> on_listing = [] {};

  std::vector<Finding> Findings(bool probe = false) {
    std::vector<Finding> findings;
    CallContext ctx;
    ctx.clock = &clock_;
    ctx = ctx.WithTimeout(absl::Seconds(55));
    CheckupOptions options;
    options.probe = probe;
    options.probe_class = probe_class;
    options.velero_namespaces = velero_namespaces;
    options.restore = restore;
    options.open_store = [this](const datamover::RepositoryAccess&)
        -> absl::StatusOr<std::unique_ptr<storage::OpenedStore>> {
      return std::make_unique<support::LentStore>(
          has_locked_bucket ? static_cast<storage::ObjectStore&>(locked_bucket_) : bucket_);
    };
    if (!stored_handles.empty()) {
      options.list_snapshots = [this](const CallContext&) {
        on_listing();
        return diffsnap::StoredSnapshots{.driver = support::kDriver, .handles = stored_handles};
      };
    }
    RunCheckup(ctx, api_, options, Random::Real(),
               [&](const Finding& finding) { findings.push_back(finding); });
    return findings;
  }

  // What the check says first.
  Finding FindingOf(const std::string& check, bool probe = false) {
    const std::vector<Finding> findings = FindingsOf(check, probe);
    EXPECT_FALSE(findings.empty()) << check << " says nothing";
    return findings.empty() ? Finding() : findings[0];
  }
  void ExpectGood(const std::string& check) {
    const Finding finding = FindingOf(check);
    EXPECT_EQ(ToString(finding.severity), ToString(Severity::kGood))
        << finding.subject << finding.text;
  }
  std::vector<Finding> FindingsOf(const std::string& check, bool probe = false) {
    std::vector<Finding> findings = Findings(probe);
    std::erase_if(findings, [&](const Finding& finding) { return finding.check != check; });
    return findings;
  }

 private:
  void SeedKinds() {
    support::SeedMoverKinds(api_);
    Json system = MakeObject("v1", "Namespace", "", "kube-system");
    SetJson(system, {"metadata", "uid"}, "cluster-uid");
    api_.Seed(objects::Namespace::Type(), system);
    Json controller = MakeObject("apps/v1", "Deployment", "kube-system", "snapshots");
    SetJson(controller, {"spec", "template", "spec", "containers"},
            Json::array({{{"image", "registry.k8s.io/sig-storage/snapshot-controller:v8.7.0"}}}));
    SetJson(controller, {"status", "availableReplicas"}, 1);
    api_.Seed(objects::Deployment::Type(), controller);
  }

  void SeedVelero() {
    Json server = MakeObject("apps/v1", "Deployment", "velero", "velero");
    SetJson(server, {"spec", "template", "spec", "containers"},
            Json::array({{{"image", "velero/velero:v1.18.1"},
                          {"args", {"server", "--features=EnableCSI"}}}}));
    SetJson(server, {"spec", "template", "spec", "initContainers"},
            Json::array({{{"image", "example/velero-plugin-for-csi-delta:v1"}}}));
    SetJson(server, {"status", "availableReplicas"}, 1);
    api_.Seed(objects::Deployment::Type(), server);
    Json location = MakeObject("velero.io/v1", "BackupStorageLocation", "velero", "default");
    SetJson(location, {"spec"},
            Json{{"provider", "aws"},
                 {"default", true},
                 {"objectStorage", {{"bucket", "backups"}}},
                 {"credential", {{"name", "cloud"}, {"key", "cloud"}}},
                 {"config", {{"region", "eu-west-1"}}}});
    SetJson(location, {"status", "phase"}, "Available");
    api_.Seed(objects::BackupStorageLocation::Type(), location);
    Json secret = MakeObject("v1", "Secret", "velero", "cloud");
    SetJson(secret, {"data", "cloud"}, absl::Base64Escape(kCloud));
    api_.Seed(SecretType(), secret);
  }

  void SeedMover() {
    api_.Seed(objects::Namespace::Type(),
              MakeObject("v1", "Namespace", "", kMover,
                         {{"pod-security.kubernetes.io/enforce", "restricted"}}));
    Json controller = MakeObject("apps/v1", "Deployment", kMover, "csi-delta-mover");
    SetJson(controller, {"status", "availableReplicas"}, 1);
    SetJson(controller, {"spec", "template", "spec", "containers"},
            Json::array({{{"image", "csi-delta:test"}}}));
    api_.Seed(objects::Deployment::Type(), controller);
    api_.OnCreate("pods", [this](FakeApiClient&, const Json& pod) { EndProbe(pod); });
    Json lease = MakeObject("coordination.k8s.io/v1", "Lease", kMover, "csi-delta-datamover");
    SetJson(lease, {"spec"}, Json{{"holderIdentity", "a"}, {"renewTime", Now()}});
    api_.Seed(LeaseType(), lease);
    for (const char* account : {"csi-delta-mover", "csi-delta-worker"}) {
      api_.Seed(objects::ServiceAccount::Type(),
                MakeObject("v1", "ServiceAccount", kMover, account));
    }
    for (const char* policy : {"csi-delta-worker", "csi-delta-mover-volumes"}) {
      SeedPolicy(policy);
    }
  }

  void SeedPolicy(const std::string& name) {
    const std::string version = "admissionregistration.k8s.io/v1";
    Json policy = MakeObject(version, "ValidatingAdmissionPolicy", "", name);
    SetJson(policy, {"spec", "failurePolicy"}, "Fail");
    api_.Seed(objects::ValidatingAdmissionPolicy::Type(), policy);
    Json binding = MakeObject(version, "ValidatingAdmissionPolicyBinding", "", name);
    SetJson(binding, {"spec", "policyName"}, name);
    SetJson(binding, {"spec", "validationActions"}, Json::array({"Deny"}));
    api_.Seed(objects::ValidatingAdmissionPolicyBinding::Type(), binding);
  }

  void EndProbe(const Json& pod) {
    if (probe_phase.empty()) {
      return;
    }
    api_.Mutate({PodType(), kMover, k8s::Name(pod)}, [this](Json& object) {
      object["status"]["phase"] = probe_phase;
      object["status"]["containerStatuses"] =
          Json::array({{{"state", {{"terminated", {{"message", probe_words}}}}}}});
    });
  }

  void SeedVolume() {
    api_.Seed(kCsiDriverKind.Type(),
              MakeObject("storage.k8s.io/v1", "CSIDriver", "", support::kDriver));
    api_.Seed(objects::StorageClass::Type(),
              MakeObject("storage.k8s.io/v1", "StorageClass", "", "fast"));
    api_.Seed(VolumeSnapshotClassType(), support::MakeClassObject("snaps", support::kDriver));
    Json pv = MakeObject("v1", "PersistentVolume", "", "pv-1");
    SetJson(pv, {"spec", "csi", "driver"}, support::kDriver);
    api_.Seed(PersistentVolumeType(), pv);
    Json claim = MakeObject("v1", "PersistentVolumeClaim", "shop", "orders");
    SetJson(claim, {"spec"}, Json{{"volumeName", "pv-1"}, {"storageClassName", "fast"}});
    SetJson(claim, {"status", "phase"}, "Bound");
    api_.Seed(PersistentVolumeClaimType(), claim);
  }

  support::FakeClock clock_;
  FakeApiClient api_{clock_};
  support::FakeObjectStore bucket_;
  support::FakeLockedStore locked_bucket_{clock_};
  std::unique_ptr<support::HttpTestServer> metadata_server_;
};

// The places of all fields of spec and status in a definition of one version.
std::vector<Json::json_pointer> FieldsOf(const Json& definition) {
  std::vector<Json::json_pointer> fields;
  for (const char* part : {"spec", "status"}) {
    const Json::json_pointer place(
        absl::StrCat("/spec/versions/0/schema/openAPIV3Schema/properties/", part, "/properties"));
    for (const auto& [name, schema] : definition.at(place).items()) {
      fields.push_back(place / name);
    }
  }
  return fields;
}

const k8s::ObjectKey kDeletionKind = {objects::CustomResourceDefinition::Type(), "",
                                      "datadeletions.mover.csi-delta.io"};
const k8s::ObjectKey kServer = {objects::Deployment::Type(), "velero", "velero"};
const k8s::ObjectKey kController = {objects::Deployment::Type(), kMover, "csi-delta-mover"};
const k8s::ObjectKey kSnapshotController = {objects::Deployment::Type(), "kube-system",
                                            "snapshots"};
const k8s::ObjectKey kLocation = {objects::BackupStorageLocation::Type(), "velero", "default"};
const k8s::ObjectKey kClaim = {PersistentVolumeClaimType(), "shop", "orders"};
const k8s::ObjectKey kVolume = {PersistentVolumeType(), "", "pv-1"};

struct Ailment {
  std::string check;
  Severity severity;
  std::string text;  // a part of what is said
  std::function<void(Cluster&)> cause;
};

// Causes of one line.
std::function<void(Cluster&)> Sets(const k8s::ObjectKey& key, const std::vector<std::string>& path,
                                   const Json& value) {
  Json::json_pointer field;
  for (const std::string& step : path) {
    field /= step;
  }
  return [=](Cluster& c) { c.api().Mutate(key, [&](Json& object) { object[field] = value; }); };
}

// In the first container of a Deployment.
std::function<void(Cluster&)> SetsInContainer(const k8s::ObjectKey& key, const std::string& field,
                                              const Json& value) {
  return Sets(key, {"spec", "template", "spec", "containers", "0", field}, value);
}

std::function<void(Cluster&)> Removes(const k8s::ObjectKey& key) {
  return [key](Cluster& c) { c.api().Remove(key); };
}

std::function<void(Cluster&)> Forbids(const std::string& verb, const std::string& plural) {
  return [=](Cluster& c) { c.api().Forbid(verb, plural); };
}

void PrintTo(const Ailment& ailment, std::ostream* out) { *out << ailment.check; }

Json Transfer(const std::string& kind, const std::string& phase, const std::string& made) {
  Json object = MakeObject("velero.io/v2alpha1", kind, "velero", "b1-x");
  SetJson(object, {"metadata", "uid"}, "transfer-uid");
  SetJson(object, {"metadata", "creationTimestamp"}, made);
  SetJson(object, {"spec"},
          Json{{"datamover", "csi-delta"}, {"sourceNamespace", "shop"}, {"sourcePVC", "orders"}});
  SetJson(object, {"status"}, Json{{"phase", phase}, {"message", "the bucket is gone"}});
  return object;
}

Json Deletion(const std::string& name, const std::string& made, const Json& status) {
  Json deletion = MakeObject("mover.csi-delta.io/v1alpha1", "DataDeletion", "velero", name);
  SetJson(deletion, {"metadata", "creationTimestamp"}, made);
  SetJson(deletion, {"spec", "backupStorageLocation"}, "default");
  SetJson(deletion, {"status"}, status);
  return deletion;
}

void SetVolumeDriver(Cluster& cluster, const std::string& driver) {
  cluster.api().SetField(kVolume, {"spec", "csi", "driver"}, driver);
}

std::string Ago(Cluster& cluster, absl::Duration age) {
  return FormatRfc3339(cluster.clock().Now() - age);
}

// A volume of an in-place restore of 80 hours ago.
void SeedKept(Cluster& c, const std::string& name, objects::SwapSide side,
              const std::string& peer) {
  objects::SwapRecord record = {.side = side,
                                .namespace_name = "shop",
                                .pvc = "restored",
                                .snapshot = "monday",
                                .policy = "Delete",
                                .peer = peer};
  record.at = c.clock().Now() - absl::Hours(80);
  record.pvc_uid = "restored-uid";
  record.claim = *objects::PersistentVolumeClaim::Of(
      {{"metadata", {{"name", "restored"}, {"namespace", "shop"}}}, {"spec", {{"x", 1}}}});
  Json volume =
      MakeObject("v1", "PersistentVolume", "", name, {},
                 {{objects::kInPlaceRecordAnnotation, objects::FormatSwapRecord(record)}});
  SetJson(volume, {"spec", "csi", "driver"}, support::kDriver);
  c.api().Seed(PersistentVolumeType(), volume);
}

// What a restore that writes into the volume of the claim noted so long ago.
void SeedCopy(Cluster& c, objects::CopyRecord record, absl::Duration age) {
  record.at = c.clock().Now() - age;
  record.has_begun = true;
  c.api().SetField(kClaim, {"metadata", "annotations", objects::kCopyRecordAnnotation},
                   objects::FormatCopyRecord(record));
}

constexpr char kCommand[] = "csi-delta restore --upload du-1 --into shop/orders --yes";

// A restore met the claim, and one that is gone since.
void SeedWithoutData(Cluster& c) {
  const std::string uid = k8s::Uid(*c.api().Find(kClaim));
  auto restore = objects::Restore::Make("velero", "back");
  restore.SetAnnotation(
      objects::kWithoutDataAnnotation,
      Json{{{"namespace", "shop"}, {"name", "orders"}, {"uid", uid}, {"command", kCommand}},
           {{"namespace", "shop"}, {"name", "gone"}, {"uid", "gone"}, {"command", "or this"}}}
          .dump());
  Json object = restore.json();
  SetJson(object, {"spec", "backupName"}, "nightly");
  c.api().Seed(objects::Restore::Type(), object);
}

void SetController(Cluster& c, const Json& container) {
  Sets(kSnapshotController, {"spec", "template", "spec", "containers"},
       Json::array({container}))(c);
}

void SeedContent(Cluster& c, const std::string& name) {
  c.api().Seed(VolumeSnapshotContentType(),
               support::MakeContentObject(name, "shop", name, "handle-of-" + name));
}

std::vector<Ailment> OfCluster() {
  return {
      {"cluster-reachable", Severity::kFault, "does not answer",
       [](Cluster& c) {
         c.api().FailNext("get", "namespaces", absl::UnavailableError("connection refused"));
       }},
      {"snapshot-kinds", Severity::kFault, "not installed",
       [](Cluster& c) { c.api().RemoveType("volumesnapshotclasses"); }},
      {"snapshot-controller", Severity::kFault, "is not available",
       Sets(kSnapshotController, {"status", "availableReplicas"}, 0)},
      {"mover-kinds", Severity::kFault, "not installed",
       [](Cluster& c) { c.api().RemoveType("volumetasks"); }},
      {"mover-kind-fields", Severity::kFault,
       "of an older version, and drops spec.backupStorageLocation, spec.snapshotID, spec.upload",
       Sets(kDeletionKind, {"spec", "versions"}, Json::array())},
      {"stuck-snapshots", Severity::kWarning, "not ready for over an hour",
       [](Cluster& c) {
         Json snapshot = support::MakeSnapshotObject("shop", "s1", "");
         SetJson(snapshot, {"metadata", "creationTimestamp"}, Ago(c, absl::Hours(2)));
         c.api().Seed(VolumeSnapshotType(), snapshot);
       }},
      {"stuck-contents", Severity::kWarning, "being deleted for over an hour",
       [](Cluster& c) {
         Json content = support::MakeContentObject("c1", "shop", "s1", "handle-1");
         SetJson(content, {"metadata", "deletionTimestamp"}, Ago(c, absl::Hours(2)));
         c.api().Seed(VolumeSnapshotContentType(), content);
       }},
      {"restored-volumes", Severity::kNote, "of PVC shop/restored is kept for 3 days",
       [](Cluster& c) {
         SeedKept(c, "pv-old", objects::SwapSide::kOriginal, "pv-new");
         SeedKept(c, "pv-new", objects::SwapSide::kRestored, "pv-old");
       }},
      {"driver-snapshots", Severity::kNote, "no CSI driver was asked",
       [](Cluster& c) { SeedContent(c, "monday"); }},
      {"restores-without-data", Severity::kWarning,
       "Restore velero/back no data of backup nightly in what existed before, PVCs: 1 "
       "(shop/orders)",
       SeedWithoutData},
      {"restores-without-data", Severity::kWarning,
       "PVC shop/orders no data of backup nightly in what existed before",
       [](Cluster& c) {
         SeedWithoutData(c);
         c.restore = "back";
       }},
      {"restores-without-data", Severity::kFault, "Restore other it was not found",
       [](Cluster& c) {
         SeedWithoutData(c);
         c.restore = "other";
       }},
      {"copies-into-volumes", Severity::kWarning,
       "PVC shop/orders a restore into its volume did not",
       [](Cluster& c) {
         SeedCopy(c, {.from = "velero/gone", .id = "gone-uid"}, absl::Minutes(1));
       }},
  };
}

std::vector<Ailment> OfVelero() {
  return {
      {"velero-namespace", Severity::kFault, "has no BackupStorageLocation", Removes(kLocation)},
      {"velero-server", Severity::kFault, "is not available",
       Sets(kServer, {"status", "availableReplicas"}, 0)},
      {"velero-version", Severity::kFault, "too old",
       SetsInContainer(kServer, "image", "velero/velero:v1.11.1")},
      {"velero-version", Severity::kFault, "too old",
       SetsInContainer(kServer, "image", "velero/velero:1.11.1")},
      {"velero-version", Severity::kFault, "too old",
       SetsInContainer(kServer, "image", "velero/velero:v1.11")},
      {"velero-csi-feature", Severity::kFault, "without --features=EnableCSI",
       SetsInContainer(kServer, "args", Json::array({"server"}))},
      {"velero-plugin", Severity::kWarning, "no init container",
       [](Cluster& c) {
         c.api().Mutate(kServer,
                        [](Json& d) { d["spec"]["template"]["spec"].erase("initContainers"); });
       }},
      {"uploads-waiting", Severity::kFault, "DataUpload velero/b1-x New for over five minutes",
       [](Cluster& c) {
         c.api().Seed(DataUploadType(), Transfer("DataUpload", "New", Ago(c, absl::Minutes(6))));
       }},
      {"downloads-waiting", Severity::kFault, "no data mover accepts it",
       [](Cluster& c) {
         c.api().Seed(DataDownloadType(), Transfer("DataDownload", "", Ago(c, absl::Minutes(6))));
       }},
      {"uploads-failed", Severity::kWarning, "the bucket is gone",
       [](Cluster& c) {
         c.api().Seed(DataUploadType(), Transfer("DataUpload", "Failed", Ago(c, absl::Hours(3))));
       }},
      {"deletions-pending", Severity::kWarning, "after an hour and 7 attempts: the lock is held",
       [](Cluster& c) {
         c.api().Seed(
             DataDeletionType(),
             Deletion("d1", Ago(c, absl::Hours(2)),
                      {{"phase", "Waiting"}, {"attempts", 7}, {"message", "the lock is held"}}));
       }},
      {"location-default", Severity::kWarning, "0 of 1 storage locations",
       Sets(kLocation, {"spec", "default"}, false)},
      {"location-available", Severity::kFault, "Unavailable: no such bucket",
       Sets(kLocation, {"status"}, Json{{"phase", "Unavailable"}, {"message", "no such bucket"}})},
      {"location-tls", Severity::kWarning, "without TLS",
       Sets(kLocation, {"spec", "config", "s3Url"}, "http://s3:9000")},
      {"location-credentials", Severity::kFault, "does not exist",
       Removes({SecretType(), "velero", "cloud"})},
  };
}

const datamover::KeyringOwner kOwner = {.velero_namespace = "velero", .location = "default"};

repository::Keyring MakeRing(Cluster& cluster) {
  support::FakeSecureRandom random;
  CallContext ctx;
  ctx.clock = &cluster.clock();
  return *datamover::OpenKeyring(ctx, cluster.api(), kMover, kOwner, /*make=*/true, random);
}

void MoveToAzure(Cluster& cluster, const std::string& credentials) {
  Sets(kLocation, {"spec", "provider"}, "azure")(cluster);
  Sets(kLocation, {"spec", "config"}, {{"storageAccount", "acct"}})(cluster);
  Sets({SecretType(), "velero", "cloud"}, {"data", "cloud"},
       absl::Base64Escape(credentials))(cluster);
}

std::vector<Ailment> OfLocations() {
  return {
      {"location-provider", Severity::kFault, "alibaba",
       Sets(kLocation, {"spec", "provider"}, "alibaba")},
      {"location-provider", Severity::kFault, "Secret velero/cloud, key cloud: not a credentials",
       [](Cluster& c) { MoveToAzure(c, kCloud); }},
      {"location-shared", Severity::kFault, "has the bucket and prefix of location velero/default",
       [](Cluster& c) {
         Json second = c.api().Find(kLocation).value_or(Json());
         SetJson(second, {"metadata", "name"}, "second");
         SetJson(second, {"metadata", "uid"}, "second-uid");
         SetJson(second, {"metadata", "creationTimestamp"}, "2100-01-01T00:00:00Z");
         SetJson(second, {"spec", "default"}, false);
         c.api().Seed(objects::BackupStorageLocation::Type(), second);
       }},
      {"location-readable", Severity::kFault, "listing fails: no such bucket",
       [](Cluster& c) {
         c.bucket().AddFault({.operation = support::StoreOperation::kList,
                              .status = absl::FailedPreconditionError("no such bucket")});
       }},
      {"location-writable", Severity::kFault, "writing fails: denied",
       [](Cluster& c) {
         c.bucket().AddFault({.operation = support::StoreOperation::kPut,
                              .status = absl::PermissionDeniedError("denied")});
       }},
      {"keyring-present", Severity::kNote, "the first backup makes it", [](Cluster&) {}},
      {"keyring-whole", Severity::kFault, "is another key",
       [](Cluster& c) {
         const repository::Keyring ring = MakeRing(c);
         c.api().SetField(datamover::KeyringSecretKey(kMover, kOwner),
                          {"data", ring.newest().fingerprint},
                          absl::Base64Escape("another password, just as long as it has to be"));
       }},
      {"keyring-confirmed", Severity::kFault, "no copy is confirmed",
       [](Cluster& c) { MakeRing(c); }},
  };
}

void SetSettings(Cluster& cluster, const std::string& text) {
  Json map = MakeObject("v1", "ConfigMap", kMover, datamover::kSettingsConfigMap);
  SetJson(map, {"data", datamover::kSettingsKey}, text);
  cluster.api().Seed(ConfigMapType(), map);
}

// Of a DataUpload that is not there.
void SeedTask(Cluster& cluster, const std::string& velero_namespace) {
  cluster.api().Seed(
      objects::VolumeTask::Type(),
      objects::VolumeTask::Make(kMover, "du-1",
                                {.kind = objects::TaskKind::kUpload,
                                 .subject = {"DataUpload", velero_namespace, "b1-x", "other-uid"},
                                 .volume = {}},
                                {})
          .json());
}

constexpr char kImmutable[] =
    R"({"backupStorageLocations": {"default": {"immutability": {"days": 30, "mode": "compliance"}}}})";

// A volume with a backup, and what its record says of object locks.
void SeedLocks(Cluster& cluster, const Json& locks) {
  Json record = MakeObject("mover.csi-delta.io/v1alpha1", "ProtectedVolume", "velero", "orders");
  SetJson(record, {"spec"},
          Json{{"namespace", "shop"},
               {"pvc", "orders"},
               {"pvcUID", "1"},
               {"backupStorageLocation", "default"}});
  SetJson(record, {"status", "lastGoodBackup"}, Json{{"backup", "nightly"}});
  SetJson(record, {"status", "verification", "locks"}, locks);
  cluster.api().Seed(objects::ProtectedVolume::Type(), record);
}

constexpr char kNoncurrent[] =
    "<LifecycleConfiguration><Rule><ID>old</ID><Prefix/><Status>Enabled</Status>"
    "<NoncurrentVersionExpiration><NoncurrentDays>60</NoncurrentDays>"
    "</NoncurrentVersionExpiration></Rule></LifecycleConfiguration>";

void SetDocument(Cluster& cluster, storage::BucketDocument document,
                 absl::StatusOr<std::string> answer) {
  cluster.has_locked_bucket = true;
  cluster.locked_bucket().SetBucketDocument(document, std::move(answer));
}

// A bucket with object lock, as the settings ask for it, and with a rule for old versions.
void MakeImmutable(Cluster& cluster) {
  SetSettings(cluster, kImmutable);
  SetDocument(cluster, storage::BucketDocument::kLifecycle, kNoncurrent);
}

// A bucket without object lock, with a rule for what is current.
void SetRule(Cluster& cluster, absl::string_view what) {
  SetDocument(cluster, storage::BucketDocument::kObjectLock, "");
  SetDocument(cluster, storage::BucketDocument::kLifecycle,
              absl::StrCat("<LifecycleConfiguration><Rule><ID>35 days</ID><Prefix>plugins/</Prefix>"
                           "<Status>Enabled</Status>",
                           what, "</Rule></LifecycleConfiguration>"));
}

std::vector<Ailment> OfImmutability() {
  using storage::BucketDocument;
  return {
      {"location-immutable", Severity::kFault, "has no object lock: nothing is locked",
       [](Cluster& c) {
         MakeImmutable(c);
         SetDocument(c, BucketDocument::kObjectLock, "");
       }},
      {"location-immutable", Severity::kWarning, "no lock is extended",
       [](Cluster& c) {
         SetDocument(c, BucketDocument::kLifecycle, kNoncurrent);
         c.locked_bucket().SetDefaultRetention("COMPLIANCE", absl::Hours(24 * 7));
       }},
      {"location-immutable", Severity::kUnknown, "not known: whether the bucket has object lock",
       [](Cluster& c) {
         MakeImmutable(c);
         SetDocument(c, BucketDocument::kObjectLock, absl::PermissionDeniedError("AccessDenied"));
       }},
      {"location-immutable", Severity::kUnknown, "not known: whether the bucket keeps versions",
       [](Cluster& c) {
         MakeImmutable(c);
         SetDocument(c, BucketDocument::kVersioning, absl::PermissionDeniedError("AccessDenied"));
       }},
      {"location-immutable", Severity::kUnknown, "not known: which lifecycle rules",
       [](Cluster& c) {
         MakeImmutable(c);
         SetDocument(c, BucketDocument::kLifecycle, "<html>");
       }},
      {"location-immutable", Severity::kFault, "does not keep versions",
       [](Cluster& c) {
         MakeImmutable(c);
         SetDocument(c, BucketDocument::kVersioning, "<VersioningConfiguration/>");
       }},
      {"location-immutable", Severity::kWarning, "no lifecycle rule removes noncurrent versions",
       [](Cluster& c) {
         MakeImmutable(c);
         SetDocument(c, BucketDocument::kLifecycle, "");
       }},
      {"location-immutable", Severity::kFault, "\"35 days\" removes objects by their age",
       [](Cluster& c) { SetRule(c, "<Expiration><Days>35</Days></Expiration>"); }},
      {"location-immutable", Severity::kFault, "\"35 days\" archives objects by their age",
       [](Cluster& c) {
         SetRule(c, "<Transition><StorageClass>GLACIER</StorageClass></Transition>");
       }},
      {"location-immutable", Severity::kFault, "PVC shop/orders: AccessDenied",
       [](Cluster& c) {
         MakeImmutable(c);
         SeedLocks(c, {{"finding", "AccessDenied"}});
       }},
      {"location-immutable", Severity::kWarning, "not renewed yet: PVC shop/orders",
       [](Cluster& c) {
         MakeImmutable(c);
         SeedLocks(c, Json::object());
       }},
      {"location-immutable", Severity::kFault, "the renewal is late",
       [](Cluster& c) {
         MakeImmutable(c);
         SeedLocks(c, {{"lockedUntil", FormatRfc3339(c.clock().Now() + absl::Hours(24 * 7))}});
       }},
      {"location-credentials", Severity::kFault,
       "does not exist, but the setting backupStorageLocations.default.deletionCredential",
       [](Cluster& c) {
         SetSettings(c, R"({"backupStorageLocations": {"default": {"deletionCredential":
                         {"name": "remover", "key": "cloud"}}}})");
       }},
  };
}

// Of PVC shop/orders.
void SeedBase(Cluster& c, const std::string& driver, const std::string& pvc_uid) {
  Json content = MakeObject("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "", "du-1",
                            {{objects::kBaseLabel, "true"}},
                            {{objects::kMoverVeleroNamespaceLabel, "velero"},
                             {objects::kMoverLocationAnnotation, "default"},
                             {objects::kMoverClaimNamespaceAnnotation, "shop"},
                             {objects::kMoverClaimAnnotation, "orders"},
                             {objects::kMoverClaimUidAnnotation, pvc_uid}});
  SetJson(content, {"spec"},
          Json{{"driver", driver},
               {"deletionPolicy", "Retain"},
               {"source", {{"snapshotHandle", "snap-1"}}}});
  c.api().Seed(VolumeSnapshotContentType(), content);
}

std::vector<Ailment> OfMover() {
  return {
      {"mover-namespace", Severity::kFault, "does not exist",
       Removes({objects::Namespace::Type(), "", kMover})},
      {"mover-namespace", Severity::kFault, "has no data mover",
       [](Cluster& c) {
         c.api().Remove(kController);
         for (const char* kind : {"volumetasks", "datadeletions", "protectedvolumes"}) {
           c.api().RemoveType(kind);
         }
       }},
      {"mover-pod-security", Severity::kNote, "the level privileged",
       Sets({objects::Namespace::Type(), "", kMover},
            {"metadata", "labels", "pod-security.kubernetes.io/enforce"}, "privileged")},
      {"mover-deployment", Severity::kFault, "is not available",
       Sets(kController, {"status", "availableReplicas"}, 0)},
      {"mover-leader", Severity::kFault, "it is not renewed",
       [](Cluster& c) {
         c.api().SetField({LeaseType(), kMover, "csi-delta-datamover"}, {"spec", "renewTime"},
                          Ago(c, absl::Minutes(2)));
       }},
      {"mover-settings", Severity::kFault, "speed",
       [](Cluster& c) { SetSettings(c, R"({"speed": 7})"); }},
      {"mover-settings", Severity::kWarning, "no backup or restore of data begins",
       [](Cluster& c) { SetSettings(c, R"({"paused": true})"); }},
      {"location-immutable", Severity::kFault, "objects are locked in buckets of S3 alone",
       [](Cluster& c) {
         SetSettings(c, kImmutable);
         MoveToAzure(c, "AZURE_CLIENT_ID=id");
       }},
      {"mover-setting-names", Severity::kFault, "StorageClass faster, which does not exist",
       [](Cluster& c) {
         SetSettings(c, R"({"storageClasses": {"fast": {"intermediateClass": "faster"}}})");
       }},
      {"mover-accounts", Severity::kFault, "does not exist",
       Removes({objects::ServiceAccount::Type(), kMover, "csi-delta-worker"})},
      {"mover-quota", Severity::kWarning, "leaves no limits.memory",
       [](Cluster& c) {
         Json quota = MakeObject("v1", "ResourceQuota", kMover, "small");
         SetJson(
             quota, {"status"},
             Json{{"hard", {{"limits.memory", "1Gi"}}}, {"used", {{"limits.memory", "1024Mi"}}}});
         c.api().Seed(objects::ResourceQuota::Type(), quota);
       }},
      {"mover-tasks-silent", Severity::kWarning, "has not reported since",
       [](Cluster& c) {
         Json task = objects::VolumeTask::Make(kMover, "du-1", {}, {}).json();
         SetJson(task, {"status"},
                 Json{{"phase", "Running"}, {"heartbeatTimestamp", Ago(c, absl::Minutes(3))}});
         c.api().Seed(objects::VolumeTask::Type(), task);
       }},
      {"mover-orphans", Severity::kWarning, "is gone", [](Cluster& c) { SeedTask(c, "velero"); }},
      {"mover-bases", Severity::kWarning,
       "1 base snapshot unused: its PVC was deleted: du-1 of PVC shop/orders",
       [](Cluster& c) { SeedBase(c, support::kDriver, "another-uid"); }},
      {"mover-bases", Severity::kWarning,
       "its PVC waits to grow; csi.vsphere.vmware.com grows no volume that has snapshots: du-1 of",
       [](Cluster& c) {
         SeedBase(c, "csi.vsphere.vmware.com", k8s::Uid(*c.api().Find(kClaim)));
         c.api().SetField(kClaim, {"spec", "resources", "requests", "storage"}, "20Gi");
         c.api().SetField(kClaim, {"status", "capacity", "storage"}, "10Gi");
       }},
  };
}

// The record of a snapshot that backup nightly keeps, with what the driver's sidecar wrote.
std::function<void(Cluster&)> SeedsKept(const Json& status, absl::Duration age = absl::Hours(1),
                                        const char* label = "later") {
  return [=](Cluster& c) {
    Json record = support::MakeContentObject(
        "csi-delta-kept-1-b", "", "", "snap-1",
        {{objects::kKeptLabel, label}, {objects::kMoverVeleroNamespaceLabel, "velero"}});
    SetJson(record, {"metadata", "annotations"},
            Json{{objects::kBackupNameLabel, "nightly"},
                 {objects::kMemberClaimAnnotation, "shop/orders"}});
    SetJson(record, {"metadata", "creationTimestamp"}, Ago(c, age));
    SetJson(record, {"spec", "source"}, Json{{"snapshotHandle", "snap-1"}});
    record["status"] = status;
    c.api().Seed(VolumeSnapshotContentType(), record);
  };
}

std::vector<Ailment> OfKeptSnapshots() {
  return {
      {"kept-snapshots", Severity::kFault,
       "backup velero/nightly cannot be restored: the snapshot of PVC shop/orders (snap-1 of "
       "hostpath.csi.k8s.io) is gone: can not find snapshot for snapshotID snap-1",
       SeedsKept({{"error", {{"message", "can not find snapshot for snapshotID snap-1"}}}})},
      {"kept-snapshots", Severity::kUnknown,
       "driver hostpath.csi.k8s.io does not list snapshots: it is not known",
       SeedsKept({{"snapshotHandle", "snap-1"}, {"readyToUse", true}})},
      {"kept-snapshots", Severity::kWarning, "is not-ready; asked at",
       SeedsKept({{"snapshotHandle", "snap-1"}, {"readyToUse", false}})},
      {"kept-snapshots", Severity::kWarning, "is unknown: the array is busy; asked at",
       SeedsKept({{"error", {{"message", "the array is busy"}}}})},
      {"kept-snapshots", Severity::kWarning,
       "is unknown: the array is busy; its Backup is gone: a week without an answer ends this",
       SeedsKept({{"error", {{"message", "the array is busy"}}}}, absl::Hours(1), "last")},
      {"kept-snapshots", Severity::kWarning, "is present; asked at",
       SeedsKept({{"snapshotHandle", "snap-1"}, {"readyToUse", true}, {"restoreSize", 4096}},
                 absl::Hours(49))},
      {"kept-snapshots", Severity::kWarning,
       "velero/nightly is gone and did not delete what it kept: the snapshot of PVC shop/orders",
       SeedsKept({{"snapshotHandle", "snap-1"}, {"readyToUse", true}, {"restoreSize", 4096}},
                 absl::Hours(1), "last")},
  };
}

// The volume serves one of two nodes.
void SeedZones(Cluster& c) {
  for (const char* node : {"n1", "n2"}) {
    c.api().Seed(objects::Node::Type(), MakeObject("v1", "Node", "", node));
  }
  c.api().Mutate(kVolume, [](Json& volume) {
    volume["spec"]["storageClassName"] = "fast";
    volume["spec"]["nodeAffinity"]["required"] = objects::NodeSelector::OfNode("n1").json();
  });
}

std::vector<Ailment> OfDrivers() {
  return {
      {"driver-object", Severity::kWarning, "has no CSIDriver object",
       Removes({kCsiDriverKind.Type(), "", support::kDriver})},
      {"driver-object", Severity::kWarning, "driver late.example.com has no CSIDriver object",
       Sets({VolumeSnapshotClassType(), "", "snaps"}, {"driver"}, "late.example.com")},
      {"driver-storage-class", Severity::kWarning, "shop/orders",
       Removes({objects::StorageClass::Type(), "", "fast"})},
      {"driver-snapshot-class", Severity::kFault, "VolumeSnapshotClass",
       Removes({VolumeSnapshotClassType(), "", "snaps"})},
      {"driver-changed-blocks", Severity::kNote, "every backup reads whole volumes",
       [](Cluster& c) { c.api().RemoveType("differentialsnapshots"); }},
      {"driver-metadata-service", Severity::kWarning, "is not reached from here",
       [](Cluster& c) {
         // Nothing listens on port 1.
         c.AdvertiseMetadata(
             support::MakeMetadataService("127.0.0.1:1", support::TestAuthority().ca_pem()));
       }},
      {"driver-block-device", Severity::kWarning, "makes no block devices",
       [](Cluster& c) { SetVolumeDriver(c, "nfs.csi.k8s.io"); }},
      {"driver-snapshot-limit", Severity::kNote, "at most 3 snapshots",
       [](Cluster& c) { SetVolumeDriver(c, "csi.vsphere.vmware.com"); }},
      {"driver-zones", Severity::kNote, "pv-1 cannot be used on node n2", SeedZones},
      {"driver-snapshots", Severity::kFault,
       "1 VolumeSnapshotContent: monday of VolumeSnapshot shop/",
       [](Cluster& c) {
         SeedContent(c, "monday");
         c.stored_handles = {"handle-of-others"};
       }},
      {"volumes-not-csi", Severity::kNote, "pv-1",
       [](Cluster& c) { c.api().Mutate(kVolume, [](Json& pv) { pv["spec"].erase("csi"); }); }},
      {"claims-unbound", Severity::kNote, "shop/orders",
       Sets(kClaim, {"status", "phase"}, "Pending")},
  };
}

void SeedPendingGroupDeletion(Cluster& c) {
  c.api().Seed(VolumeGroupSnapshotContentType("v1"),
               {{"metadata",
                 {{"name", "csi-delta-delete-group-1"},
                  {"finalizers", {objects::kDeletionFinalizer}},
                  {"deletionTimestamp", Ago(c, absl::Hours(2))}}},
                {"status", {{"volumeGroupSnapshotHandle", "g-1"}}}});
}

void SeedLostSnapshot(Cluster& c) {
  Json snapshot = support::MakeSnapshotObject("shop", "s1", "gone-1");
  SetJson(snapshot, {"metadata", "creationTimestamp"}, Ago(c, absl::Hours(2)));
  SetJson(snapshot, {"status", "readyToUse"}, true);
  c.api().Seed(VolumeSnapshotType(), snapshot);
}

// A definition as Longhorn labels its own.
void SeedLonghornKind(Cluster& cluster, const std::string& plural, const std::string& kind,
                      const std::string& group = "longhorn.io") {
  Json definition =
      MakeObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
                 absl::StrCat(plural, ".", group), {{objects::kLonghornDefinitionLabel, ""}});
  SetJson(definition, {"spec"}, Json{{"group", group}, {"names", {{"kind", kind}}}});
  cluster.api().Seed(objects::CustomResourceDefinition::Type(), definition);
}

void SetPlugin(Cluster& cluster, const support::Strings& settings) {
  Json config_map = MakeObject("v1", "ConfigMap", "velero", "plugin",
                               {{objects::kPluginConfigLabel, ""}, {objects::kCsiDeltaLabel, ""}});
  SetJson(config_map, {"data"}, settings);
  cluster.api().Seed(ConfigMapType(), config_map);
}

void SeedSchedule(Cluster& cluster, const std::string& name, const Json& backup_spec) {
  Json schedule = MakeObject("velero.io/v1", "Schedule", "velero", name);
  SetJson(schedule, {"spec", "template"}, backup_spec);
  cluster.api().Seed(kScheduleKind.Type(), schedule);
}

// An object of Longhorn in its namespace.
void SeedOfLonghorn(Cluster& cluster, const std::string& plural, const std::string& kind,
                    const std::string& name, const Json& more) {
  Json object = MakeObject("longhorn.io/v1beta2", kind, "longhorn-system", name);
  SetJson(object, {"metadata", "creationTimestamp"}, Ago(cluster, absl::Hours(2)));
  object.merge_patch(more);
  cluster.api().Seed({"longhorn.io", "v1beta2", plural, kind, true}, object);
}

// A snapshot that is ready, but for what is given.
void SeedLonghornSnapshot(Cluster& cluster, const std::string& name, const Json& more) {
  Json snapshot = {{"spec", {{"volume", "pvc-1"}, {"createSnapshot", true}}},
                   {"status",
                    {{"requestedTime", Ago(cluster, absl::Hours(2))},
                     {"creationTime", Ago(cluster, absl::Hours(2))},
                     {"readyToUse", true}}}};
  snapshot.merge_patch(more);
  SeedOfLonghorn(cluster, "snapshots", "Snapshot", name, snapshot);
}

void SeedLonghornVolume(Cluster& cluster, const std::string& state, int snapshot_count_max) {
  SeedOfLonghorn(
      cluster, "volumes", "Volume", "pvc-1",
      {{"spec", {{"snapshotMaxCount", snapshot_count_max}}}, {"status", {{"state", state}}}});
}

Json DeletedBefore(Cluster& cluster, absl::Duration time) {
  return {
      {"metadata", {{"finalizers", {"longhorn.io"}}, {"deletionTimestamp", Ago(cluster, time)}}}};
}

void SeedLonghornSetting(Cluster& cluster, const std::string& name, const std::string& value,
                         const std::string& space = "longhorn-system") {
  Json setting = MakeObject("longhorn.io/v1beta2", "Setting", space, name);
  SetJson(setting, {"value"}, value);
  cluster.api().Seed({"longhorn.io", "v1beta2", "settings", "Setting", true}, setting);
}

// A native snapshot of a backup.
void SeedNative(Cluster& cluster, const std::string& name, const std::string& backup,
                const Json& more) {
  Json native = {{"metadata",
                  {{"labels",
                    {{objects::kLonghornMadeByLabel, "csi-delta"},
                     {objects::kBackupNameLabel, velero::ValidLabelValue(backup)}}}}}};
  native.merge_patch(more);
  SeedLonghornSnapshot(cluster, name, native);
}

// The object that Longhorn made for a native snapshot of the backup "nightly", which had lost its
// own.
void SeedNativeMadeAgain(Cluster& cluster, char digit, const Json& more) {
  Json native = {{"spec", {{"createSnapshot", false}}},
                 {"status",
                  {{"labels",
                    {{objects::kLonghornEngineBackupLabel, "nightly"},
                     {objects::kLonghornEngineBackupUidLabel, "nightly-uid"}}}}}};
  native.merge_patch(more);
  SeedLonghornSnapshot(cluster, absl::StrCat("csd-", std::string(40, digit)), native);
}

// A webhook of Longhorn, and the Pods that answer for its service.
void SeedLonghornWebhook(Cluster& cluster, const std::string& failure_policy,
                         const Json& endpoints) {
  Json configuration = MakeObject("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration",
                                  "", "longhorn-webhook-mutator");
  SetJson(
      configuration, {"webhooks"},
      Json::array(
          {{{"name", "mutator.longhorn.io"},
            {"failurePolicy", failure_policy},
            {"clientConfig",
             {{"service",
               {{"namespace", "longhorn-system"}, {"name", "longhorn-admission-webhook"}}}}}}}));
  cluster.api().Seed(objects::WebhookConfiguration::MutatingType(), configuration);
  Json slice = MakeObject("discovery.k8s.io/v1", "EndpointSlice", "longhorn-system", "slice-1",
                          {{"kubernetes.io/service-name", "longhorn-admission-webhook"}});
  SetJson(slice, {"endpoints"}, endpoints);
  cluster.api().Seed(objects::EndpointSlice::Type(), slice);
}

std::vector<Ailment> OfLonghornObjects() {
  return {
      {"stuck-snapshots", Severity::kWarning,
       "shop/s1 what it stands for cannot be reached: the storage",
       [](Cluster& c) {
         SeedLostSnapshot(c);
         Json content = support::MakeContentObject("gone-1", "shop", "s1", "snap://pvc-gone/s");
         SetJson(content, {"spec", "driver"}, "driver.longhorn.io");
         c.api().Seed(VolumeSnapshotContentType(), content);
         SeedOfLonghorn(c, "volumes", "Volume", "pvc-1", Json::object());
       }},
      {"longhorn-found", Severity::kNote, "its CRDs are installed, but Longhorn is not",
       [](Cluster& c) { SeedLonghornKind(c, "settings", "Setting"); }},
      {"longhorn-native", Severity::kWarning,
       "1 of backups that Velero does not list: csd-1 (backup gone)",
       [](Cluster& c) { SeedNative(c, "csd-1", "gone", Json::object()); }},
      {"longhorn-native", Severity::kWarning,
       "1 that lost their object, for which Longhorn made another: no restore uses them, and no "
       "deletion of a backup deletes them: csd-1111111111111111111111111111111111111111 (backup "
       "nightly)",
       [](Cluster& c) { SeedNativeMadeAgain(c, '1', Json::object()); }},
      {"longhorn-snapshots", Severity::kFault, std::string(64, 'x'),
       [](Cluster& c) { SeedLonghornSnapshot(c, std::string(64, 'x'), Json::object()); }},
      {"longhorn-snapshots", Severity::kWarning, "pvc-1 (4 of 5)",
       [](Cluster& c) {
         SeedLonghornVolume(c, "attached", 5);
         for (const char* const name : {"a", "b", "c", "d"}) {
           SeedLonghornSnapshot(c, name, Json::object());
         }
         SeedLonghornSnapshot(c, "e", {{"status", {{"markRemoved", true}}}});
       }},
      {"longhorn-snapshots", Severity::kWarning, "waiting for an attachment of their volumes: old",
       [](Cluster& c) {
         SeedLonghornVolume(c, "detached", 250);
         SeedLonghornSnapshot(c, "old", DeletedBefore(c, absl::Minutes(61)));
       }},
      {"longhorn-snapshots", Severity::kWarning, "being deleted for over an hour: old",
       [](Cluster& c) {
         SeedLonghornVolume(c, "attached", 250);
         SeedLonghornSnapshot(c, "old", DeletedBefore(c, absl::Minutes(61)));
       }},
      {"longhorn-snapshots", Severity::kWarning, "not shown as ready: taken",
       [](Cluster& c) {
         SeedLonghornSnapshot(c, "taken",
                              {{"status", {{"readyToUse", false}, {"creationTime", nullptr}}}});
       }},
      {"longhorn-snapshots", Severity::kWarning, "with the data of that moment: asked: is full",
       [](Cluster& c) {
         SeedLonghornSnapshot(c, "asked",
                              {{"status",
                                {{"readyToUse", false},
                                 {"creationTime", nullptr},
                                 {"requestedTime", nullptr},
                                 {"error", "is full"}}}});
       }},
  };
}

std::vector<Ailment> OfLonghorn() {
  return {
      {"longhorn-found", Severity::kWarning,
       "Longhorn in longhorn-system it is not installed there, but in storage",
       [](Cluster& c) {
         SeedLonghornKind(c, "settings", "Setting");
         SeedLonghornSetting(c, "current-longhorn-version", "v1.12.1", "storage");
       }},
      {"longhorn-class", Severity::kWarning,
       "VolumeSnapshotClass backups without the parameter type",
       [](Cluster& c) {
         c.api().Seed(VolumeSnapshotClassType(),
                      support::MakeClassObject("backups", "driver.longhorn.io"));
       }},
      {"longhorn-jobs", Severity::kWarning,
       "recurring job longhorn-system/tidy deletes all but 7 snapshots of a volume, native ones",
       [](Cluster& c) {
         SeedOfLonghorn(c, "recurringjobs", "RecurringJob", "tidy",
                        {{"spec", {{"task", "snapshot-delete"}, {"retain", 7}}}});
       }},
      {"longhorn-webhook", Severity::kFault,
       "service longhorn-system/longhorn-admission-webhook no Pod answers",
       [](Cluster& c) {
         SeedLonghornWebhook(c, "Fail", Json::array({{{"conditions", {{"ready", false}}}}}));
       }},
      {"longhorn-kinds", Severity::kNote, "volumegroups.longhorn.io is not known to this version",
       [](Cluster& c) { SeedLonghornKind(c, "volumegroups", "VolumeGroup"); }},
      {"longhorn-in-backups", Severity::kWarning,
       "schedule velero/nightly archives Longhorn's objects in longhorn-system",
       [](Cluster& c) {
         SeedLonghornKind(c, "volumes", "Volume");
         SetPlugin(c, {{"longhornGuard", "off"}});
         SeedSchedule(c, "nightly", Json::object());
       }},
  };
}

// A transfer of a PVC of its own.
void SeedUpload(Cluster& c, const std::string& name, const Json& more) {
  Json upload = Transfer("DataUpload", "Accepted", c.Now());
  SetJson(upload, {"metadata", "name"}, name);
  SetJson(upload, {"metadata", "uid"}, name);
  SetJson(upload, {"spec", "sourcePVC"}, name);
  SetJson(upload, {"spec", "backupStorageLocation"}, "default");
  SetJson(upload, {"spec", "csiSnapshot", "volumeSnapshot"}, name);
  upload.merge_patch(more);
  c.api().Seed(DataUploadType(), upload);
}

// `waiting` uploads, and one that took so long.
void SeedQueue(Cluster& c, int waiting, absl::Duration took) {
  SeedUpload(c, "done",
             {{"status",
               {{"phase", "Completed"},
                {"startTimestamp", Ago(c, absl::Hours(2) + took)},
                {"completionTimestamp", Ago(c, absl::Hours(2))}}}});
  for (int i = 0; i < waiting; ++i) {
    SeedUpload(c, absl::StrCat("waits-", i), Json::object());
  }
}

// The PVC of the cluster has so many bytes, and a DataUpload.
void SeedLargeVolume(Cluster& c, const std::string& capacity) {
  c.api().SetField(kClaim, {"status", "capacity", "storage"}, capacity);
  c.api().Seed(DataUploadType(), Transfer("DataUpload", "Completed", c.Now()));
}

// A full backup that read so much in 10 seconds, and a PVC of that size.
void SeedFirstFull(Cluster& c, const std::string& read_bytes, const std::string& size,
                   const std::string& mode = "full") {
  SeedLargeVolume(c, size);
  SeedUpload(
      c, "full",
      {{"metadata",
        {{"annotations",
          {{objects::kUploadModeAnnotation, mode}, {objects::kReadBytesAnnotation, read_bytes}}}}},
       {"status",
        {{"phase", "Completed"},
         {"startTimestamp", Ago(c, absl::Seconds(20))},
         {"completionTimestamp", Ago(c, absl::Seconds(10))}}}});
}

std::vector<Ailment> OfTheQueue() {
  return {
      {"mover-first-full", Severity::kWarning,
       "PVC shop/orders a full backup of its 10Ti takes up to 28h26m at the speed of DataUpload "
       "velero/full, and Velero cancels it after 4h",
       [](Cluster& c) { SeedFirstFull(c, "1073741824", "10Ti"); }},
      {"mover-queue", Severity::kWarning,
       "81 wait for 10 admissions, and as one takes 30m on average, the last ones end in about "
       "4h3m, while Velero cancels what is not done after 4h",
       [](Cluster& c) { SeedQueue(c, 81, absl::Minutes(30)); }},
      {"mover-flags", Severity::kNote,
       "--requests-per-second=250 instead of 100, and --concurrent-reconciles=8 instead of 4",
       SetsInContainer(kController, "args",
                       {"datamover", "--requests-per-second=250", "--concurrent-reconciles", "8"})},
  };
}

class CheckupTest : public ::testing::Test, protected Cluster {};

TEST_F(CheckupTest, AFullBackupThatEndsInTimeOrWasNeverMeasuredIsGood) {
  const auto expect = [](Cluster& c, const char* text) {
    const Finding found = c.FindingOf("mover-first-full");
    EXPECT_EQ(ToString(found.severity), ToString(Severity::kGood));
    EXPECT_THAT(found.text, HasSubstr(text));
  };
  Cluster in_time;
  SeedFirstFull(in_time, "1073741824", "1Ti");
  expect(in_time, "takes up to 2h50m");
  Cluster patient;
  SeedFirstFull(patient, "1073741824", "10Ti");
  SeedSchedule(patient, "weekly", {{"itemOperationTimeout", "30h"}});
  expect(patient, "cancels it after 30h");
  Cluster unmeasured;
  SeedFirstFull(unmeasured, "1073741823", "10Ti");
  expect(unmeasured, "is unknown");
}

TEST_F(CheckupTest, AQueueThatEndsInTimeIsGood) {
  Cluster in_time;
  SeedQueue(in_time, 80, absl::Minutes(30));
  in_time.ExpectGood("mover-queue");
  Cluster patient;
  SeedQueue(patient, 81, absl::Minutes(30));
  SetsInContainer(
      kServer, "args",
      {"server", "--features=EnableCSI", "--default-item-operation-timeout", "12h"})(patient);
  patient.ExpectGood("mover-queue");
  Cluster of_last_month;
  SeedQueue(of_last_month, 81, absl::Minutes(30));
  of_last_month.clock().Advance(absl::Hours(24 * 30));
  of_last_month.ExpectGood("mover-queue");
}

TEST_F(CheckupTest, UsualFlagsOfTheControllerAreGood) {
  SetsInContainer(kController, "args",
                  {"datamover", "--requests-per-second=100", "--concurrent-reconciles=4"})(*this);
  ExpectGood("mover-flags");
}

// What the API server answers to a create of that kind is this error.
void Refuse(Cluster& c, const std::string& plural, const absl::Status& status) {
  c.api().SetAdmission([=](const FakeApiClient::AdmissionRequest& request) -> absl::StatusOr<Json> {
    return request.type.plural == plural ? absl::StatusOr<Json>(status) : request.object;
  });
}

// The API server's clock is so far ahead of this machine's; negative: behind.
void SetServerClock(Cluster& c, absl::Duration ahead) {
  const std::string then = Ago(c, -ahead);
  c.api().SetAdmission(
      [then](const FakeApiClient::AdmissionRequest& request) -> absl::StatusOr<Json> {
        Json object = request.object;
        SetJson(object, {"metadata", "creationTimestamp"}, then);
        return object;
      });
}

// A node whose kubelet renewed its Lease so long ago, by its own clock.
void SeedNode(Cluster& c, const std::string& name, absl::Duration ago, const std::string& ready,
              const std::string& architecture = "amd64") {
  Json node = MakeObject("v1", "Node", "", name,
                         {{"kubernetes.io/arch", architecture}, {"kubernetes.io/os", "linux"}});
  SetJson(node, {"status", "conditions"},
          Json::array({{{"type", "DiskPressure"}, {"status", "False"}},
                       {{"type", "Ready"}, {"status", ready}}}));
  c.api().Seed(objects::Node::Type(), node);
  Json lease = MakeObject("coordination.k8s.io/v1", "Lease", "kube-node-lease", name);
  SetJson(lease, {"spec"}, Json{{"holderIdentity", name}, {"renewTime", Ago(c, ago)}});
  c.api().Seed(LeaseType(), lease);
}

constexpr char kPodSecurity[] =
    "pods \"doctor-1\" is forbidden: violates PodSecurity \"restricted:latest\": seccompProfile";
constexpr char kConstraints[] =
    "pods \"doctor-1\" is forbidden: unable to validate against any security context constraint";
constexpr char kWebhook[] = "admission webhook \"policy.example.com\" denied the request: no team";

std::vector<Ailment> OfWorkers() {
  return {
      {"mover-worker-pod", Severity::kFault, "worker Pods in csi-delta is refused: ",
       [](Cluster& c) { Refuse(c, "pods", absl::PermissionDeniedError(kPodSecurity)); }},
      {"mover-worker-pod", Severity::kFault, "any security context constraint",
       [](Cluster& c) { Refuse(c, "pods", absl::PermissionDeniedError(kConstraints)); }},
      {"mover-worker-pod", Severity::kFault, "policy.example.com",
       [](Cluster& c) { Refuse(c, "pods", absl::FailedPreconditionError(kWebhook)); }},
      {"mover-worker-pod", Severity::kWarning, "exceeded quota: few",
       [](Cluster& c) { c.api().SetQuota("few", PodType(), kMover, 0); }},
      {"mover-worker-pod", Severity::kNote,
       "nodes 1 of 2 cannot run workers, as the image is for linux and amd64: graviton",
       [](Cluster& c) {
         SeedNode(c, "n1", absl::ZeroDuration(), "True");
         SeedNode(c, "graviton", absl::ZeroDuration(), "True", "arm64");
       }},
      {"velero-plugin", Severity::kWarning,
       "may run on nodes that the plugin's image is not for: graviton",
       [](Cluster& c) {
         SeedNode(c, "n1", absl::ZeroDuration(), "True");
         SeedNode(c, "graviton", absl::ZeroDuration(), "True", "arm64");
       }},
      {"mover-worker-pod", Severity::kFault, "nodes 1 of 1 cannot run workers",
       [](Cluster& c) { SeedNode(c, "graviton", absl::ZeroDuration(), "True", "arm64"); }},
      {"mover-memory", Severity::kWarning,
       "its memory limit of 24Mi is less than 25Mi, which 1 DataUpload and 0 ProtectedVolumes take",
       [](Cluster& c) {
         SetsInContainer(kController, "resources", {{"limits", {{"memory", "24Mi"}}}})(c);
         SeedLargeVolume(c, "1Gi");
       }},
      {"mover-scratch", Severity::kWarning,
       "1Gi is less than the 2113Mi that a restore, a check or a deletion may need for PVC "
       "shop/orders of 6Ti",
       [](Cluster& c) { SeedLargeVolume(c, "6Ti"); }},
      {"mover-scratch", Severity::kWarning,
       "256Mi is less than the 545Mi that a restore needs for PVC shop/orders of 256Ti",
       [](Cluster& c) { SeedLargeVolume(c, "256Ti"); }},
      {"clock-skew", Severity::kFault, "this machine its clock is 1m59s behind the API server's",
       [](Cluster& c) { SetServerClock(c, absl::Seconds(119)); }},
      {"clock-skew", Severity::kFault, "this machine its clock is 1m59s ahead of the API server's",
       [](Cluster& c) { SetServerClock(c, -absl::Minutes(2)); }},
      {"clock-skew", Severity::kNote, "this machine its clock is 10s behind the API server's",
       [](Cluster& c) { SetServerClock(c, absl::Seconds(10)); }},
      {"clock-skew", Severity::kFault, "node n1 its clock is 1m29s ahead of",
       [](Cluster& c) { SeedNode(c, "n1", -absl::Seconds(90), "True"); }},
      {"clock-skew", Severity::kFault, "node n1 its clock is 2m20s behind",
       [](Cluster& c) { SeedNode(c, "n1", absl::Minutes(3), "True"); }},
      {"deletions-failing", Severity::kWarning,
       "DataDeletion velero/d1 its data stays: BackupStorageLocation gone does not exist",
       [](Cluster& c) {
         Json deletion = Deletion("d1", c.Now(), {{"phase", "Waiting"}});
         SetJson(deletion, {"spec", "backupStorageLocation"}, "gone");
         c.api().Seed(DataDeletionType(), deletion);
       }},
      {"deletions-failing", Severity::kWarning,
       "7 DataDeletions of velero has failed for over a day: no such bucket (d0, d1, d2, d3, d4 "
       "and 2 more)",
       [](Cluster& c) {
         for (int i = 0; i < 7; ++i) {
           c.api().Seed(DataDeletionType(), Deletion(absl::StrCat("d", i), Ago(c, absl::Hours(48)),
                                                     {{"phase", "Waiting"},
                                                      {"trouble", "Failed"},
                                                      {"troubleSince", Ago(c, absl::Hours(25))},
                                                      {"message", "no such bucket"}}));
         }
       }},
  };
}

constexpr char kSnapshotRule[] = "version: v1\nvolumePolicies: [{action: {type: snapshot}}]";
constexpr char kCustomRule[] =
    "version: v1\nvolumePolicies: [{action: {type: custom, parameters: {csi-delta: move}}}]";

void SeedPolicies(Cluster& c, const std::string& policy) {
  Json policies = MakeObject("v1", "ConfigMap", "velero", "policies");
  SetJson(policies, {"data", "p"}, policy);
  c.api().Seed(ConfigMapType(), policies);
}

std::vector<Ailment> OfVelerosContract() {
  const Json by_us = {{"snapshotMoveData", true}, {"datamover", "csi-delta"}};
  Json by_us_with_policies = by_us;
  by_us_with_policies["resourcePolicy"] = {{"kind", "configmap"}, {"name", "policies"}};
  const auto seed_schedule = [=](Cluster& c, const std::string& policy) {
    SeedSchedule(c, "nightly", by_us_with_policies);
    SeedPolicies(c, policy);
  };
  return {
      {"velero-policies", Severity::kWarning, "csi-delta moves the data of schedule nightly",
       [=](Cluster& c) {
         SeedSchedule(c, "nightly", by_us);
         SeedPolicies(c, kSnapshotRule);
         SetsInContainer(kServer, "args",
                         {"server", "--features=EnableCSI",
                          "--global-backup-volume-policies-configmap=policies"})(c);
       }},
      {"velero-policies", Severity::kWarning, "csi-delta moves the data of backup by-hand",
       [=](Cluster& c) {
         SeedPolicies(c, kSnapshotRule);
         for (const char* name : {"by-hand", "whose-policies-are-gone"}) {
           Json backup = MakeObject("velero.io/v1", "Backup", "velero", name);
           backup["spec"] = by_us_with_policies;
           if (std::string(name) != "by-hand") {
             backup["spec"]["resourcePolicy"]["name"] = "gone";
           }
           c.api().Seed(objects::Backup::Type(), backup);
         }
       }},
      {"velero-policies", Severity::kWarning,
       "configmap velero/policies has a rule of type snapshot, and csi-delta moves the data of",
       [=](Cluster& c) { seed_schedule(c, kSnapshotRule); }},
      {"velero-policies", Severity::kFault,
       "has a rule of type custom, which this Velero does not know: these fail, or do without the "
       "rule: schedule nightly",
       [=](Cluster& c) {
         seed_schedule(c, kCustomRule);
         SetsInContainer(kServer, "image", "velero/velero:v1.18.0")(c);
       }},
      {"velero-plugin", Severity::kWarning, "has image velero/velero-plugin-for-csi:v0.7.1 beside",
       [](Cluster& c) {
         c.api().Mutate(kServer, [](Json& d) {
           d["spec"]["template"]["spec"]["initContainers"].push_back(
               {{"image", "velero/velero-plugin-for-csi:v0.7.1"}});
         });
       }},
      {"velero-policies", Severity::kUnknown, "version: not v1",
       [=](Cluster& c) { seed_schedule(c, "version: v2"); }},
      {"deletions-impossible", Severity::kWarning,
       "configmap velero/csi-delta-undeleted data of deleted backups stays, which this cluster can "
       "never delete: backup nightly: snapshot s-1",
       [](Cluster& c) {
         Json record = MakeObject("v1", "ConfigMap", "velero", objects::kUndeletedConfigMap);
         SetJson(record, {"data", "0123"}, "backup nightly: snapshot s-1 of driver d");
         c.api().Seed(ConfigMapType(), record);
       }},
  };
}

std::vector<Ailment> OfWhatMayNotBeRead() {
  return {
      {"location-provider", Severity::kUnknown, "location velero/default",
       Forbids("get", "secrets")},
      {"longhorn-snapshots", Severity::kUnknown, "",
       [](Cluster& c) {
         SeedLonghornSnapshot(c, "one", Json::object());
         c.api().Forbid("list", "snapshots");
       }},
      {"mover-setting-names", Severity::kUnknown, "",
       [](Cluster& c) {
         SetSettings(c, R"({"worker": {"priorityClassName": "urgent"}})");
         c.api().Forbid("list", "priorityclasses");
       }},
      {"mover-worker-pod", Severity::kUnknown, "", Forbids("create", "pods")},
  };
}

std::vector<Ailment> OfAdmission() {
  return {
      {"mover-admission", Severity::kWarning, "csi-delta-worker was not found: a worker",
       Removes({objects::ValidatingAdmissionPolicy::Type(), "", "csi-delta-worker"})},
      {"mover-admission", Severity::kWarning, "is not bound to deny: a worker",
       Sets({objects::ValidatingAdmissionPolicyBinding::Type(), "", "csi-delta-worker"},
            {"spec", "validationActions"}, Json::array({"Audit"}))},
      {"mover-admission", Severity::kWarning, "has failurePolicy Ignore",
       Sets({objects::ValidatingAdmissionPolicy::Type(), "", "csi-delta-worker"},
            {"spec", "failurePolicy"}, "Ignore")},
      {"mover-admission", Severity::kWarning, "has no ValidatingAdmissionPolicy",
       [](Cluster& c) { c.api().RemoveType("validatingadmissionpolicies"); }},
  };
}

std::vector<Ailment> OfOtherKeysAndNamespaces() {
  return {
      {"keyring-present", Severity::kFault, "DataUpload velero/nightly was encrypted with key 0123",
       [](Cluster& c) {
         Json upload = MakeObject("velero.io/v2alpha1", "DataUpload", "velero", "nightly");
         SetJson(upload, {"metadata", "annotations", objects::kMoverKeyAnnotation},
                 "0123456789abcdef");
         SetJson(upload, {"spec"},
                 Json{{"datamover", "csi-delta"}, {"backupStorageLocation", "default"}});
         c.api().Seed(objects::DataUpload::Type(), upload);
       }},
      {"mover-orphans", Severity::kWarning, "is of namespace elsewhere, which is not among",
       [](Cluster& c) { SeedTask(c, "elsewhere"); }},
  };
}

std::vector<Ailment> OfTheSameChecks() {
  return {
      {"stuck-contents", Severity::kWarning, "has not been seen to delete group g-1",
       SeedPendingGroupDeletion},
      {"stuck-snapshots", Severity::kWarning, "VolumeSnapshotContent gone-1 does not exist",
       SeedLostSnapshot},
      {"snapshot-controller", Severity::kNote, "gate CSIVolumeGroupSnapshot is off",
       [](Cluster& c) {
         SetController(c, {{"image", "r.example.com/snapshot-controller:v8.6.0"}});
       }},
      {"snapshot-controller", Severity::kWarning,
       "gets ready; VolumeSnapshotContents of members: 1",
       [](Cluster& c) {
         SetController(c, {{"image", "r.example.com/snapshot-controller:v8.7.0"},
                           {"args", {"--feature-gates=CSIVolumeGroupSnapshot=false"}}});
         SeedContent(c, "member");
         c.api().SetField({VolumeSnapshotContentType(), "", "member"},
                          {"status", "volumeGroupSnapshotHandle"}, "group");
       }},
      {"snapshot-controller", Severity::kNote, "no Deployment runs a snapshot-controller",
       Removes(kSnapshotController)},
      {"velero-namespace", Severity::kFault, "Velero's CRDs are not installed",
       [](Cluster& c) { c.api().RemoveType("backupstoragelocations"); }},
      {"velero-version", Severity::kNote, "is not known from its tag",
       SetsInContainer(kServer, "image", "velero/velero:main")},
      {"deletions-failing", Severity::kWarning, "its data stays: the key is gone",
       [](Cluster& c) {
         c.api().Seed(
             DataDeletionType(),
             Deletion("d1", c.Now(), {{"phase", "Failed"}, {"message", "the key is gone"}}));
       }},
      {"copies-into-volumes", Severity::kWarning, "writes into its volume for over 6 hours",
       [](Cluster& c) {
         c.api().Seed(DataDownloadType(), Transfer("DataDownload", "InProgress", c.Now()));
         SeedCopy(c, {.from = "velero/b1-x", .id = "transfer-uid"}, absl::Hours(7));
       }},
      {"location-tls", Severity::kWarning, "insecureSkipTLSVerify is set",
       Sets(kLocation, {"spec", "config", "insecureSkipTLSVerify"}, "true")},
      {"location-credentials", Severity::kFault, "has no key cloud",
       [](Cluster& c) {
         c.api().Mutate({SecretType(), "velero", "cloud"},
                        [](Json& secret) { secret["data"].erase("cloud"); });
       }},
      {"location-writable", Severity::kNote, "is read-only",
       Sets(kLocation, {"spec", "accessMode"}, "ReadOnly")},
      {"mover-deployment", Severity::kNote, "it was not found", Removes(kController)},
      {"mover-leader", Severity::kFault, "no controller has ever become leader here",
       Removes({LeaseType(), kMover, "csi-delta-datamover"})},
      {"mover-setting-names", Severity::kFault, "PriorityClass urgent, which does not exist",
       [](Cluster& c) { SetSettings(c, R"({"worker": {"priorityClassName": "urgent"}})"); }},
      {"driver-storage-class", Severity::kWarning, "PVCs without a storage class",
       [](Cluster& c) {
         c.api().Mutate(kClaim, [](Json& p) { p["spec"].erase("storageClassName"); });
       }},
      {"driver-changed-blocks", Severity::kWarning, "spec.audience is missing",
       [](Cluster& c) {
         Json service =
             support::MakeMetadataService("127.0.0.1:1", support::TestAuthority().ca_pem());
         service["spec"].erase("audience");
         c.AdvertiseMetadata(service);
       }},
      {"driver-changed-blocks", Severity::kNote, "is asked by a DifferentialSnapshot",
       [](Cluster&) {}},
      {"driver-metadata-service", Severity::kFault, "its certificate is not trusted",
       [](Cluster& c) { c.ServeMetadata(support::TestAuthority().ca_pem()); }},
  };
}

const Json kPresent = {{"snapshotHandle", "snap-1"}, {"readyToUse", true}, {"restoreSize", 4096}};
const Json kWithPolicies = {{"resourcePolicy", {{"kind", "configmap"}, {"name", "policies"}}}};

// What looks like one and is none: why is the text.
std::vector<Ailment> OfVeleroAndMoverThatAreNone() {
  return {
      {"kept-snapshots", Severity::kGood, "it is there, and a user's that is gone is no backup's",
       [](Cluster& c) {
         SeedsKept(kPresent)(c);
         SeedContent(c, "of-a-user");
         c.api().SetField({VolumeSnapshotContentType(), "", "of-a-user"}, {"status", "error"},
                          {{"message", "can not find snapshot for snapshotID x"}});
       }},
      {"velero-policies", Severity::kGood, "1.18.1 knows the rule",
       [](Cluster& c) {
         SeedSchedule(c, "nightly", kWithPolicies);
         SeedPolicies(c, kCustomRule);
       }},
      {"velero-policies", Severity::kGood, "csi-delta moves nothing by the rule",
       [](Cluster& c) {
         SeedSchedule(c, "nightly", kWithPolicies);
         SeedPolicies(c, kSnapshotRule);
       }},
      {"velero-plugin", Severity::kGood, "the server runs on no such node",
       [](Cluster& c) {
         SeedNode(c, "graviton", absl::ZeroDuration(), "True", "arm64");
         Sets(kServer, {"spec", "template", "spec", "nodeSelector"},
              {{"kubernetes.io/arch", "amd64"}})(c);
       }},
      {"deletions-failing", Severity::kGood, "it waits for a lock",
       [](Cluster& c) {
         c.api().Seed(DataDeletionType(), Deletion("d1", Ago(c, absl::Hours(48)),
                                                   {{"phase", "Waiting"},
                                                    {"trouble", "Locked"},
                                                    {"troubleSince", Ago(c, absl::Hours(25))}}));
       }},
      {"uploads-failed", Severity::kGood, "it was long ago",
       [](Cluster& c) {
         c.api().Seed(DataUploadType(), Transfer("DataUpload", "Failed", Ago(c, absl::Hours(25))));
       }},
      {"mover-first-full", Severity::kGood, "an incremental backup tells nothing of a full one",
       [](Cluster& c) { SeedFirstFull(c, "1073741824", "10Ti", "incremental"); }},
      {"mover-worker-pod", Severity::kGood, "the image is another one",
       [](Cluster& c) {
         SetSettings(c, R"({"worker": {"nodeSelector": {"kubernetes.io/arch": "arm64"}}})");
         SeedNode(c, "graviton", absl::ZeroDuration(), "True", "arm64");
       }},
      {"mover-bases", Severity::kGood, "an upload is compared with it",
       [](Cluster& c) {
         SeedBase(c, support::kDriver, "another-uid");
         c.api().Seed(objects::VolumeTask::Type(),
                      objects::VolumeTask::Make(kMover, "du-1",
                                                {.kind = objects::TaskKind::kUpload,
                                                 .subject = {"DataUpload", "velero", "b1-x", "u"},
                                                 .volume = {.claim_uid = "another-uid"}},
                                                {})
                          .json());
       }},
  };
}

std::vector<Ailment> OfDriversThatAreNone() {
  return {
      {"snapshot-controller", Severity::kGood, "its gate is on",
       [](Cluster& c) {
         SetController(c, {{"image", "r.example.com/snapshot-controller:v8.6.0"},
                           {"args", {"--feature-gates=CSIVolumeGroupSnapshot=true"}}});
       }},
      {"driver-zones", Severity::kGood, "volumes are made where their Pod runs",
       [](Cluster& c) {
         SeedZones(c);
         Sets({objects::StorageClass::Type(), "", "fast"}, {"volumeBindingMode"},
              "WaitForFirstConsumer")(c);
       }},
      {"driver-snapshots", Severity::kGood, "another driver was asked",
       [](Cluster& c) {
         SeedContent(c, "monday");
         Sets({VolumeSnapshotContentType(), "", "monday"}, {"spec", "driver"}, "d.example.com")(c);
         c.stored_handles = {"handle-of-others"};
       }},
      {"driver-snapshots", Severity::kGood, "its content is being deleted",
       [](Cluster& c) {
         SeedContent(c, "monday");
         Sets({VolumeSnapshotContentType(), "", "monday"}, {"metadata", "deletionTimestamp"},
              c.Now())(c);
         c.stored_handles = {"handle-of-others"};
       }},
      {"copies-into-volumes", Severity::kGood, "it may be under way",
       [](Cluster& c) {
         SeedCopy(c, {.from = "velero/b1-x", .id = "transfer-uid"}, absl::Minutes(5));
         c.api().Forbid("list", "datadownloads");
       }},
  };
}

class AilmentTest : public ::testing::TestWithParam<Ailment> {};

TEST_P(AilmentTest, IsFoundWithItsRemediation) {
  Cluster cluster;
  GetParam().cause(cluster);
  const Finding finding = cluster.FindingOf(GetParam().check);
  EXPECT_EQ(ToString(finding.severity), ToString(GetParam().severity)) << finding.text;
  EXPECT_THAT(absl::StrCat(finding.subject, " ", finding.text), HasSubstr(GetParam().text));
  EXPECT_NE(finding.remediation, "");
}

std::vector<Ailment> AllAilments() {
  std::vector<Ailment> all;
  for (const auto& some : {OfCluster(), OfVelero(), OfLocations(), OfImmutability(), OfMover(),
                           OfVelerosContract(), OfWhatMayNotBeRead(), OfTheQueue(), OfWorkers(),
                           OfKeptSnapshots(), OfDrivers(), OfLonghorn(), OfLonghornObjects(),
                           OfAdmission(), OfOtherKeysAndNamespaces(), OfTheSameChecks()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// By its check and its number among those of that check: tests/scenarios.txt names one.
INSTANTIATE_TEST_SUITE_P(
    All, AilmentTest, ::testing::ValuesIn(AllAilments()), [](const auto& test) {
      const std::vector<Ailment> all = AllAilments();
      const auto is_same = [&](const Ailment& one) { return one.check == test.param.check; };
      return absl::StrCat(absl::StrReplaceAll(test.param.check, {{"-", "_"}}), "_",
                          1 + std::count_if(all.begin(), all.begin() + test.index, is_same));
    });

// Of a check and a grade, "velero-namespace fault", how often.
using SeverityCounts = std::map<std::string, int>;

std::string SeverityKey(absl::string_view check, Severity severity) {
  return absl::StrCat(check, " ", ToString(severity));
}

// At how many places the checks say something that is not good, by their sources: a check
// "velero-namespace" is a function CheckVeleroNamespace().
SeverityCounts PlacesInSource() {
  constexpr std::array kWords = {std::pair(Severity::kNote, "context.Note("),
                                 std::pair(Severity::kWarning, "context.Warn("),
                                 std::pair(Severity::kFault, "context.Fault(")};
  SeverityCounts places;
  const std::string listing = support::ReadSource("src/doctor/CMakeLists.txt");
  for (const absl::string_view file :
       absl::StrSplit(listing, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (!absl::EndsWith(file, "_checks.cc")) {
      continue;
    }
    const std::string source = support::ReadSource(absl::StrCat("src/doctor/", file));
    std::vector<absl::string_view> functions = absl::StrSplit(source, "\nvoid Check");
    for (const absl::string_view function : absl::MakeSpan(functions).subspan(1)) {
      std::string check;
      for (const char c : function.substr(0, function.find('('))) {
        absl::StrAppend(&check, absl::ascii_isupper(c) && !check.empty() ? "-" : "",
                        std::string(1, absl::ascii_tolower(c)));
      }
      const std::vector<absl::string_view> body =
          absl::StrSplit(function, absl::MaxSplits("\n}\n", 1));
      for (const auto& [severity, words] : kWords) {
        const std::vector<absl::string_view> between = absl::StrSplit(body.front(), words);
        places[SeverityKey(check, severity)] += static_cast<int>(between.size()) - 1;
      }
    }
  }
  return places;
}

// AilmentTest causes each ailment and finds it, with its remediation: so nothing that a check finds
// goes untested.
TEST_F(CheckupTest, EachFindingOfACheckHasAnAilment) {
  std::set<std::string> checks;
  SeverityCounts ailing;
  for (const Ailment& ailment : AllAilments()) {
    checks.insert(ailment.check);
    ++ailing[SeverityKey(ailment.check, ailment.severity)];
  }
  // Tests of its own, with --probe.
  checks.insert("device-access");
  std::set<std::string> names;
  for (const Check& check : AllChecks()) {
    names.emplace(check.name);
  }
  EXPECT_EQ(checks, names);
  int places = 0;
  for (const auto& [key, count] : PlacesInSource()) {
    EXPECT_TRUE(names.contains(key.substr(0, key.find(' ')))) << key;
    EXPECT_GE(ailing[key], count) << key;
    places += count;
  }
  EXPECT_GE(places, 45) << "the sources are read";
}

TEST_F(CheckupTest, WhatIsNoAilmentIsNotReported) {
  for (const auto& some : {OfVeleroAndMoverThatAreNone(), OfDriversThatAreNone()}) {
    for (const Ailment& none : some) {
      SCOPED_TRACE(absl::StrCat(none.check, ": ", none.text));
      Cluster cluster;
      none.cause(cluster);
      const Finding finding = cluster.FindingOf(none.check);
      EXPECT_EQ(ToString(finding.severity), ToString(none.severity)) << finding.text;
    }
  }
}

TEST_F(CheckupTest, AServiceOfSnapshotMetadataWithItsOwnCertificateIsGood) {
  ServeMetadata("");
  const Finding finding = FindingOf("driver-metadata-service");
  EXPECT_EQ(ToString(finding.severity), ToString(Severity::kGood)) << finding.text;
  EXPECT_THAT(finding.subject, HasSubstr("service 127.0.0.1:"));
}

TEST_F(CheckupTest, SnapshotsThatTheStorageHasAndThoseDeletedMeanwhileAreGood) {
  SeedContent(*this, "monday");
  SeedContent(*this, "tuesday");
  stored_handles = {"handle-of-monday"};
  on_listing = [&] { api().Remove(VolumeSnapshotContentKey("tuesday")); };
  const Finding finding = FindingOf("driver-snapshots");
  EXPECT_EQ(finding.severity, Severity::kGood);
  EXPECT_THAT(finding.text, HasSubstr("has the snapshots of all"));
}

TEST_F(CheckupTest, KindsAreNamespacedAsTheApiServerHasThem) {
  for (const k8s::ResourceType& type :
       {objects::ServiceAccount::Type(), objects::ResourceQuota::Type(),
        objects::Deployment::Type()}) {
    EXPECT_TRUE(type.namespaced) << type.kind;
  }
  for (const k8s::ResourceType& type :
       {objects::Namespace::Type(), objects::StorageClass::Type(), kCsiDriverKind.Type(),
        kPriorityClassKind.Type(), objects::CustomResourceDefinition::Type()}) {
    EXPECT_FALSE(type.namespaced) << type.kind;
  }
  EXPECT_TRUE(kScheduleKind.Type().namespaced);
}

TEST_F(CheckupTest, ASnapshotThatIsToBeDeletedForOverAnHourIsWarnedOfOnce) {
  Json content = support::MakeContentObject("c2", "shop", "s2", "handle-2");
  api().Seed(VolumeSnapshotContentType(), content);
  SetJson(content, {"metadata", "name"}, "c3");
  SetJson(content, {"metadata", "deletionTimestamp"}, Ago(*this, absl::Minutes(59)));
  api().Seed(VolumeSnapshotContentType(), content);
  content = support::MakeContentObject("c1", "shop", "s1", "handle-1");
  SetJson(content, {"metadata", "deletionTimestamp"}, Ago(*this, absl::Hours(2)));
  SetJson(content, {"metadata", "finalizers"}, Json::array({objects::kDeletionFinalizer}));
  api().Seed(VolumeSnapshotContentType(), content);
  const std::vector<Finding> warnings = FindingsOf("stuck-contents");
  ASSERT_THAT(warnings, ::testing::SizeIs(1));
  EXPECT_THAT(warnings[0].text, HasSubstr("has not been seen to delete snapshot handle-1"));
}

// The command finishes it; while something still writes there is nothing to do.
TEST_F(CheckupTest, ARestoreIntoAVolumeIsWarnedOfWhenNothingWritesAnyMore) {
  Json download = Transfer("DataDownload", "InProgress", Now());
  api().Seed(DataDownloadType(), download);
  const objects::CopyRecord by_mover = {
      .from = "velero/b1-x", .id = "transfer-uid", .upload = "nightly"};
  SeedCopy(*this, by_mover, absl::Minutes(5));
  ExpectGood("copies-into-volumes");
  api().Remove({DataDownloadType(), "velero", "b1-x"});
  EXPECT_THAT(FindingOf("copies-into-volumes").remediation,
              HasSubstr("csi-delta restore --upload nightly --into shop/orders"));
}

TEST_F(CheckupTest, OfARestoreThatIsNamedEachPvcWithoutDataHasItsCommand) {
  SeedWithoutData(*this);
  EXPECT_EQ(FindingOf("restores-without-data").remediation,
            "csi-delta doctor --restore back names the command for each");
  restore = "back";
  EXPECT_EQ(FindingOf("restores-without-data").remediation,
            std::string("with restore.intoExistingVolumes switched on in the mover's settings, and "
                        "without a Pod that uses the PVC: ") +
                kCommand);
  EXPECT_EQ(FindingsOf("restores-without-data").size(), 2U);
  api().SetField(kClaim, {"metadata", "annotations", objects::kRestoredAtAnnotation}, Now());
  ExpectGood("restores-without-data");
}

// One that a killed program left is of no use to a new DataDownload, and stays.
TEST_F(CheckupTest, AConsentThatIsLeftIsNamed) {
  api().Seed(DataDownloadType(), Transfer("DataDownload", "New", Now()));
  api().SetField(kClaim, {"metadata", "annotations", objects::kMayWriteAnnotation}, "transfer-uid");
  ExpectGood("copies-into-volumes");
  for (const bool is_gone : {false, true}) {
    api().Seed(DataDownloadType(), Transfer("DataDownload", "Failed", Now()));
    if (is_gone) {
      api().Remove({DataDownloadType(), "velero", "b1-x"});
    }
    const Finding finding = FindingOf("copies-into-volumes");
    EXPECT_EQ(ToString(finding.severity), ToString(Severity::kNote));
    EXPECT_EQ(finding.subject, "PVC shop/orders");
    EXPECT_EQ(finding.remediation,
              "kubectl annotate pvc orders -n shop mover.csi-delta.io/may-write-");
  }
}

TEST_F(CheckupTest, KindsOfLonghornThatAreKnownAndThoseOfOtherGroupsAreGood) {
  SeedLonghornKind(*this, "engines", "Engine");
  SeedLonghornKind(*this, "others", "Other", "example.io");
  ExpectGood("longhorn-kinds");
}

TEST_F(CheckupTest, LonghornIsGoodWhereTheSettingsOfThePluginSayItIs) {
  SetPlugin(*this, {{"longhornNamespace", "storage"}});
  ExpectGood("longhorn-found");
  SeedLonghornKind(*this, "settings", "Setting");
  SeedLonghornSetting(*this, "current-longhorn-version", "v1.12.1", "storage");
  const Finding finding = FindingOf("longhorn-found");
  EXPECT_EQ(ToString(finding.severity), ToString(Severity::kGood));
  EXPECT_EQ(finding.subject, "Longhorn in storage");
  EXPECT_EQ(finding.text, "version v1.12.1");
  api().Forbid("list", "settings");
  for (const Finding& unknown : FindingsOf("longhorn-found")) {
    EXPECT_EQ(ToString(unknown.severity), ToString(Severity::kUnknown)) << unknown.text;
  }
}

// Nothing deletes it: Velero may read a backup again from its bucket.
TEST_F(CheckupTest, ANativeSnapshotIsNamedOnceNoBackupOfItsNameIsThere) {
  const std::string backup = "nightly-" + std::string(80, 'x');
  api().Seed(BackupType(), support::MakeBackupObject(backup, "Completed"));
  SeedNative(*this, "csd-1", backup, Json::object());
  SeedNative(*this, "csd-2", "gone", DeletedBefore(*this, absl::Minutes(1)));
  SeedNative(*this, "csd-3", "gone", {{"status", {{"markRemoved", true}}}});
  SeedLonghornSnapshot(*this, "of-a-user", Json::object());
  ExpectGood("longhorn-native");
  api().Remove({BackupType(), "velero", backup});
  for (int i = 4; i < 10; ++i) {
    SeedNative(*this, absl::StrCat("csd-", i), "gone", Json::object());
  }
  const Finding finding = FindingOf("longhorn-native");
  EXPECT_EQ(ToString(finding.severity), ToString(Severity::kWarning));
  EXPECT_THAT(finding.text, HasSubstr("7 of backups that Velero does not list: csd-1 (backup "));
  EXPECT_THAT(finding.text, HasSubstr("and 2 more"));
  EXPECT_THAT(finding.remediation,
              HasSubstr("kubectl -n longhorn-system delete snapshots.longhorn.io"));
  EXPECT_TRUE(api().Find({longhorn::Snapshot::Type(), "longhorn-system", "csd-1"}).has_value());
  api().Forbid("list", "backups");
  EXPECT_EQ(ToString(FindingOf("longhorn-native").severity), ToString(Severity::kUnknown));
}

// Its backup may still be there: what that archived is another object, of another uid.
TEST_F(CheckupTest, ANativeSnapshotWhoseObjectLonghornMadeAgainIsNamed) {
  api().Seed(BackupType(), support::MakeBackupObject("nightly", "Completed"));
  SeedNativeMadeAgain(*this, '1', DeletedBefore(*this, absl::Minutes(1)));
  SeedNativeMadeAgain(*this, '2', {{"status", {{"markRemoved", true}}}});
  SeedNative(*this, absl::StrCat("csd-", std::string(40, '3')), "nightly", Json::object());
  for (const std::string& name : {std::string("csd-of-a-user"), "csd-" + std::string(39, '4'),
                                  "csd-" + std::string(40, 'G'), "x" + std::string(43, '5')}) {
    SeedLonghornSnapshot(*this, name, {{"spec", {{"createSnapshot", false}}}});
  }
  ExpectGood("longhorn-native");
  SeedNativeMadeAgain(*this, '6', Json::object());
  SeedNativeMadeAgain(*this, '7', Json::object());
  // The first snapshot of a clone has the name of its source's, and no labels.
  SeedNativeMadeAgain(*this, '8', {{"status", {{"labels", nullptr}}}});
  api().Forbid("list", "backups");
  const std::vector<Finding> findings = FindingsOf("longhorn-native");
  ASSERT_THAT(findings, ::testing::SizeIs(2));
  EXPECT_EQ(ToString(findings[0].severity), ToString(Severity::kWarning));
  EXPECT_THAT(findings[0].text, HasSubstr("2 that lost their object"));
  EXPECT_THAT(findings[0].text, HasSubstr("6 (backup nightly), csd-7"));
  EXPECT_THAT(findings[0].text, testing::Not(HasSubstr("csd-8")));
  EXPECT_THAT(findings[0].remediation,
              HasSubstr("kubectl -n longhorn-system delete snapshots.longhorn.io"));
  EXPECT_EQ(ToString(findings[1].severity), ToString(Severity::kUnknown))
      << "of that with a backup";
}

// What a text has before and after a part of it; all of it and nothing, where it has none.
std::pair<absl::string_view, absl::string_view> Divide(absl::string_view text,
                                                       absl::string_view part) {
  const std::size_t begin = text.find(part);
  return begin == absl::string_view::npos
             ? std::pair<absl::string_view, absl::string_view>(text, "")
             : std::pair(text.substr(0, begin), text.substr(begin + part.size()));
}

// What of a text stands between two parts of it.
absl::string_view Between(absl::string_view text, absl::string_view begin, absl::string_view end) {
  return Divide(Divide(text, begin).second, end).first;
}

// The classes and settings of docs/longhorn.md for moving, as they stand there.
TEST_F(CheckupTest, WhatThePageOfLonghornHasForMovingIsGood) {
  const std::string page = support::ReadSource("docs/longhorn.md");
  const absl::string_view moving = Between(page, "\n## Move the data into a bucket\n", "\n## ");
  std::set<std::string> classes = {"longhorn"};
  std::vector<absl::string_view> blocks = absl::StrSplit(moving, "\n```yaml\n");
  for (const absl::string_view block : absl::MakeSpan(blocks).subspan(1)) {
    const Json object = ParseYaml(Divide(block, "\n```\n").first).value();
    const bool is_of_snapshots = GetString(object, {"kind"}) == "VolumeSnapshotClass";
    api().Seed(is_of_snapshots ? VolumeSnapshotClassType() : objects::StorageClass::Type(), object);
    classes.insert(k8s::Name(object));
    EXPECT_EQ(GetString(object, {is_of_snapshots ? "driver" : "provisioner"}),
              velero::kLonghornDriver);
  }
  EXPECT_THAT(classes, ::testing::ElementsAre("longhorn", "longhorn-for-uploads", "longhorn-snap"));
  api().Seed(objects::StorageClass::Type(),
             MakeObject("storage.k8s.io/v1", "StorageClass", "", "longhorn"));
  SetSettings(*this, std::string(Between(moving, "\n```json\n", "\n```\n")));
  for (const char* const check : {"longhorn-class", "mover-settings", "mover-setting-names"}) {
    ExpectGood(check);
  }
}

TEST_F(CheckupTest, OfDeletionsThatHangTheNextStepSaysWhatTheyWaitFor) {
  SeedLonghornVolume(*this, "attached", 250);
  SeedLonghornSnapshot(*this, "old", DeletedBefore(*this, absl::Minutes(61)));
  EXPECT_THAT(FindingOf("longhorn-snapshots").remediation, HasSubstr("their status.error"));
  SeedLonghornSetting(*this, "disable-snapshot-purge", "true");
  EXPECT_THAT(FindingOf("longhorn-snapshots").remediation,
              HasSubstr("disable-snapshot-purge to false"));
}

TEST_F(CheckupTest, OfAVolumeThatIsAlmostFullTheNextStepNamesThePrune) {
  SeedLonghornVolume(*this, "attached", 1);
  SeedLonghornSnapshot(*this, "only", Json::object());
  EXPECT_THAT(FindingOf("longhorn-snapshots").remediation, HasSubstr("csi-delta longhorn prune"));
}

TEST_F(CheckupTest, SnapshotsOfLonghornThatComeAndGoAsTheyShouldAreGood) {
  SeedLonghornVolume(*this, "detached", 10);
  SeedLonghornSnapshot(*this, std::string(63, 'x'), Json::object());
  SeedLonghornSnapshot(*this, "goes", DeletedBefore(*this, absl::Minutes(59)));
  Json lingers = DeletedBefore(*this, absl::Hours(30));
  lingers["status"] = {{"markRemoved", true}, {"children", {{"volume-head", true}}}};
  SeedLonghornSnapshot(*this, "lingers", lingers);
  SeedLonghornSnapshot(*this, "removed",
                       {{"status", {{"markRemoved", true}, {"readyToUse", false}}}});
  SeedLonghornSnapshot(*this, "soon-ready",
                       {{"status",
                         {{"readyToUse", false},
                          {"creationTime", nullptr},
                          {"requestedTime", Ago(*this, absl::Seconds(100))}}}});
  SeedLonghornSnapshot(
      *this, "soon-taken",
      {{"metadata", {{"creationTimestamp", Ago(*this, absl::Minutes(9))}}},
       {"status", {{"readyToUse", false}, {"creationTime", nullptr}, {"requestedTime", nullptr}}}});
  SeedLonghornSnapshot(*this, "shown",
                       {{"spec", {{"createSnapshot", false}}},
                        {"status", {{"requestedTime", nullptr}, {"readyToUse", false}}}});
  ExpectGood("longhorn-snapshots");
}

TEST_F(CheckupTest, HarmlessJobsClassesAndWebhooksAreGood) {
  SeedOfLonghorn(*this, "recurringjobs", "RecurringJob", "nightly",
                 {{"spec", {{"task", "snapshot"}, {"retain", 7}}}});
  Json snapshots = support::MakeClassObject("snapshots", "driver.longhorn.io");
  SetJson(snapshots, {"parameters", "type"}, "snap");
  api().Seed(VolumeSnapshotClassType(), snapshots);
  for (const auto& [policy, endpoints] : std::vector<std::pair<std::string, Json>>{
           {"Fail", Json::array({{{"conditions", {{"ready", false}}}}, Json::object()})},
           {"Fail", Json::array({{{"conditions", {{"ready", true}}}}})},
           {"Ignore", Json::array()}}) {
    SeedLonghornWebhook(*this, policy, endpoints);
    for (const char* const check : {"longhorn-jobs", "longhorn-class", "longhorn-webhook"}) {
      ExpectGood(check);
    }
  }
}

TEST_F(CheckupTest, DefinitionsThatMayNotBeListedAreUnknown) {
  api().Forbid("list", "customresourcedefinitions");
  const Finding finding = FindingsOf("longhorn-found").back();
  EXPECT_EQ(ToString(finding.severity), ToString(Severity::kUnknown));
  EXPECT_THAT(finding.text, HasSubstr("same reason: longhorn-in-backups, longhorn-kinds"));
}

TEST_F(CheckupTest, SchedulesWithoutLonghornsObjectsAndThoseUnderTheGuardAreGood) {
  struct Harmless {
    const char* name;
    support::Strings settings;
    Json backup_spec;
    bool has_longhorn;
  };
  const support::Strings off = {{"longhornGuard", "off"}};
  for (const Harmless& harmless : std::vector<Harmless>{
           {"the guard is on", {}, Json::object(), true},
           {"the cluster has no Longhorn", off, Json::object(), false},
           {"other namespaces", off, {{"includedNamespaces", {"shop"}}}, true},
           {"excluded", off, {{"excludedNamespaces", {"longhorn-*"}}}, true},
           {"other resources", off, {{"includedResources", {"pods"}}}, true},
           {"excluded resources", off, {{"excludedResources", {"*.longhorn.io"}}}, true},
           {"not readable", off, {{"includedNamespaces", "longhorn-system"}}, true}}) {
    SCOPED_TRACE(harmless.name);
    Cluster cluster;
    if (harmless.has_longhorn) {
      SeedLonghornKind(cluster, "volumes", "Volume");
    }
    SetPlugin(cluster, harmless.settings);
    SeedSchedule(cluster, "nightly", harmless.backup_spec);
    cluster.ExpectGood("longhorn-in-backups");
  }
}

TEST_F(CheckupTest, ASettingOfThePluginThatIsWrongIsUnknown) {
  SeedLonghornKind(*this, "volumes", "Volume");
  SetPlugin(*this, {{"longhornGuard", "never"}});
  int said = 0;
  for (const Finding& finding : Findings()) {
    if (finding.text.find("is not on or off") != std::string::npos) {
      EXPECT_EQ(ToString(finding.severity), ToString(Severity::kUnknown)) << finding.check;
      ++said;
    }
  }
  EXPECT_EQ(said, 1) << "one cause is said once";
}

// What --json and the exit code are read by.
TEST_F(CheckupTest, SeveritiesHaveTheirNames) {
  EXPECT_EQ(ToString(Severity::kGood), "good");
  EXPECT_EQ(ToString(Severity::kNote), "note");
  EXPECT_EQ(ToString(Severity::kWarning), "warning");
  EXPECT_EQ(ToString(Severity::kFault), "fault");
  EXPECT_EQ(ToString(Severity::kUnknown), "unknown");
}

// What is said at the end of the checks that are left out because of that one.
Finding LeftOutWith(const std::vector<Finding>& findings, const std::string& check) {
  for (const Finding& finding : findings) {
    if (finding.check == check && finding.text.find(" checks not made ") != std::string::npos) {
      EXPECT_EQ(ToString(finding.severity), ToString(Severity::kUnknown));
      EXPECT_NE(finding.remediation, "");
      return finding;
    }
  }
  return {};
}

std::set<std::string> ChecksOf(const std::vector<Finding>& findings) {
  std::set<std::string> checks;
  for (const Finding& finding : findings) {
    checks.insert(finding.check);
  }
  return checks;
}

TEST_F(CheckupTest, AnApiServerThatDoesNotAnswerIsOneFault) {
  api().FailNext("*", "*", absl::UnavailableError("connection refused"), 1000);
  const std::vector<Finding> findings = Findings(/*probe=*/true);
  ASSERT_THAT(findings, ::testing::SizeIs(2));
  EXPECT_EQ(findings[0].check, "cluster-reachable");
  EXPECT_EQ(ToString(findings[0].severity), ToString(Severity::kFault));
  EXPECT_THAT(findings[1].text, ::testing::StartsWith(absl::StrCat(
                                    AllChecks().size() - 1, " checks not made because of this: ")));
  EXPECT_EQ(api().calls().size(), 1u);
}

TEST_F(CheckupTest, ChecksWhosePrerequisiteFailsAreNotMade) {
  Cluster no_velero;
  no_velero.api().RemoveType("backupstoragelocations");
  const std::vector<Finding> without_velero = no_velero.Findings();
  EXPECT_THAT(LeftOutWith(without_velero, "velero-namespace").text, HasSubstr("deletions-failing"));
  for (const std::string& check : ChecksOf(without_velero)) {
    const auto needed = PrerequisitesOf(check);
    EXPECT_THAT(needed, ::testing::Not(::testing::Contains("velero-namespace"))) << check;
  }
  Cluster no_mover;
  no_mover.api().Remove({objects::Namespace::Type(), "", kMover});
  const std::vector<Finding> without_mover = no_mover.Findings();
  EXPECT_THAT(LeftOutWith(without_mover, "mover-namespace").text, HasSubstr("clock-skew"));
  EXPECT_FALSE(ChecksOf(without_mover).contains("mover-leader"));
  EXPECT_TRUE(ChecksOf(without_mover).contains("keyring-whole"));
}

TEST_F(CheckupTest, AnEmptyClusterHasAFaultForEachThingThatIsToBeInstalled) {
  for (const char* kind :
       {"volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses", "volumetasks",
        "datadeletions", "protectedvolumes", "backupstoragelocations", "schedules", "restores",
        "datauploads", "datadownloads"}) {
    api().RemoveType(kind);
  }
  for (const k8s::ObjectKey& key : {kController, kServer, kSnapshotController}) {
    api().Remove(key);
  }
  std::vector<std::string> work;
  for (const Finding& finding : Findings()) {
    if (finding.severity == Severity::kFault || finding.severity == Severity::kWarning) {
      work.push_back(absl::StrCat(finding.check, ": ", finding.subject, ": ", finding.remediation));
    }
  }
  EXPECT_THAT(work,
              ::testing::ElementsAre(
                  ::testing::StartsWith("snapshot-kinds: CRD volumesnapshots.snapshot.storage."
                                        "k8s.io, CRD volumesnapshotcontents.snapshot.storage."
                                        "k8s.io, CRD volumesnapshotclasses.snapshot.storage."
                                        "k8s.io: kubectl apply -k "),
                  ::testing::StartsWith("velero-namespace: namespace velero: velero install"),
                  ::testing::StartsWith("mover-namespace: namespace csi-delta: helm install "
                                        "--create-namespace csi-delta deploy/chart")));
}

TEST_F(CheckupTest, OneOfTwoVelerosThatIsMissingKeepsNoCheckFromBeingMade) {
  std::set<std::string> names;
  for (const Check& check : AllChecks()) {
    names.emplace(check.name);
  }
  for (const Check& check : AllChecks()) {
    for (const absl::string_view needed : PrerequisitesOf(check.name)) {
      EXPECT_TRUE(names.contains(std::string(needed))) << needed;
    }
  }
  Cluster cluster;
  cluster.velero_namespaces = {"velero", "other"};
  const std::vector<Finding> findings = cluster.Findings();
  EXPECT_TRUE(ChecksOf(findings).contains("velero-server"));
  EXPECT_EQ(LeftOutWith(findings, "velero-namespace").check, "");
}

TEST_F(CheckupTest, WhatMayNotBeReadForOneReasonIsSaidOnce) {
  api().Forbid("list", "datauploads");
  const std::vector<Finding> findings = Findings();
  std::string said;
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::kUnknown) {
      absl::StrAppend(&said, finding.check, ": ", finding.text, "\n");
    }
  }
  EXPECT_THAT(said, ::testing::StartsWith("uploads-waiting: "));
  EXPECT_THAT(said, HasSubstr("checks not completed for the same reason: "));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

TEST_F(CheckupTest, WhenTimeIsOverTheRestIsCounted) {
  api().SetInterceptor([&](const support::ApiCall& call, const Json*) {
    if (call.plural == "volumesnapshots") {
      clock().Advance(absl::Minutes(2));
    }
    return absl::OkStatus();
  });
  const std::vector<Finding> findings = Findings();
  EXPECT_THAT(findings.back().text, HasSubstr("checks not completed for the same reason: "));
  EXPECT_LE(findings.size(), 10u);
}

TEST_F(CheckupTest, NodesWhoseClocksAgreeAndThoseThatAreAwayAreGood) {
  SeedNode(*this, "renewed", absl::Seconds(9), "True");
  SeedNode(*this, "just-gone", absl::Seconds(39), "True");
  SeedNode(*this, "gone", absl::Hours(9), "Unknown");
  ExpectGood("clock-skew");
}

TEST_F(CheckupTest, MemoryAndScratchThatSufficeAreGood) {
  Cluster cluster;
  SetsInContainer(kController, "resources", {{"limits", {{"memory", "64Mi"}}}})(cluster);
  SeedLargeVolume(cluster, "2Ti");
  cluster.ExpectGood("mover-memory");
  cluster.ExpectGood("mover-scratch");
  Cluster not_backed_up;
  SeedLargeVolume(not_backed_up, "6Ti");
  not_backed_up.api().Remove({DataUploadType(), "velero", "b1-x"});
  not_backed_up.ExpectGood("mover-scratch");
}

TEST_F(CheckupTest, AWorkerPodIsTriedAsTheMoverWouldMakeItAndNotMade) {
  SetSettings(*this, R"({"worker": {"podLabels": {"team": "storage"}}})");
  std::vector<Json> tried;
  api().SetAdmission([&](const FakeApiClient::AdmissionRequest& request) -> absl::StatusOr<Json> {
    if (request.type.plural != "leases") {
      tried.push_back(request.object);
    }
    return request.object;
  });
  const int objects = api().object_count();
  ExpectGood("mover-worker-pod");
  EXPECT_EQ(api().object_count(), objects);
  ASSERT_THAT(tried, ::testing::SizeIs(2)) << "a Pod and a PVC of the class in use";
  EXPECT_EQ(k8s::Label(tried[0], "team"), "storage");
  EXPECT_EQ(GetString(tried[0], {"spec", "serviceAccountName"}), "csi-delta-worker");
  EXPECT_EQ(GetString(tried[1], {"spec", "storageClassName"}), "fast");
}

TEST_F(CheckupTest, WithoutAnImageOrSettingsNoDeviceIsTried) {
  for (const bool has_image : {false, true}) {
    Cluster cluster;
    if (has_image) {
      SetSettings(cluster, "[");
    } else {
      cluster.api().Remove(kController);
    }
    const Finding cause = LeftOutWith(cluster.Findings(/*probe=*/true),
                                      has_image ? "mover-settings" : "mover-deployment");
    EXPECT_THAT(cause.text, HasSubstr("not made because of this: device-access, "));
    EXPECT_EQ(cluster.api().CallCount("create", "pods"), 0);
  }
}

TEST_F(CheckupTest, AHealthyClusterHasNoFault) {
  const std::vector<Finding> findings = Findings();
  for (const Finding& finding : findings) {
    EXPECT_NE(finding.severity, Severity::kFault) << finding.check << ": " << finding.text;
    EXPECT_NE(finding.severity, Severity::kWarning) << finding.check << ": " << finding.text;
    EXPECT_NE(finding.severity, Severity::kUnknown) << finding.check << ": " << finding.text;
  }
}

TEST_F(CheckupTest, EachFieldOfTheShippedKindsIsMissedByItsName) {
  int fields = 0;
  for (const char* plural : {"volumetasks", "datadeletions"}) {
    const k8s::ObjectKey key = {objects::CustomResourceDefinition::Type(), "",
                                absl::StrCat(plural, ".mover.csi-delta.io")};
    const Json shipped = *api().Find(key);
    for (const Json::json_pointer& field : FieldsOf(shipped)) {
      api().Mutate(key, [&](Json& definition) {
        definition["spec"] = shipped["spec"];
        definition.at(field.parent_pointer()).erase(field.back());
      });
      EXPECT_THAT(FindingOf("mover-kind-fields").text,
                  ::testing::EndsWith(absl::StrCat(".", field.back())));
      ++fields;
    }
    api().Mutate(key, [&](Json& definition) { definition["spec"] = shipped["spec"]; });
  }
  EXPECT_GE(fields, 25);
}

TEST_F(CheckupTest, AnImmutableLocationSaysUntilWhenAllIsLocked) {
  EXPECT_EQ(FindingOf("location-immutable").text, "nothing asks for object locks");
  MakeImmutable(*this);
  locked_bucket().SetDefaultRetention("COMPLIANCE", absl::Hours(24 * 7));
  SeedLocks(*this, {{"lockedUntil", "2126-01-01T00:00:00Z"}});
  const Finding finding = FindingOf("location-immutable");
  EXPECT_EQ(finding.severity, Severity::kGood) << finding.text;
  for (const char* text :
       {"a default retention of 7 days, COMPLIANCE", "\"old\" removes versions 60 days after",
        "all that backups need is locked until 2126-01-01T00:00:00Z at least"}) {
    EXPECT_THAT(finding.text, HasSubstr(text));
  }
}

TEST_F(CheckupTest, WithACredentialForDeletionTheProbeIsDeletedByIt) {
  SetSettings(*this, R"({"backupStorageLocations": {"default": {"deletionCredential":
                       {"name": "cloud", "key": "cloud"}}}})");
  const std::vector<Finding> findings = FindingsOf("location-writable");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].text, "writing works");
  EXPECT_EQ(findings[1].text, "deleting with deletionCredential works");
  EXPECT_TRUE(bucket().objects().empty());
}

TEST_F(CheckupTest, WritesNothingIntoTheClusterAndLeavesNothingInTheBucket) {
  Findings();
  EXPECT_TRUE(bucket().objects().empty());
  const std::vector<support::ApiCall> calls = api().calls();
  EXPECT_GE(calls.size(), 30u);
  for (const support::ApiCall& call : calls) {
    EXPECT_TRUE(call.dry_run || call.verb == "get" || call.verb == "list") << call;
  }
}

TEST_F(CheckupTest, EachOfThirtyChecksSaysSomethingAndHasANameOfItsOwn) {
  std::set<std::string> said;
  for (const Finding& finding : Findings(/*probe=*/true)) {
    said.insert(finding.check);
  }
  EXPECT_EQ(said.size(), AllChecks().size());
  EXPECT_GE(said.size(), 30u);
}

TEST_F(CheckupTest, TheDocumentHasEachCheckAndNoOther) {
  const std::string document = support::ReadSource("docs/doctor.md");
  std::string rows;
  for (const Check& check : AllChecks()) {
    absl::StrAppend(&rows, "| `", check.name, "` | ", check.question, " |\n");
  }
  EXPECT_THAT(document, ::testing::EndsWith("|---|---|\n" + rows));
}

TEST_F(CheckupTest, DevicesAreOpenedOnlyWhenAskedAndNothingIsLeft) {
  Findings();
  const int objects = api().object_count();
  const Finding finding = FindingOf("device-access", /*probe=*/true);
  EXPECT_EQ(finding.severity, Severity::kGood) << finding.text;
  const std::vector<support::ApiCall> calls = api().calls();
  EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                          [](const support::ApiCall& call) {
                            return call.verb == "create" && call.plural == "pods" && !call.dry_run;
                          }),
            1);
  EXPECT_EQ(api().object_count(), objects);
}

TEST_F(CheckupTest, ADeviceIsThatOfASmallBlockVolumeOfTheClass) {
  Json claim;
  api().OnCreate("persistentvolumeclaims",
                 [&claim](FakeApiClient&, const Json& made) { claim = made; });
  FindingOf("device-access", /*probe=*/true);
  EXPECT_EQ(GetString(claim, {"spec", "storageClassName"}), "fast");
  EXPECT_EQ(GetString(claim, {"spec", "volumeMode"}), "Block");
  const auto size_bytes =
      ParseQuantity(GetString(claim, {"spec", "resources", "requests", "storage"}));
  ASSERT_TRUE(size_bytes.ok());
  EXPECT_GT(*size_bytes, 0);
  EXPECT_LE(*size_bytes, int64_t{1} << 30);
}

TEST_F(CheckupTest, ADeviceThatNoWorkerMayOpenIsAFaultWithBothRemediations) {
  probe_phase = "Failed";
  probe_words = "open /dev/volume: Permission denied: ... by supplementalGroups, or ...";
  const int objects = api().object_count();
  const Finding finding = FindingOf("device-access", /*probe=*/true);
  EXPECT_EQ(finding.severity, Severity::kFault);
  EXPECT_THAT(finding.text, HasSubstr("Permission denied"));
  EXPECT_THAT(finding.remediation, HasSubstr("worker.supplementalGroups"));
  EXPECT_THAT(finding.remediation, HasSubstr("device_ownership_from_security_context"));
  EXPECT_EQ(api().object_count(), objects);
}

TEST_F(CheckupTest, OfManyClassesThoseLeftOutAreNamedAndMayBeAskedForAlone) {
  for (const char* name : {"a", "b", "c", "d", "zone-two"}) {
    Json claim = MakeObject("v1", "PersistentVolumeClaim", "shop", name);
    SetJson(claim, {"spec"}, Json{{"volumeName", "pv-1"}, {"storageClassName", name}});
    api().Seed(PersistentVolumeClaimType(), claim);
  }
  const Finding left_out = FindingOf("device-access", /*probe=*/true);
  EXPECT_EQ(left_out.severity, Severity::kNote);
  EXPECT_EQ(left_out.subject, "storage class zone-two");
  EXPECT_THAT(left_out.remediation, HasSubstr("--probe --class zone-two"));
  probe_class = "zone-two";
  const Finding alone = FindingOf("device-access", /*probe=*/true);
  EXPECT_EQ(alone.severity, Severity::kGood);
  EXPECT_EQ(alone.subject, "storage class zone-two");
}

TEST_F(CheckupTest, WhatAProbeLeavesBehindIsNamed) {
  api().Forbid("delete", "pods");
  std::string left;
  for (const Finding& finding : Findings(/*probe=*/true)) {
    if (finding.check == "device-access" && finding.severity == Severity::kWarning) {
      absl::StrAppend(&left, finding.subject, " ", finding.text, "\n");
    }
  }
  EXPECT_THAT(left, ::testing::MatchesRegex("Pod csi-delta/doctor-[^ ]* was made.*still exists\n"));
}

TEST_F(CheckupTest, APodThatNeverRunsIsGivenUpInTimeAndRemoved) {
  probe_phase = "";
  const int objects = api().object_count();
  const absl::Time begin = clock().Now();
  EXPECT_EQ(FindingOf("device-access", /*probe=*/true).severity, Severity::kWarning);
  EXPECT_LE(clock().Now() - begin, absl::Seconds(60));
  EXPECT_EQ(api().object_count(), objects);
}

TEST_F(CheckupTest, APodWhoseDeviceCannotBeMappedIsNamedByItsEvent) {
  probe_phase = "";
  api().OnCreate("pods", [](FakeApiClient& api, const Json& pod) {
    api.Mutate({PodType(), k8s::Namespace(pod), k8s::Name(pod)},
               [](Json& seen) { seen["spec"]["nodeName"] = "n1"; });
    api.Seed({"", "v1", "events", "Event", true},
             {{"metadata", {{"name", "p.1"}, {"namespace", k8s::Namespace(pod)}}},
              {"involvedObject", {{"uid", k8s::Uid(pod)}}},
              {"type", "Warning"},
              {"reason", "FailedMapVolume"},
              {"message", "exit status 32"}});
  });
  EXPECT_EQ(FindingOf("device-access", /*probe=*/true).text,
            "no worker ran within the time: FailedMapVolume: exit status 32");
}

TEST_F(CheckupTest, WhatMayNotBeReadIsUnknownAndNeverGood) {
  api().Forbid("*", "*");
  const std::vector<Finding> findings = Findings();
  EXPECT_GE(findings.size(), 10u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.severity, Severity::kUnknown) << finding.check << ": " << finding.text;
  }
}

}  // namespace
}  // namespace csidelta::doctor::checkup_test
