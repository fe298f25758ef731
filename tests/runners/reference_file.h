// What a float32 reference says of a model, and how far logits are from it.
//
// The file is a golden of tests/goldens (its README.md gives the keys) whose rows hold all logits.
// Files of gpu_reference.py also give the error of transformers' own bf16 run at each row.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace encore::testing {

// Largest and root-mean-square difference over all logits added.
class LogitError {
 public:
  // REQUIRES: equal sizes. A NaN or infinite difference stays: max() is then infinite.
  void add(const std::vector<float>& found, const std::vector<float>& expected);
  void add(const LogitError& other);
  // The errors of `count` logits that somebody else compared.
  static LogitError of(double max, double rms, int64_t count);

  int64_t count() const { return count_; }
  double max() const { return max_; }
  double rms() const;

 private:
  double max_ = 0.0;
  double sum_of_squares_ = 0.0;
  int64_t count_ = 0;
};

struct ReferenceRow {
  std::vector<float> logits;
  LogitError bf16;  // transformers in bf16; count() is 0 if the file has no such run
};

struct ReferenceCase {
  std::string name;
  int32_t prompt_length = 0;
  std::vector<int32_t> tokens;           // prompt, then the greedy tokens
  std::vector<float> gaps;               // best logit less the second, of each greedy token
  std::map<int32_t, ReferenceRow> rows;  // what follows the token at that position

  int32_t num_greedy() const { return static_cast<int32_t>(gaps.size()); }
};

struct Reference {
  std::string text;  // for people: versions and how it was computed
  std::vector<ReferenceCase> cases;
  LogitError bf16;  // over all rows
};

// Throws what nlohmann::json throws, or std::runtime_error, if the file is missing or not such a
// file.
Reference read_reference(const std::string& path);

}  // namespace encore::testing
