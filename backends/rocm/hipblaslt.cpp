#include "hipblaslt.h"

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>

#include "gpu_status.h"
#include "hipblaslt_library.h"
#include "hipblaslt_product.h"
#include "tuned_blas.h"

namespace encore::rocm {
namespace {

constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;
// A product that every device has kernels for, if there are kernels for it at all.
constexpr gpu::ProductShape kPlain = {128, 128, 128};

class Hipblaslt final : public gpu::ProductLibrary {
 public:
  Hipblaslt(const HipblasltFunctions& hipblaslt, hipblasLtHandle_t handle)
      : hipblaslt_(hipblaslt), handle_(handle) {}
  ~Hipblaslt() override { static_cast<void>(hipblaslt_.destroy(handle_)); }
  Hipblaslt(const Hipblaslt&) = delete;
  Hipblaslt& operator=(const Hipblaslt&) = delete;

  // Before anything else is called.
  Status start();

  const std::string& identity() const override { return identity_; }
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }
  bool promises_same_bits() const override { return false; }
  Result<std::unique_ptr<gpu::LibraryProduct>> describe(const gpu::ProductShape& shape) override {
    return HipblasltProduct::create(hipblaslt_, handle_, shape);
  }

 private:
  HipblasltFunctions hipblaslt_;
  hipblasLtHandle_t handle_;
  std::string identity_;
};

Status Hipblaslt::start() {
  int version = 0;
  ENCORE_RETURN_IF_ERROR(
      hipblaslt_status(hipblaslt_.version(handle_, &version), "asking hipBLASLt for its version"));
  ENCORE_RETURN_IF_ERROR(check_hipblaslt_version(version));
  int device = 0;
  hipDeviceProp_t properties{};
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(hipGetDevice(&device), "finding the device"));
  ENCORE_RETURN_IF_ERROR(
      gpu::gpu_status(hipGetDeviceProperties(&properties, device), "asking about the device"));
  identity_ = std::string(properties.name) + ", " + properties.gcnArchName + ", " +
              std::to_string(properties.multiProcessorCount) + " multiprocessors, hipBLASLt " +
              std::to_string(version);
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<gpu::LibraryProduct> plain, describe(kPlain));
  const Status listed = plain->candidates(kWorkspaceBytes, 1).status();
  if (listed.ok()) return {};
  return unavailable("hipBLASLt has no kernels for " + std::string(properties.gcnArchName) + ": " +
                     listed.message());
}

}  // namespace

Result<std::unique_ptr<gpu::Blas>> make_hipblaslt(const std::filesystem::path& tuning_folder) {
  ENCORE_ASSIGN_OR_RETURN(const HipblasltFunctions hipblaslt, open_hipblaslt());
  hipblasLtHandle_t handle = nullptr;
  const Status started = hipblaslt_status(hipblaslt.create(&handle), "starting hipBLASLt");
  if (!started.ok()) return unavailable(started.message());
  auto library = std::make_unique<Hipblaslt>(hipblaslt, handle);
  ENCORE_RETURN_IF_ERROR(library->start());
  return std::unique_ptr<gpu::Blas>(
      std::make_unique<gpu::TunedBlas>(std::move(library), tuning_folder));
}

}  // namespace encore::rocm
