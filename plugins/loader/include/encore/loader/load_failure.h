// How far loading a plugin got, and what stopped it: for people a message, for programs a code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace encore {

// In the order in which they happen. A failure says how far loading got.
enum class LoadStage : int32_t {
  kManifest = 0,      // the manifest can be read and fits the file that it names
  kPath = 1,          // the path is absolute and names a regular file, with the checksum asked for
  kPermissions = 2,   // nobody but root and this user can change the file or a folder above it
  kElf = 3,           // a whole shared library for this machine
  kDependencies = 4,  // every library it needs, and those need, can be found
  kProbe = 5,         // a child process survives loading, initialising and ending it
  kLoad = 6,          // the dynamic linker takes it: no undefined symbol
  kNegotiation = 7,   // an Encore plugin whose ABI this host speaks
  kOptions = 8,       // its option schema makes sense
  kRegistration = 9,  // its name is free, and is what the manifest says
};

std::string_view load_stage_name(LoadStage stage);

// What was wrong: hundreds are the stage. The numbers are in logs, in --json and in
// docs/plugins.md: never renumber.
enum class LoadCode : int32_t {
  kNone = 0,
  // manifest
  kManifestUnreadable = 1,
  kManifestMalformed = 2,
  kManifestOutside = 3,     // names a library outside its own folder
  kManifestNoVariant = 4,   // no variant that this processor can run
  kVariantUnknown = 5,      // the variant asked for is not in the manifest
  kVariantUnsupported = 6,  // the variant asked for cannot run here
  // path
  kPathRelative = 100,
  kPathMissing = 101,
  kPathNotAFile = 102,
  kPathLoop = 103,
  kPathUnreadable = 104,
  kChecksum = 105,
  // permissions
  kFileOwner = 200,
  kFileWritable = 201,
  kFolderOwner = 202,
  kFolderWritable = 203,
  // ELF
  kElfEmpty = 300,
  kElfMagic = 301,
  kElfClass = 302,
  kElfMachine = 303,
  kElfType = 304,
  kElfTruncated = 305,
  kElfDamaged = 306,
  // dependencies
  kDependencyMissing = 400,
  // probe
  kProbeCrashed = 500,
  kProbeTimedOut = 501,
  kProbeExited = 502,
  kProbeThrew = 503,  // an exception left the plugin
  kProbeSelfTest = 504,
  kProbeNotStarted = 505,  // the probe program is missing or could not be run
  // load
  kLinker = 600,
  // negotiation
  kNoEntry = 700,
  kEntryFailed = 701,  // the entry function reported an error, or gave no table
  kMagic = 702,
  kMajor = 703,
  kTableSize = 704,
  kTableAddress = 705,
  kFunctionMissing = 706,
  kIdentity = 707,
  // options
  kSchema = 800,
  // registration
  kNameTaken = 900,
  kNameForeign = 901,    // a third party's name without its vendor
  kManifestStale = 902,  // the library is not what the manifest says
};

// The code's name as used in logs and --json, for example "elf_truncated".
std::string_view load_code_name(LoadCode code);

constexpr LoadStage load_stage_of(LoadCode code) {
  return static_cast<LoadStage>(static_cast<int32_t>(code) / 100);
}

struct LoadFailure {
  LoadCode code = LoadCode::kNone;
  std::string path;
  std::string message;  // cause and remedy, without the path

  LoadStage stage() const { return load_stage_of(code); }
};

}  // namespace encore
