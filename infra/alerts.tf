# The alerts topic: what the function `alerts` forwards from the Kafka topic `alerts`, alarms, and
# notices of kept records.

resource "aws_sns_topic" "alerts" {
  name              = local.alerts_topic_name
  kms_master_key_id = local.kms_key_arn
  tags              = var.tags
}

resource "aws_sns_topic_policy" "alerts" {
  arn = aws_sns_topic.alerts.arn
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid       = "AlarmsOfThisAccount"
          Effect    = "Allow"
          Principal = { Service = "cloudwatch.amazonaws.com" }
          Action    = "sns:Publish"
          Resource  = local.alerts_topic_arn
          Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
        },
        {
          Sid       = "EncryptedConnectionsOnly"
          Effect    = "Deny"
          Principal = "*"
          Action    = "sns:Publish"
          Resource  = local.alerts_topic_arn
          Condition = { Bool = { "aws:SecureTransport" = "false" } }
        },
      ],
      local.own_bucket ? [{
        Sid       = "NoticesOfKeptRecords"
        Effect    = "Allow"
        Principal = { Service = "s3.amazonaws.com" }
        Action    = "sns:Publish"
        Resource  = local.alerts_topic_arn
        Condition = {
          StringEquals = { "aws:SourceAccount" = local.account }
          ArnEquals    = { "aws:SourceArn" = local.failure_bucket_arn }
        }
      }] : [],
    )
  })
}

resource "aws_sns_topic_subscription" "alerts" {
  for_each  = var.alert_subscriptions
  topic_arn = aws_sns_topic.alerts.arn
  protocol  = each.value.protocol
  endpoint  = each.value.endpoint
}
