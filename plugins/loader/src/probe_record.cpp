#include "probe_record.h"

#include <array>
#include <cstring>

#include "encore/sdk/abi_text.h"

namespace encore {
namespace {

constexpr uint32_t kMagic = 0x45505231;  // "EPR1"
constexpr size_t kMaxMessageBytes = 16384;

struct Header {
  uint32_t magic;
  int32_t step;
  int32_t is_outcome;
  int32_t code;
  int32_t status;
  int32_t usable;
  uint32_t message_bytes;
};

bool is_believable(const Header& header) {
  return header.magic == kMagic && header.step >= 0 &&
         header.step <= static_cast<int32_t>(ProbeStep::kEnd) && header.status >= 0 &&
         header.status <= static_cast<int32_t>(StatusCode::kInternal) &&
         load_code_name(static_cast<LoadCode>(header.code)) != "unknown" &&
         (header.code == 0) == (header.status == 0) && header.message_bytes <= kMaxMessageBytes;
}

}  // namespace

std::string_view probe_step_text(ProbeStep step) {
  constexpr std::array<std::string_view, 8> kTexts = {
      "before it was mapped",
      "while it was mapped (in a static initialiser?)",
      "in its entry function or its option schema",
      "in its probe()",
      "in its init()",
      "in its selftest()",
      "in its shutdown()",
      "while the process ended, after shutdown()"};
  const auto index = static_cast<size_t>(step);
  return index < kTexts.size() ? kTexts[index] : std::string_view("at an unknown step");
}

std::string encode_probe_record(const ProbeRecord& record) {
  const std::string_view message = std::string_view(record.message).substr(0, kMaxMessageBytes);
  const Header header = {.magic = kMagic,
                         .step = static_cast<int32_t>(record.step),
                         .is_outcome = record.is_outcome ? 1 : 0,
                         .code = static_cast<int32_t>(record.code),
                         .status = static_cast<int32_t>(record.status),
                         .usable = record.usable ? 1 : 0,
                         .message_bytes = static_cast<uint32_t>(message.size())};
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes.append(message);
}

std::optional<ProbeRecord> decode_probe_record(std::string_view* bytes) {
  Header header = {};
  if (bytes->size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes->data(), sizeof(header));
  if (!is_believable(header)) return std::nullopt;
  if (bytes->size() - sizeof(header) < header.message_bytes) return std::nullopt;
  ProbeRecord record = {
      .step = static_cast<ProbeStep>(header.step),
      .is_outcome = header.is_outcome != 0,
      .code = static_cast<LoadCode>(header.code),
      .status = static_cast<StatusCode>(header.status),
      .usable = header.usable != 0,
      .message = sdk::valid_utf8(bytes->substr(sizeof(header), header.message_bytes))};
  bytes->remove_prefix(sizeof(header) + header.message_bytes);
  return record;
}

}  // namespace encore
