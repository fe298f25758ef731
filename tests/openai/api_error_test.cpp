#include "openai/api_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace encore {
namespace {

TEST(ApiErrorTest, HasTheShapeOfOpenAi) {
  EXPECT_EQ(to_json(bad_request("too hot", "temperature", "out_of_range")),
            R"({"error":{"message":"too hot","type":"invalid_request_error",)"
            R"("param":"temperature","code":"out_of_range"}})");
}

TEST(ApiErrorTest, WhatIsNotSaidIsNull) {
  EXPECT_EQ(
      to_json(bad_request("no")),
      R"({"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}})");
}

// A message may quote what a caller sent.
TEST(ApiErrorTest, IsValidJsonWhateverTheMessage) {
  std::string hostile;
  for (int byte = 0; byte < 256; ++byte) hostile.push_back(static_cast<char>(byte));
  const std::string json = to_json(bad_request(hostile, hostile, hostile));
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(parsed.is_discarded());
  EXPECT_EQ(parsed["error"]["message"].get<std::string>().substr(0, 128), hostile.substr(0, 128));
}

TEST(ApiErrorTest, CallersErrorsAre400) {
  const ApiError error = to_api_error(invalid_argument("top_p is 3"));
  EXPECT_EQ(error.http_status, 400);
  EXPECT_EQ(error.type, "invalid_request_error");
  EXPECT_EQ(error.message, "top_p is 3");
}

TEST(ApiErrorTest, UnavailableIs503AndEverythingElse500) {
  EXPECT_EQ(to_api_error(unavailable("loading")).http_status, 503);
  for (const StatusCode code :
       {StatusCode::kNotFound, StatusCode::kFailedPrecondition, StatusCode::kOutOfMemory,
        StatusCode::kUnimplemented, StatusCode::kDataLoss, StatusCode::kCancelled,
        StatusCode::kDeadlineExceeded, StatusCode::kInternal}) {
    const ApiError error = to_api_error(Status(code, "x"));
    EXPECT_EQ(error.http_status, 500) << status_code_name(code);
    EXPECT_EQ(error.type, "server_error") << status_code_name(code);
  }
}

}  // namespace
}  // namespace encore
