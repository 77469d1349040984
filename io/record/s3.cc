// SPDX-License-Identifier: Apache-2.0
#include "io/record/s3.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "io/base/printable.h"

namespace millrace::io {
namespace {

constexpr size_t kMaxBucketBytes = 255;
constexpr size_t kShownErrorBytes = 200;

bool IsBucketByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

// A bucket whose name is a host name that a certificate of *.s3.amazonaws.com covers.
bool IsHostLabel(const std::string& bucket) {
  return std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return std::islower(static_cast<unsigned char>(c)) != 0 ||
           std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-';
  });
}

// "https://HOST/" or "https://HOST/BUCKET/".
std::string BucketUrl(const std::string& bucket, const RemoteOptions& options) {
  std::string endpoint = options.endpoint;
  bool in_path = options.path_style;
  if (endpoint.empty()) {
    endpoint = "https://s3." + options.region + ".amazonaws.com" +
               (options.region.starts_with("cn-") ? ".cn" : "");
    in_path = !IsHostLabel(bucket);
  }
  if (in_path) return endpoint + "/" + bucket + "/";
  const size_t host = endpoint.find("://") + 3;
  return endpoint.substr(0, host) + bucket + "." + endpoint.substr(host) + "/";
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Of "encoding-type=url": a plus is a space.
std::string PercentDecode(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      plain += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

void AppendUtf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  } else if (code < 0x10000) {
    text += {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
             static_cast<char>(0x80 | (code & 63))};
  } else {
    text += {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
             static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
  }
}

// The character that "&NAME;" stands for.
bool AppendEntity(std::string_view name, std::string& text) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, c] : kNamed) {
    if (name == known) {
      text += c;
      return true;
    }
  }
  if (!name.starts_with('#')) return false;
  const bool is_hex = name.size() > 1 && name[1] == 'x';
  const char* const begin = name.data() + (is_hex ? 2 : 1);
  const char* const end = name.data() + name.size();
  uint32_t code = 0;
  const auto [at, error] = std::from_chars(begin, end, code, is_hex ? 16 : 10);
  if (error != std::errc() || at != end || code == 0 || code > 0x10ffff) return false;
  AppendUtf8(code, text);
  return true;
}

// Nothing if an entity is unknown.
std::optional<std::string> XmlText(std::string_view xml) {
  std::string text;
  while (!xml.empty()) {
    const size_t plain = std::min(xml.find('&'), xml.size());
    text += xml.substr(0, plain);
    xml.remove_prefix(plain);
    if (xml.empty()) break;
    const size_t end = xml.find(';');
    if (end == xml.npos || !AppendEntity(xml.substr(1, end - 1), text)) return std::nullopt;
    xml.remove_prefix(end + 1);
  }
  return text;
}

// The elements of a document, one after the other: what S3 sends needs no more of XML. Comments,
// CDATA and attributes do not occur in the elements that are read.
class XmlElements {
 public:
  explicit XmlElements(std::string_view xml) : xml_(xml) {}

  // Goes to the next tag. False at the end, and where the document is broken: see broken().
  bool Next() {
    const size_t begin = xml_.find('<');
    if (begin == xml_.npos) {
      xml_ = {};
      return false;
    }
    const size_t end = xml_.find('>', begin);
    is_broken_ = end == xml_.npos;
    if (is_broken_) return false;
    std::string_view tag = xml_.substr(begin + 1, end - begin - 1);
    is_end_ = tag.starts_with('/');
    is_empty_ = tag.ends_with('/');
    if (is_end_) tag.remove_prefix(1);
    name_ = tag.substr(0, tag.find_first_of(" \t\r\n/"));
    xml_.remove_prefix(end + 1);
    return true;
  }
  std::string_view name() const { return name_; }
  bool is_end() const { return is_end_; }
  bool is_broken() const { return is_broken_; }

  // The text of the element that has just begun; moves behind its end. Nothing if it has none.
  std::optional<std::string> Text() {
    if (is_empty_) return "";
    const size_t size = xml_.find('<');
    if (size == xml_.npos || !xml_.substr(size).starts_with("</" + std::string(name_)))
      return std::nullopt;
    const std::string_view text = xml_.substr(0, size);
    xml_.remove_prefix(size);
    const std::string_view name = name_;
    if (!Next() || name_ != name) return std::nullopt;
    return XmlText(text);
  }

 private:
  std::string_view xml_;
  std::string_view name_;
  bool is_end_ = false, is_empty_ = false, is_broken_ = false;
};

Status BadPage(const std::string& found) {
  return Status(Code::kIo, "list of objects: expected XML of ListObjectsV2, found " + found);
}

