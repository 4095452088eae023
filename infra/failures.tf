# Records that Lambda gave up: kept whole in a bucket, each with an alert.
#
# Of the destinations of a Kafka mapping only a bucket and a Kafka topic keep the record itself;
# queues and SNS topics get its place alone. Provider 5.100 takes ARNs only, and so no Kafka topic
# (kafka://NAME).

locals {
  own_bucket          = local.provisioned && var.failure_bucket_arn == null
  failure_bucket_name = "${var.name_prefix}failed-records-${local.account}-${local.region}"
  failure_bucket_arn = (
    !local.provisioned ? null :
    local.own_bucket ? "arn:${local.partition}:s3:::${local.failure_bucket_name}" : var.failure_bucket_arn
  )
}

resource "aws_s3_bucket" "failed_records" {
  #checkov:skip=CKV_AWS_18: access logs need a second bucket of their own; who reads kept records is in CloudTrail data events, which an account sets up once for all buckets
  #checkov:skip=CKV_AWS_144: records are replayed into a Kafka of this region; a copy in another region has no use
  count         = local.own_bucket ? 1 : 0
  bucket        = local.failure_bucket_name
  force_destroy = !var.deletion_protection
  tags          = var.tags
}

resource "aws_s3_bucket_versioning" "failed_records" {
  count  = local.own_bucket ? 1 : 0
  bucket = aws_s3_bucket.failed_records[0].id
  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "failed_records" {
  count  = local.own_bucket ? 1 : 0
  bucket = aws_s3_bucket.failed_records[0].id
  rule {
    bucket_key_enabled = true
    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = local.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_public_access_block" "failed_records" {
  count                   = local.own_bucket ? 1 : 0
  bucket                  = aws_s3_bucket.failed_records[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "failed_records" {
  count  = local.own_bucket ? 1 : 0
  bucket = aws_s3_bucket.failed_records[0].id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "failed_records" {
  count  = local.own_bucket ? 1 : 0
  bucket = aws_s3_bucket.failed_records[0].id
  rule {
    id     = "expire"
    status = "Enabled"
    filter {}
    expiration {
      days = var.failed_records_days
    }
    noncurrent_version_expiration {
      noncurrent_days = 7
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
}

resource "aws_s3_bucket_policy" "failed_records" {
  count  = local.own_bucket ? 1 : 0
  bucket = aws_s3_bucket.failed_records[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EncryptedConnectionsOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [local.failure_bucket_arn, "${local.failure_bucket_arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}

# A record that was given up is seen at once.
resource "aws_s3_bucket_notification" "failed_records" {
  count  = local.own_bucket ? 1 : 0
  bucket = aws_s3_bucket.failed_records[0].id
  topic {
    topic_arn = aws_sns_topic.alerts.arn
    events    = ["s3:ObjectCreated:*"]
  }
  depends_on = [aws_sns_topic_policy.alerts]
}
