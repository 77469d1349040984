// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/command.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace millrace::launch {
namespace {

// "--run_dir=x" -> "run_dir=x"; "" if `word` is not a flag.
std::string WithoutDashes(std::string_view word) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  if (dashes == 0 || dashes > 2 || dashes == word.size()) return "";
  std::string text(word.substr(dashes));
  const size_t name_end = std::min(text.find('='), text.size());
  std::replace(text.begin(), text.begin() + static_cast<ptrdiff_t>(name_end), '-', '_');
  return text;
}

bool IsFlag(const std::string& word, std::string_view name) {
  const std::string text = WithoutDashes(word);
  return text == name || text.starts_with(std::string(name) + "=");
}

// The values that gflags reads as false.
bool IsOff(const std::string& value) {
  static const std::set<std::string> kOff = {"0", "f", "false", "n", "no"};
  return kOff.contains(value);
}

std::string Joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return text;
}

void Append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

std::optional<std::string> FlagIn(const Words& command, std::string_view name) {
  std::optional<std::string> value;
  for (size_t i = 1; i < command.size(); ++i) {
    if (!IsFlag(command[i], name)) continue;
    const size_t equals = command[i].find('=');
    const bool has_next = i + 1 < command.size() && !command[i + 1].starts_with("-");
    if (equals != std::string::npos) {
      value = command[i].substr(equals + 1);
    } else {
      value = has_next ? command[i + 1] : "";
    }
  }
  return value;
}

Result<Words> SplitWords(std::string_view text) {
  Words words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && c == ' ') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != '\'' && c == '\\' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return Invalid("'" + std::string(text) + "': a quote is not closed");
  return words;
}

std::string ShellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

Words ServerCommand(const Words& server, const Words& worker, const JobFlags& job, size_t index,
                    const std::string& listen) {
  Words words = server;
  Append(words, {"--listen=" + listen, "--num_ps=" + std::to_string(job.num_ps),
                 "--num_workers=" + std::to_string(job.num_workers),
                 "--task_index=" + std::to_string(index)});
  if (const auto run_dir = FlagIn(worker, "run_dir")) words.push_back("--run_dir=" + *run_dir);
  if (const auto profile = FlagIn(worker, "profile"); profile && !IsOff(*profile))
    words.push_back("--profile");
  Append(words, job.tls);
  return words;
}

Words WorkerCommand(const Words& worker, const JobFlags& job, size_t index, Start start) {
  Words words;
  for (const std::string& word : worker) {
    if (start == Start::kFirst || !IsFlag(word, "overwrite")) words.push_back(word);
  }
  if (start == Start::kResume) words.push_back("--resume");
  if (job.num_ps == 0) return words;
  if (start == Start::kRejoin) words.push_back("--rejoin");
  Append(words,
         {"--job_name=worker", "--task_index=" + std::to_string(index),
          "--ps_hosts=" + Joined(job.ps_hosts), "--worker_hosts=" + Joined(job.worker_hosts)});
  Append(words, job.tls);
  return words;
}

Words RemoteCommand(const Words& ssh, const std::string& destination, const Words& words) {
  Words command = ssh;
  if (std::filesystem::path(ssh[0]).filename() == "ssh") {
    for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5",
                               "ServerAliveCountMax=3", "RequestTTY=no"}) {
      command.push_back("-o");
      command.push_back(option);
    }
  }
  command.push_back(destination);
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellQuoted(word);
  command.push_back(line);
  return command;
}

}  // namespace millrace::launch
