/* SPDX-License-Identifier: Apache-2.0 */
/* Scores JSON lines with libmillrace-score: score_lines MODEL.serving ROWS.jsonl */
#include <stdio.h>
#include <stdlib.h>

#include "millrace/score.h"

enum { kMaxBytes = 1 << 20, kMaxRows = 10000 };

int main(int argc, char** argv) {
  static char lines[kMaxBytes];
  static double scores[kMaxRows];
  millrace_scorer* scorer = NULL;
  millrace_score_error error;
  if (argc != 3) return 2;
  FILE* file = fopen(argv[2], "rb");
  if (!file) return 2;
  const size_t size = fread(lines, 1, sizeof lines, file);
  fclose(file);
  size_t rows = 0;
  if (millrace_score_open(argv[1], 0, &scorer, &error) != MILLRACE_SCORE_OK ||
      millrace_score_json(scorer, lines, size, MILLRACE_SCORE_PROBABILITY, scores, kMaxRows, &rows,
                          NULL, &error) != MILLRACE_SCORE_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  for (size_t r = 0; r < rows; ++r) printf("%.9g\n", scores[r]);
  millrace_score_close(scorer);
  return 0;
}
