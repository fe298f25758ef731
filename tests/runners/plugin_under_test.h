// The backend that this run of the tests is about, loaded as the host would load it.
//
//   encore_runner_test --plugin=/path/to/encore_backend_x.so|NAME|NAME:VARIANT
//                      [--option=key=value]... [--logit-tolerance=1e-3]
//                      [--reference-tolerance=0.3] [--device=0] [--ranks=1]
//
// A name is that of a plugin of this build, by its manifest: "cpu" is the CPU plugin's best variant
// for this machine, and the default, "cpu:avx2" the one of that name. On a device that rounds
// differently from mode to mode, the logit tolerance says how far logits of two modes may be apart;
// 0 means equal bits. The reference tolerance is the least that is allowed between logits and the
// float32 goldens, for a device whose activations are coarser than the CPU's. Several ranks share
// each model between them, on devices from the given one on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/backend.h"

namespace encore::testing {

struct PluginArguments {
  std::string plugin = "cpu";
  std::vector<std::pair<std::string, std::string>> options;
  float logit_tolerance = 0.0F;
  float reference_tolerance = 0.0F;
  int32_t device = 0;
  int32_t ranks = 1;
};

PluginArguments& plugin_arguments();

// The text after `flag`, or null if `argument` is another flag. REQUIRES: `argument` ends with 0.
const char* value_of(std::string_view argument, std::string_view flag);
// Whether `argument` is one of the flags above; if so, it is stored.
bool parse_plugin_argument(std::string_view argument);

// Loaded and initialised on first use, kept to the end. Ends the process with a message if that
// fails.
Backend& backend_under_test();

}  // namespace encore::testing
