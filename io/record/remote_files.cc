// SPDX-License-Identifier: Apache-2.0
#include "io/record/remote_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "io/base/printable.h"
#include "io/record/s3.h"

namespace millrace::io {
namespace {

constexpr size_t kMaxPageBytes = 16 << 20;
constexpr size_t kMaxPages = 10'000;
constexpr size_t kMaxFiles = 1'000'000;
constexpr size_t kMaxBraces = 10'000;
constexpr size_t kProbesAtOnce = 32;
constexpr std::string_view kHidden = "?...";

bool IsS3(std::string_view name) { return name.starts_with("s3://"); }
bool IsHttp(std::string_view name) {
  return name.starts_with("https://") || name.starts_with("http://");
}

// Finds the size and the version of a file: the headers of its first bytes. (HEAD would need
// another signature in a presigned URL.)
class Probe final : public WaitedTask {
 public:
  explicit Probe(RemoteFile file) : file_(std::move(file)) {}
  const RemoteFile& file() const { return file_; }

  HttpRequest NextRequest() override {
    HttpRequest request = RequestFor(file_);
    request.headers.emplace_back("Range: bytes=0-1");
    return request;
  }
  Result<bool> OnHeaders(const HttpResponse& response) override {
    file_.etag = response.etag;
    file_.last_modified = response.last_modified;
    file_.has_ranges = false;
    file_.bytes = response.body_bytes;
    if (response.status == 416) file_.bytes = 0;  // the file has no first byte
    if (response.status != 206) return false;
    ASSIGN_OR_RETURN(const ContentRange range, ParseContentRange(response.content_range));
    if (range.begin != 0 || range.end > 2)
      return Status(Code::kIo, "Content-Range: expected bytes 0-1, found " +
                                   Printable(response.content_range));
    file_.has_ranges = range.total >= 0;
    file_.bytes = range.total;
    received_ = 0;
    expected_ = static_cast<size_t>(range.end);
    return true;
  }
  Result<bool> OnBody(std::span<const char> bytes) override {
    received_ += bytes.size();
    if (received_ > expected_)
      return Status(Code::kIo,
                    "expected a body of " + std::to_string(expected_) + " bytes, found more");
    return true;
  }
  bool IsComplete() const override { return received_ == expected_; }

 private:
  RemoteFile file_;
  size_t received_ = 0;
  size_t expected_ = 0;
};

// One page of a list.
class PageTask final : public WaitedTask {
 public:
  explicit PageTask(std::string url) : url_(std::move(url)) {}
  const std::string& body() const { return body_; }

  HttpRequest NextRequest() override {
    body_.clear();
    return {.url = url_, .headers = {}, .is_s3 = true};
  }
  Result<bool> OnHeaders(const HttpResponse&) override { return true; }
  Result<bool> OnBody(std::span<const char> bytes) override {
    if (body_.size() + bytes.size() > kMaxPageBytes)
      return Status(Code::kIo, "list of objects: expected at most " +
                                   std::to_string(kMaxPageBytes) + " bytes, found more");
    body_.append(bytes.data(), bytes.size());
    return true;
  }
  bool IsComplete() const override { return true; }

 private:
  std::string url_;
  std::string body_;
};

// Replaces the first {a,b} of `pattern` by its alternatives, and so on.
Status ExpandBraces(const std::string& pattern, std::vector<std::string>& expanded) {
  const auto add = [&]() -> Status {
    if (expanded.size() >= kMaxBraces)
      return Invalid(pattern + ": expected at most " + std::to_string(kMaxBraces) +
                     " alternatives in {}");
    expanded.push_back(pattern);
    return {};
  };
  const size_t open = pattern.find('{');
  if (open == pattern.npos) return add();
  std::vector<size_t> cuts = {open};
  int depth = 1;
  for (size_t i = open + 1; i < pattern.size() && depth > 0; ++i) {
    depth += pattern[i] == '{' ? 1 : pattern[i] == '}' ? -1 : 0;
    if (depth == 0 || (depth == 1 && pattern[i] == ',')) cuts.push_back(i);
  }
  if (depth > 0) return add();
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    RETURN_IF_ERROR(ExpandBraces(pattern.substr(0, open) +
                                     pattern.substr(cuts[i] + 1, cuts[i + 1] - cuts[i] - 1) +
                                     pattern.substr(cuts.back() + 1),
                                 expanded));
  }
  return {};
}

class RemoteFiles {
 public:
  static RemoteFiles& Get() {
    static RemoteFiles files;
    return files;
  }

  void UseOptions(std::function<Result<RemoteOptions>()> options) {
    const std::lock_guard lock(mu_);
    make_options_ = std::move(options);
    options_.reset();
    client_.reset();
    files_.clear();
    urls_.clear();
  }

