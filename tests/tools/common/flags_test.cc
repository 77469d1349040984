// SPDX-License-Identifier: Apache-2.0
#include "tools/common/flags.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <algorithm>

DEFINE_uint64(test_rows_wanted, 7, "rows to make");
DEFINE_int32(test_level, 0, "level");
DEFINE_double(test_rate, 0.444, "a rate");
DEFINE_bool(test_values, true, "whether values are written");
DEFINE_string(test_out, "", "where to write");
DEFINE_string(test_rule, "", "slow or fast; empty: either");
DEFINE_string(test_vocabulary, "", "of the other command");

namespace millrace::tools {
namespace {

const CommandSpec kSpec = {
    .name = "prog make",
    .job = "makes things",
    .arguments = "FILE...",
    .groups = {{"Files", {"test_out", "test_values"}, {{"test_out", Folder()}}},
               {"Size",
                {"test_rows_wanted", "test_level", "test_rate", "test_rule"},
                {{"test_rule", OneOf({"slow", "fast"})}}}},
    .examples = {"prog make --test_out=x file"}};
const CommandSpec kOther = {
    .name = "prog other", .job = "others", .groups = {{"All", {"test_vocabulary"}}}};

class FlagsTest : public testing::Test {
 protected:
  Result<ParsedLine> Parse(const std::vector<std::string>& words) {
    const std::vector<const CommandSpec*> siblings = {&kSpec, &kOther};
    return ParseLine(kSpec, siblings, words);
  }
  std::string Error(const std::vector<std::string>& words) {
    const auto line = Parse(words);
    if (!line.ok()) {
      EXPECT_EQ(line.status().code(), Code::kInvalid);
    }
    return line.ok() ? "no error" : line.status().message();
  }

