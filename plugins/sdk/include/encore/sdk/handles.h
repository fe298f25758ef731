// What the opaque handles of backend_abi.h are in a plugin written with this SDK.
//
// Each owns the author's object and what the host borrows along with it. Members are destroyed in
// reverse order, so the author's object, declared last, goes first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/sdk/from_abi.h"
#include "encore/sdk/host_weights.h"

namespace encore::sdk {

// A capture report in the host's terms. Not movable: the C report points into it.
class ReportStorage {
 public:
  explicit ReportStorage(CaptureReport report) : source_(std::move(report)) {
    for (const BucketReport& bucket : source_.buckets) {
      buckets_.push_back({.bucket = bucket.bucket,
                          .reason = static_cast<int32_t>(bucket.reason),
                          .message = bucket.message.data(),
                          .message_size = bucket.message.size(),
                          .arena_bytes = bucket.arena_bytes,
                          .executable_bytes = bucket.executable_bytes,
                          .workspace_bytes = bucket.workspace_bytes,
                          .capture_us = bucket.capture_us,
                          .num_nodes = bucket.num_nodes,
                          .num_segments = bucket.num_segments});
    }
    report_ = {.struct_size = sizeof(encore_capture_report),
               .buckets = buckets_.data(),
               .buckets_count = buckets_.size(),
               .buckets_stride = sizeof(encore_bucket_report),
               .arena_bytes = source_.arena_bytes,
               .static_bytes = source_.static_bytes,
               .workspace_bytes = source_.workspace_bytes,
               .executable_bytes = source_.executable_bytes,
               .total_us = source_.total_us,
               .host_bytes = source_.host_bytes};
  }
  ReportStorage(const ReportStorage&) = delete;
  ReportStorage& operator=(const ReportStorage&) = delete;

  const encore_capture_report* report() const { return &report_; }

 private:
  CaptureReport source_;
  std::vector<encore_bucket_report> buckets_;
  encore_capture_report report_{};
};

// The StepOutput objects of steps in flight, which a runner may refer to until its wait() returns.
// Allocates only while the number of steps in flight reaches a new maximum. One thread.
class OutputSlots {
 public:
  struct Slot {
    StepOutput output;
    Ticket ticket = 0;
    bool busy = false;
  };

  Slot& acquire() {
    for (const std::unique_ptr<Slot>& slot : slots_) {
      if (!slot->busy) return *slot;
    }
    return *slots_.emplace_back(std::make_unique<Slot>());
  }

  void release(Ticket ticket) {
    for (const std::unique_ptr<Slot>& slot : slots_) {
      if (slot->busy && slot->ticket == ticket) slot->busy = false;
    }
  }

 private:
  std::vector<std::unique_ptr<Slot>> slots_;
};

// The schema in the host's terms, built once. Not movable: the C list points into it.
class SchemaStorage {
 public:
  explicit SchemaStorage(std::vector<OptionSchema> schema) : source_(std::move(schema)) {
    choices_.resize(source_.size());
    for (size_t i = 0; i < source_.size(); ++i) {
      const OptionSchema& option = source_[i];
      for (const std::string& choice : option.choices) {
        choices_[i].push_back({choice.data(), choice.size()});
      }
      options_.push_back({.key = option.key.data(),
                          .key_size = option.key.size(),
                          .default_value = option.default_value.data(),
                          .default_value_size = option.default_value.size(),
                          .help = option.help.data(),
                          .help_size = option.help.size(),
                          .choices = choices_[i].data(),
                          .choices_count = choices_[i].size(),
                          .choices_stride = sizeof(encore_text),
                          .minimum = option.minimum,
                          .maximum = option.maximum,
                          .type = static_cast<int32_t>(option.type),
                          .reserved = 0});
    }
  }
  SchemaStorage(const SchemaStorage&) = delete;
  SchemaStorage& operator=(const SchemaStorage&) = delete;

  encore_option_list list() const {
    return {.struct_size = sizeof(encore_option_list),
            .options = options_.data(),
            .options_count = options_.size(),
            .options_stride = sizeof(encore_option_schema)};
  }

 private:
  std::vector<OptionSchema> source_;
  std::vector<std::vector<encore_text>> choices_;
  std::vector<encore_option_schema> options_;
};

}  // namespace encore::sdk

// NOLINTBEGIN(readability-identifier-naming): the C header chose these names.

struct encore_backend {
  explicit encore_backend(std::unique_ptr<encore::Backend> author)
      : identity(author->identity()), schema(author->option_schema()), backend(std::move(author)) {}

  encore::BackendIdentity identity;  // the table points here
  encore::sdk::SchemaStorage schema;
  encore_backend_table table{};
  bool initialised = false;
  std::unique_ptr<encore::Backend> backend;
};

struct encore_model {
  explicit encore_model(const encore_weight_source* source) : weights(source) {}

  encore::sdk::HostWeights weights;
  std::unique_ptr<encore::Model> model;
};

struct encore_kv {
  std::unique_ptr<encore::KvCache> kv;
};

struct encore_runner {
  explicit encore_runner(encore::RunnerCapture capture)
      : report(std::move(capture.report)), runner(std::move(capture.runner)) {}

  encore::sdk::ReportStorage report;
  std::unique_ptr<encore::sdk::ReportStorage> lazy_report;  // of the last capture_bucket()
  encore::sdk::BatchScratch scratch;
  encore::sdk::OutputSlots outputs;
  std::unique_ptr<encore::Runner> runner;
};

// NOLINTEND(readability-identifier-naming)
