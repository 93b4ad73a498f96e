#include "k8s/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "k8s/token_source.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::config_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Files = std::map<std::string, std::string>;

absl::StatusOr<std::string> ReadFrom(const Files& files, const std::string& path) {
  const auto found = files.find(path);
  if (found == files.end()) {
    return absl::NotFoundError("open " + path + ": no such file");
  }
  return found->second;
}

// A kubeconfig with one context; `cluster` and `user` are YAML in flow style.
std::string Kubeconfig(const std::string& cluster, const std::string& user) {
  return "current-context: c\n"
         "contexts: [{name: c, context: {cluster: k, user: u, namespace: ns}},\n"
         "           {name: other, context: {cluster: k2, user: u}}]\n"
         "clusters: [{name: k2, cluster: {server: 'https://second'}},\n"
         "           {name: k, cluster: " +
         cluster + "}]\nusers: [{name: u, user: " + user + "}]\n";
}

absl::StatusOr<ClusterConfig> Parse(const std::string& text, const std::string& context = "",
                                    const Files& files = {}) {
  return ParseKubeconfig(text, context, "/dir",
                         [&](const std::string& path) { return ReadFrom(files, path); });
}

TEST(ParseKubeconfigTest, ReadsInlineData) {
  const auto config = Parse(Kubeconfig(
      "{server: 'https://host:6443/', certificate-authority-data: Y2E=, tls-server-name: api, "
      "proxy-url: 'http://p:1'}",
      "{client-certificate-data: Y2VydA==, client-key-data: a2V5, token: t, username: n, password: "
      "w}"));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->server, "https://host:6443");
  EXPECT_EQ(config->ca_pem, "ca");
  EXPECT_EQ(config->tls_server_name, "api");
  EXPECT_EQ(config->proxy_url, "http://p:1");
  EXPECT_EQ(config->client_certificate_pem, "cert");
  EXPECT_EQ(config->client_key_pem, "key");
  EXPECT_EQ(config->token, "t");
  EXPECT_EQ(config->username, "n");
  EXPECT_EQ(config->password, "w");
  EXPECT_EQ(config->namespace_name, "ns");
  EXPECT_FALSE(config->insecure_skip_tls_verify);
}

TEST(ParseKubeconfigTest, ReadsFilesBesideIt) {
  const auto config =
      Parse(Kubeconfig("{server: 'https://host', certificate-authority: ca.crt, "
                       "insecure-skip-tls-verify: true}",
                       "{client-certificate: sub/a.crt, client-key: /abs/a.key, tokenFile: token}"),
            "", {{"/dir/ca.crt", "ca"}, {"/dir/sub/a.crt", "cert"}, {"/abs/a.key", "key"}});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->ca_pem, "ca");
  EXPECT_EQ(config->client_certificate_pem, "cert");
  EXPECT_EQ(config->client_key_pem, "key");
  EXPECT_EQ(config->token_path, "/dir/token");
  EXPECT_TRUE(config->insecure_skip_tls_verify);
}

TEST(ParseKubeconfigTest, TakesTheContextAskedFor) {
  const auto config = Parse(Kubeconfig("{server: 'https://first'}", "{}"), "other");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->server, "https://second");
}

TEST(ParseKubeconfigTest, ReadsJsonToo) {
  const auto config = Parse(
      R"({"current-context": "c",
          "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
          "users": [{"name": "u", "user": {"token": "t", "client-key-data": "a2V5",
                                           "client-certificate-data": "Y2VydA=="}}],
          "clusters": [{"name": "k", "cluster": {"server": "https://h",
                                                 "insecure-skip-tls-verify": true}}]})");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->server, "https://h");
  EXPECT_EQ(config->namespace_name, "n");
  EXPECT_EQ(config->token, "t");
  EXPECT_EQ(config->client_key_pem, "key");
  EXPECT_TRUE(config->insecure_skip_tls_verify);
}

struct BadCase {
  const char* cluster;
  const char* user;
  const char* message;
};

