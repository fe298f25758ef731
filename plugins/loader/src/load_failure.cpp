#include "encore/loader/load_failure.h"

#include <array>

namespace encore {

std::string_view load_stage_name(LoadStage stage) {
  constexpr std::array<std::string_view, 10> kNames = {
      "manifest", "path", "permissions", "ELF",     "dependencies",
      "probe",    "load", "negotiation", "options", "registration"};
  const auto index = static_cast<size_t>(stage);
  return index < kNames.size() ? kNames[index] : std::string_view("unknown");
}

std::string_view load_code_name(LoadCode code) {
  switch (code) {
    case LoadCode::kNone:
      return "none";
    case LoadCode::kManifestUnreadable:
      return "manifest_unreadable";
    case LoadCode::kManifestMalformed:
      return "manifest_malformed";
    case LoadCode::kManifestOutside:
      return "manifest_outside";
    case LoadCode::kManifestNoVariant:
      return "manifest_no_variant";
    case LoadCode::kVariantUnknown:
      return "variant_unknown";
    case LoadCode::kVariantUnsupported:
      return "variant_unsupported";
    case LoadCode::kPathRelative:
      return "path_relative";
    case LoadCode::kPathMissing:
      return "path_missing";
    case LoadCode::kPathNotAFile:
      return "path_not_a_file";
    case LoadCode::kPathLoop:
      return "path_loop";
    case LoadCode::kPathUnreadable:
      return "path_unreadable";
    case LoadCode::kChecksum:
      return "checksum";
    case LoadCode::kFileOwner:
      return "file_owner";
    case LoadCode::kFileWritable:
      return "file_writable";
    case LoadCode::kFolderOwner:
      return "folder_owner";
    case LoadCode::kFolderWritable:
      return "folder_writable";
    case LoadCode::kElfEmpty:
      return "elf_empty";
    case LoadCode::kElfMagic:
      return "elf_magic";
    case LoadCode::kElfClass:
      return "elf_class";
    case LoadCode::kElfMachine:
      return "elf_machine";
    case LoadCode::kElfType:
      return "elf_type";
    case LoadCode::kElfTruncated:
      return "elf_truncated";
    case LoadCode::kElfDamaged:
      return "elf_damaged";
    case LoadCode::kDependencyMissing:
      return "dependency_missing";
    case LoadCode::kProbeCrashed:
      return "probe_crashed";
    case LoadCode::kProbeTimedOut:
      return "probe_timed_out";
    case LoadCode::kProbeExited:
      return "probe_exited";
    case LoadCode::kProbeThrew:
      return "probe_threw";
    case LoadCode::kProbeSelfTest:
      return "probe_self_test";
    case LoadCode::kProbeNotStarted:
      return "probe_not_started";
    case LoadCode::kLinker:
      return "linker";
    case LoadCode::kNoEntry:
      return "no_entry";
    case LoadCode::kEntryFailed:
      return "entry_failed";
    case LoadCode::kMagic:
      return "magic";
    case LoadCode::kMajor:
      return "major";
    case LoadCode::kTableSize:
      return "table_size";
    case LoadCode::kTableAddress:
      return "table_address";
    case LoadCode::kFunctionMissing:
      return "function_missing";
    case LoadCode::kIdentity:
      return "identity";
    case LoadCode::kSchema:
      return "schema";
    case LoadCode::kNameTaken:
      return "name_taken";
    case LoadCode::kNameForeign:
      return "name_foreign";
    case LoadCode::kManifestStale:
      return "manifest_stale";
  }
  return "unknown";
}

}  // namespace encore
