// The address of this host in its network.
#pragma once

#include <string>

namespace millrace::tools {

// The loopback address if nobody else needs to reach it. Else the one that the host's name stands
// for, or if that is a loopback address, the first of its network interfaces that are up; the
// host's name if it has none.
std::string OwnAddress(bool one_host);

}  // namespace millrace::tools
