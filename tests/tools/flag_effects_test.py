#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A flag without effect is an error: one row per condition of each program.

Usage: flag_effects_test.py BIN_DIR

A program checks first that each of its flags is classified (CommandSpec::always or needs), and ends with a message if
one is not, so each program and subcommand has at least one row here.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()

LR, CONVNET, PS, LAUNCH = "millrace-lr", "millrace-convnet", "millrace-ps", "millrace-launch"
RECORDS, PREDICT, REPORT = "millrace-records", "millrace-predict", "millrace-report"

TFRECORD, LIBSVM, VW = "--train=data/train-00000-of-00001.tfrecord", "--train=rows.libsvm", "--train=rows.vw"
LIBSVM_FOUND = "found --format=auto, which is libsvm"
VW_FOUND = "found --format=auto, which is vw"
TFRECORD_FOUND = "found --format=auto, which is tfrecord"
JOB = "it belongs to --mode=sync, async or ssp, found --mode=single"

# The command line, and the end of the message. The flag that has no effect comes first.
ERRORS = [
    (LR, "--label_feature=l", LIBSVM, f": it belongs to --format=tfrecord, {LIBSVM_FOUND}"),
    (LR, "--index_feature=i", LIBSVM, f": it belongs to --format=tfrecord, {LIBSVM_FOUND}"),
    (LR, "--value_feature=v", VW, f": it belongs to --format=tfrecord, {VW_FOUND}"),
    (LR, "--weight_feature=w", VW, f": it belongs to --format=tfrecord, {VW_FOUND}"),
    (LR, "--duckdb=libduckdb.so", LIBSVM, f": it belongs to --format=table, {LIBSVM_FOUND}"),
    (LR, "--index_base=1", TFRECORD, f": it belongs to --format=libsvm or libffm, {TFRECORD_FOUND}"),
    (LR, "--index_base=1", f"{VW} --format=vw", ": it belongs to --format=libsvm or libffm, found --format=vw"),
    (LR, "--hash_bits=8", LIBSVM, f": it belongs to --format=vw or criteo, {LIBSVM_FOUND}"),
    (LR, "--vw_hash_all", LIBSVM, f": it belongs to --format=vw, {LIBSVM_FOUND}"),
    (LR, "--novw_hash_all", TFRECORD, f": it belongs to --format=vw, {TFRECORD_FOUND}"),
    (LR, "--decay=sqrt", f"{LIBSVM} --optimizer=ftrl", ": it belongs to --optimizer=sgd or adam, found --optimizer=ftrl"),
    (LR, "--l1=0.1", f"{LIBSVM} --optimizer=sgd", ": it belongs to --optimizer=ftrl, found --optimizer=sgd"),
    (LR, "--ftrl_beta=1", f"{LIBSVM} --optimizer=adam", ": it belongs to --optimizer=ftrl, found --optimizer=adam"),
    (LR, "--hogwild=2", f"{LIBSVM} --optimizer=ftrl", ": it belongs to --optimizer=sgd, found --optimizer=ftrl"),
    (LR, "--unknown_key=error", f"{LIBSVM} --num_features=9", " without --test"),
    (LR, "--unknown_key=error", f"{LIBSVM} --test=rows.libsvm", " without --num_features"),
    (LR, "--positive_label=2", "--train=rows.csv --features=spec.json",
     ": it belongs to --format=tfrecord, libsvm, libffm, vw or criteo, found --format=auto, which is csv"),
    (LR, "--factors=4", LIBSVM, ": it belongs to --model=fm or ffm, found --model=lr"),
    (LR, "--factor_l2=0.1", LIBSVM, ": it belongs to --model=fm or ffm, found --model=lr"),
    (LR, "--factor_init=0.1", LIBSVM, ": it belongs to --model=fm or ffm, found --model=lr"),
    (LR, "--admit_factors=2", LIBSVM, ": it belongs to --model=fm or ffm, found --model=lr"),
    (LR, "--num_fields=4", LIBSVM, ": it belongs to --model=ffm, found --model=lr"),
    (LR, "--hogwild=2", f"{LIBSVM} --optimizer=sgd --model=fm", ": it belongs to --model=lr, found --model=fm"),
    (LR, "--sweep_halving=10", LIBSVM, " without --sweep"),
    (LR, "--sweep_models", f"{LIBSVM} --run_dir=r", " without --sweep"),
    (LR, "--sweep_models", f"{LIBSVM} --sweep=l1=0,1", " without --run_dir"),
    (LR, "--sweep=l1=0,1", f"{LIBSVM} --mode=sync --job_name=worker --ps_hosts=a:1 --worker_hosts=a",
     ": it belongs to --mode=single, found --mode=sync"),
    (LR, "--hogwild=2", f"{LIBSVM} --optimizer=sgd --sweep=l2=0,1", " with --sweep=l2=0,1"),
    (LR, "--save_best=auc", f"{LIBSVM} --test=rows.libsvm --eval_every=9 --run_dir=r --sweep=l1=0,1",
     " with --sweep=l1=0,1"),
    (LR, "--eval_every=10", LIBSVM, " without --test"),
    (LR, "--test_batch_size=10", LIBSVM, " without --test"),
    (LR, "--early_stop=auc:1", LIBSVM, " without --test"),
    (LR, "--early_stop=auc:1", f"{LIBSVM} --test=rows.libsvm", " without --eval_every"),
    (LR, "--min_after_dequeue=5", f"{LIBSVM} --shuffle_capacity=0", " without --shuffle_capacity"),
    (LR, "--cache=10", LIBSVM, ": it belongs to --epochs of 2 or more, found --epochs=1"),
    (LR, "--model_format=text", LIBSVM, " without --model_out or --run_dir"),
    (LR, "--dashboard=8080", LIBSVM, " without --run_dir"),
    (LR, "--overwrite", LIBSVM, " without --run_dir"),
    (LR, "--resume", LIBSVM, " without --run_dir"),
    (LR, "--checkpoint_every=10", LIBSVM, " without --run_dir"),
    (LR, "--profile", LIBSVM, " without --run_dir"),
    (LR, "--profile_steps=1:2", LIBSVM, " without --run_dir"),
    (LR, "--sample_ms=10", LIBSVM, " without --run_dir"),
    (LR, "--staleness=2", LIBSVM, ": it belongs to --mode=ssp, found --mode=single"),
    (LR, "--replicas_to_aggregate=2", LIBSVM, ": it belongs to --mode=sync, found --mode=single"),
    (LR, "--wire_bf16", LIBSVM, f": {JOB}"),
    (LR, "--wire_zstd", LIBSVM, f": {JOB}"),
    (LR, "--reconnect_seconds=3", LIBSVM, f": {JOB}"),
    (LR, "--rejoin", LIBSVM, f": {JOB}"),
    (LR, "--ps_hosts=a:1", LIBSVM, f": {JOB}"),
    (LR, "--worker_hosts=a", LIBSVM, f": {JOB}"),
    (LR, "--task_index=1", LIBSVM, f": {JOB}"),
    (LR, "--token_file=t", LIBSVM, f": {JOB}"),
    (LR, "--tls_ca=t", LIBSVM, f": {JOB}"),
    (LR, "--staleness=2", f"{LIBSVM} --mode=async --job_name=worker --ps_hosts=a:1 --worker_hosts=a",
     ": it belongs to --mode=ssp, found --mode=async"),
    (LR, "--replicas_to_aggregate=2", f"{LIBSVM} --mode=ssp --job_name=worker --ps_hosts=a:1 --worker_hosts=a",
     ": it belongs to --mode=sync, found --mode=ssp"),
    (LR, "--hogwild=2", f"{LIBSVM} --optimizer=sgd --mode=sync --job_name=worker --ps_hosts=a:1 --worker_hosts=a",
     ": it belongs to --mode=single, found --mode=sync"),

    (CONVNET, "--train=x", "--data=synthetic", ": it belongs to --data=files, found --data=synthetic"),
    (CONVNET, "--test=x", "--data=synthetic", ": it belongs to --data=files, found --data=synthetic"),
    (CONVNET, "--label_offset=1", "--data=synthetic", ": it belongs to --data=files, found --data=synthetic"),
    (CONVNET, "--resize=64", "--data=synthetic", ": it belongs to --data=files, found --data=synthetic"),
    (CONVNET, "--mean=1", "--data=synthetic", ": it belongs to --data=files, found --data=synthetic"),
    (CONVNET, "--scale=2", "--data=synthetic", ": it belongs to --data=files, found --data=synthetic"),
    (CONVNET, "--input_threads=2", "--data=synthetic", ": it belongs to --data=files, found --data=synthetic"),
    (CONVNET, "--synthetic_images=9", "--train=x", ": it belongs to --data=synthetic, found --data=files"),
    (CONVNET, "--noaugment", "--train=x --net=lenet", " without --resize"),
    (CONVNET, "--init=xavier", "--data=synthetic --model_in=x", " with --model_in=x"),
    (CONVNET, "--momentum=0.5", "--data=synthetic --net=lenet", ": it belongs to --optimizer=momentum, found --optimizer=adam"),
    (CONVNET, "--decay_factor=0.5", "--data=synthetic", " without --decay_every"),
    (CONVNET, "--eval_every=9", "--train=x", " without --test"),
    (CONVNET, "--epochs=2", "--graph=-", " with --graph=-"),
    (CONVNET, "--train=x", "--graph=-", " with --graph=-"),
    (CONVNET, "--profile", "--data=synthetic", " without --run_dir"),
    (CONVNET, "--staleness=2", "--data=synthetic", ": it belongs to --mode=ssp, found --mode=single"),

    (PS, "--listen=127.0.0.1:0", "--ps_hosts=a:1", " with --ps_hosts=a:1"),
    (PS, "--num_ps=2", "--ps_hosts=a:1", " with --ps_hosts=a:1"),
    (PS, "--num_workers=2", "--ps_hosts=a:1", " with --ps_hosts=a:1"),
    (PS, "--worker_hosts=a", "", " without --ps_hosts"),
    (PS, "--insecure_no_token", "--token_file=t", " with --token_file=t"),
    (PS, "--profile", "", " without --run_dir"),
    (PS, "--sample_ms=10", "", " without --run_dir"),

    (LAUNCH, "--ssh='ssh -p 1'", "--num_ps=1 -- true", " without --hosts"),
    (LAUNCH, "--start_timeout=3", "--deploy_mode=single -- true", " without --num_ps, --hosts or --rendezvous"),
    (LAUNCH, "--server_grace=3", "--deploy_mode=single -- true", " without --num_ps"),
    (LAUNCH, "--ps_program=x", "-- true", " without --num_ps"),
    (LAUNCH, "--ps_flags=--profile", "-- true", " without --num_ps"),
    (LAUNCH, "--tls_ca=x", "-- true", " without --num_ps"),

    (f"{RECORDS} synth", "--test_shards=2", "--test_rows=0 --out=s", " without --test_rows"),
    (f"{RECORDS} synth", "--value_feature=v", "--novalues --out=s", " without --values"),
    (f"{RECORDS} synth", "--level=3", "--out=s", ": it belongs to --compression=gzip, zlib or zstd, found --compression=none"),
    (f"{RECORDS} convert", "--index_base=1", "--out=c rows.vw", f": it belongs to --format=libsvm or libffm, {VW_FOUND}"),
    (f"{RECORDS} convert", "--hash_bits=4", "--out=c rows.libsvm", f": it belongs to --format=vw or criteo, {LIBSVM_FOUND}"),
    (f"{RECORDS} convert", "--novw_hash_all", "--out=c rows.libsvm", f": it belongs to --format=vw, {LIBSVM_FOUND}"),
    (f"{RECORDS} convert", "--weight_feature=w", "--out=c rows.libsvm",
     f": it belongs to --format=vw, tfrecord, csv, json or table, {LIBSVM_FOUND}"),
    (f"{RECORDS} convert", "--field_feature=f", "--out=c rows.libsvm",
     f": it belongs to --format=libffm, tfrecord, csv, json, table or vw, {LIBSVM_FOUND}"),
    (f"{RECORDS} convert", "--write_fields", "--out=c rows.libsvm",
     f": it belongs to --format=tfrecord, csv, json, table or vw, {LIBSVM_FOUND}"),
    (f"{RECORDS} convert", "--features=spec.json", "--out=c rows.libsvm",
     f": it belongs to --format=tfrecord, csv, json, table or vw, {LIBSVM_FOUND}"),
    (f"{RECORDS} convert", "--hash_bits=4", "--features=spec.json --out=c rows.vw", " with --features=spec.json"),
    (f"{RECORDS} convert", "--positive_label=2", "--features=spec.json --out=c rows.csv",
     ": it belongs to --format=libsvm, libffm, vw or criteo, found --format=auto, which is csv"),
    (f"{RECORDS} convert", "--duckdb=l.so", "--features=spec.json --out=c rows.csv",
     ": it belongs to --format=table, found --format=auto, which is csv"),
    (f"{RECORDS} infer", "--duckdb=l.so", "rows.csv", ": it belongs to Parquet files and SQL queries, found csv"),
    (f"{RECORDS} fit", "--duckdb=l.so", "--features=spec.json rows.csv",
     ": it belongs to Parquet files and SQL queries, found csv"),
    (f"{RECORDS} stat", "--duckdb=l.so", "rows.csv", " without --features"),
    (f"{RECORDS} infer", "--overwrite", "rows.csv", " without --out"),
    (f"{RECORDS} fit", "--overwrite", "--features=spec.json rows.csv", " without --out"),
    (f"{RECORDS} stat", "--threads=2", "--features=spec.json rows.csv", 
     ": it belongs to a run without --features, found --features=spec.json"),
    (f"{RECORDS} synth", "--field_factors", "--out=s", " without --interactions"),
    (f"{RECORDS} convert", "--field_feature=f", "--out=c --features=spec.json rows.csv", " without --write_fields"),
    (f"{RECORDS} convert", "--vocabulary=v", "--out=c rows.vw", f": it belongs to --format=criteo, {VW_FOUND}"),
    (f"{RECORDS} convert", "--vocabulary_out=v", "--out=c rows.vw", f": it belongs to --format=criteo, {VW_FOUND}"),
    (f"{RECORDS} convert", "--min_count=2", "--hash_bits=4 --out=c rows.tsv", " without --vocabulary_out"),
    (f"{RECORDS} convert", "--level=2", "--out=c rows.vw", ": it belongs to --compression=gzip, zlib or zstd, found --compression=none"),
    (f"{RECORDS} convert", "--positive_label=2", "--format=images --out=c .",
     ": it belongs to --format=libsvm, libffm, vw or criteo, found --format=images"),

    (PREDICT, "--metrics", "--model=run --top=3", " with --top=3"),
    (PREDICT, "--format=vw", "--model=run --top=3", " with --top=3"),
    (PREDICT, "--threads=2", "--model=run --top=3", " with --top=3"),
    (PREDICT, "--vocabulary=v", "--model=run rows.libsvm", " without --top"),
    (PREDICT, "--vocabulary=v", "--model=spec-run --top=2 rows.csv",
     ": it belongs to models without a feature spec; rows show the names of features"),
    (PREDICT, "--explain=3", "--model=run --top=3", " with --top=3"),
    (PREDICT, "--metrics", "--model=run --explain=3 rows.libsvm", " with --explain=3"),
    (PREDICT, "--slices=f", "--model=spec-run rows.csv", " without --metrics"),
    (PREDICT, "--slice_values=3", "--metrics --model=spec-run rows.csv", " without --slices"),
    (PREDICT, "--threads=3", "--metrics --slices=f --model=spec-run rows.csv", " with --slices=f"),
    (PREDICT, "--slices=f", "--model=run --top=3", " with --top=3"),
    (PREDICT, "--index_base=1", "--model=run rows.vw --format=vw", ": it belongs to --format=libsvm or libffm, found --format=vw"),
    (PREDICT, "--hash_bits=4", "--model=run rows.libsvm", f": it belongs to --format=vw or criteo, {LIBSVM_FOUND}"),
    (PREDICT, "--vw_hash_all", "--model=run rows.libsvm", f": it belongs to --format=vw, {LIBSVM_FOUND}"),
    (PREDICT, "--duckdb=l.so", "--model=spec-run rows.csv",
     ": it belongs to --format=table, found --format=auto, which is csv"),
    (PREDICT, "--hash_bits=4", "--model=spec-run rows.csv",
     ": it belongs to --format=vw or criteo, found --format=auto, which is csv"),
    (PREDICT, "--label_feature=l", "--model=run rows.libsvm", f": it belongs to --format=tfrecord, {LIBSVM_FOUND}"),
    (PREDICT, "--weight_feature=l", "--model=run data/train-00000-of-00001.tfrecord", " without --metrics"),

    (REPORT, "--nohtml", "--json run", " with --json"),
    (REPORT, "--ops=3", "--json run", " with --json"),
    (REPORT, "--max_spans=3", "--nohtml run", " without --html"),
    (REPORT, "--compare=c.html", "--nohtml run run", " without --html"),
    (REPORT, "--compare=c.html", "run", " with one run: expected at least two run folders"),
    (REPORT, "--ops=3", "run run", " with several runs"),
    (REPORT, "--json", "--watch=run", " with --watch=run"),
]

