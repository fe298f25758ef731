#include "cublas_lt.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <utility>

#include "cublas_library.h"
#include "cublas_product.h"
#include "gpu_status.h"
#include "tuned_blas.h"

namespace encore::cuda {
namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32}
                                    << 20;  // what the library's guide asks for on Hopper

// What an algorithm is good for: this device with this version of the library.
Result<std::string> tuning_identity(const CublasFunctions& cublas) {
  int device = 0;
  cudaDeviceProp properties{};
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaGetDevice(&device), "finding the device"));
  ENCORE_RETURN_IF_ERROR(
      gpu::gpu_status(cudaGetDeviceProperties(&properties, device), "asking about the device"));
  return std::string(properties.name) + ", sm " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", " + std::to_string(properties.multiProcessorCount) +
         " multiprocessors, cublasLt " + std::to_string(cublas.version());
}

class CublasLt final : public gpu::ProductLibrary {
 public:
  CublasLt(const CublasFunctions& cublas, cublasLtHandle_t handle, std::string identity)
      : cublas_(cublas), handle_(handle), identity_(std::move(identity)) {}
  ~CublasLt() override { static_cast<void>(cublas_.destroy(handle_)); }
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const std::string& identity() const override { return identity_; }
  int64_t workspace_bytes() const override { return kWorkspaceBytes; }
  // CublasProduct asks for none that do not.
  bool promises_same_bits() const override { return true; }
  Result<std::unique_ptr<gpu::LibraryProduct>> describe(const gpu::ProductShape& shape) override {
    return CublasProduct::create(cublas_, handle_, shape);
  }

 private:
  CublasFunctions cublas_;
  cublasLtHandle_t handle_;
  std::string identity_;
};

}  // namespace

Result<std::unique_ptr<gpu::Blas>> make_cublas_lt(const std::filesystem::path& tuning_folder) {
  ENCORE_ASSIGN_OR_RETURN(const CublasFunctions cublas, open_cublas(cublas_candidates()));
  ENCORE_ASSIGN_OR_RETURN(std::string identity, tuning_identity(cublas));
  cublasLtHandle_t handle = nullptr;
  ENCORE_RETURN_IF_ERROR(cublas_status(cublas, cublas.create(&handle), "starting cuBLASLt"));
  auto library = std::make_unique<CublasLt>(cublas, handle, std::move(identity));
  return std::unique_ptr<gpu::Blas>(
      std::make_unique<gpu::TunedBlas>(std::move(library), tuning_folder));
}

}  // namespace encore::cuda