  Result<HttpClient*> Client() {
    const std::lock_guard lock(mu_);
    if (!client_) {
      options_ = RemoteOptions();
      if (make_options_) {
        ASSIGN_OR_RETURN(options_, make_options_());
      }
      ASSIGN_OR_RETURN(client_, HttpClient::Create(*options_));
    }
    return client_.get();
  }
  // Call Client first.
  const RemoteOptions& options() const { return *options_; }

  std::optional<RemoteFile> Known(const std::string& name) {
    const std::lock_guard lock(mu_);
    const auto found = files_.find(name);
    return found == files_.end() ? std::nullopt : std::optional(found->second);
  }
  void Add(const std::string& name, RemoteFile file) {
    const std::lock_guard lock(mu_);
    files_.emplace(name, std::move(file));  // the first one stays
  }

  // A name without the query of `url`.
  std::string Hide(const std::string& url) {
    const size_t query = url.find('?');
    if (query == url.npos) return url;
    const std::string base = url.substr(0, query) + std::string(kHidden);
    const std::lock_guard lock(mu_);
    std::string name = base;
    for (int i = 2; !urls_.emplace(name, url).second && urls_[name] != url; ++i) {
      name = base + "(" + std::to_string(i) + ")";
    }
    return name;
  }
  std::string UrlOf(const std::string& name) {
    const std::lock_guard lock(mu_);
    const auto found = urls_.find(name);
    return found == urls_.end() ? name : found->second;
  }

  // Where the file is; its version is not known yet.
  Result<RemoteFile> Locate(const std::string& name) {
    RETURN_IF_ERROR(Client().status());
    RemoteFile file;
    file.is_s3 = IsS3(name);
    if (!file.is_s3) {
      file.url = UrlOf(name);
      return file;
    }
    ASSIGN_OR_RETURN(const S3Name parsed, ParseS3Name(name));
    if (parsed.key.ends_with('/')) return DirectoryError(name);
    file.url = S3ObjectUrl(parsed, *options_);
    return file;
  }

 private:
  RemoteFiles() { PrepareHttp(); }

  std::mutex mu_;
  std::function<Result<RemoteOptions>()> make_options_;  // mu_
  std::optional<RemoteOptions> options_;                 // set once, with client_
  std::unique_ptr<HttpClient> client_;                   // mu_ until it is set
  std::map<std::string, RemoteFile> files_;              // mu_; by name
  std::map<std::string, std::string> urls_;              // mu_; of names with a hidden query
};

// All pages of the keys that begin with `prefix.key`.
class Lister {
 public:
  Lister(const std::string& pattern, S3Name prefix)
      : pattern_(pattern), prefix_(std::move(prefix)) {}

  // Calls `add` for each object.
  Status Run(const std::function<void(S3Object&)>& add) {
    ASSIGN_OR_RETURN(HttpClient * client, RemoteFiles::Get().Client());
    std::set<std::string> tokens;
    std::string token;
    for (size_t pages = 0; pages < kMaxPages; ++pages) {
      PageTask task(S3ListUrl(prefix_, token, RemoteFiles::Get().options()));
      client->Start(task, pattern_);
      RETURN_IF_ERROR(task.Wait());
      Result<S3Page> page = ParseS3Page(task.body());
      if (!page.ok()) return {page.status().code(), pattern_ + ": " + page.status().message()};
      for (S3Object& object : page->objects) add(object);
      if (page->next_token.empty()) return {};
      token = page->next_token;
      if (!tokens.insert(token).second)
        return {Code::kIo, pattern_ + ": list of objects: the server repeats a page"};
    }
    return {Code::kIo, pattern_ + ": list of objects: expected at most " +
                           std::to_string(kMaxPages) + " pages: name fewer files"};
  }

