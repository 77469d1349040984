// SPDX-License-Identifier: Apache-2.0
// Applies a feature spec: a row of named fields becomes a row of a batch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/batch_builder.h"
#include "io/batch/csr_batch.h"
#include "io/features/feature_spec.h"
#include "io/features/field_row.h"

namespace millrace::io {

// 64-bit token -> rank, for the values of vocabularies. Const calls are thread-safe.
class RankTable {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;
  // False if the token is there already.
  bool Insert(uint64_t token, uint64_t rank);
  // Room for `tokens` tokens.
  void Reserve(size_t tokens);
  uint64_t Find(uint64_t token) const {
    if (slots_.empty()) return kNone;
    for (size_t at = token & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.rank == kNone || slot.token == token) return slot.rank;
    }
  }

 private:
  struct Slot {
    uint64_t token = 0;
    uint64_t rank = kNone;
  };
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

// What an encoder needs from a spec, prepared once and shared by the encoders of all threads.
class EncoderPlan {
 public:
  // The spec is fitted. An error if two values of the vocabularies have the same 64-bit hash.
  static Result<std::shared_ptr<const EncoderPlan>> Make(const FeatureSpec& spec);

  const FeatureSpec& spec() const { return spec_; }
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  friend class FeatureEncoder;
  friend class CandidateEncoder;
  struct Field {
    FieldRule rule = FieldRule::kHash;
    bool keys = true;
    bool in_cross = false;  // a part of a cross
    bool simple = false;    // a hash of whole values, in no cross
    size_t column = 0;
    uint64_t seed = 0;                    // of the tokens: the hash of the field's name
    std::array<uint64_t, 17> start = {};  // HashStart of short texts, by their size
    uint64_t first_key = 0;  // of a vocabulary: that of rank 0; of 64-bit hashes: see Groups
    uint64_t missing_token = 0;
    uint64_t unseen_token = 0;           // vocabulary
    uint64_t unseen_rank = 0;            // vocabulary
    std::vector<uint64_t> bucket_token;  // by bucket
    std::vector<size_t> parts;           // cross: fields
  };

  FeatureSpec spec_;
  std::vector<std::string> columns_;
  size_t label_column_ = 0;
  size_t weight_column_ = SIZE_MAX;
  std::vector<Field> fields_;  // as in the spec
  RankTable ranks_;
  uint64_t mask_ = 0;  // of hashed keys
};

// Not thread-safe (scratch memory): use one encoder per thread.
class FeatureEncoder {
 public:
  // The crosses of a row have at most this number of keys; more are an error. Otherwise a row of a
  // megabyte with two long lists could fill any memory.
  static constexpr size_t kMaxCrossKeys = 1 << 20;

  // With `fields`, an entry's field is the position in the spec of the field that made its key.
  explicit FeatureEncoder(std::shared_ptr<const EncoderPlan> plan, Labels labels,
                          bool fields = false);

  // Appends the row, or returns an error that names the column, expected and found, and leaves
  // `rows` unchanged.
  Status Append(const FieldRow& row, BatchBuilder& rows);

  // A row with crosses and more keys than this is an error as well.
  void LimitKeys(uint64_t max_keys) { max_keys_ = max_keys; }

  // The row's label: 0, 1 or kNoLabel.
  Status ReadLabel(const FieldRow& row, float& label) const;

  // One key of a row and where it comes from.
  struct Entry {
    size_t field = 0;  // in the spec
    uint64_t key = 0;
    float value = 1;
    std::string name;  // "occupation=Sales", "age=25..35", "hours", "age=25..35 x occupation=Sales"
  };
  // The keys of the row with their names, in the order of Append.
  Result<std::vector<Entry>> Explain(const FieldRow& row);
  // The names of a field's values in the row, as in Explain. Not for crosses.
  Result<std::vector<std::string>> ValueNames(const FieldRow& row, size_t field);

 private:
  friend class CandidateEncoder;
  // A value of a field: `token` identifies it within the spec, `offset` is its number within the
  // field's own keys (bucket, number, vocabulary).
  struct Token {
    uint64_t token = 0;
    uint64_t offset = 0;
    float value = 1;
  };

  Status Encode(const FieldRow& row);
  // Before the keys of a row.
  void BeginKeys();
  Status EncodeKeys(size_t field, const FieldRow& row);
  // Of the keys that were added since the last call.
  void NameFields(size_t field) {
    if (want_fields_) fields_.resize(keys_.size(), static_cast<uint16_t>(field));
  }
  Status EncodeField(size_t field, const FieldRow& row);
  bool EncodeSimple(const EncoderPlan::Field& field, const FieldRow& row);
  Status AddValue(size_t field, const FieldValue& value);
  void AddMissing(size_t field);
  Status EncodeCross(size_t field);
  Status TooManyCrossKeys(size_t field) const;
  void AddKey(const EncoderPlan::Field& field, const Token& token);
  Status ReadWeight(const FieldRow& row, float& weight) const;
  std::string NameOf(size_t field, const FieldValue* value, const Token& token) const;

  std::shared_ptr<const EncoderPlan> plan_;
  Labels labels_;
  bool want_fields_;
  uint64_t max_keys_ = UINT64_MAX;
  std::vector<std::vector<Token>> tokens_;  // by field
  PodVector<uint64_t> keys_;
  PodVector<float> values_;
  PodVector<uint16_t> fields_;  // if they are wanted
  bool ones_ = true;
  size_t cross_keys_ = 0;     // of the row
  std::vector<size_t> turn_;  // of a cross, by part
  // While Explain runs: the names of tokens_, and of keys_.
  bool explain_ = false;
  std::vector<std::vector<std::string>> token_names_;
  std::vector<Entry> entries_;
};

}  // namespace millrace::io
