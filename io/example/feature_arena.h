// SPDX-License-Identifier: Apache-2.0
// The memory of one record's features, during and after parsing. Only feature_view.cc uses it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/example/feature_view.h"

namespace millrace::io::internal {

// A Feature during parsing: its values are [begin, end) of the arena's array for its kind.
struct FeaturePiece {
  std::string_view name;
  FeatureKind kind = FeatureKind::kNone;
  size_t begin = 0;
  size_t end = 0;
};

// A FeatureList during parsing: [begin, end) of the arena's steps.
struct ListPiece {
  std::string_view name;
  size_t begin = 0;
  size_t end = 0;
};

// Sorts by name and keeps the last of equal names.
template <typename T>
void KeepLast(std::vector<T>& pieces) {
  const auto not_before = [](const T& a, const T& b) { return a.name >= b.name; };
  if (std::adjacent_find(pieces.begin(), pieces.end(), not_before) == pieces.end()) return;
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const T& a, const T& b) { return a.name < b.name; });
  size_t kept = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i + 1 < pieces.size() && pieces[i].name == pieces[i + 1].name) continue;
    pieces[kept++] = pieces[i];
  }
  pieces.resize(kept);
}

// Bounds the memory for many repetitions of the same names.
template <typename T>
void KeepLastIfMany(std::vector<T>& pieces, size_t& limit) {
  if (pieces.size() < limit) return;
  KeepLast(pieces);
  limit = std::max<size_t>(1024, 2 * pieces.size());
}

struct FeatureArena {
  std::vector<FeatureView> features;
  std::vector<FeatureListView> feature_lists;
  uint64_t unknown_fields = 0;
  bool has_feature_lists = false;

  std::vector<std::string_view> bytes;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<FeatureView> steps;

  std::vector<FeaturePiece> pieces;
  std::vector<FeaturePiece> step_pieces;
  std::vector<ListPiece> list_pieces;

  void Clear();
  void Publish();
  FeatureView View(const FeaturePiece& piece) const;
};

inline void FeatureArena::Clear() {
  features.clear();
  feature_lists.clear();
  unknown_fields = 0;
  has_feature_lists = false;
  bytes.clear();
  floats.clear();
  ints.clear();
  steps.clear();
  pieces.clear();
  step_pieces.clear();
  list_pieces.clear();
}

inline FeatureView FeatureArena::View(const FeaturePiece& piece) const {
  FeatureView view;
  view.name = piece.name;
  view.kind = piece.kind;
  const size_t count = piece.end - piece.begin;
  switch (piece.kind) {
    case FeatureKind::kNone:
      break;
    case FeatureKind::kBytes:
      view.bytes = std::span(bytes).subspan(piece.begin, count);
      break;
    case FeatureKind::kFloat:
      view.floats = std::span(floats).subspan(piece.begin, count);
      break;
    case FeatureKind::kInt64:
      view.ints = std::span(ints).subspan(piece.begin, count);
      break;
  }
  return view;
}

// Makes the views. It runs last because the arrays move while they grow.
inline void FeatureArena::Publish() {
  KeepLast(pieces);
  KeepLast(list_pieces);
  for (const FeaturePiece& piece : pieces) features.push_back(View(piece));
  for (const FeaturePiece& piece : step_pieces) steps.push_back(View(piece));
  for (const ListPiece& list : list_pieces) {
    feature_lists.push_back(
        {list.name, std::span(steps).subspan(list.begin, list.end - list.begin)});
  }
}

}  // namespace millrace::io::internal
