// The seeded defects, by the family of the rules that must find them.
#pragma once

#include <array>
#include <span>

#include "defect.h"

namespace encore::defects {

std::span<const DefectEntry> graph_defects();  // rules G: graph_defects.cpp, capture_defects.cpp
std::span<const DefectEntry> capture_defects();
std::span<const DefectEntry> thread_defects();  // rules T

std::span<const DefectEntry> model_defects();  // rules R: model_defects.cpp, sampling_defects.cpp
std::span<const DefectEntry> sampling_defects();

std::span<const DefectEntry> load_defects();         // rules L
std::span<const DefectEntry> negotiation_defects();  // rules N
// Rules E: error_defects.cpp, weight_defects.cpp, process_defects.cpp.
std::span<const DefectEntry> error_defects();
std::span<const DefectEntry> weight_defects();
std::span<const DefectEntry> process_defects();

inline constexpr std::array kFamilies = {
    graph_defects, capture_defects,     thread_defects, model_defects,  sampling_defects,
    load_defects,  negotiation_defects, error_defects,  weight_defects, process_defects};

}  // namespace encore::defects
