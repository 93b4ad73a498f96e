#include "plugin/host_version.h"

#include <gtest/gtest.h>

#include <string>

namespace csidelta::plugin::host_version_test {
namespace {

constexpr HostKinds kOnlyOld = {.v2 = false, .item_block = false};
constexpr HostKinds kV2 = {.v2 = true, .item_block = false};
constexpr HostKinds kV2AndPlaceholders = {.v2 = true, .item_block = false, .placeholders = true};
constexpr HostKinds kAll = {.v2 = true, .item_block = true};

struct HostCase {
  const char* name;
  ArgumentForm form;
  const char* user_agent;
  const char* declared;
  HostKinds want;
};

class DetectHostKindsTest : public testing::TestWithParam<HostCase> {};

TEST_P(DetectHostKindsTest, ListsOnlyWhatIsSure) {
  EXPECT_EQ(DetectHostKinds(GetParam().form, GetParam().user_agent, GetParam().declared),
            GetParam().want);
}

constexpr ArgumentForm kOld = ArgumentForm::kLevelAndFeatures;
constexpr ArgumentForm kNew = ArgumentForm::kServerArguments;
constexpr ArgumentForm kNone = ArgumentForm::kEmpty;

const HostCase kHostCases[] = {
    {"Velero19", kOld, "grpc-go/1.40.0", "", kOnlyOld},
    {"Velero110Or111", kOld, "grpc-go/1.45.0", "", kOnlyOld},
    {"Velero111Declared", kOld, "grpc-go/1.45.0", "1.11", kV2},
    {"Velero112", kOld, "grpc-go/1.54.0", "", kV2AndPlaceholders},
    {"Velero1122", kOld, "grpc-go/1.56.3", "", kV2AndPlaceholders},
    {"Velero113", kOld, "grpc-go/1.58.3", "", kV2AndPlaceholders},
    {"Velero114", kOld, "grpc-go/1.63.2", "", kV2},
    {"Velero115", kNew, "grpc-go/1.63.2", "", kAll},
    {"Velero115WithoutFlags", kNone, "grpc-go/1.63.2", "", kAll},
    {"Velero116", kNew, "grpc-go/1.69.4", "", kAll},
    {"Velero116WithOldLookingFlags", kOld, "grpc-go/1.69.4", "", kAll},
    {"Velero117", kNew, "grpc-go/1.73.0", "", kAll},
    {"Velero118", kNew, "grpc-go/1.80.0", "", kAll},
    {"Velero118WithoutFlags", kNone, "grpc-go/1.77.0", "", kAll},
    {"NextMajorOfGrpc", kNew, "grpc-go/2.1.0", "", kAll},
    {"PrefixBeforeGrpc", kNew, "velero grpc-go/1.80.0-dev", "", kAll},
    {"NewArgumentsOnOldLibrary", kNew, "grpc-go/1.58.3", "", kV2},
    {"NewArgumentsOnOldestLibrary", kNew, "grpc-go/1.45.0", "", kOnlyOld},
    {"UnknownLibraryNewArguments", kNew, "grpc-c++/1.51.1", "", kAll},
    {"UnknownLibraryOldArguments", kOld, "", "", kOnlyOld},
    {"UnknownLibraryNoArguments", kNone, "", "", kOnlyOld},
    {"BrokenVersion", kOld, "grpc-go/", "", kOnlyOld},
    {"BrokenMinor", kOld, "grpc-go/1.x", "", kOnlyOld},
    {"NegativeMinor", kOld, "grpc-go/1.-3", "", kOnlyOld},
    {"Zero", kOld, "grpc-go/0.99.0", "", kOnlyOld},
    {"DeclaredWins", kNew, "grpc-go/1.80.0", "v1.13.1", kV2},
    {"Declared113", kOld, "grpc-c++/1.51.1", "1.13", kV2AndPlaceholders},
    {"Declared112", kOld, "grpc-go/1.54.0", "v1.12.4", kV2AndPlaceholders},
    {"Declared113NewerLibrary", kOld, "grpc-go/1.60.1", "1.13", kV2AndPlaceholders},
    {"Declared113SinceUpgraded", kOld, "grpc-go/1.63.2", "1.13", kV2},
    {"Declared114OldLibrary", kOld, "grpc-go/1.58.3", "1.14", kV2},
    {"Declared111StandsIn", kOld, "grpc-go/1.54.0", "1.11", kV2},
    {"Between113And114", kOld, "grpc-go/1.59.0", "", kV2},
    {"Declared110", kNew, "grpc-go/1.80.0", "1.10", kOnlyOld},
    {"Declared115", kOld, "", "v1.15.0-rc.1", kAll},
    {"Declared2", kOld, "", "2.0", kAll},
    {"DeclaredNonsense", kOld, "grpc-go/1.58.3", "latest", kV2AndPlaceholders},
};
INSTANTIATE_TEST_SUITE_P(Table, DetectHostKindsTest, testing::ValuesIn(kHostCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::plugin::host_version_test
