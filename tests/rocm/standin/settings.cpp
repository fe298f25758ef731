#include "settings.h"

#include <cstdlib>

namespace encore::standin {
namespace {

void read(const char* name, std::string* value) {
  const char* text = std::getenv(name);
  if (text != nullptr) *value = text;
}

template <typename T>
void read(const char* name, T* value) {
  const char* text = std::getenv(name);
  if (text != nullptr) *value = static_cast<T>(std::strtoull(text, nullptr, 10));
}

Settings read_settings() {
  Settings settings;
  read("ENCORE_STANDIN_DEVICES", &settings.num_devices);
  read("ENCORE_STANDIN_ARCH", &settings.architecture);
  read("ENCORE_STANDIN_MEMORY", &settings.memory_bytes);
  read("ENCORE_STANDIN_OTHERS", &settings.others_bytes);
  read("ENCORE_STANDIN_PROCESSORS", &settings.processors);
  read("ENCORE_STANDIN_KERNELS", &settings.kernels);
  read("ENCORE_STANDIN_FAIL", &settings.failures);
  read("ENCORE_STANDIN_REPORT", &settings.report);
  return settings;
}

}  // namespace

// Never destroyed: the report reads them when the process ends.
const Settings& settings() {
  static const auto& settings = *new Settings(read_settings());
  return settings;
}

}  // namespace encore::standin
