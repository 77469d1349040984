// The subcommands of millrace-records. Each is one file: its flags, its CommandSpec, and a Run that
// receives the arguments that are not flags and returns the exit status.
#pragma once

#include "io/base/status.h"
#include "tools/common/flags.h"

namespace millrace::records {

const tools::CommandSpec& SynthSpec();
int RunSynth(const tools::Args& args);

const tools::CommandSpec& ConvertSpec();
int RunConvert(const tools::Args& args);

const tools::CommandSpec& CatSpec();
int RunCat(const tools::Args& args);

const tools::CommandSpec& StatSpec();
int RunStat(const tools::Args& args);

const tools::CommandSpec& VerifySpec();
int RunVerify(const tools::Args& args);

// Prints "millrace-records: message" on standard error and returns the exit status for it.
inline int Fail(const Status& status) { return tools::Fail("millrace-records", status); }

}  // namespace millrace::records
