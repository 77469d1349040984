// SPDX-License-Identifier: Apache-2.0
#include "tools/common/remote_flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "io/base/printable.h"
#include "io/base/regular_file.h"
#include "io/record/remote_files.h"

DEFINE_string(s3_endpoint, "",
              "s3://: URL of the store, such as http://127.0.0.1:9000; empty: AWS_ENDPOINT_URL, "
              "else AWS");
DEFINE_string(s3_region, "",
              "s3://: region of the bucket; empty: AWS_REGION, else that of ~/.aws/config, else "
              "us-east-1");
DEFINE_bool(s3_path_style, millrace::io::RemoteOptions{}.path_style,
            "s3://, with an endpoint: ENDPOINT/BUCKET/KEY; --nos3_path_style: BUCKET.ENDPOINT/KEY");
DEFINE_string(ca_file, "",
              "s3://, https://: PEM certificates to trust; empty: AWS_CA_BUNDLE, else those of the "
              "system");

namespace millrace::tools {
namespace {

const std::vector<std::string>& S3Flags() {
  static const std::vector<std::string> flags = {"s3_endpoint", "s3_region", "s3_path_style"};
  return flags;
}

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

using Settings = std::map<std::string, std::string>;

// The settings of one section of a file of AWS; those of a nested block ("s3 =", then indented
// lines) are called "s3.NAME". Sets `found` if the section exists. A file that does not exist is
// empty.
Status AddSection(const std::string& path, const std::string& section, Settings& settings,
                  bool& found) {
  const Result<std::string> text = ReadRegularFile(path);
  if (text.status().code() == Code::kNotFound) return {};
  RETURN_IF_ERROR(text.status());
  std::istringstream lines(*text);
  bool is_wanted = false;
  std::string block;
  for (std::string line; std::getline(lines, line);) {
    const std::string trimmed = Trimmed(line);
    if (trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';') continue;
    if (trimmed[0] == '[') {
      is_wanted = Trimmed(std::string_view(trimmed).substr(1, trimmed.find(']') - 1)) == section;
      found |= is_wanted;
      block.clear();
      continue;
    }
    const size_t equals = trimmed.find('=');
    if (!is_wanted || equals == trimmed.npos) continue;
    const bool is_nested = std::isspace(static_cast<unsigned char>(line[0])) != 0;
    const std::string name = Trimmed(std::string_view(trimmed).substr(0, equals));
    const std::string value = Trimmed(std::string_view(trimmed).substr(equals + 1));
    if (!is_nested) block = value.empty() ? name + "." : "";
    settings.emplace((is_nested ? block : "") + name, value);
  }
  return {};
}

// Without a key, requests would be anonymous although the profile says otherwise.
Status CheckProfile(const std::string& profile, const Settings& settings) {
  if (settings.contains("aws_access_key_id")) return {};
  for (const char* setting : {"role_arn", "sso_session", "sso_start_url", "credential_process",
                              "web_identity_token_file"}) {
    if (!settings.contains(setting)) continue;
    return Invalid("the profile '" + Printable(profile) + "' of ~/.aws/config has " + setting +
                   " and no key: expected keys, such as those that eval \"$(aws configure "
                   "export-credentials --format env)\" sets");
  }
  return {};
}

Result<Settings> ProfileSettings(const std::function<std::string(const std::string&)>& variable) {
  const auto path_of = [&](const char* name, const char* file) {
    const std::string given = variable(name), home = variable("HOME");
    return !given.empty() ? given : home.empty() ? "" : home + "/.aws/" + file;
  };
  const std::string given = variable("AWS_PROFILE");
  const std::string profile = given.empty() ? "default" : given;
  Settings settings;
  bool found = false;
  const std::string keys = path_of("AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const std::string config = path_of("AWS_CONFIG_FILE", "config");
  if (!keys.empty()) RETURN_IF_ERROR(AddSection(keys, profile, settings, found));
  const std::string section = profile == "default" ? profile : "profile " + profile;
  if (!config.empty()) RETURN_IF_ERROR(AddSection(config, section, settings, found));
  if (!found && !given.empty()) {
    return Invalid("AWS_PROFILE=" + Printable(given) + ": there is no such profile in " + keys +
                   " or " + config);
  }
  if (variable("AWS_ACCESS_KEY_ID").empty()) RETURN_IF_ERROR(CheckProfile(profile, settings));
  return settings;
}

Status CheckEndpoint(std::string& endpoint, const char* source) {
  if (endpoint.empty()) return {};
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool is_url = endpoint.starts_with("http://") || endpoint.starts_with("https://");
  if (is_url && endpoint.find_first_of("@?# ") == endpoint.npos &&
      endpoint.find("://") + 3 < endpoint.size())
    return {};
  return Invalid(std::string(source) +
                 ": expected http://HOST[:PORT] or https://HOST[:PORT], without user and query");
}

Result<io::RemoteOptions> OptionsFromFlags() {
  ASSIGN_OR_RETURN(io::RemoteOptions options, AwsOptions([](const std::string& name) {
                     const char* value = std::getenv(name.c_str());
                     return std::string(value ? value : "");
                   }));
  if (!FLAGS_s3_endpoint.empty()) {
    options.endpoint = FLAGS_s3_endpoint;
    RETURN_IF_ERROR(CheckEndpoint(options.endpoint, "--s3_endpoint"));
  }
  if (!FLAGS_s3_region.empty()) options.region = FLAGS_s3_region;
  if (IsGiven("s3_path_style")) options.path_style = FLAGS_s3_path_style;
  if (!FLAGS_ca_file.empty()) options.ca_file = FLAGS_ca_file;
  if (!options.ca_file.empty()) {
    const Result<std::string> pem = ReadRegularFile(options.ca_file);
    if (!pem.ok()) return Status(pem.status().code(), "--ca_file: " + pem.status().message());
  }
  return options;
}

}  // namespace

CommandSpec WithRemoteFlags(CommandSpec spec) {
  FlagGroup group = {"Remote files (s3://, https://)", S3Flags(), {{"ca_file", File()}}};
  group.flags.emplace_back("ca_file");
  spec.always.insert(spec.always.end(), group.flags.begin(), group.flags.end());
  spec.groups.push_back(std::move(group));
  return spec;
}

void UseRemoteFlags(const char* program) {
  io::UseRemoteOptions([program]() -> Result<io::RemoteOptions> {
    ASSIGN_OR_RETURN(io::RemoteOptions options, OptionsFromFlags());
    options.on_note = [program](const std::string& note) {
      std::fprintf(stderr, "%s: %s\n", program, PrintableLines(note).c_str());
    };
    return options;
  });
}

Status CheckRemoteFlags(const std::vector<std::string>& files) {
  const auto none = [&](std::string_view scheme) {
    return std::none_of(files.begin(), files.end(),
                        [&](const std::string& file) { return file.starts_with(scheme); });
  };
  const bool no_s3 = none("s3://");
  for (const std::string& flag : S3Flags()) {
    if (IsGiven(flag) && no_s3)
      return Invalid("--" + flag + " has no effect: it belongs to s3:// files, found none");
  }
  if (!FLAGS_ca_file.empty() && no_s3 && none("https://"))
    return Invalid("--ca_file has no effect: it belongs to s3:// and https:// files, found none");
  return {};
}

Result<io::RemoteOptions> AwsOptions(
    const std::function<std::string(const std::string&)>& variable) {
  ASSIGN_OR_RETURN(Settings settings, ProfileSettings(variable));
  const auto first_of = [&](std::initializer_list<const char*> variables, const char* setting) {
    for (const char* name : variables) {
      if (std::string value = variable(name); !value.empty()) return value;
    }
    return settings[setting];
  };
  io::RemoteOptions options;
  const std::string key = variable("AWS_ACCESS_KEY_ID");
  const bool has_key = !key.empty();
  const auto secret = [&](const char* name, const char* setting) {
    return has_key ? variable(name) : settings[setting];
  };
  options.credentials = {has_key ? key : settings["aws_access_key_id"],
                         secret("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
                         secret("AWS_SESSION_TOKEN", "aws_session_token")};
  if (options.credentials.access_key.empty() != options.credentials.secret_key.empty())
    return Invalid(
        "credentials of AWS: expected both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or "
        "aws_access_key_id and aws_secret_access_key in ~/.aws/credentials), found one of them");
  const std::string region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  if (!region.empty()) options.region = region;
  options.endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
  RETURN_IF_ERROR(CheckEndpoint(options.endpoint, "AWS_ENDPOINT_URL"));
  options.ca_file = first_of({"AWS_CA_BUNDLE"}, "ca_bundle");
  options.path_style = settings["s3.addressing_style"] != "virtual";
  return options;
}

}  // namespace millrace::tools