TEST(ParseKubeconfigTest, NamesWhatIsWrong) {
  const BadCase cases[] = {
      {"{}", "{}", "cluster \"k\": server"},
      {"{server: 'ftp://x'}", "{}", "server"},
      {"[]", "{}", "no cluster is named \"k\""},
      {"{server: 'https://x', certificate-authority-data: '%%'}", "{}",
       "certificate-authority-data"},
      {"{server: 'https://x'}", "{client-certificate-data: Y2VydA==}", "go together"},
      {"{server: 'https://x'}", "{exec: {command: aws}}", "exec: apiVersion"},
      {"{server: 'https://x'}",
       "{exec: {command: aws, apiVersion: client.authentication.k8s.io/v1alpha1}}", "v1alpha1"},
      {"{server: 'https://x'}", "{exec: {apiVersion: client.authentication.k8s.io/v1}}",
       "command: missing"},
      {"{server: 'https://x'}",
       "{exec: {command: aws, args: x, apiVersion: client.authentication.k8s.io/v1}}",
       "args: not a list"},
      {"{server: 'https://x'}",
       "{exec: {command: aws, args: [[x]], apiVersion: client.authentication.k8s.io/v1}}",
       "args: not a list"},
      {"{server: 'https://x'}",
       "{exec: {command: aws, env: [{value: x}], apiVersion: client.authentication.k8s.io/v1}}",
       "env"},
      {"{server: 'https://x'}",
       "{exec: {command: aws, interactiveMode: Sometimes, apiVersion: "
       "client.authentication.k8s.io/v1}}",
       "Sometimes"},
      {"{server: 'https://x'}", "{auth-provider: {name: gcp}}", "auth-provider"},
      {"{server: 'https://x'}", "{as-groups: [admins]}", "set \"as\""},
      {"{server: 'https://x'}", "{as: \"a\\nb\"}", "control characters"},
  };
  for (const BadCase& test : cases) {
    EXPECT_THAT(Parse(Kubeconfig(test.cluster, test.user)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.message)))
        << test.user;
  }
  EXPECT_THAT(Parse(Kubeconfig("{server: 'https://x'}", "{}"), "missing"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no context is named")));
  EXPECT_THAT(Parse("a: b"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("current-context")));
  EXPECT_THAT(Parse("["), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Parse(Kubeconfig("{server: 'https://x', certificate-authority: none}", "{}")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("certificate-authority: open")));
}

class LoadTest : public testing::Test {
 protected:
  absl::StatusOr<ClusterConfig> Load() const {
    return LoadClusterConfig(settings_,
                             [this](const std::string& path) { return ReadFrom(files_, path); });
  }
  void AddFile(const std::string& path, const std::string& server) {
    files_[path] = Kubeconfig("{server: 'https://" + server + "'}", "{}");
  }

  ClientSettings settings_;
  Files files_;
};

TEST_F(LoadTest, TakesTheFirstPlaceThatIsSet) {
  AddFile("/own", "own");
  AddFile("/flag", "flag");
  AddFile("/env", "env");
  files_["/sa/ca.crt"] = "ca";
  settings_.service_account_dir = "/sa";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--kubeconfig")));
  settings_.service_host = "10.96.0.1";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--kubeconfig")));
  settings_.service_port = "443";
  ASSERT_THAT(Load(), IsOk());
  EXPECT_EQ(Load()->server, "https://10.96.0.1:443");
  EXPECT_EQ(Load()->token_path, "/sa/token");
  EXPECT_EQ(Load()->ca_pem, "ca");
  settings_.kubeconfig_environment = "/none:/env:/flag";
  EXPECT_EQ(Load()->server, "https://env");
  settings_.kubeconfig = "/flag";
  EXPECT_EQ(Load()->server, "https://flag");
  settings_.own_kubeconfig = "/own";
  EXPECT_EQ(Load()->server, "https://own");
}

TEST_F(LoadTest, WhatIsSetButBrokenIsNotSkipped) {
  AddFile("/env", "env");
  settings_.kubeconfig_environment = "/env";
  settings_.own_kubeconfig = "/none";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
  files_["/own"] = "[";
  settings_.own_kubeconfig = "/own";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kubeconfig /own")));
}

TEST_F(LoadTest, FilesOfKubeconfigAreMergedAndTheFirstToNameSomethingCounts) {
  files_["/a/first"] =
      "clusters: [{name: k, cluster: {server: 'https://first', certificate-authority: ca.crt}}]";
  files_["/b/second"] = Kubeconfig("{server: 'https://second'}", "{tokenFile: token}");
  files_["/a/ca.crt"] = "ca of a";
  settings_.kubeconfig_environment = "/none:/a/first:/b/second";
  const absl::StatusOr<ClusterConfig> config = Load();
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->server, "https://first");
  EXPECT_EQ(config->ca_pem, "ca of a");
  EXPECT_EQ(config->token_path, "/b/token");
  settings_.kubecontext = "other";
  EXPECT_EQ(Load()->server, "https://second");
}

