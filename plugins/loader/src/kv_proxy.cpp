#include "kv_proxy.h"

#include <cstddef>
#include <string>

#include "abi_call.h"
#include "claims.h"
#include "encore/sdk/abi_struct.h"
#include "to_abi.h"

namespace encore {

Result<std::unique_ptr<KvCache>> KvProxy::create(std::shared_ptr<const PluginContext> context,
                                                 encore_model* model, const KvOptions& options) {
  const encore_backend_table& table = context->table;
  const encore_kv_options abi_options = kv_options_to_abi(options);
  encore_kv* handle = nullptr;
  ENCORE_RETURN_IF_ERROR(abi_call(table.kv_create, model, &abi_options, &handle));
  if (handle == nullptr) return internal_error("kv_create succeeded without a KV cache");
  std::unique_ptr<KvProxy> kv(new KvProxy(std::move(context), model, handle));
  auto info = sdk::sized<encore_kv_info>();
  ENCORE_RETURN_IF_ERROR(abi_call(kv->context_->table.kv_info, handle, &info));
  ENCORE_ASSIGN_OR_RETURN(kv->info_, read_kv_info(info, options));
  return std::unique_ptr<KvCache>(std::move(kv));
}

KvProxy::~KvProxy() { context_->table.kv_free(handle_); }

Status KvProxy::check_page(const char* what, int32_t page) const {
  if (page >= 0 && page < info_.num_pages) return {};
  return invalid_argument(std::string(what) + " is page " + std::to_string(page) +
                          "; the KV cache has pages 0 to " + std::to_string(info_.num_pages - 1));
}

Status KvProxy::copy_pages(std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    ENCORE_RETURN_IF_ERROR(check_page("the source", copy.source));
    ENCORE_RETURN_IF_ERROR(check_page("the destination", copy.destination));
  }
  return abi_call(context_->table.kv_copy, handle_, elements_to_abi<encore_page_copy>(copies),
                  copies.size(), sizeof(encore_page_copy));
}

Status KvProxy::read_page(int32_t page, std::span<std::byte> destination) const {
  ENCORE_RETURN_IF_ERROR(check_page("the page to read", page));
  if (static_cast<int64_t>(destination.size()) != info_.page_bytes) {
    return invalid_argument("the destination has " + std::to_string(destination.size()) +
                            " bytes; a page has " + std::to_string(info_.page_bytes));
  }
  return abi_call(context_->table.kv_read, handle_, page, static_cast<void*>(destination.data()),
                  destination.size());
}

}  // namespace encore
