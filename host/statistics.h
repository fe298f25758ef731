// Mean, deviation and median of repeated measurements.
#pragma once

#include <vector>

namespace encore {

struct Statistics {
  double mean = 0.0;
  double deviation = 0.0;  // of the sample (n - 1); 0 for one value
  double median = 0.0;
};

// All zero for no values.
Statistics statistics_of(std::vector<double> values);

}  // namespace encore
