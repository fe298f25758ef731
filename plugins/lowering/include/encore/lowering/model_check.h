// Whether the lowering can run a model at all, whatever the device.
#pragma once

#include <span>

#include "encore/model_spec.h"
#include "encore/status.h"
#include "encore/weights.h"

namespace encore::lowering {

// Backends call this from check_model(), with the whole model. A host of a newer version may know
// architectures whose description this version reads only in part, so a name that is not known here
// is refused. Weights that are missing are found while loading.
// Errors: kUnimplemented naming the architecture, or kInvalidArgument naming what makes no sense: a
// size below 1, or a weight whose shape is not the one that `spec` asks for.
Status check_model(const ModelSpec& spec, std::span<const WeightInfo> weights);

}  // namespace encore::lowering