# Command lines whose flags all have an effect, or ask for nothing.
GOOD = [
    (LR, f"{VW} --hash_bits=8 --novw_hash_all"),
    (LR, f"{LIBSVM} --index_base=1 --num_features=9 --l1=0.1 --ftrl_beta=2"),
    (LR, f"{LIBSVM} --cache=0 --l1=0 --eval_every=0 --checkpoint_every=0 --index_base=0 --optimizer=sgd --noprofile"),
    (LR, f"{TFRECORD} --label_feature=label --test=rows.vw --hash_bits=8 --num_features=256"),
    (CONVNET, "--net=lenet --graph=-"),
    (LAUNCH, "--deploy_mode=single -- true"),
    (f"{RECORDS} cat", "--limit=1 data/train-00000-of-00001.tfrecord"),
    (f"{RECORDS} stat", "data/train-00000-of-00001.tfrecord"),
    (f"{RECORDS} verify", "data/train-00000-of-00001.tfrecord"),
    (f"{RECORDS} convert", "--out=good --hash_bits=4 rows.tsv"),
    (PREDICT, "--model=run --top=3 --nometrics"),
    (PREDICT, "--model=run rows.libsvm"),
    (PREDICT, "--model=spec-run --threads=1 rows.csv"),
    (PREDICT, "--model=spec-run --explain=2 --output=margin rows.csv"),
    (PREDICT, "--model=spec-run --top=2 rows.csv"),
    (f"{RECORDS} convert", "--out=good2 --features=spec.json --weight_feature=w rows.csv"),
    (f"{RECORDS} stat", "--json --features=spec.json rows.csv"),
    (f"{RECORDS} infer", "--label=y --sample=3 --out=x.json --overwrite rows.csv"),
    (f"{RECORDS} fit", "--features=spec.json rows.csv"),
    (REPORT, "run"),
]