 private:
  const std::string& pattern_;
  S3Name prefix_;
};

Status ExpandS3(const std::string& pattern, std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(S3Name parsed, ParseS3Name(pattern));
  const size_t wild = parsed.key.find_first_of("*?[");
  if (wild == parsed.key.npos) {
    names.push_back(pattern);
    return {};
  }
  const std::string base = "s3://" + parsed.bucket + "/", key = parsed.key;
  parsed.key.resize(wild);
  std::vector<S3Object> found;
  bool is_name = false;  // a key may well have a [
  const auto add = [&](S3Object& object) {
    is_name |= object.key == key;
    const bool matches = object.key == key ||
                         ::fnmatch(key.c_str(), object.key.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
    if (matches && !object.key.ends_with('/') && found.size() <= kMaxFiles)
      found.push_back(std::move(object));
  };
  RETURN_IF_ERROR(Lister(pattern, parsed).Run(add));
  if (found.size() > kMaxFiles)
    return Invalid(pattern + ": expected at most " + std::to_string(kMaxFiles) + " files");
  if (is_name) std::erase_if(found, [&](const S3Object& object) { return object.key != key; });
  if (found.empty()) return NotFound(pattern + ": no file matches");
  std::sort(found.begin(), found.end(),
            [](const S3Object& a, const S3Object& b) { return a.key < b.key; });
  for (S3Object& object : found) {
    const std::string name = base + object.key;
    ASSIGN_OR_RETURN(RemoteFile file, RemoteFiles::Get().Locate(name));
    file.bytes = object.bytes;
    file.etag = std::move(object.etag);
    file.has_ranges = true;
    if (!file.etag.empty()) RemoteFiles::Get().Add(name, std::move(file));
    names.push_back(name);
  }
  return {};
}

Status CheckHttp(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const std::string_view authority =
      std::string_view(url).substr(host, url.find_first_of("/?#", host) - host);
  const std::string hidden = HideQueries(url);
  if (authority.find('@') != authority.npos)
    return Invalid(url.substr(0, host) + "...: expected a URL without user name and password");
  if (authority.empty()) return Invalid(Printable(hidden) + ": expected a host in the URL");
  if (hidden.find('*') != hidden.npos)
    return Invalid(Printable(hidden) +
                   ": a web server has no list of its files: name them, or {a,b}, or @list");
  return {};
}

}  // namespace

bool IsRemote(std::string_view name) { return IsS3(name) || IsHttp(name); }

void UseRemoteOptions(std::function<Result<RemoteOptions>()> options) {
  RemoteFiles::Get().UseOptions(std::move(options));
}

Result<std::vector<std::string>> ExpandRemote(const std::string& pattern) {
  std::vector<std::string> expanded, names;
  if (IsHttp(pattern)) RETURN_IF_ERROR(CheckHttp(pattern));
  RETURN_IF_ERROR(ExpandBraces(pattern, expanded));
  for (const std::string& one : expanded) {
    if (IsS3(one)) {
      RETURN_IF_ERROR(ExpandS3(one, names));
    } else {
      names.push_back(RemoteFiles::Get().Hide(one));
    }
  }
  return names;
}

Status FindRemoteFiles(std::span<const std::string> names) {
  RemoteFiles& files = RemoteFiles::Get();
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    if (IsRemote(name) && !files.Known(name)) unknown.push_back(name);
  }
  for (size_t begin = 0; begin < unknown.size(); begin += kProbesAtOnce) {
    const size_t end = std::min(unknown.size(), begin + kProbesAtOnce);
    ASSIGN_OR_RETURN(HttpClient * client, files.Client());
    std::vector<std::unique_ptr<Probe>> probes;
    Status first;
    for (size_t i = begin; i < end && first.ok(); ++i) {
      Result<RemoteFile> file = files.Locate(unknown[i]);
      first = file.status();
      if (!file.ok()) break;
      probes.push_back(std::make_unique<Probe>(std::move(*file)));
      client->Start(*probes.back(), unknown[i]);
    }
    Status failed;
    for (size_t i = 0; i < probes.size(); ++i) {
      const Status status = probes[i]->Wait();
      if (status.ok()) files.Add(unknown[begin + i], probes[i]->file());
      if (failed.ok()) failed = status;
    }
    RETURN_IF_ERROR(failed);
    RETURN_IF_ERROR(first);
  }
  return {};
}

Result<RemoteFile> FindRemoteFile(const std::string& name) {
  RETURN_IF_ERROR(FindRemoteFiles({&name, 1}));
  return *RemoteFiles::Get().Known(name);
}

Result<std::unique_ptr<ByteSource>> OpenRemoteFile(const std::string& name) {
  ASSIGN_OR_RETURN(const RemoteFile file, FindRemoteFile(name));
  ASSIGN_OR_RETURN(HttpClient * client, RemoteFiles::Get().Client());
  return ReadRemoteFile(*client, file, name, RemoteFiles::Get().options());
}

std::string HideQueries(std::string_view text) {
  std::string hidden;
  while (!text.empty()) {
    const size_t scheme = std::min(text.find("http"), text.size());
    hidden += text.substr(0, scheme);
    text.remove_prefix(scheme);
    if (!IsHttp(text)) {
      hidden += text.substr(0, std::min<size_t>(text.size(), 1));
      text.remove_prefix(std::min<size_t>(text.size(), 1));
      continue;
    }
    const std::string_view name = text.substr(0, text.find_first_of(", \t\n"));
    const size_t query = name.find('?');
    hidden += name.substr(0, query);
    if (query != name.npos) hidden += kHidden;
    text.remove_prefix(name.size());
  }
  return hidden;
}

}  // namespace millrace::io
