// encore bench serve: drives a running server and measures what its clients see.
#pragma once

#include <CLI/CLI.hpp>

#include "verbs.h"

namespace encore {

// Declares the verb `serve` under `bench`.
CLI::App& declare_bench_serve(CLI::App& bench, VerbAction& action);

}  // namespace encore
