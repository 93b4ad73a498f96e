#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "k8s/object.h"
#include "k8s/rest_client.h"
#include "tests/contract/longhorn_contract.h"
#include "tests/support/longhorn/fake_longhorn.h"
#include "tests/support/longhorn/records.h"
#include "tests/support/paths.h"

namespace csidelta::contract::longhorn_contract_test {
namespace {

// What a subject may be told to do, beside the API.
constexpr std::array<const char*, 5> kCommands = {"attach", "detach", "engine-snapshots",
                                                  "manager-stop", "manager-start"};

// The stand-in on an API server in memory.
class StandInSubject : public LonghornSubject {
 public:
  explicit StandInSubject(bool as_proposed)
      : as_proposed_(as_proposed), longhorn_({.as_proposed = as_proposed}) {
    longhorn_.AddVolume("pvc-attached");
    longhorn_.AddVolume("pvc-detached");
    longhorn_.Attach("pvc-attached");
    longhorn_.Pass(absl::Seconds(10));
  }
  k8s::ApiClient& client() override { return longhorn_.api(); }
  std::string namespace_name() override { return "longhorn-system"; }
  std::string other_namespace() override { return "shop"; }
  std::string attached_volume() override { return "pvc-attached"; }
  std::string detached_volume() override { return "pvc-detached"; }
  bool HasCommand(const std::string& command) override { return Commands().contains(command); }
  absl::StatusOr<std::string> RunCommand(const std::string& command,
                                         const std::string& volume) override {
    return Commands().at(command)(*this, volume);
  }
  void Pass(absl::Duration time) override { longhorn_.Pass(time); }
  absl::Time Now() override { return longhorn_.now(); }
  bool is_as_proposed() override { return as_proposed_; }

 private:
  using Command = std::string (*)(StandInSubject& subject, const std::string& volume);

  static const std::map<std::string, Command>& Commands() {
    static const auto* const kByName = new std::map<std::string, Command>{
        {"attach",
         [](StandInSubject& subject, const std::string& volume) {
           subject.longhorn_.Attach(volume);
           return std::string();
         }},
        {"detach",
         [](StandInSubject& subject, const std::string& volume) {
           subject.longhorn_.Detach(volume);
           return std::string();
         }},
        {"engine-snapshots", [](StandInSubject& subject,
                                const std::string& volume) { return subject.Entries(volume); }},
        {"manager-stop",
         [](StandInSubject& subject, const std::string&) {
           subject.longhorn_.StopManager();
           return std::string();
         }},
        {"manager-start",
         [](StandInSubject& subject, const std::string&) {
           subject.longhorn_.StartManager();
           return std::string();
         }},
    };
    return *kByName;
  }
  std::string Entries(const std::string& volume) {
    Json entries = Json::object();
    longhorn_.engines().Handle(volume, [&](longhorn_stand_in::Engine& engine) {
      entries = longhorn_stand_in::EntriesJson(engine.Entries());
    });
    return DumpJson(entries);
  }

  const bool as_proposed_;
  longhorn_stand_in::FakeLonghorn longhorn_;
};

// What a program printed; its status when it failed.
absl::StatusOr<std::string> Run(const std::string& command_line) {
  FILE* const pipe = popen(command_line.c_str(), "re");
  if (pipe == nullptr) {
    return absl::ErrnoToStatus(errno, command_line);
  }
  std::string output;
  std::array<char, 4096> buffer;
  for (std::size_t count = 0; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), count);
  }
  if (const int status = pclose(pipe); status != 0) {
    return absl::InternalError(absl::StrCat(command_line, ": status ", status));
  }
  return output;
}

// The programs of the cluster that the file of --longhorn describes, a JSON object:
//   kubeconfig       of an administrator
//   namespace        Longhorn's own
//   attached_volume, detached_volume
//   as_proposed      true for the rules of the original proposal
//   commands         {"attach": text, ...}: for /bin/sh, with the volume in $VOLUME
// Makes another namespace for each test.
class RealSubject : public LonghornSubject {
 public:
  explicit RealSubject(const std::string& description) {
    std::ifstream file(description);
    description_ = ParseJsonObject(std::string(std::istreambuf_iterator<char>(file), {})).value();
    k8s::ClientSettings settings = k8s::ClientSettings::FromEnvironment();
    settings.own_kubeconfig = GetString(description_, {"kubeconfig"});
    client_ = k8s::MakeClient(settings);
    other_namespace_ = k8s::Name(client_
                                     ->Create({}, kNamespaces, "",
                                              {{"apiVersion", "v1"},
                                               {"kind", "Namespace"},
                                               {"metadata", {{"generateName", kNamePrefix}}}})
                                     .value());
  }
  ~RealSubject() override {
    client_->Delete({}, {kNamespaces, "", other_namespace_}, {}).IgnoreError();
  }
  k8s::ApiClient& client() override { return *client_; }
  std::string namespace_name() override { return GetString(description_, {"namespace"}); }
  std::string other_namespace() override { return other_namespace_; }
  std::string attached_volume() override { return GetString(description_, {"attached_volume"}); }
  std::string detached_volume() override { return GetString(description_, {"detached_volume"}); }
  bool HasCommand(const std::string& command) override {
    return !GetString(description_, {"commands", command}).empty();
  }
  absl::StatusOr<std::string> RunCommand(const std::string& command,
                                         const std::string& volume) override {
    return Run(absl::StrCat("VOLUME='", volume, "'; export VOLUME; ",
                            GetString(description_, {"commands", command})));
  }
  void Pass(absl::Duration time) override { Clock::Real().SleepFor(time, {}); }
  absl::Time Now() override { return absl::Now(); }
  bool is_as_proposed() override { return GetBool(description_, {"as_proposed"}); }

