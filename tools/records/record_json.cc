// SPDX-License-Identifier: Apache-2.0
#include "tools/records/record_json.h"

#include "io/base/json.h"
#include "io/base/utf8.h"

namespace millrace::records {
namespace {

void WriteBytes(std::string_view bytes, JsonWriter& json) {
  if (IsPrintable(bytes)) return json.String(bytes);
  json.BeginObject();
  json.Key("base64");
  json.String(Base64(bytes));
  json.EndObject();
}

void WriteFeature(const io::FeatureView& feature, JsonWriter& json) {
  if (feature.kind == io::FeatureKind::kNone) return json.Null();
  json.BeginArray();
  for (const std::string_view value : feature.bytes) WriteBytes(value, json);
  for (const float value : feature.floats) json.Float(value);
  for (const int64_t value : feature.ints) json.Int(value);
  json.EndArray();
}

void WriteFeatures(const io::ExampleView& example, JsonWriter& json) {
  json.BeginObject();
  for (const io::FeatureView& feature : example.features()) {
    json.Key(feature.name);
    WriteFeature(feature, json);
  }
  json.EndObject();
}

void WriteFeatureLists(const io::ExampleView& example, JsonWriter& json) {
  json.BeginObject();
  for (const io::FeatureListView& list : example.feature_lists()) {
    json.Key(list.name);
    json.BeginArray();
    for (const io::FeatureView& step : list.steps) WriteFeature(step, json);
    json.EndArray();
  }
  json.EndObject();
}

void WriteOther(std::string_view record, JsonWriter& json) {
  json.Key("raw");
  json.String(Base64(record));
  json.Key("size");
  json.Uint(record.size());
}

}  // namespace

bool IsPrintable(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    if (length == 0) return false;
    const auto first = static_cast<unsigned char>(bytes[0]);
    if (first == 0x7f) return false;
    if (first < 0x20 && first != '\t' && first != '\n' && first != '\r') return false;
    // U+0080 to U+009F: the second set of control characters.
    if (first == 0xc2 && static_cast<unsigned char>(bytes[1]) < 0xa0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

void AppendRecordJson(std::string_view record, io::ExampleView& scratch, std::string& out) {
  JsonWriter json(out);
  json.BeginObject();
  switch (io::DetectRecordKind(record, scratch)) {
    case io::RecordKind::kExample:
      json.Key("features");
      WriteFeatures(scratch, json);
      break;
    case io::RecordKind::kSequenceExample:
      json.Key("context");
      WriteFeatures(scratch, json);
      json.Key("feature_lists");
      WriteFeatureLists(scratch, json);
      break;
    case io::RecordKind::kOther:
      WriteOther(record, json);
      break;
  }
  json.EndObject();
}

}  // namespace millrace::records
