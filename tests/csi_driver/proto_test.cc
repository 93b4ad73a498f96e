// Every name, number and type in our csi.proto beside the file that the protocol publishes.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "csi.pb.h"
#include "differential_snapshot.pb.h"
#include "tests/support/csi_driver/files.h"
#include "tests/support/paths.h"

namespace csidelta::csi_driver::proto_test {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

constexpr char kModule[] = "github.com/container-storage-interface/spec";
constexpr char kVersion[] = "v1.13.0";

std::string OutputOf(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  std::array<char, 1024> buffer;
  while (pipe != nullptr && fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
    output += buffer.data();
  }
  return std::string(absl::StripAsciiWhitespace(output));
}

// A field's type in words; two fields of one type have the same words.
std::string TypeOf(const FieldDescriptor& field) {
  std::string type = absl::StrCat(field.is_repeated() ? "repeated " : "", field.type_name());
  if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
    absl::StrAppend(&type, " ", field.message_type()->full_name());
  }
  if (field.type() == FieldDescriptor::TYPE_ENUM) {
    absl::StrAppend(&type, " ", field.enum_type()->full_name());
  }
  if (field.containing_oneof() != nullptr) {
    absl::StrAppend(&type, " in oneof ", field.containing_oneof()->name());
  }
  return type;
}

class CsiProtoTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = OutputOf(absl::StrCat("GOPROXY=off /usr/bin/python3 '",
                                                     support::SourcePath("tests/e2e/build.py"),
                                                     "' --download csi ", kModule));
    ASSERT_THAT(folder, testing::EndsWith(absl::StrCat("@", kVersion)))
        << kModule << " is not in the Go module cache; the same command without GOPROXY brings it";
    const std::string set_path = absl::StrCat(testing::TempDir(), "csi-", getpid(), ".pb");
    OutputOf(absl::StrCat("protoc -I '", folder, "' -I /usr/include --include_imports ",
                          "--descriptor_set_out='", set_path, "' csi.proto"));
    const absl::StatusOr<std::string> bytes = ReadFile(set_path);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(RemoveFile(set_path).ok());
    google::protobuf::FileDescriptorSet set;
    ASSERT_TRUE(set.ParseFromString(*bytes));
    for (const auto& file : set.file()) {
      published_ = pool_.BuildFile(file);  // The last one is the one that imports the others.
    }
    ASSERT_NE(published_, nullptr);
  }

  void CompareMessage(const Descriptor& own) {
    const Descriptor* const others = pool_.FindMessageTypeByName(own.full_name());
    ASSERT_NE(others, nullptr) << own.full_name();
    for (int i = 0; i < own.field_count(); ++i) {
      const FieldDescriptor& field = *own.field(i);
      const FieldDescriptor* const twin = others->FindFieldByName(field.name());
      ASSERT_NE(twin, nullptr) << field.full_name();
      EXPECT_EQ(field.number(), twin->number()) << field.full_name();
      EXPECT_EQ(TypeOf(field), TypeOf(*twin)) << field.full_name();
      ++fields_;
    }
    for (int i = 0; i < own.nested_type_count(); ++i) {
      CompareMessage(*own.nested_type(i));
    }
    for (int i = 0; i < own.enum_type_count(); ++i) {
      CompareEnum(*own.enum_type(i));
    }
  }

  void CompareEnum(const EnumDescriptor& own) {
    const EnumDescriptor* const others = pool_.FindEnumTypeByName(own.full_name());
    ASSERT_NE(others, nullptr) << own.full_name();
    for (int i = 0; i < own.value_count(); ++i) {
      const auto* const twin = others->FindValueByName(own.value(i)->name());
      ASSERT_NE(twin, nullptr) << own.value(i)->full_name();
      EXPECT_EQ(own.value(i)->number(), twin->number()) << own.value(i)->full_name();
    }
  }

  void CompareService(const ServiceDescriptor& own) {
    const ServiceDescriptor* const others = pool_.FindServiceByName(own.full_name());
    ASSERT_NE(others, nullptr) << own.full_name();
    for (int i = 0; i < own.method_count(); ++i) {
      const MethodDescriptor& method = *own.method(i);
      const MethodDescriptor* const twin = others->FindMethodByName(method.name());
      ASSERT_NE(twin, nullptr) << method.full_name();
      EXPECT_EQ(method.input_type()->full_name(), twin->input_type()->full_name());
      EXPECT_EQ(method.output_type()->full_name(), twin->output_type()->full_name());
      EXPECT_EQ(method.client_streaming(), twin->client_streaming()) << method.full_name();
      EXPECT_EQ(method.server_streaming(), twin->server_streaming()) << method.full_name();
    }
  }

  DescriptorPool pool_;
  const FileDescriptor* published_ = nullptr;
  int fields_ = 0;
};

TEST_F(CsiProtoTest, AgreesWithThePublishedFile) {
  const FileDescriptor& own = *::csi::v1::CreateVolumeRequest::descriptor()->file();
  EXPECT_EQ(own.package(), published_->package());
  for (int i = 0; i < own.message_type_count(); ++i) {
    CompareMessage(*own.message_type(i));
  }
  for (int i = 0; i < own.enum_type_count(); ++i) {
    CompareEnum(*own.enum_type(i));
  }
  for (int i = 0; i < own.service_count(); ++i) {
    CompareService(*own.service(i));
  }
  EXPECT_GT(fields_, 100);
  EXPECT_EQ(own.service_count(), 5);
}

// What we announce beside upstream's services shall never be one of them.
TEST_F(CsiProtoTest, OurOwnServiceTypeIsFarFromThePublishedOnes) {
  const EnumDescriptor* const published =
      pool_.FindEnumTypeByName("csi.v1.PluginCapability.Service.Type");
  ASSERT_NE(published, nullptr);
  for (int i = 0; i < published->value_count(); ++i) {
    EXPECT_LT(published->value(i)->number(), 1000);
  }
  EXPECT_EQ(::csi::differentialsnapshot::v1::DIFFERENTIAL_SNAPSHOT_SERVICE, 1146310224);
}

}  // namespace
}  // namespace csidelta::csi_driver::proto_test
