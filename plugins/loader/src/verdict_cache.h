// Remembers which plugins a probe has found good, so that each is tried out once and not at every
// start.
#pragma once

#include <string>

#include "encore/loader/plugin_loader.h"

namespace encore {

// All that a verdict depends on, as text: the file (device, inode, size, times), the host's version
// and probe program, the options, and this boot of this machine, since drivers change with it.
// Empty if the file or the program cannot be looked at.
std::string verdict_key(const std::string& real_path, const std::string& probe_program,
                        const HostInfo& host, const PluginLoadOptions& options);

// One small file a plugin and options, whose text is the key that was found good: it holds if it is
// equal, byte for byte, so there is nothing to parse. A folder or file that another user could have
// written is as good as none. Every failure means "not remembered". Any process, any thread.
class VerdictCache {
 public:
  // An empty folder remembers nothing. It is made when first needed.
  explicit VerdictCache(std::string folder) : folder_(std::move(folder)) {}

  bool holds(const std::string& key) const;
  bool remember(const std::string& key) const;

 private:
  std::string file_of(const std::string& key) const;

  std::string folder_;
};

}  // namespace encore
