// The subcommands of millrace-records. Each is one file: its flags, its CommandSpec, and a Run that
// gets what is left of the command line after the flags were set, and returns the exit status.
#pragma once

#include "io/base/status.h"
#include "tools/common/flags.h"

namespace millrace::tools {

const CommandSpec& SynthSpec();
int RunSynth(const Args& args);

const CommandSpec& ConvertSpec();
int RunConvert(const Args& args);

const CommandSpec& CatSpec();
int RunCat(const Args& args);

const CommandSpec& StatSpec();
int RunStat(const Args& args);

const CommandSpec& VerifySpec();
int RunVerify(const Args& args);

// Prints "millrace-records: message" on standard error and returns the exit status for it.
inline int Fail(const Status& status) { return Fail("millrace-records", status); }

}  // namespace millrace::tools
