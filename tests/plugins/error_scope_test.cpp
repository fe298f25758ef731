// How far a failure reaches, from a plugin's Status to the host's.
#include <gtest/gtest.h>

#include "encore/sdk/abi_status.h"

namespace encore {
namespace {

// What a function of that scope tells of the status.
encore_error told(const Status& status, int32_t scope) {
  encore_error error;
  sdk::prepare_error(&error);
  sdk::report(status, scope, &error);
  return error;
}

TEST(ErrorScopeTest, FunctionsSayWhatTheySpoil) {
  EXPECT_EQ(told(internal_error("x"), ENCORE_SCOPE_REQUEST).scope, 0);
  EXPECT_EQ(told(internal_error("x"), ENCORE_SCOPE_RUNNER).scope, 1);
}

TEST(ErrorScopeTest, BadArgumentsAndShortWaitsSpoilNothing) {
  EXPECT_EQ(told(invalid_argument("x"), ENCORE_SCOPE_RUNNER).scope, 0);
  EXPECT_EQ(told(deadline_exceeded("x"), ENCORE_SCOPE_RUNNER).scope, 0);
}

TEST(ErrorScopeTest, StatusWidensAndNeverNarrows) {
  const Status lost = internal_error("x").spoiling(Scope::kDevice);
  EXPECT_EQ(told(lost, ENCORE_SCOPE_REQUEST).scope, 2);
  EXPECT_EQ(told(lost, ENCORE_SCOPE_RUNNER).scope, 2);
  EXPECT_EQ(told(deadline_exceeded("x").spoiling(Scope::kDevice), ENCORE_SCOPE_RUNNER).scope, 2);
  EXPECT_EQ(told(internal_error("x").spoiling(Scope::kProcess), ENCORE_SCOPE_RUNNER).scope, 3);
}

TEST(ErrorScopeTest, RetryMakesSenseWhereNothingIsSpoilt) {
  EXPECT_EQ(told(out_of_memory("x"), ENCORE_SCOPE_REQUEST).retryable, 1);
  EXPECT_EQ(told(unavailable("x"), ENCORE_SCOPE_REQUEST).retryable, 1);
  EXPECT_EQ(told(deadline_exceeded("x"), ENCORE_SCOPE_RUNNER).retryable, 1);
  EXPECT_EQ(told(out_of_memory("x"), ENCORE_SCOPE_RUNNER).retryable, 0);
  EXPECT_EQ(told(internal_error("x"), ENCORE_SCOPE_REQUEST).retryable, 0);
  EXPECT_EQ(told(out_of_memory("x").spoiling(Scope::kDevice), ENCORE_SCOPE_REQUEST).retryable, 0);
}

TEST(ErrorScopeTest, HostReadsWhatThePluginTold) {
  const encore_error error = told(internal_error("x").spoiling(Scope::kDevice), 1);
  const Status read = sdk::status_from_abi(error.code, error);
  EXPECT_EQ(read.scope(), Scope::kDevice);
  EXPECT_EQ(read.to_string(), "internal: x (the device is lost to this process)");
  const Status again = read.retold("rank 1: " + read.message());
  EXPECT_EQ(again.code(), StatusCode::kInternal);
  EXPECT_EQ(again.scope(), Scope::kDevice);
}

}  // namespace
}  // namespace encore