  gflags::FlagSaver saver_;  // each test starts from the defaults
};

TEST_F(FlagsTest, AllFormsOfAValueAreAccepted) {
  const auto line =
      Parse({"--test_rows_wanted=1", "--test_level", "-2", "-test_rate=.5", "--test-out", "a=b"});
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_EQ(FLAGS_test_rows_wanted, 1u);
  EXPECT_EQ(FLAGS_test_level, -2);
  EXPECT_EQ(FLAGS_test_rate, .5);
  EXPECT_EQ(FLAGS_test_out, "a=b");
  EXPECT_TRUE(line->args.empty());
}

TEST_F(FlagsTest, BoolTakesNoFollowingWord) {
  const auto line = Parse({"--notest_values", "file"});
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_FALSE(FLAGS_test_values);
  EXPECT_EQ(line->args, Args{"file"});
  ASSERT_TRUE(Parse({"--test_values", "file"}).ok());
  EXPECT_TRUE(FLAGS_test_values);
  ASSERT_TRUE(Parse({"--test_values=false"}).ok());
  EXPECT_FALSE(FLAGS_test_values);
}

TEST_F(FlagsTest, PositionalArgumentsMayComeAnywhere) {
  const auto line = Parse({"a", "-", "--test_level=1", "b", "--", "--test_level=9", "-x"});
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_EQ(line->args, (Args{"a", "-", "b", "--test_level=9", "-x"}));
  EXPECT_EQ(FLAGS_test_level, 1);
}

TEST_F(FlagsTest, LastOfRepeatedFlagsWins) {
  ASSERT_TRUE(Parse({"--test_level=1", "--test_level=2"}).ok());
  EXPECT_EQ(FLAGS_test_level, 2);
}

TEST_F(FlagsTest, EmptyTextIsAValue) {
  FLAGS_test_out = "x";
  ASSERT_TRUE(Parse({"--test_out="}).ok());
  EXPECT_EQ(FLAGS_test_out, "");
}

TEST_F(FlagsTest, UnknownFlagSuggestsTheNearest) {
  EXPECT_EQ(Error({"--test_levl=3"}), "unknown flag --test_levl; did you mean --test_level?");
  EXPECT_EQ(Error({"--zzz"}), "unknown flag --zzz; see prog make --help");
}

TEST_F(FlagsTest, FlagsOfGflagsItselfAreUnknown) {
  EXPECT_EQ(Error({"--flagfile=/etc/passwd"}), "unknown flag --flagfile; see prog make --help");
}

TEST_F(FlagsTest, FlagOfAnotherCommandIsAnErrorThatNamesTheCommand) {
  EXPECT_EQ(Error({"--test_vocabulary=x"}),
            "flag --test_vocabulary belongs to prog other, not to prog make");
}

TEST_F(FlagsTest, BadValueNamesFlagValueAndExpectation) {
  EXPECT_EQ(Error({"--test_rows_wanted=-1"}),
            "flag --test_rows_wanted has the value '-1'; expected a whole number, 0 or more");
  EXPECT_EQ(Error({"--test_level=1x"}),
            "flag --test_level has the value '1x'; expected a whole number");
  EXPECT_EQ(Error({"--test_level=99999999999"}),
            "flag --test_level has the value '99999999999'; expected a whole number");
  EXPECT_EQ(Error({"--test_rate=fast"}),
            "flag --test_rate has the value 'fast'; expected a number");
  EXPECT_EQ(Error({"--test_values=maybe"}),
            "flag --test_values has the value 'maybe'; expected true or false");
}

TEST_F(FlagsTest, OnlyListedWordsAreAccepted) {
  EXPECT_EQ(Error({"--test_rule=quick"}),
            "flag --test_rule has the value 'quick'; expected slow or fast");
  ASSERT_TRUE(Parse({"--test_rule=fast"}).ok());
  EXPECT_EQ(FLAGS_test_rule, "fast");
  ASSERT_TRUE(Parse({"--test_rule="}).ok());
  EXPECT_EQ(FLAGS_test_rule, "");
}

TEST_F(FlagsTest, MissingValueIsAnError) {
  EXPECT_EQ(Error({"--test_level"}), "flag --test_level needs a value: a whole number");
  EXPECT_EQ(Error({"--test_out", "--test_level=1"}), "flag --test_out needs a value: some text");
}

TEST_F(FlagsTest, ArgumentsAreRejectedByACommandWithoutArguments) {
  const std::vector<std::string> words = {"stray"};
  const auto line = ParseLine(kOther, {}, words);
  ASSERT_FALSE(line.ok());
  EXPECT_EQ(line.status().message(), "unexpected argument 'stray': prog other takes only flags");
}

TEST_F(FlagsTest, HelpAndVersionPrecedeLaterErrors) {
  EXPECT_EQ(Parse({"--help", "--nonsense"})->action, ParsedLine::Action::kHelp);
  EXPECT_EQ(Parse({"-h"})->action, ParsedLine::Action::kHelp);
  EXPECT_EQ(Parse({"--version"})->action, ParsedLine::Action::kVersion);
  EXPECT_EQ(Parse({"--help=man"})->action, ParsedLine::Action::kManPage);
  EXPECT_EQ(Parse({"--help=bash"})->action, ParsedLine::Action::kBashCompletion);
  EXPECT_EQ(Error({"--help=html"}),
            "flag --help has the value 'html'; expected none, man (a man page) or bash (a "
            "completion script)");
}

TEST(Nearest, UnrelatedWordsHaveNone) {
  const std::vector<std::string> names = {"synth", "cat", "stat"};
  EXPECT_EQ(Nearest("snth", names), "synth");
  EXPECT_EQ(Nearest("stats", names), "stat");
  EXPECT_EQ(Nearest("convolution", names), "");
  EXPECT_EQ(Nearest("", names), "");
}

// The effects of flags.

const CommandSpec kConditional = {.name = "prog train",
                                  .job = "trains",
                                  .groups = {{"All",
                                              {"test_out", "test_values", "test_rows_wanted",
                                               "test_level", "test_rate", "test_rule"}}},
                                  .always = {"test_out", "test_rule"},
                                  .needs = {{{"test_rate"}, {"test_rule"}, {"slow", "fast"}},
                                            {{"test_rows_wanted"}, {"test_out"}},
                                            {{"test_rows_wanted"}, {"test_rule"}, {"fast"}},
                                            {{"test_values"}, {"test_rule"}, {""}},
                                            {.flags = {"test_level"},
                                             .with = {"test_out", "test_rule"},
                                             .except = {"", "x"},
                                             .text = "a long name"}}};

class EffectsTest : public testing::Test {
 protected:
  std::string Error(const std::vector<std::string>& words, const ResolvedValues& resolved = {}) {
    gflags::FlagSaver saver;
    const auto line = ParseLine(kConditional, {}, words);
    EXPECT_TRUE(line.ok());
    const Status status = CheckEffects(kConditional, resolved);
    EXPECT_TRUE(status.ok() || status.code() == Code::kInvalid);
    return status.message();
  }
};

TEST_F(EffectsTest, AFlagWithoutEffectIsAnErrorThatNamesWhatItBelongsTo) {
  EXPECT_EQ(Error({}), "");
  EXPECT_EQ(Error({"--test_out=x", "--test_rule=slow"}), "");
  EXPECT_EQ(Error({"--test_rate=.5", "--test_rule=slow"}), "");
  EXPECT_EQ(Error({"--test_rate=.5"}),
            "--test_rate has no effect: it belongs to --test_rule=slow or fast, found no "
            "--test_rule");
  EXPECT_EQ(Error({"--test_rate=.5", "--test_rule=warm"}),
            "--test_rate has no effect: it belongs to --test_rule=slow or fast, found "
            "--test_rule=warm");
  EXPECT_EQ(Error({"--test_rows_wanted=9", "--test_rule=fast"}),
            "--test_rows_wanted has no effect without --test_out");
  EXPECT_EQ(Error({"--test_level=2", "--test_out=x"}),
            "--test_level has no effect: it belongs to a long name, found --test_out=x");
  EXPECT_EQ(Error({"--test_level=2", "--test_out=x", "--test_rule=y"}), "");
}

TEST_F(EffectsTest, AllRowsOfAFlagMustHold) {
  EXPECT_EQ(Error({"--test_rows_wanted=9", "--test_rule=fast", "--test_out=x"}), "");
  EXPECT_NE(Error({"--test_rows_wanted=9", "--test_rule=slow", "--test_out=x"}), "");
}

TEST_F(EffectsTest, TheDefaultIsGivenTooUnlessItMeansNotSet) {
  EXPECT_NE(Error({"--test_rate=0.444"}), "");
  EXPECT_EQ(Error({"--test_level=0"}), "");
}

TEST_F(EffectsTest, ANegatedFlagIsNamedAsItWasTyped) {
  EXPECT_EQ(Error({"--notest_values", "--test_rule=slow"}),
            "--notest_values has no effect with --test_rule=slow");
  EXPECT_EQ(Error({"--test_values", "--test_rule=slow"}),
            "--test_values has no effect with --test_rule=slow");
}

TEST_F(EffectsTest, ResolvedValuesReplaceThoseOfFlags) {
  EXPECT_EQ(Error({"--test_rate=.5", "--test_rule=auto"}, {{"test_rule", {"slow"}}}), "");
  EXPECT_EQ(Error({"--test_rate=.5", "--test_rule=auto"}, {{"test_rule", {"warm", "fast"}}}), "");
  EXPECT_EQ(Error({"--test_rate=.5", "--test_rule=auto"}, {{"test_rule", {"warm"}}}),
            "--test_rate has no effect: it belongs to --test_rule=slow or fast, found "
            "--test_rule=auto, which is warm");
}

TEST(EffectsDeathTest, EveryFlagMustBeClassified) {
  CommandSpec spec = kConditional;
  spec.always = {"test_out"};
  EXPECT_DEATH((void)CheckEffects(spec), "test_rule is neither in `always` nor in `needs`");
  spec = kConditional;
  spec.always.push_back("test_vocabulary");
  EXPECT_DEATH((void)CheckEffects(spec), "test_vocabulary is in `always` or `needs`");
}

TEST_F(FlagsTest, NumbersHaveTheirShortestForm) {
  ASSERT_TRUE(Parse({"--test_rate=0.05"}).ok());
  const auto values = FlagValues(kSpec);
  const auto rate = std::find_if(values.begin(), values.end(),
                                 [](const auto& value) { return value.first == "test_rate"; });
  EXPECT_EQ(rate->second, "0.05");
}

}  // namespace
}  // namespace millrace::tools
