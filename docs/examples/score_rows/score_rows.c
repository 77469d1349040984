/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a probability for each row, with the nine digits of millrace-predict:
 *
 *   score_rows MODEL.serving < ROWS.jsonl */
#include <millrace/score.h>
#include <stdio.h>
#include <string.h>

static int fail(const millrace_score_error* error) {
  fprintf(stderr, "score_rows: %s\n", error->message);
  return 1;
}

int main(int argc, char** argv) {
  char line[1 << 16];
  millrace_scorer* scorer = NULL;
  millrace_score_error error;
  if (argc != 2) {
    fprintf(stderr, "usage: score_rows MODEL < ROWS\n");
    return 2;
  }
  if (millrace_score_open(argv[1], 0, &scorer, &error) != MILLRACE_SCORE_OK) return fail(&error);
  while (fgets(line, sizeof line, stdin)) {
    double score = 0;
    size_t rows = 0;
    if (millrace_score_json(scorer, line, strlen(line), MILLRACE_SCORE_PROBABILITY, &score, 1,
                            &rows, NULL, &error) != MILLRACE_SCORE_OK) {
      millrace_score_close(scorer);
      return fail(&error);
    }
    if (rows == 1) printf("%.9g\n", score);
  }
  millrace_score_close(scorer);
  return 0;
}
