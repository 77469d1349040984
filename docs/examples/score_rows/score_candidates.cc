// SPDX-License-Identifier: Apache-2.0
// Ranks candidates for one context: each candidate is a NAME=VALUE, and so is each field of the
// context.
//
//   score_candidates MODEL.serving user=u1 country=de -- ad=3 ad=7 ad=9
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <millrace/score.hpp>
#include <string_view>
#include <vector>

namespace {

// Adds the value of "name=value".
void Add(std::string_view argument, millrace::Rows& rows) {
  const size_t equals = std::min(argument.find('='), argument.size());
  rows.Add(argument.substr(0, equals), argument.substr(std::min(equals + 1, argument.size())));
}

}  // namespace

int main(int argc, char** argv) {
  const auto separator = std::find_if(argv, argv + argc, [](const char* argument) {
    return std::strcmp(argument, "--") == 0;
  });
  if (argc < 3 || separator == argv + argc) {
    std::fprintf(stderr, "usage: score_candidates MODEL NAME=VALUE... -- NAME=VALUE...\n");
    return 2;
  }
  try {
    const millrace::Scorer scorer(argv[1]);
    millrace::Rows context, candidates;
    for (char** argument = argv + 2; argument < separator; ++argument) Add(*argument, context);
    context.EndRow();
    for (char** argument = separator + 1; argument < argv + argc; ++argument) {
      Add(*argument, candidates);
      candidates.EndRow();
    }
    const std::vector<double> scores = scorer.Score(context, candidates);
    std::vector<size_t> order(scores.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    for (const size_t i : order) std::printf("%.9g %s\n", scores[i], separator[1 + i]);
  } catch (const millrace::ScoreError& error) {
    std::fprintf(stderr, "score_candidates: %s\n", error.what());
    return 1;
  }
  return 0;
}
