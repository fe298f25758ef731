#include "package_hints.h"

#include <array>

namespace encore {
namespace {

struct Hint {
  std::string_view library;  // the name as asked for, or its part before a version
  std::string_view package;
};

// An entry that ends in ".so" stands for every version of that library.
constexpr auto kHints = std::to_array<Hint>({
    // compilers' run times
    {"libstdc++.so.6", "libstdc++6"},
    {"libgcc_s.so.1", "libgcc-s1"},
    {"libgomp.so.1", "libgomp1"},
    {"libgfortran.so.5", "libgfortran5"},
    {"libquadmath.so.0", "libquadmath0"},
    {"libatomic.so.1", "libatomic1"},
    {"libc++.so.1", "libc++1"},
    {"libc++abi.so.1", "libc++abi1"},
    {"libunwind.so.1", "libunwind-14"},
    {"libomp.so.5", "libomp5"},
    {"libasan.so.8", "libasan8"},
    {"libubsan.so.1", "libubsan1"},
    {"libtsan.so.2", "libtsan2"},
    // NVIDIA
    {"libcuda.so.1", "libcuda1, which comes with the NVIDIA driver"},
    {"libnvidia-ml.so.1", "libnvidia-ml1, which comes with the NVIDIA driver"},
    {"libcudart.so", "NVIDIA's repository: cuda-cudart-<version>"},
    {"libcublas.so", "NVIDIA's repository: libcublas-<version>"},
    {"libcublasLt.so", "NVIDIA's repository: libcublas-<version>"},
    {"libcusparse.so", "NVIDIA's repository: libcusparse-<version>"},
    {"libcusolver.so", "NVIDIA's repository: libcusolver-<version>"},
    {"libcurand.so", "NVIDIA's repository: libcurand-<version>"},
    {"libnvrtc.so", "NVIDIA's repository: cuda-nvrtc-<version>"},
    {"libnvJitLink.so", "NVIDIA's repository: libnvjitlink-<version>"},
    {"libcudnn.so", "NVIDIA's repository: libcudnn<version>"},
    {"libnccl.so.2", "NVIDIA's repository: libnccl2"},
    // AMD
    {"libamdhip64.so", "AMD's repository: hip-runtime-amd (Debian: libamdhip64-5)"},
    {"libhsa-runtime64.so.1", "libhsa-runtime64-1"},
    {"librocblas.so", "AMD's repository: rocblas (Debian: librocblas0)"},
    {"libhipblas.so", "AMD's repository: hipblas"},
    {"libhipblaslt.so", "AMD's repository: hipblaslt"},
    {"librccl.so", "AMD's repository: rccl"},
    {"libhiprtc.so", "AMD's repository: hip-runtime-amd"},
    {"libamd_comgr.so", "AMD's repository: comgr (Debian: libamd-comgr2)"},
    {"librocm_smi64.so", "AMD's repository: rocm-smi-lib"},
    // Intel and portable interfaces
    {"libze_loader.so.1", "libze1 of Intel's repository"},
    {"libsycl.so", "Intel's repository: intel-oneapi-runtime-dpcpp-cpp"},
    {"libmkl_rt.so", "libmkl-rt"},
    {"libOpenCL.so.1", "ocl-icd-libopencl1"},
    {"libvulkan.so.1", "libvulkan1"},
    // mathematics, threads, machines
    {"libopenblas.so.0", "libopenblas0"},
    {"libblas.so.3", "libblas3"},
    {"liblapack.so.3", "liblapack3"},
    {"libdnnl.so.2", "libdnnl2"},
    {"libdnnl.so.3", "libdnnl3"},
    {"libtbb.so.12", "libtbb12"},
    {"libnuma.so.1", "libnuma1"},
    {"libhwloc.so.15", "libhwloc15"},
    {"libmpi.so.40", "libopenmpi3"},
    {"libmpi.so.12", "libmpich12"},
    {"libibverbs.so.1", "libibverbs1"},
    {"librdmacm.so.1", "librdmacm1"},
    {"libucp.so.0", "libucx0"},
    // what plugins commonly link
    {"libyaml-cpp.so.0.7", "libyaml-cpp0.7"},
    {"libfmt.so.9", "libfmt9"},
    {"libspdlog.so.1.10", "libspdlog1.10"},
    {"libprotobuf.so.32", "libprotobuf32"},
    {"libssl.so.3", "libssl3"},
    {"libcrypto.so.3", "libssl3"},
    {"libz.so.1", "zlib1g"},
    {"libzstd.so.1", "libzstd1"},
    {"libelf.so.1", "libelf1"},
    {"libdrm.so.2", "libdrm2"},
});

}  // namespace

std::string_view package_hint(std::string_view library) {
  for (const Hint& hint : kHints) {
    if (library == hint.library) return hint.package;
    const bool any_version = hint.library.ends_with(".so");
    if (any_version && library.starts_with(hint.library) && library.size() > hint.library.size() &&
        library[hint.library.size()] == '.') {
      return hint.package;
    }
  }
  return {};
}

}  // namespace encore
