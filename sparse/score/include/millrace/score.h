/* SPDX-License-Identifier: Apache-2.0 */
/* Scores rows with a model that Millrace trained: libmillrace-score.
 *
 *   millrace_scorer* scorer = NULL;
 *   millrace_score_error error;
 *   if (millrace_score_open("model.serving", 0, &scorer, &error) != MILLRACE_SCORE_OK) {
 *     fprintf(stderr, "%s\n", error.message);
 *     return 1;
 *   }
 *   const char row[] = "{\"site\": \"news\", \"age\": 31, \"tags\": [\"a\", \"b\"]}";
 *   double probability = 0;
 *   size_t rows = 0;
 *   millrace_score_json(scorer, row, strlen(row), MILLRACE_SCORE_PROBABILITY, &probability, 1,
 *                       &rows, NULL, &error);
 *   millrace_score_close(scorer);
 *
 * A serving model is one file, made by `millrace-predict export --model=RUN --out=FILE`. It is
 * mapped into memory: processes that open the same file share its pages. A file must not be changed
 * while it is open; replace it by renaming a new one over it, as the export does.
 *
 * Scores are those of millrace-predict, bit for bit if the weights of the file are f32.
 *
 * Threads: every function may be called from any number of threads at the same time, with the same
 * scorer, except that millrace_score_close must be the last call. Scoring takes no lock and waits
 * for nothing, also while millrace_score_swap replaces the model: a call uses one model from its
 * begin to its end. The library starts no threads.
 *
 * Errors: functions return MILLRACE_SCORE_OK (0) or another code, and fill `error` unless it is
 * NULL. After an error the scores are undefined. Nothing in the arguments' data ends the process;
 * pointers and counts must be right. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MILLRACE_SCORE_API __attribute__((visibility("default")))
#else
#define MILLRACE_SCORE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, "0.1.0". Lives as long as the library. */
MILLRACE_SCORE_API const char* millrace_score_version(void);

enum {
  MILLRACE_SCORE_OK = 0,
  MILLRACE_SCORE_INVALID = 1, /* an argument, a row or a key is wrong: the caller can correct it */
  MILLRACE_SCORE_NOT_FOUND = 2, /* there is no such file */
  MILLRACE_SCORE_IO = 3,        /* the operating system returned an error */
  MILLRACE_SCORE_CORRUPT = 4,   /* the file is damaged or no serving model */
  MILLRACE_SCORE_NO_MEMORY = 5
};

typedef struct millrace_score_error {
  int32_t code;
  char message[508]; /* one line, zero-terminated; cut if it is longer */
} millrace_score_error;

/* ---- Models ---- */

typedef struct millrace_scorer millrace_scorer;

/* Flags of open and swap. Without any, opening takes milliseconds whatever the size of the model:
 * its pages are mapped when they are first used. */
enum {
  /* Maps all pages before the call returns, so that no later call waits for a page. For a swap
   * under load. */
  MILLRACE_SCORE_PRELOAD = 1,
  /* Reads the whole file and verifies its checksums, as millrace_score_verify. */
  MILLRACE_SCORE_VERIFY = 2,
  /* Copies the weights into memory of this process, on 2 MB pages where the system has them. Scores
   * of large models are faster, and the pages are not shared. */
  MILLRACE_SCORE_COPY = 4
};

/* Opens the serving model `path`. `*scorer` is NULL after an error. */
MILLRACE_SCORE_API int millrace_score_open(const char* path, uint32_t flags,
                                           millrace_scorer** scorer, millrace_score_error* error);

/* Replaces the model by that of `path`. Calls that are running finish with the old one. Returns
 * when the last of them has ended and the old model's memory is released; other calls never wait.
 * After an error the old model stays. Two swaps at the same time follow each other. */
MILLRACE_SCORE_API int millrace_score_swap(millrace_scorer* scorer, const char* path,
                                           uint32_t flags, millrace_score_error* error);

/* Reads the whole file and verifies the checksum of each block, about 1 GB a second from memory.
 * Needs no scorer: call it before a swap, or in a thread of its own. */
MILLRACE_SCORE_API int millrace_score_verify(const char* path, millrace_score_error* error);

/* A call of more keys than this is an error from now on. A small request can have very many keys:
 * by crosses of fields with many values, or by a long context with many candidates. Without this,
 * or with 0, a call with a context may have 2^24 keys, one of millrace_rows or JSON 2^24 and 1,024
 * more a row, and one of millrace_keys any number. Servers need a limit of their own. */
MILLRACE_SCORE_API void millrace_score_limit_keys(millrace_scorer* scorer, uint64_t max_keys);

/* No other call may use the scorer any more. NULL does nothing. */
MILLRACE_SCORE_API void millrace_score_close(millrace_scorer* scorer);

typedef struct millrace_score_info {
  char kind[8];          /* "lr", "fm" or "ffm" */
  char weights_type[8];  /* "f32", "f16" or "bf16" */
  char layout[8];        /* "dense": by key, or "hash" */
  char digest[17];       /* of the file's content, 16 hexadecimal digits: tells models apart */
  uint64_t num_features; /* keys are below; 0: any 64-bit key */
  uint64_t num_weights;  /* features with a weight */
  uint64_t num_factors;  /* of a feature (of an ffm for each field); 0 for lr */
  uint64_t num_fields;   /* of an ffm, else 0: millrace_keys.fields are below */
  uint64_t steps;        /* of the training */
  uint64_t examples;     /* that the model was trained on */
  uint64_t file_bytes;
  uint64_t swaps;     /* how often millrace_score_swap has replaced the model */
  char* path;         /* of the file */
  char* input_format; /* of the training data, "csv"; NULL if it is not known */
  char* feature_spec; /* JSON in one line; NULL: the model has none, and scores keys only */
} millrace_score_info;