TEST_F(LoadTest, ABrokenFileOfKubeconfigIsNotSkipped) {
  AddFile("/second", "second");
  files_["/first"] = Kubeconfig("{server: 'https://x', certificate-authority: none}", "{}");
  settings_.kubeconfig_environment = "/first:/second";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("kubeconfig /first")));
  files_["/first"] = "[";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kubeconfig /first")));
  settings_.kubeconfig_environment = "/none:/nowhere";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none:/nowhere")));
}

TEST_F(LoadTest, TheHomeFolderComesBeforeTheServiceAccount) {
  AddFile("/h/me/.kube/config", "home");
  files_["/sa/ca.crt"] = "ca";
  settings_.service_account_dir = "/sa";
  settings_.service_host = "10.96.0.1";
  settings_.service_port = "443";
  settings_.home_kubeconfig = "/h/me/.kube/config";
  EXPECT_EQ(Load()->server, "https://home");
  settings_.home_kubeconfig = "/h/you/.kube/config";
  EXPECT_EQ(Load()->server, "https://10.96.0.1:443");
}

TEST_F(LoadTest, WithoutAnyItNamesAllThatItWouldTake) {
  EXPECT_THAT(Load(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("set KUBECONFIG, or run"), Not(HasSubstr("/.kube")))));
  settings_.home_kubeconfig = "/h/you/.kube/config";
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("(/h/you/.kube/config does not exist)")));
}

TEST_F(LoadTest, ALogInProgramIsForAProgramThatMayRunOne) {
  files_["/dir/config"] = Kubeconfig(
      "{server: 'https://x', extensions: [{name: client.authentication.k8s.io/exec, extension: "
      "{audience: me}}]}",
      "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/login, args: [get, "
      "token], "
      "env: [{name: PROFILE, value: prod}], installHint: install it, provideClusterInfo: true, "
      "interactiveMode: Never}}");
  settings_.kubeconfig = "/dir/config";
  EXPECT_THAT(Load(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("CSI_DELTA_KUBECONFIG")));
  settings_.run_exec = [](const CallContext&, const ExecPlugin&, const std::string&) {
    return std::string();
  };
  const absl::StatusOr<ClusterConfig> config = Load();
  ASSERT_THAT(config, IsOk());
  ASSERT_TRUE(config->exec.has_value());
  EXPECT_EQ(config->exec->command, "/dir/./bin/login");
  EXPECT_THAT(config->exec->arguments, testing::ElementsAre("get", "token"));
  EXPECT_THAT(config->exec->environment, testing::ElementsAre(testing::Pair("PROFILE", "prod")));
  EXPECT_EQ(config->exec->install_hint, "install it");
  EXPECT_EQ(config->exec->interactive, ExecPlugin::Interactive::kNever);
  EXPECT_EQ(
      ExecInfo(*config, true),
      R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":)"
      R"({"cluster":{"config":{"audience":"me"},"server":"https://x"},"interactive":false}})");
}

TEST(ParseKubeconfigTest, SaysWhichUserToActAs) {
  const auto config = Parse(Kubeconfig("{server: 'https://x'}",
                                       "{token: t, as: alice, as-uid: u-1, as-groups: [dba, dev], "
                                       "as-user-extra: {reason: [upgrade, night]}}"));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->impersonation.user, "alice");
  EXPECT_EQ(config->impersonation.uid, "u-1");
  EXPECT_THAT(config->impersonation.groups, testing::ElementsAre("dba", "dev"));
  EXPECT_THAT(config->impersonation.extra.at("reason"), testing::ElementsAre("upgrade", "night"));
}

TEST_F(LoadTest, PutsBracketsAroundAnIpv6Service) {
  files_["/sa/ca.crt"] = "ca";
  settings_.service_account_dir = "/sa";
  settings_.service_host = "fd00::1";
  settings_.service_port = "443";
  EXPECT_EQ(Load()->server, "https://[fd00::1]:443");
}

TEST(ResolveVeleroNamespaceTest, FlagThenEnvironmentThenDefault) {
  unsetenv("VELERO_NAMESPACE");
  EXPECT_EQ(ResolveVeleroNamespace(""), "velero");
  setenv("VELERO_NAMESPACE", "backups", 1);
  EXPECT_EQ(ResolveVeleroNamespace(""), "backups");
  EXPECT_EQ(ResolveVeleroNamespace("flag"), "flag");
  unsetenv("VELERO_NAMESPACE");
}

}  // namespace
}  // namespace csidelta::k8s::config_test
