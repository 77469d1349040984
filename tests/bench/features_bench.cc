// SPDX-License-Identifier: Apache-2.0
// Rows of 39 named columns (13 integers, 26 texts of 8 digits) and a label, hashed into a batch:
// from tf.Examples by our decoder, and by protobuf with an arena and the same hash; with and
// without crosses.
#include <benchmark/benchmark.h>
#include <google/protobuf/arena.h>

#include <cstdio>

#include "io/base/random.h"
#include "io/base/raw_buffer.h"
#include "io/base/string_hash.h"
#include "io/rows/row_decoder.h"
#include "tests/proto/example.pb.h"

namespace millrace::io {
namespace {

constexpr size_t kRecords = 2000;
constexpr size_t kBatch = 100;
constexpr int kInts = 13, kTexts = 26;
constexpr int kHashBits = 22;

std::string IntName(int i) { return "I" + std::to_string(i + 1); }
std::string TextName(int i) { return "C" + std::to_string(i + 1); }

FeatureSpec MakeSpec(int crosses) {
  FeatureSpec spec;
  spec.hash_bits = kHashBits;
  for (int i = 0; i < kInts; ++i) spec.fields.push_back({.name = IntName(i), .column = IntName(i)});
  for (int i = 0; i < kTexts; ++i) {
    spec.fields.push_back({.name = TextName(i), .column = TextName(i)});
  }
  for (int i = 0; i < crosses; ++i) {
    spec.fields.push_back({.name = "x" + std::to_string(i),
                           .rule = FieldRule::kCross,
                           .of = {TextName(i), TextName(i + 1)}});
  }
  return spec;
}

struct Records {
  RawBuffer bytes;
  std::vector<std::pair<size_t, size_t>> spans;

  Records() {
    Random random(1);
    for (size_t r = 0; r < kRecords; ++r) {
      tensorflow::Example example;
      auto& features = *example.mutable_features()->mutable_feature();
      features["label"].mutable_int64_list()->add_value(static_cast<int64_t>(random.Below(2)));
      for (int i = 0; i < kInts; ++i) {
        features[IntName(i)].mutable_int64_list()->add_value(
            static_cast<int64_t>(random.Below(uint64_t{1} << random.Below(12))));
      }
      for (int i = 0; i < kTexts; ++i) {
        char text[9];
        std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(random.Next()));
        features[TextName(i)].mutable_bytes_list()->add_value(text);
      }
      const std::string record = example.SerializeAsString();
      spans.emplace_back(bytes.size(), record.size());
      bytes.Append(record.data(), record.size());
    }
    bytes.Append(std::string(64, '\0').data(), 64);  // decoders may read past the last record
  }
  std::string_view operator[](size_t i) const {
    return {bytes.data() + spans[i].first, spans[i].second};
  }
};

void Report(benchmark::State& state, const Records& records) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRecords));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * records.bytes.size()));
}

void BM_NamedColumns(benchmark::State& state) {
  const Records records;
  const FeatureSpec spec = MakeSpec(static_cast<int>(state.range(0)));
  RowOptions options;
  options.features = *EncoderPlan::Make(spec);
  options.num_features = spec.num_features();
  const auto decoder = MakeRowDecoder(InputFormat::kTfRecord, options);
  BatchBuilder rows;
  for (auto _ : state) {
    for (size_t i = 0; i < kRecords; ++i) {
      if (i % kBatch == 0) rows.Clear(false);
      if (!decoder->Append(records[i], rows).ok()) state.SkipWithError("decoding failed");
    }
    benchmark::DoNotOptimize(rows.batch.cols.data());
  }
  Report(state, records);
  state.SetLabel(std::to_string(state.range(0)) + " crosses");
}
BENCHMARK(BM_NamedColumns)->Arg(0)->Arg(10);

// Parse, look up each feature by name, hash.
void BM_NamedColumnsProtobuf(benchmark::State& state) {
  const Records records;
  std::vector<std::string> names;
  std::vector<uint64_t> seeds;
  for (int i = 0; i < kInts + kTexts; ++i) {
    names.push_back(i < kInts ? IntName(i) : TextName(i - kInts));
    seeds.push_back(HashString(names.back()));
  }
  std::vector<char> memory(1 << 20);
  google::protobuf::ArenaOptions options;
  options.initial_block = memory.data();
  options.initial_block_size = memory.size();
  google::protobuf::Arena arena(options);
  BatchBuilder rows;
  std::vector<uint64_t> keys(names.size());
  for (auto _ : state) {
    for (size_t i = 0; i < kRecords; ++i) {
      if (i % kBatch == 0) {
        rows.Clear(false);
        arena.Reset();
      }
      auto* example = google::protobuf::Arena::CreateMessage<tensorflow::Example>(&arena);
      if (!example->ParseFromArray(records[i].data(), static_cast<int>(records[i].size()))) {
        state.SkipWithError("decoding failed");
      }
      const auto& features = example->features().feature();
      for (size_t f = 0; f < names.size(); ++f) {
        const auto& feature = features.at(names[f]);
        const std::string text = feature.has_bytes_list()
                                     ? feature.bytes_list().value(0)
                                     : std::to_string(feature.int64_list().value(0));
        keys[f] = MaskKey(HashString(text, seeds[f]), kHashBits);
      }
      const auto label = static_cast<float>(features.at("label").int64_list().value(0));
      rows.AddRow(label, 1, keys, nullptr);
    }
  }
  Report(state, records);
}
BENCHMARK(BM_NamedColumnsProtobuf);

}  // namespace
}  // namespace millrace::io