// The fields of one <Contents>.
Result<S3Object> ReadObject(XmlElements& elements) {
  S3Object object;
  bool has_size = false;
  while (elements.Next()) {
    if (elements.is_end() && elements.name() == "Contents") {
      if (object.key.empty() || !has_size) return BadPage("an object without key or size");
      return object;
    }
    if (elements.is_end()) continue;
    const bool is_key = elements.name() == "Key", is_size = elements.name() == "Size";
    if (!is_key && !is_size && elements.name() != "ETag") continue;
    const std::optional<std::string> text = elements.Text();
    if (!text) return BadPage("a broken element");
    if (is_size) {
      const char* const end = text->data() + text->size();
      const auto [at, error] = std::from_chars(text->data(), end, object.bytes);
      has_size = error == std::errc() && at == end && object.bytes >= 0;
      if (!has_size) return BadPage("the size '" + Printable(text->substr(0, 40)) + "'");
    } else {
      (is_key ? object.key : object.etag) = *text;
      // Some stores leave out the quotes of the header.
      const bool is_plain = !is_key && !text->empty() && text->find('"') == text->npos;
      if (is_plain) object.etag = '"' + *text + '"';
    }
  }
  return BadPage("the end inside an object");
}

}  // namespace

Result<S3Name> ParseS3Name(std::string_view name) {
  constexpr std::string_view kScheme = "s3://";
  const auto error = [&](const std::string& found) {
    return Invalid(Printable(name) + ": expected s3://BUCKET/KEY, found " + found);
  };
  if (!name.starts_with(kScheme)) return error("another scheme");
  const std::string_view path = name.substr(kScheme.size());
  const size_t slash = path.find('/');
  const std::string_view bucket = path.substr(0, slash);
  if (bucket.empty()) return error("no bucket");
  if (bucket.size() > kMaxBucketBytes || !std::all_of(bucket.begin(), bucket.end(), IsBucketByte))
    return error("a bucket with other characters than letters, digits, - . and _");
  if (slash == path.npos || slash + 1 == path.size()) return error("no key");
  return S3Name{std::string(bucket), std::string(path.substr(slash + 1))};
}

std::string PercentEncode(std::string_view text, std::string_view keep) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '.' ||
                                          c == '_' || c == '~' || keep.find(c) != keep.npos);
    if (is_plain) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::string S3ObjectUrl(const S3Name& name, const RemoteOptions& options) {
  return BucketUrl(name.bucket, options) + PercentEncode(name.key, "/");
}

// The parameters are in the order of their names, as the signature needs them.
std::string S3ListUrl(const S3Name& name, const std::string& token, const RemoteOptions& options) {
  std::string url = BucketUrl(name.bucket, options) + "?";
  if (!token.empty()) url += "continuation-token=" + PercentEncode(token, "") + "&";
  return url + "encoding-type=url&list-type=2&max-keys=1000&prefix=" + PercentEncode(name.key, "");
}

Result<S3Page> ParseS3Page(std::string_view xml) {
  S3Page page;
  XmlElements elements(xml);
  bool has_root = false, has_end = false, is_truncated = false, is_encoded = false;
  while (elements.Next()) {
    const std::string_view name = elements.name();
    if (name == "ListBucketResult") {
      (elements.is_end() ? has_end : has_root) = true;
    } else if (elements.is_end() || !has_root) {
      continue;
    } else if (name == "Contents") {
      ASSIGN_OR_RETURN(S3Object object, ReadObject(elements));
      page.objects.push_back(std::move(object));
    } else if (name == "IsTruncated" || name == "NextContinuationToken" || name == "EncodingType") {
      const std::string field(name);
      const std::optional<std::string> text = elements.Text();
      if (!text) return BadPage("a broken element");
      if (field == "IsTruncated") is_truncated = *text == "true";
      if (field == "EncodingType") is_encoded = *text == "url";
      if (field == "NextContinuationToken") page.next_token = *text;
    }
  }
  if (!has_root) return BadPage("something else");
  if (!has_end || elements.is_broken()) return BadPage("a document that ends early");
  if (is_truncated && page.next_token.empty())
    return BadPage("a part of the list without NextContinuationToken");
  if (!is_truncated) page.next_token.clear();
  if (is_encoded) {
    for (S3Object& object : page.objects) object.key = PercentDecode(object.key);
  }
  return page;
}

std::string DescribeS3Error(std::string_view body) {
  XmlElements elements(body);
  std::string code, message;
  while (elements.Next()) {
    if (elements.is_end()) continue;
    const bool is_code = elements.name() == "Code";
    if (!is_code && elements.name() != "Message") continue;
    (is_code ? code : message) = elements.Text().value_or("");
  }
  std::string text;
  for (const std::string& part : {code, message}) {
    if (!part.empty()) text += ": " + Printable(part.substr(0, kShownErrorBytes));
  }
  return text;
}

}  // namespace millrace::io
