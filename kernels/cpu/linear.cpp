#include "kernels/cpu/linear.h"

#include <algorithm>

#include "built_level.h"
#include "linear_internal.h"

namespace encore::kernels {
namespace {

// Up to so many rows each worker converts x for itself: cheaper than meeting at a barrier.
constexpr int32_t kRedundantRows = 4;
// With more rows than kRedundantRows, work is cut into units of columns by chunks of rows.
constexpr int32_t kRowChunk = 96;  // a multiple of 16 and of 6: whole tiles
constexpr int64_t kDecodeUnit = 16;
constexpr int64_t kPrefillUnit = 32;

const LinearKernels& kernels_of(IsaLevel level) {
  if constexpr (kBuiltLevel >= IsaLevel::kAmx) {
    if (level >= IsaLevel::kAmx) return linear_kernels_amx();
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx512) {
    if (level >= IsaLevel::kAvx512) return linear_kernels_avx512();
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx2) {
    if (level >= IsaLevel::kAvx2) return linear_kernels_avx2();
  }
  return linear_kernels_reference();
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Which converted forms of x a set of weight types reads.
struct Forms {
  bool quantised = false;
  bool bf16 = false;

  void add(WeightType type) {
    quantised |= is_quantised(type);
    bf16 |= type == WeightType::kBF16;
  }
  size_t quantised_bytes(int64_t rows, int64_t k) const {
    return quantised ? static_cast<size_t>(rows * quantised_stride(k)) : 0;
  }
  // Rows of bf16 are padded to 16, which tiles read whole.
  size_t bytes(int64_t rows, int64_t k) const {
    const size_t bf16_bytes =
        bf16 ? static_cast<size_t>(ceil_div(rows, 16) * 16 * bf16_stride(k)) : 0;
    return quantised_bytes(rows, k) + bf16_bytes;
  }
};

// x in every form that the parts read.
struct Activations {
  const std::byte* quantised;
  const std::byte* bf16;
  const std::byte* f32;
  int64_t f32_stride;

  void select(WeightType type, int64_t k, ColumnTask* task) const {
    if (is_quantised(type)) {
      task->activations = quantised;
      task->activation_stride = quantised_stride(k);
    } else if (type == WeightType::kBF16) {
      task->activations = bf16;
      task->activation_stride = bf16_stride(k);
    } else {
      task->activations = f32;
      task->activation_stride = f32_stride;
    }
  }
};

// One call as one worker sees it.
class LinearCall {
 public:
  LinearCall(const LinearArgs& args, const Worker& worker, int32_t rows)
      : args_(args),
        worker_(worker),
        kernels_(kernels_of(args.level)),
        k_(args.parts[0].weight.k),
        rows_(rows),
        decode_(rows <= kRedundantRows),
        unit_columns_(decode_ ? kDecodeUnit : kPrefillUnit),
        row_chunks_(decode_ ? 1 : ceil_div(rows, kRowChunk)) {}

  void run() {
    convert_activations();
    int64_t items = 0;
    for (int32_t p = 0; p < listed_parts(); ++p) items += part_items(p);
    Share share = share_of(items, worker_.index, worker_.count);
    for (int32_t p = 0; p < listed_parts(); ++p) {
      const int64_t begin = std::clamp<int64_t>(share.begin, 0, part_items(p));
      const int64_t end = std::clamp<int64_t>(share.end, 0, part_items(p));
      run_items(p, begin, end);
      share.begin -= part_items(p);
      share.end -= part_items(p);
    }
  }

 private:
  // Gate and up go together: only the gate is listed.
  int32_t listed_parts() const {
    return args_.epilogue == Epilogue::kSiluMul ? 1 : args_.num_parts;
  }

  int64_t part_items(int32_t part) const {
    return ceil_div(args_.parts[part].weight.n, unit_columns_) * row_chunks_;
  }

  void convert_activations() {
    Forms forms;
    for (int32_t p = 0; p < args_.num_parts; ++p) forms.add(args_.parts[p].weight.type);
    activations_.f32 = reinterpret_cast<const std::byte*>(args_.x);
    activations_.f32_stride = args_.x_stride * static_cast<int64_t>(sizeof(float));
    if (!forms.quantised && !forms.bf16) return;
    const bool redundant = decode_ && forms.bytes(rows_, k_) <= worker_.scratch_bytes;
    auto* out = redundant ? worker_.scratch : static_cast<std::byte*>(args_.workspace);
    auto* bf16_out = out + forms.quantised_bytes(rows_, k_);
    activations_.quantised = out;
    activations_.bf16 = bf16_out;
    if (forms.quantised) kernels_.quantize_rows(rows_task(redundant, 1, out));
    if (forms.bf16) kernels_.round_rows(rows_task(redundant, kernels_.round_granularity, bf16_out));
    if (!redundant) worker_.wait();
  }

  RowsTask rows_task(bool redundant, int32_t granularity, std::byte* out) const {
    RowsTask task{args_.x, args_.x_stride, k_, 0, rows_, out};
    if (redundant) return task;
    const Share share = share_of(ceil_div(rows_, granularity), worker_.index, worker_.count);
    task.row_begin = static_cast<int32_t>(share.begin) * granularity;
    task.row_end = std::min(rows_, static_cast<int32_t>(share.end) * granularity);
    return task;
  }

  // Items of a part are numbered unit by unit, within a unit by row chunk: so a worker's columns
  // are contiguous, and only its first and last unit may be shared with a neighbour.
  void run_items(int32_t part, int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t unit = begin / row_chunks_;
      const int64_t chunk = begin % row_chunks_;
      const int64_t whole_units = chunk == 0 ? (end - begin) / row_chunks_ : 0;
      if (whole_units > 0) {
        run_units(part, unit, unit + whole_units, 0, rows_);
        begin += whole_units * row_chunks_;
        continue;
      }
      const int64_t chunks = std::min(end - begin, row_chunks_ - chunk);
      run_units(part, unit, unit + 1, static_cast<int32_t>(chunk) * kRowChunk,
                std::min(rows_, static_cast<int32_t>(chunk + chunks) * kRowChunk));
      begin += chunks;
    }
  }

  void run_units(int32_t part, int64_t unit_begin, int64_t unit_end, int32_t row_begin,
                 int32_t row_end) {
    if (args_.epilogue != Epilogue::kSiluMul) {
      const TileEpilogue epilogue =
          args_.epilogue == Epilogue::kAdd ? TileEpilogue::kAdd : TileEpilogue::kStore;
      const int64_t column = args_.parts[part].y_column;
      run_columns(part, column, unit_begin, unit_end, row_begin, row_end, epilogue);
      return;
    }
    // With many rows, one unit at a time, so that the gate is still in cache when up meets it.
    const int64_t step = decode_ ? unit_end - unit_begin : 1;
    for (int64_t unit = unit_begin; unit < unit_end; unit += step) {
      run_columns(0, 0, unit, unit + step, row_begin, row_end, TileEpilogue::kStore);
      run_columns(1, 0, unit, unit + step, row_begin, row_end, TileEpilogue::kSiluGate);
    }
  }

  void run_columns(int32_t part, int64_t y_column, int64_t unit_begin, int64_t unit_end,
                   int32_t row_begin, int32_t row_end, TileEpilogue epilogue) const {
    const LinearPart& p = args_.parts[part];
    ColumnTask task{};
    task.type = p.weight.type;
    task.weights = static_cast<const std::byte*>(p.weight.data);
    task.bias = p.bias;
    task.n = p.weight.n;
    task.k = k_;
    task.col_begin = unit_begin * unit_columns_;
    task.col_end = std::min(p.weight.n, unit_end * unit_columns_);
    task.row_begin = row_begin;
    task.row_end = row_end;
    activations_.select(task.type, k_, &task);
    task.y = args_.y + y_column;
    task.y_stride = args_.y_stride;
    task.epilogue = epilogue;
    if (is_quantised(task.type)) {
      kernels_.quantised_columns(task);
    } else {
      kernels_.float_columns(task);
    }
  }

  const LinearArgs& args_;
  const Worker& worker_;
  const LinearKernels& kernels_;
  const int64_t k_;
  const int32_t rows_;
  const bool decode_;
  const int64_t unit_columns_;
  const int64_t row_chunks_;
  Activations activations_{};
};

}  // namespace

size_t linear_workspace_bytes(std::span<const WeightType> types, int32_t max_rows, int64_t k) {
  Forms forms;
  for (const WeightType type : types) forms.add(type);
  return forms.bytes(max_rows, k);
}

size_t linear_scratch_bytes(std::span<const WeightType> types, int64_t k) {
  return linear_workspace_bytes(types, kRedundantRows, k);
}

void linear(const LinearArgs& args, const Worker& worker) {
  const int32_t rows = std::clamp(*args.num_rows, 0, args.max_rows);
  if (rows > 0) LinearCall(args, worker, rows).run();
}

}  // namespace encore::kernels
