#include "datamover/worker/worker_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "net/url.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::datamover::worker_pod_test {
namespace {

using testing::HasSubstr;
using testing::Not;

objects::WorkerPodSpec SomePod() {
  objects::WorkerPodSpec pod;
  pod.name = "du-1";
  pod.namespace_name = "mover";
  pod.image = "registry/csi-delta:1";
  pod.args = {"worker", "--task", "mover/du-1"};
  pod.env = {{"AWS_PROFILE", "default"}};
  pod.claim = "du-1";
  pod.labels = {{"mover.csi-delta.io/task", "du-1"}};
  pod.owner = objects::OwnerReference{.kind = "VolumeTask", .uid = "task-uid"};
  pod.service_account = "csi-delta-worker";
  return pod;
}

Json Term(const std::string& key, const std::string& value) {
  return {{"matchExpressions",
           Json::array({{{"key", key}, {"operator", "In"}, {"values", Json::array({value})}}})}};
}

// What the Pod Security profile "restricted" asks for, and what we ask for beyond it.
TEST(WorkerPod, IsRestricted) {
  const Json pod = MakeWorkerPod(SomePod(), {}, "fast").json();
  const Json& spec = pod["spec"];
  EXPECT_EQ(spec["securityContext"]["runAsNonRoot"], true);
  EXPECT_GT(spec["securityContext"]["runAsUser"], 0);
  EXPECT_EQ(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_EQ(spec["securityContext"]["supplementalGroups"], Json::array({6}));
  const Json& container = spec["containers"][0];
  EXPECT_EQ(container["securityContext"]["allowPrivilegeEscalation"], false);
  EXPECT_EQ(container["securityContext"]["readOnlyRootFilesystem"], true);
  EXPECT_EQ(container["securityContext"]["capabilities"]["drop"], Json::array({"ALL"}));
  EXPECT_EQ(container["resources"]["limits"]["memory"], "256Mi");
  EXPECT_EQ(container["resources"]["requests"]["cpu"], "100m");
  EXPECT_FALSE(container["resources"]["limits"].contains("cpu"));
  for (const Json& volume : spec["volumes"]) {
    EXPECT_FALSE(volume.contains("hostPath"));
  }
  for (const char* key : {"hostNetwork", "hostPID", "hostIPC"}) {
    EXPECT_FALSE(spec.contains(key));
  }
  EXPECT_EQ(spec["restartPolicy"], "Never");
  EXPECT_EQ(spec["enableServiceLinks"], false);
  EXPECT_EQ(spec["terminationGracePeriodSeconds"], 8);
}

// restricted-v2 of OpenShift refuses any user and group that are not of the namespace's range.
TEST(WorkerPod, LeavesTheUserToTheNamespace) {
  MoverSettings settings;
  settings.worker.has_fixed_user = false;
  const Json pod = MakeWorkerPod(SomePod(), settings, "fast").json();
  const Json& security = pod["spec"]["securityContext"];
  for (const char* key : {"runAsUser", "runAsGroup", "fsGroup"}) {
    EXPECT_FALSE(security.contains(key)) << key;
  }
  EXPECT_EQ(security["runAsNonRoot"], true);
  EXPECT_EQ(security["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_EQ(security["supplementalGroups"], Json::array({6}));
}

TEST(WorkerPod, RunsOnNodesOfTheImageUnlessTheSettingsNameOthers) {
  MoverSettings settings;
  EXPECT_EQ(MakeWorkerPod(SomePod(), settings, "fast").json()["spec"]["nodeSelector"],
            (Json{{"kubernetes.io/arch", "amd64"}, {"kubernetes.io/os", "linux"}}));
  settings.worker.node_selector = {{"kubernetes.io/arch", "arm64"}};
  EXPECT_EQ(MakeWorkerPod(SomePod(), settings, "fast").json()["spec"]["nodeSelector"],
            (Json{{"kubernetes.io/arch", "arm64"}, {"kubernetes.io/os", "linux"}}));
}

TEST(WorkerPod, RequestsItsScratchSpaceAndMayWriteLogsBesides) {
  MoverSettings settings;
  settings.worker.scratch_size = "4Gi";
  const Json pod = MakeWorkerPod(SomePod(), settings, "fast").json();
  const Json& resources = pod["spec"]["containers"][0]["resources"];
  EXPECT_EQ(resources["requests"]["ephemeral-storage"], "4Gi");
  EXPECT_EQ(resources["limits"]["ephemeral-storage"], "4160Mi");
}

std::string VariableOf(const Json& pod, const std::string& name) {
  for (const Json& variable : pod["spec"]["containers"][0]["env"]) {
    if (variable["name"] == name) {
      return GetString(variable, {"value"});
    }
  }
  return "";
}

TEST(WorkerPod, ReachesTheBucketThroughTheProxyAndTheClusterWithout) {
  const Json direct = MakeWorkerPod(SomePod(), {}, "fast").json();
  EXPECT_EQ(VariableOf(direct, "HTTPS_PROXY") + VariableOf(direct, "NO_PROXY"), "");
  MoverSettings settings;
  settings.proxy.https_proxy = "http://proxy.example:3128";
  const Json alone = MakeWorkerPod(SomePod(), settings, "fast").json();
  EXPECT_EQ(VariableOf(alone, "HTTPS_PROXY"), "http://proxy.example:3128");
  EXPECT_EQ(VariableOf(alone, "NO_PROXY"), kNotProxied);
  EXPECT_EQ(VariableOf(alone, "AWS_PROFILE"), "default");
  settings.proxy.no_proxy = ".corp,10.0.0.0/8";
  const Json both = MakeWorkerPod(SomePod(), settings, "fast").json();
  const std::string no_proxy = VariableOf(both, "NO_PROXY");
  EXPECT_EQ(no_proxy, absl::StrCat(".corp,10.0.0.0/8,", kNotProxied));

  // As the program reads them, once the kubelet has put the API server's address in.
  const net::ProxySettings read = {
      .always = "",
      .https_proxy = VariableOf(both, "HTTPS_PROXY"),
      .no_proxy = absl::StrReplaceAll(no_proxy, {{"$(KUBERNETES_SERVICE_HOST)", "172.20.0.1"}})};
  for (const auto& [url, is_proxied] :
       std::vector<std::pair<std::string, bool>>{{"https://s3.eu-central-1.amazonaws.com", true},
                                                 {"https://sts.amazonaws.com", true},
                                                 {"https://172.20.0.1:443", false},
                                                 {"https://kubernetes.default.svc", false},
                                                 {"https://minio.storage.svc:9000", false},
                                                 {"https://169.254.169.254", false},
                                                 {"https://169.254.170.23", false},
                                                 {"https://[fd00:ec2::254]", false},
                                                 {"https://10.1.2.3", false},
                                                 {"https://s3.corp", false}}) {
    const auto proxy = net::ProxyFor(*net::ParseUrl(url), read);
    ASSERT_THAT(proxy, support::IsOk()) << url;
    EXPECT_EQ(proxy->has_value(), is_proxied) << url;
  }
}

TEST(WorkerPod, TheChartGivesTheControllerTheSameHostsWithoutProxy) {
  EXPECT_THAT(support::ReadSource("deploy/chart/templates/_helpers.tpl"),
              HasSubstr(absl::StrCat("\n", kNotProxied, "\n")));
}

TEST(WorkerPod, FindsVolumeSecretsAndScratch) {
  const Json pod = MakeWorkerPod(SomePod(), {}, "fast").json();
  const Json& container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["command"], Json::array({"/bin/csi-delta"}));
  EXPECT_EQ(container["args"][0], "worker");
  EXPECT_EQ(container["volumeDevices"][0]["devicePath"], "/dev/volume");
  EXPECT_EQ(container["volumeMounts"][0]["mountPath"], "/secrets");
  EXPECT_EQ(container["volumeMounts"][1]["mountPath"], "/scratch");
  const Json& volumes = pod["spec"]["volumes"];
  EXPECT_EQ(volumes[0]["secret"]["secretName"], "du-1");
  EXPECT_EQ(volumes[0]["secret"]["defaultMode"], 0440);
  EXPECT_EQ(volumes[1]["emptyDir"]["sizeLimit"], "1Gi");
  EXPECT_EQ(volumes[2]["persistentVolumeClaim"]["claimName"], "du-1");
  EXPECT_EQ(container["env"][0]["name"], "AWS_PROFILE");
  EXPECT_THAT(DumpJson(container["env"]), HasSubstr("TMPDIR"));
  EXPECT_THAT(
      DumpJson(container["env"]),
      HasSubstr(R"("name":"POD_UID","valueFrom":{"fieldRef":{"fieldPath":"metadata.uid"}})"));
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], "task-uid");
}

TEST(WorkerPod, NeedsNoVolume) {
  objects::WorkerPodSpec wanted = SomePod();
  wanted.claim.clear();
  const Json pod = MakeWorkerPod(wanted, {}, "fast").json();
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("volumeDevices"));
  EXPECT_THAT(DumpJson(pod), Not(HasSubstr("persistentVolumeClaim")));
}