class FlagEffects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "rows.libsvm").write_text("1 1:1 3:1\n0 2:1\n" * 20)
        (cls.folder / "rows.vw").write_text("1 |f a b\n-1 |f c 7\n" * 20)
        (cls.folder / "rows.tsv").write_text("1" + "\t" * 39 + "\n")
        cls.run_program(f"{RECORDS} synth --rows=100 --test_rows=0 --num_features=256 --shards=1 --out=data")
        cls.run_program(f"{LR} {LIBSVM} --num_features=9 --run_dir=run")
        (cls.folder / "rows.csv").write_text("y,t\n" + "1,a\n0,b\n" * 20)
        (cls.folder / "spec.json").write_text('{"label": "y", "hash_bits": 4, "fields": [{"name": "t"}]}')
        cls.run_program(f"{LR} --train=rows.csv --features=spec.json --run_dir=spec-run")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def run_program(cls, line):
        return subprocess.run(f"{BIN}/{line}", shell=True, cwd=cls.folder, capture_output=True, text=True, timeout=60)

    def test_a_flag_without_effect_is_an_error(self):
        for program, flag, others, message in ERRORS:
            line = f"{program} {flag} {others}"
            with self.subTest(line):
                run = self.run_program(line)
                name = flag.split("=")[0]
                expected = f"{program.split()[0]}: {name} has no effect{message}\n"
                self.assertEqual((run.stderr, run.returncode), (expected, 2))

    def test_flags_with_effect_are_accepted(self):
        for program, flags in GOOD:
            with self.subTest(f"{program} {flags}"):
                run = self.run_program(f"{program} {flags}")
                self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
