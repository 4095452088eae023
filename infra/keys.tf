# The customer key: one for tables, logs, environment variables, alerts and kept records.

locals {
  own_key     = var.kms_key_arn == null
  kms_key_arn = local.own_key ? one(aws_kms_key.this[*].arn) : var.kms_key_arn

  # Services that use the key by themselves, each for its own purpose. What the functions may do
  # with it is in their roles.
  key_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "AccountAdministersByIam"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account}:root" }
        Action    = "kms:*"
        Resource  = "*" # in a key's policy: this key
      },
      {
        Sid       = "FunctionLogs"
        Effect    = "Allow"
        Principal = { Service = "logs.${local.region}.amazonaws.com" }
        Action = [
          "kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo",
          "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:DescribeKey",
        ]
        Resource = "*"
        Condition = {
          ArnEquals = {
            "kms:EncryptionContext:aws:logs:arn" = [
              for name in values(local.log_group_names) :
              "arn:${local.partition}:logs:${local.arn_tail}:log-group:${name}"
            ]
          }
        }
      },
      {
        Sid       = "AlarmsAndKeptRecordsTellTheAlertsTopic"
        Effect    = "Allow"
        Principal = { Service = ["cloudwatch.amazonaws.com", "s3.amazonaws.com"] }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
      },
    ]
  }
}

resource "aws_kms_key" "this" {
  count                   = local.own_key ? 1 : 0
  description             = "Triad, ${var.name_prefix}: tables, logs, environment, alerts, kept records"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = jsonencode(local.key_policy)
  tags                    = var.tags
}

resource "aws_kms_alias" "this" {
  count         = local.own_key ? 1 : 0
  name          = "alias/${local.name}"
  target_key_id = aws_kms_key.this[0].key_id
}