 private:
  inline static const k8s::ResourceType kNamespaces{"", "v1", "namespaces", "Namespace", false};
  static constexpr char kNamePrefix[] = "csi-delta-contract-";

  Json description_;
  std::unique_ptr<k8s::ApiClient> client_;
  std::string other_namespace_;
};

// What follows --longhorn on the command line; "" without it. The cases are made before main().
std::string DescriptionPath() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::vector<std::string> words = absl::StrSplit(text, '\0');
  const auto flag = std::find(words.begin(), words.end(), "--longhorn");
  return flag == words.end() || flag + 1 == words.end() ? "" : *(flag + 1);
}

std::vector<LonghornCase> Cases() {
  std::vector<LonghornCase> cases = {
      {"StandIn", [] { return std::make_unique<StandInSubject>(/*as_proposed=*/false); }},
      {"AsProposed", [] { return std::make_unique<StandInSubject>(/*as_proposed=*/true); }},
  };
  if (const std::string path = DescriptionPath(); !path.empty()) {
    cases.push_back({"Real", [path] { return std::make_unique<RealSubject>(path); }});
  }
  return cases;
}

// --- The suite itself: its cases by name, and their sources

std::map<std::string, std::string> CasesBySource() {
  std::map<std::string, std::string> cases;
  const std::string source = support::ReadSource("tests/contract/longhorn_contract.cc");
  const std::vector<std::string> parts = absl::StrSplit(source, "\nTEST_P(LonghornContract, ");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    cases[parts[i].substr(0, parts[i].find(')'))] = parts[i].substr(0, parts[i].find("\n}\n"));
  }
  return cases;
}

// What it calls, by the commands that the fixture needs for it.
std::set<std::string> CommandsOf(const std::string& body) {
  std::set<std::string> commands;
  for (const char* const one : kCommands) {
    if (absl::StrContains(body, absl::StrCat("MustRun(\"", one, "\""))) {
      commands.insert(one);
    }
  }
  if (absl::StrContains(body, "MakeVolume(")) {
    commands.insert("attach");
  }
  if (absl::StrContains(body, "EngineHas(") || absl::StrContains(body, "EngineSnapshots(")) {
    commands.insert("engine-snapshots");
  }
  return commands;
}

// What it is skipped without, or asks about before it calls it.
std::set<std::string> ConditionsOf(const std::string& body) {
  std::set<std::string> conditions;
  for (const char* const condition : {"SKIP_WITHOUT(", "if (Has({"}) {
    const std::vector<std::string> parts = absl::StrSplit(body, condition);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      for (const char* const one : kCommands) {
        if (absl::StrContains(parts[i].substr(0, parts[i].find(')')),
                              absl::StrCat("\"", one, "\""))) {
          conditions.insert(one);
        }
      }
    }
  }
  return conditions;
}

TEST(LonghornContractSuiteTest, ACaseSkipsItselfWithoutTheCommandsThatItCallsAndAllAreCalled) {
  std::set<std::string> called;
  for (const auto& [name, body] : CasesBySource()) {
    const std::set<std::string> commands = CommandsOf(body);
    EXPECT_THAT(commands, testing::IsSubsetOf(ConditionsOf(body))) << name;
    called.insert(commands.begin(), commands.end());
  }
  EXPECT_THAT(called, testing::UnorderedElementsAreArray(kCommands));
}

TEST(LonghornContractSuiteTest, ThePageNamesEachCaseAndEachCommand) {
  const std::string page = support::ReadSource("tests/support/longhorn/README.md");
  EXPECT_GE(CasesBySource().size(), 29u);
  for (const auto& [name, body] : CasesBySource()) {
    EXPECT_THAT(page, testing::HasSubstr(absl::StrCat("`", name, "`")));
  }
  for (const char* const one : kCommands) {
    EXPECT_THAT(page, testing::HasSubstr(absl::StrCat("\"", one, "\": ...")));
  }
}

INSTANTIATE_TEST_SUITE_P(Longhorns, LonghornContract, testing::ValuesIn(Cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::contract::longhorn_contract_test
