// A plugin's KV cache as the host sees it.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "encore/backend.h"
#include "plugin_context.h"

namespace encore {

class KvProxy : public KvCache {
 public:
  static Result<std::unique_ptr<KvCache>> create(std::shared_ptr<const PluginContext> context,
                                                 encore_model* model, const KvOptions& options);
  ~KvProxy() override;
  KvProxy(const KvProxy&) = delete;
  KvProxy& operator=(const KvProxy&) = delete;

  KvInfo info() const override { return info_; }
  // Both check page ids against info() before the plugin sees them.
  Status copy_pages(std::span<const PageCopy> copies) override;
  Status read_page(int32_t page, std::span<std::byte> destination) const override;

  encore_kv* handle() const { return handle_; }
  const encore_model* model() const { return model_; }

 private:
  KvProxy(std::shared_ptr<const PluginContext> context, const encore_model* model,
          encore_kv* handle)
      : context_(std::move(context)), model_(model), handle_(handle) {}
  Status check_page(const char* what, int32_t page) const;

  std::shared_ptr<const PluginContext> context_;
  const encore_model* model_;
  encore_kv* handle_;
  KvInfo info_;
};

}  // namespace encore
