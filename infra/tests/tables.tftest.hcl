# The tables: keys, indexes, protection. They must be what shared/adapters/dynamodb/src/tables.rs makes.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "protected_keyed_and_indexed" {
  command = apply

  assert {
    condition = alltrue([
      for t in [aws_dynamodb_table.orders, aws_dynamodb_table.order_state, aws_dynamodb_table.workflows, aws_dynamodb_table.control] :
      t.billing_mode == "PAY_PER_REQUEST" && t.point_in_time_recovery[0].enabled && t.deletion_protection_enabled
    ])
    error_message = "every table is on demand, with point-in-time recovery and deletion protection"
  }
  assert {
    condition = alltrue([
      for t in [aws_dynamodb_table.orders, aws_dynamodb_table.order_state, aws_dynamodb_table.workflows, aws_dynamodb_table.control] :
      t.server_side_encryption[0].enabled && t.server_side_encryption[0].kms_key_arn == aws_kms_key.this[0].arn
    ])
    error_message = "every table is encrypted with the customer key"
  }
  assert {
    condition     = aws_kms_key.this[0].enable_key_rotation && aws_kms_key.this[0].deletion_window_in_days == 30
    error_message = "the key rotates, and is not gone at once"
  }
  assert {
    condition = [
      aws_dynamodb_table.orders.name, aws_dynamodb_table.order_state.name,
      aws_dynamodb_table.workflows.name, aws_dynamodb_table.control.name,
    ] == ["triad-orders", "triad-order-state", "triad-workflows", "triad-control"]
    error_message = "names of tables"
  }
  assert {
    condition     = aws_dynamodb_table.orders.hash_key == "OrderID" && aws_dynamodb_table.orders.range_key == null
    error_message = "orders: OrderID"
  }
  assert {
    condition     = aws_dynamodb_table.order_state.hash_key == "OrderID" && aws_dynamodb_table.order_state.range_key == null
    error_message = "order-state: OrderID"
  }
  assert {
    condition     = aws_dynamodb_table.workflows.hash_key == "Name" && aws_dynamodb_table.workflows.range_key == "Version"
    error_message = "workflows: Name and Version"
  }
  assert {
    condition     = aws_dynamodb_table.control.hash_key == "Key" && aws_dynamodb_table.control.range_key == null
    error_message = "control: Key"
  }
  assert {
    condition = {
      for a in aws_dynamodb_table.order_state.attribute : a.name => a.type
    } == { OrderID = "S", DueShard = "N", DueAt = "N", Attention = "S", AttentionAt = "N", Search1 = "S", Search2 = "S", SubmittedAt = "N" }
    error_message = "types of the attributes of order-state"
  }
  assert {
    condition = alltrue([
      for t in [aws_dynamodb_table.orders, aws_dynamodb_table.order_state, aws_dynamodb_table.control] :
      t.ttl[0].enabled && t.ttl[0].attribute_name == "ExpiresAt"
    ])
    error_message = "details, process records and control items expire by ExpiresAt, where they have it"
  }
  assert {
    condition     = length(aws_dynamodb_table.workflows.ttl) == 0
    error_message = "definitions are kept"
  }
  assert {
    condition = one([
      for i in aws_dynamodb_table.order_state.global_secondary_index :
      "${i.hash_key} ${i.range_key} ${i.projection_type} ${join(",", i.non_key_attributes)}" if i.name == "due"
    ]) == "DueShard DueAt INCLUDE Workflow"
    error_message = "index due: what is under way, with its workflow"
  }
  assert {
    condition = one([
      for i in aws_dynamodb_table.order_state.global_secondary_index :
      "${i.hash_key} ${i.range_key} ${i.projection_type} ${join(",", sort(i.non_key_attributes))}" if i.name == "attention"
    ]) == "Attention AttentionAt INCLUDE Cause,Workflow"
    error_message = "index attention: what an operator must look at, with its cause and workflow"
  }
  assert {
    condition = toset([
      for i in aws_dynamodb_table.order_state.global_secondary_index :
      "${i.name} ${i.hash_key} ${i.range_key} ${i.projection_type} ${join(",", i.non_key_attributes)}" if startswith(i.name, "search-")
    ]) == toset(["search-1 Search1 SubmittedAt INCLUDE Workflow", "search-2 Search2 SubmittedAt INCLUDE Workflow"])
    error_message = "indexes search-1 and search-2: orders by their search keys, with their workflow"
  }
  assert {
    condition     = length(aws_dynamodb_table.order_state.global_secondary_index) == 4
    error_message = "no further index: each costs write units"
  }
}

run "a_key_of_ones_own" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
  }
  assert {
    condition     = length(aws_kms_key.this) == 0 && length(aws_kms_alias.this) == 0
    error_message = "no key is made"
  }
  assert {
    condition = alltrue([
      for t in [aws_dynamodb_table.orders, aws_dynamodb_table.order_state, aws_dynamodb_table.workflows, aws_dynamodb_table.control] :
      t.server_side_encryption[0].kms_key_arn == var.kms_key_arn
    ])
    error_message = "the tables use the given key"
  }
}

# README.md, "Destroy an installation": protection is lifted by an apply, and then a destroy goes through. The first run has
# applied an installation with protection, so these change one that is there.
run "protection_is_on_unless_it_is_lifted" {
  command = apply
  assert {
    condition     = !aws_s3_bucket.failed_records[0].force_destroy && aws_dynamodb_table.orders.deletion_protection_enabled
    error_message = "a destroy fails at the tables, and at a bucket with records"
  }
}

run "lifting_it_leaves_nothing_that_refuses_a_destroy" {
  command = apply
  variables {
    deletion_protection = false
  }
  assert {
    condition = !anytrue([
      for t in [aws_dynamodb_table.orders, aws_dynamodb_table.order_state, aws_dynamodb_table.workflows, aws_dynamodb_table.control] :
      t.deletion_protection_enabled
    ]) && aws_s3_bucket.failed_records[0].force_destroy
    error_message = "tables and bucket can be deleted"
  }
}