TEST(WorkerPod, IsPlacedAsTheSettingsSay) {
  const auto settings = ParseMoverSettings(R"({
    "storageClasses": {"fast": {"nodeSelector": {"disk": "ssd", "role": "storage"}}},
    "worker": {"nodeSelector": {"role": "backup", "os": "linux"}, "priorityClassName": "low",
               "tolerations": [{"operator": "Exists"}], "imagePullSecrets": ["pull"],
               "imagePullPolicy": "Never", "podLabels": {"team": "a", "mine": "b"},
               "podAnnotations": {"note": "x"}, "supplementalGroups": [994]}})");
  ASSERT_THAT(settings, support::IsOk());
  const Json pod = MakeWorkerPod(SomePod(), *settings, "fast").json();
  const Json& spec = pod["spec"];
  // The storage class knows better than the rule for all.
  EXPECT_EQ(spec["nodeSelector"], (Json{{"disk", "ssd"},
                                        {"kubernetes.io/arch", "amd64"},
                                        {"kubernetes.io/os", "linux"},
                                        {"os", "linux"},
                                        {"role", "storage"}}));
  EXPECT_EQ(spec["priorityClassName"], "low");
  EXPECT_EQ(spec["tolerations"][0]["operator"], "Exists");
  EXPECT_EQ(spec["imagePullSecrets"][0]["name"], "pull");
  EXPECT_EQ(spec["containers"][0]["imagePullPolicy"], "Never");
  EXPECT_EQ(spec["securityContext"]["supplementalGroups"], Json::array({994}));
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "a");
  EXPECT_EQ(pod["metadata"]["labels"]["mover.csi-delta.io/task"], "du-1");
  EXPECT_EQ(pod["metadata"]["annotations"]["note"], "x");
  EXPECT_FALSE(spec.contains("affinity"));
}

