# The tables, with the keys and indexes of shared/adapters/dynamodb/src/tables.rs.

resource "aws_dynamodb_table" "orders" {
  name                        = local.table_names.orders
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "OrderID"
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  attribute {
    name = "OrderID"
    type = "S"
  }

  # Set on outputs above 1 KB; on the details of finished orders only with timing.details_retention.
  ttl {
    attribute_name = "ExpiresAt"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = local.kms_key_arn
  }
}

resource "aws_dynamodb_table" "order_state" {
  name                        = local.table_names.order_state
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "OrderID"
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  attribute {
    name = "OrderID"
    type = "S"
  }

  attribute {
    name = "DueShard"
    type = "N"
  }

  attribute {
    name = "DueAt"
    type = "N"
  }

  attribute {
    name = "Attention"
    type = "S"
  }

  attribute {
    name = "AttentionAt"
    type = "N"
  }

  attribute {
    name = "Search1"
    type = "S"
  }

  attribute {
    name = "Search2"
    type = "S"
  }

  attribute {
    name = "SubmittedAt"
    type = "N"
  }

  # Sparse: only orders that are under way, or not yet confirmed, have the two attributes. The
  # workflow is in it so that Submission can count what is under way by workflow.
  global_secondary_index {
    name               = "due"
    hash_key           = "DueShard"
    range_key          = "DueAt"
    projection_type    = "INCLUDE"
    non_key_attributes = ["Workflow"]
  }

  # Sparse: only orders that an operator must look at have the two attributes.
  global_secondary_index {
    name               = "attention"
    hash_key           = "Attention"
    range_key          = "AttentionAt"
    projection_type    = "INCLUDE"
    non_key_attributes = ["Cause", "Workflow"]
  }

  # Sparse: only orders with search keys have the attributes. A key of an order is in one of the two.
  global_secondary_index {
    name               = "search-1"
    hash_key           = "Search1"
    range_key          = "SubmittedAt"
    projection_type    = "INCLUDE"
    non_key_attributes = ["Workflow"]
  }

  global_secondary_index {
    name               = "search-2"
    hash_key           = "Search2"
    range_key          = "SubmittedAt"
    projection_type    = "INCLUDE"
    non_key_attributes = ["Workflow"]
  }

  # Set on finished orders only.
  ttl {
    attribute_name = "ExpiresAt"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = local.kms_key_arn
  }
}

resource "aws_dynamodb_table" "workflows" {
  name                        = local.table_names.workflows
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "Name"
  range_key                   = "Version"
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  attribute {
    name = "Name"
    type = "S"
  }

  attribute {
    name = "Version"
    type = "S"
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = local.kms_key_arn
  }
}

# Circuit breakers, pauses, the ledger of calls: what agents share between their instances.
resource "aws_dynamodb_table" "control" {
  name                        = local.table_names.control
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "Key"
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  attribute {
    name = "Key"
    type = "S"
  }

  ttl {
    attribute_name = "ExpiresAt"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = local.kms_key_arn
  }
}
