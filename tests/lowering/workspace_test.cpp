// What a device is asked to reserve: two KV caches of one model may want different sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "encore/lowering/device.h"

namespace encore::lowering {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Field;
using ::testing::NiceMock;
using ::testing::Return;
using Block = Result<std::unique_ptr<DeviceMemoryBlock>>;

class MockDevice : public Device {
 public:
  MOCK_METHOD(Ops&, ops, (), (override));
  MOCK_METHOD(DType, activation_dtype, (), (const, override));
  MOCK_METHOD(ModelInfo, model_info, (), (const, override));
  MOCK_METHOD(Block, allocate, (int64_t, const std::string&), (override));
  MOCK_METHOD(Block, allocate_host, (int64_t, const std::string&), (override));
  MOCK_METHOD(int64_t, kv_page_bytes, (const ModelSpec&, int32_t, DType), (const, override));
  MOCK_METHOD(Result<std::shared_ptr<void>>, describe_kv,
              (const ModelSpec&, std::byte*, int32_t, int32_t, DType), (override));
  MOCK_METHOD(Result<int64_t>, reserve_workspace,
              (const ModelSpec&, const WorkspaceRequest&, int64_t*), (override));
  MOCK_METHOD(Status, fill_workspace, (uint8_t), (override));
  MOCK_METHOD(Status, copy_in, (std::byte*, const std::byte*, int64_t), (override));
  MOCK_METHOD(Status, copy_out, (std::byte*, const std::byte*, int64_t), (override));
  MOCK_METHOD(Status, copy, (std::byte*, const std::byte*, int64_t), (override));
  MOCK_METHOD(Status, fill, (std::byte*, uint8_t, int64_t), (override));
  MOCK_METHOD(Status, begin_capture, (), (override));
  MOCK_METHOD(Result<std::unique_ptr<DeviceGraph>>, end_capture, (), (override));
  MOCK_METHOD(Status, launch, (DeviceGraph&), (override));
  MOCK_METHOD(Result<uint64_t>, mark, (), (override));
  MOCK_METHOD(Status, wait, (uint64_t, int64_t), (override));
};

auto asks_for(int32_t tokens, int32_t requests, int32_t context, int32_t logit_rows) {
  return AllOf(Field(&WorkspaceRequest::max_tokens, tokens),
               Field(&WorkspaceRequest::max_requests, requests),
               Field(&WorkspaceRequest::max_context, context),
               Field(&WorkspaceRequest::max_logit_rows, logit_rows));
}

TEST(WorkspaceTest, NoSizeShrinksWhenAnotherGrows) {
  NiceMock<MockDevice> device;
  int64_t added = 0;
  EXPECT_CALL(device, reserve_workspace(_, asks_for(8, 2, 4096, 2), _))
      .WillOnce(Return(Result<int64_t>(100)));
  EXPECT_EQ(*device.grow_workspace({}, {8, 2, 4096, 2}, &added), 100);
  EXPECT_CALL(device, reserve_workspace(_, asks_for(512, 4, 4096, 4), _))
      .WillOnce(Return(Result<int64_t>(200)));
  EXPECT_EQ(*device.grow_workspace({}, {512, 4, 64, 4}, &added), 200);
}

TEST(WorkspaceTest, WhatWasRefusedIsNotAskedForAgain) {
  NiceMock<MockDevice> device;
  int64_t added = 0;
  EXPECT_CALL(device, reserve_workspace(_, asks_for(8, 9999, 64, 2), _))
      .WillOnce(Return(Result<int64_t>(invalid_argument("too many requests"))));
  EXPECT_FALSE(device.grow_workspace({}, {8, 9999, 64, 2}, &added).ok());
  EXPECT_CALL(device, reserve_workspace(_, asks_for(8, 2, 64, 2), _))
      .WillOnce(Return(Result<int64_t>(100)));
  EXPECT_TRUE(device.grow_workspace({}, {8, 2, 64, 2}, &added).ok());
}

}  // namespace
}  // namespace encore::lowering
