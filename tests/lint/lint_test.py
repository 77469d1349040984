#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes violations into a small tree and expects the checks to find them: lint_test.py"""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_layers  # noqa: E402
import check_style  # noqa: E402

LICENSE = "// SPDX-License-Identifier: Apache-2.0\n"
CLEAN = {
    "profiler/trace.h": "#pragma once\n\n#include <unistd.h>\n\n#include <vector>\n",
    "io/base/status.h": "#pragma once\n\n#include <string>\n",
    "io/record/byte_source.cc": '#include <zlib.h>\n\n#include "io/base/status.h"\n#include "profiler/trace.h"\n',
    "tools/main.cc": '#include <gflags/gflags.h>\n\n#include "io/base/status.h"\n\nint main() { return 0; }\n',
    "tests/io/status_test.cc": '#include <gtest/gtest.h>\n\n#include "io/base/status.h"\n#include "tests/proto/a.pb.h"\n',
    "tests/CMakeLists.txt": "# [LABEL unit]\nmillrace_test(a SOURCES a.cc LABEL slow)\nset(x LABELS ${arg_LABEL})\n",
    "README.md": "# Name\n",
    ".clang-format": "BasedOnStyle: Google\nSortIncludes: Never\n",
}


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in CLEAN.items():
            self.plant(name, LICENSE + text if name.endswith((".h", ".cc")) else text)

    def plant(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def style(self, name):
        with contextlib.redirect_stdout(io.StringIO()):
            return list(check_style.CHECKS[name](self.root))

    def expect_layers(self, path, include, words):
        self.plant(path, f"{include}\n")
        problems = check_layers.check(self.root)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(path, problems[0])
        self.assertIn(words, problems[0])

    def expect_style(self, check, path, text):
        self.assertEqual(self.style(check), [])
        self.plant(path, text)
        problems = self.style(check)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(path, problems[0])

    def test_clean_tree_passes(self):
        self.assertEqual(check_layers.check(self.root), [])
        for name in check_style.CHECKS:
            self.assertEqual(self.style(name), [], name)

    def test_long_lines_of_pages(self):
        self.plant("docs/good.md", f"| {'x' * 200} |\n    {'y' * 200}\n{'z' * 110}\n")
        self.expect_style("docs", "docs/bad.md", "x" * 111 + "\n")

    def test_long_page_of_figures(self):
        self.expect_style("docs", "docs/performance.md", "x\n" * 151)

    def test_private_words(self):
        self.expect_style("words", "io/base/status.h", LICENSE + "#pragma once\n// Looks ahead of the reader.\n")

    def test_include_against_the_arrows(self):
        self.expect_layers("io/bad.cc", '#include "tools/common/flags.h"', "io must not know tools")

    def test_profiler_includes_no_other_layer(self):
        self.expect_layers("profiler/bad.cc", '#include "io/base/status.h"', "must not know io")

    def test_only_tests_include_tests(self):
        self.expect_layers("io/bad.cc", '#include "tests/proto/other.h"', "only tests")

    def test_relative_include(self):
        self.expect_layers("io/bad.cc", '#include "status.h"', "from the root")

    def test_indented_include(self):
        self.expect_layers("sparse/bad.cc", '#  include "ps/server/server.h"', "sparse must not know ps")

    def test_forbidden_include_within_a_layer(self):
        self.expect_layers("ps/worker/bad.cc", '#include "ps/server/shard.h"', "ps/worker must not know ps/server")

    def test_convnets_do_not_know_the_sparse_loop(self):
        self.expect_layers("convnets/bad.cc", '#include "trainer/sparse/test_set.h"', "must not know trainer/sparse")

    def expect_cycle(self, files, words):
        for path, include in files.items():
            self.plant(path, f'#pragma once\n\n#include "{include}"\n')
        problems = check_layers.check(self.root)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn("cycle", problems[0])
        for word in words:
            self.assertIn(word, problems[0])

    def test_cycle_of_two_subfolders(self):
        files = {"io/base/json.cc": "io/example/utf8.h", "io/example/wire.h": "io/base/status.h"}
        self.expect_cycle(files, ["io/base/json.cc includes io/example/utf8.h", "io/example/wire.h includes"])

    def test_cycle_of_three_subfolders(self):
        files = {"tools/a/one.h": "tools/b/two.h", "tools/b/two.h": "tools/c/three.h", "tools/c/three.h": "tools/a/one.h"}
        self.expect_cycle(files, files)

    def test_cycle_between_a_folder_and_its_subfolder(self):
        files = {"tools/launch/job.h": "tools/launch/child/process.h",
                 "tools/launch/child/process.h": "tools/launch/environment.h"}
        self.expect_cycle(files, files)

    def test_two_cycles_are_two_problems(self):
        for a, b in (("io/base/x.h", "io/text/x.h"), ("tools/lr/x.h", "tools/ps/x.h")):
            self.plant(a, f'#pragma once\n\n#include "{b}"\n')
            self.plant(b, f'#pragma once\n\n#include "{a}"\n')
        self.assertEqual(len(check_layers.check(self.root)), 2)

    def test_shared_subfolder_is_no_cycle(self):
        for path, include in (("io/text/a.h", "io/base/status.h"), ("io/state/b.h", "io/base/status.h"),
                              ("io/stream/c.h", "io/text/a.h"), ("io/stream/d.h", "io/state/b.h")):
            self.plant(path, f'#pragma once\n\n#include "{include}"\n')
        self.assertEqual(check_layers.check(self.root), [])

    def test_gflags_outside_tools(self):
        self.expect_layers("io/bad.cc", "#include <gflags/gflags.h>", "only in tools")

    def test_gflags_in_quotes(self):
        self.expect_layers("io/bad.cc", '#include "gflags/gflags.h"', "only in tools")

    def test_zlib_outside_its_folder(self):
        self.expect_layers("io/base/bad.cc", "#include <zlib.h>", "only in io/record")

    def test_onednn_outside_convnets(self):
        self.expect_layers("trainer/bad.cc", "#include <oneapi/dnnl/dnnl.hpp>", "only in convnets")

    def test_thrift_outside_ps(self):
        self.expect_layers("sparse/bad.cc", "#include <thrift/TProcessor.h>", "only in ps")

    def test_protobuf_in_tools(self):
        self.expect_layers("tools/bad.cc", "#include <google/protobuf/message.h>", "only in io")

    def test_protobuf_in_two_io_files(self):
        self.plant("io/one.cc", "#include <google/protobuf/message.h>\n")
        self.assertEqual(check_layers.check(self.root), [])
        self.plant("io/two.cc", "#include <google/protobuf/message.h>\n")
        self.assertEqual(len(check_layers.check(self.root)), 1)

    def test_mkl_in_two_files(self):
        for name in ("one", "two"):
            self.plant(f"sparse/{name}.cc", "#include <mkl_spblas.h>\n")
        self.assertEqual(len(check_layers.check(self.root)), 1)

    def test_library_without_a_rule(self):
        self.expect_layers("io/bad.cc", "#include <absl/any.h>", "no rule")

    def test_generated_folders_are_skipped(self):
        self.plant("build-x/io/bad.cc", '#include "tools/flags.h"\n')
        self.assertEqual(check_layers.check(self.root), [])

    def test_unformatted_code(self):
        if check_style.shutil.which("clang-format") is None:
            self.skipTest("clang-format is not installed")
        self.expect_style("format", "io/bad.cc", "int  F( ) {return 1;}\n")

    def test_unfinished_words(self):
        for word in ("TODO", "FIXME", "XXX", "HACK"):
            with self.subTest(word):
                self.setUp()
                self.expect_style("unfinished", "docs/bad.md", f"later ({word})\n")

    def test_unseeded_randomness(self):
        for text in ("#include <random>\n", "int r = std::rand();\n", "std::random_device d;\n"):
            with self.subTest(text):
                self.setUp()
                self.plant("tools/good.cc", text)
                self.expect_style("random", "io/bad.cc", text)

    def test_raw_memory(self):
        for text in ("int* p = new int(3);\n", "void F(int* p) { delete p; }\n", "void F(int* p) { delete[] p; }\n"):
            with self.subTest(text):
                self.setUp()
                self.expect_style("memory", "io/bad.cc", text)

    def test_words_in_comments_and_deleted_functions_are_no_memory(self):
        self.plant("io/good.h", '#include <new>\n// a new thing\nstruct S { S(S&) = delete; };\nauto s = "delete it";\n')
        self.plant("io/placed.h", "void F(void* p) { ::new (p) int; }\n")
        self.assertEqual(self.style("memory"), [])

    def test_environment(self):
        self.plant("tools/launch/environment.cc", 'auto r = std::getenv("SLURM_PROCID");\n')
        self.expect_style("environment", "tools/bad.cc", 'auto h = std::getenv("HOME");\n')

    def test_header_without_guard(self):
        self.expect_style("headers", "io/bad.h", "int x;\n")

    def test_source_without_license(self):
        self.assertEqual(list(check_style.check_license(self.root)), [])
        self.plant("tools/good.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
        self.plant("tools/bad.sh", "#!/bin/sh\n\n\n# SPDX-License-Identifier: Apache-2.0\n")
        problems = list(check_style.check_license(self.root))
        self.assertEqual(len(problems), 1, problems)
        self.assertIn("tools/bad.sh", problems[0])

    def test_unknown_label(self):
        self.expect_style("labels", "tests/io/CMakeLists.txt", "millrace_test(b SOURCES b.cc LABEL fast)\n")

    def test_long_readme(self):
        self.expect_style("readme", "README.md", "line\n" * 100)

    def test_violations_set_the_exit_status(self):
        self.plant("io/bad.cc", '#include "tools/common/flags.h"\nint* p = new int(1);\n')
        for module in (check_layers, check_style):
            sys.argv = ["check", str(self.root)]
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(module.main(), 1)


if __name__ == "__main__":
    unittest.main()