/* Describes the model of the moment. Release it with millrace_score_free_info. */
MILLRACE_SCORE_API int millrace_score_get_info(millrace_scorer* scorer, millrace_score_info* info,
                                               millrace_score_error* error);
/* Releases the texts of `info`, not `info` itself. */
MILLRACE_SCORE_API void millrace_score_free_info(millrace_score_info* info);

/* ---- Scores ---- */

/* What a score is. */
enum {
  MILLRACE_SCORE_PROBABILITY = 0, /* of a click: 1 / (1 + exp(-margin)) */
  MILLRACE_SCORE_MARGIN = 1       /* the value of a float */
};

/* Counts of one call. A function fills the struct unless its pointer is NULL. */
typedef struct millrace_score_counts {
  uint64_t rows;
  uint64_t keys;
  uint64_t unknown_keys; /* that have no weight in the model: they count as a weight of 0 */
  uint64_t
      ignored_fields; /* of millrace_rows, whose names the model's feature spec does not have */
} millrace_score_counts;

/* Rows of keys and values. Row r has the entries row_begin[r] up to below row_begin[r + 1]. */
typedef struct millrace_keys {
  size_t rows;
  const uint64_t* row_begin; /* rows + 1, ascending */
  const uint64_t* keys;      /* UINT64_MAX is an error */
  const float* values;       /* finite; NULL: all are 1 */
  const uint16_t* fields;    /* of each entry; an ffm needs them, others ignore them */
} millrace_keys;

/* Writes keys->rows scores. */
MILLRACE_SCORE_API int millrace_score_keys(millrace_scorer* scorer, const millrace_keys* keys,
                                           int output, double* scores,
                                           millrace_score_counts* counts,
                                           millrace_score_error* error);

/* Kinds of a field's value. The integer 7, the double 7.0 and the text "7" make the same key. */
enum {
  MILLRACE_SCORE_TEXT = 0, /* UTF-8; empty: the value is missing. Booleans are "true", "false" */
  MILLRACE_SCORE_INT = 1,
  MILLRACE_SCORE_FLOAT = 2, /* value.number was a float: 0.1f is the text "0.1" */
  MILLRACE_SCORE_DOUBLE = 3
};

/* A named value. A field with several values is several of them with the same name, in order. A
 * missing field is left out. */
typedef struct millrace_field {
  const char* name; /* the column of the feature spec */
  size_t name_size; /* in bytes */
  int32_t kind;
  union {
    struct {
      const char* data;
      size_t size; /* in bytes, below 4 GB */
    } text;
    int64_t integer;
    double number; /* finite */
  } value;
} millrace_field;

/* Rows of named fields, as they were before the training's feature spec made keys of them. Row r
 * has the fields row_begin[r] up to below row_begin[r + 1], in any order. Label and weight of the
 * training are ignored; fields whose name the spec does not have are ignored and counted. Crosses
 * of the spec may make at most 2^20 keys of a row. */
typedef struct millrace_rows {
  size_t rows;
  const uint64_t* row_begin; /* rows + 1, ascending */
  const millrace_field* fields;
} millrace_rows;

/* Writes rows->rows scores. The model needs a feature spec. */
MILLRACE_SCORE_API int millrace_score_rows(millrace_scorer* scorer, const millrace_rows* rows,
                                           int output, double* scores,
                                           millrace_score_counts* counts,
                                           millrace_score_error* error);

/* The same for rows as JSON: one object per line, {"name": value, ...}, where a value is a text, a
 * number, true, false, null (missing) or an array of these; "user.age" is also the member "age" of
 * an object "user". Blank lines are no rows. Writes at most `capacity` scores, and sets `*num_rows`
 * to their number; more rows are an error. */
MILLRACE_SCORE_API int millrace_score_json(millrace_scorer* scorer, const char* lines, size_t size,
                                           int output, double* scores, size_t capacity,
                                           size_t* num_rows, millrace_score_counts* counts,
                                           millrace_score_error* error);

/* One context with many candidates: the scores of rows that have the entries of the context, of
 * which there is one row, and those of a candidate behind it. The weights of the context are looked
 * up once. Writes candidates->rows scores: the bits that millrace_score_keys has for the
 * joined rows. */
MILLRACE_SCORE_API int millrace_score_key_candidates(millrace_scorer* scorer,
                                                     const millrace_keys* context,
                                                     const millrace_keys* candidates, int output,
                                                     double* scores, millrace_score_counts* counts,
                                                     millrace_score_error* error);

/* The same for named fields. A field that a candidate has replaces that of the context. Crosses of
 * the spec may join fields of both. The bits are those that millrace_score_rows has for the joined
 * rows. */
MILLRACE_SCORE_API int millrace_score_row_candidates(millrace_scorer* scorer,
                                                     const millrace_rows* context,
                                                     const millrace_rows* candidates, int output,
                                                     double* scores, millrace_score_counts* counts,
                                                     millrace_score_error* error);

/* The same for JSON: the context is one object, the candidates are lines. */
MILLRACE_SCORE_API int millrace_score_json_candidates(
    millrace_scorer* scorer, const char* context, size_t context_size, const char* candidates,
    size_t candidates_size, int output, double* scores, size_t capacity, size_t* num_rows,
    millrace_score_counts* counts, millrace_score_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif
