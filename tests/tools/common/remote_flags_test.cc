// SPDX-License-Identifier: Apache-2.0
#include "tools/common/remote_flags.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/test_files.h"

namespace millrace::tools {
namespace {

using test::TemporaryFolder;

class AwsOptionsTest : public ::testing::Test {
 protected:
  AwsOptionsTest() {
    std::filesystem::create_directory(home_ / ".aws");
    variables_["HOME"] = home_.path();
  }
  void Write(const char* name, const char* text) {
    std::ofstream(home_ / (std::string(".aws/") + name)) << text;
  }
  Result<io::RemoteOptions> Options() {
    return AwsOptions([&](const std::string& name) { return variables_[name]; });
  }

  const TemporaryFolder home_;
  std::map<std::string, std::string> variables_;
};

TEST_F(AwsOptionsTest, NothingIsAnonymous) {
  EXPECT_EQ(Options()->credentials.access_key, "");
  EXPECT_EQ(Options()->region, "us-east-1");
  EXPECT_EQ(Options()->endpoint, "");
}

TEST_F(AwsOptionsTest, FilesGiveTheProfile) {
  Write("credentials",
        "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n\n[ work ]\n"
        "aws_access_key_id=C\naws_secret_access_key=D=\naws_session_token=E\n");
  Write("config",
        "[default]\nregion = eu-west-1\n[profile work]\nregion=ap-1\ns3 =\n  addressing_style = "
        "virtual\n  region = x\nendpoint_url = http://h:1/\n");
  EXPECT_EQ(Options()->credentials.access_key, "A");
  EXPECT_EQ(Options()->region, "eu-west-1");
  EXPECT_TRUE(Options()->path_style);
  variables_["AWS_PROFILE"] = "work";
  EXPECT_EQ(Options()->credentials.secret_key, "D=");
  EXPECT_EQ(Options()->credentials.session_token, "E");
  EXPECT_EQ(Options()->region, "ap-1");
  EXPECT_EQ(Options()->endpoint, "http://h:1");
  EXPECT_FALSE(Options()->path_style);
  variables_["AWS_PROFILE"] = "none";
  EXPECT_EQ(Options().status().code(), Code::kInvalid);
}

// A session token of the files does not belong to keys of the environment.
TEST_F(AwsOptionsTest, EnvironmentComesFirst) {
  Write("credentials",
        "[default]\naws_access_key_id=A\naws_secret_access_key=B\naws_session_token=E\n");
  variables_["AWS_ACCESS_KEY_ID"] = "X";
  EXPECT_EQ(Options().status().code(), Code::kInvalid);
  variables_["AWS_SECRET_ACCESS_KEY"] = "Y";
  variables_["AWS_REGION"] = "r";
  EXPECT_EQ(Options()->credentials.access_key, "X");
  EXPECT_EQ(Options()->credentials.secret_key, "Y");
  EXPECT_EQ(Options()->credentials.session_token, "");
  EXPECT_EQ(Options()->region, "r");
}

TEST_F(AwsOptionsTest, ProfileOfARoleIsAnError) {
  Write("config", "[default]\nrole_arn = arn:x\n");
  EXPECT_NE(Options().status().message().find("role_arn and no key"), std::string::npos);
}

TEST_F(AwsOptionsTest, EndpointIsAUrlWithoutSecrets) {
  for (const char* bad : {"host:9000", "http://", "http://u:p@h", "https://h/?x=1"}) {
    variables_["AWS_ENDPOINT_URL"] = bad;
    EXPECT_EQ(Options().status().code(), Code::kInvalid) << bad;
  }
}

}  // namespace
}  // namespace millrace::tools
