#include "tools/common/interrupt.h"

#include <csignal>

namespace millrace::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void HandleSignal(int signal_number) {
  interrupted = 1;
  std::signal(signal_number, SIG_DFL);
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, HandleSignal);
  std::signal(SIGTERM, HandleSignal);
}

bool Interrupted() { return interrupted != 0; }

void IgnoreBrokenPipes() { std::signal(SIGPIPE, SIG_IGN); }

}  // namespace millrace::tools
