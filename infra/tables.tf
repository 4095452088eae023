# The tables, with the keys and the index of shared/dynamodb/src/tables.rs.

resource "aws_dynamodb_table" "orders" {
  name                        = "${var.name_prefix}orders"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "OrderID"
  deletion_protection_enabled = var.deletion_protection

  attribute {
    name = "OrderID"
    type = "S"
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled = true
  }
}

resource "aws_dynamodb_table" "order_state" {
  name                        = "${var.name_prefix}order-state"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "OrderID"
  deletion_protection_enabled = var.deletion_protection

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

  # Sparse: only orders that somebody must look at have the two attributes.
  global_secondary_index {
    name            = "due"
    hash_key        = "DueShard"
    range_key       = "DueAt"
    projection_type = "KEYS_ONLY"
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
    enabled = true
  }
}

resource "aws_dynamodb_table" "workflows" {
  name                        = "${var.name_prefix}workflows"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "Name"
  range_key                   = "Version"
  deletion_protection_enabled = var.deletion_protection

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
    enabled = true
  }
}