TEST(WorkerPod, GoesWhereVolumeAndSettingsBothAllow) {
  objects::WorkerPodSpec wanted = SomePod();
  const Json wished = {{"nodeSelectorTerms", Json::array({Term("a", "1"), Term("b", "2")})}};
  MoverSettings settings;
  settings.worker.affinity = objects::Affinity(
      Json{{"nodeAffinity", {{"requiredDuringSchedulingIgnoredDuringExecution", wished}}}});
  wanted.node_affinity =
      objects::NodeSelector(Json{{"nodeSelectorTerms", Json::array({Term("zone", "z1")})}});
  const Json pod = MakeWorkerPod(wanted, settings, "fast").json();
  const Json& terms = pod["spec"]["affinity"]["nodeAffinity"]
                         ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
  ASSERT_EQ(terms.size(), 2U);
  for (const Json& term : terms) {
    ASSERT_EQ(term["matchExpressions"].size(), 2U);
    EXPECT_EQ(term["matchExpressions"][1]["key"], "zone");
  }
  const objects::NodeSelector some(wished);
  EXPECT_EQ(objects::Both(some, {}), some);
  EXPECT_EQ(objects::Both({}, some), some);
  EXPECT_TRUE(objects::Both({}, {}).selects_all());
}

}  // namespace
}  // namespace csidelta::datamover::worker_pod_test
