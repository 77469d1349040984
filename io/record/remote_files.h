// SPDX-License-Identifier: Apache-2.0
// Remote files under their names: s3://BUCKET/KEY, https://HOST/PATH, http://HOST/PATH. A name
// stands for one version of a file as long as the process runs: the one that was found first. What
// is found (sizes, ETags) and the connections belong to the process, as its working directory does
// for other names. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/record/byte_source.h"
#include "io/record/remote_options.h"
#include "io/record/remote_source.h"

namespace millrace::io {

bool IsRemote(std::string_view name);

// `options` is called once, when the first remote file is used; without this call there are default
// options. Forgets what was found so far; no remote file may be open.
void UseRemoteOptions(std::function<Result<RemoteOptions>()> options);

// The files of a pattern. s3://: * ? [] {} as in names of local files, sorted by name; a * does not
// match a slash. https:// and http://: only {}, since servers have no list of their files; a query
// ("?..."), which may be a secret, is replaced by "?...", in the name that is returned, and is
// known under that name from then on.
Result<std::vector<std::string>> ExpandRemote(const std::string& pattern);

// Finds out size and version of files, several at the same time. The error is that of the first
// file that cannot be read.
Status FindRemoteFiles(std::span<const std::string> names);
Result<RemoteFile> FindRemoteFile(const std::string& name);

Result<std::unique_ptr<ByteSource>> OpenRemoteFile(const std::string& name);

// `text`, such as the value of a flag, with "?..." for the queries of http:// and https:// names.
std::string HideQueries(std::string_view text);

}  // namespace millrace::io
