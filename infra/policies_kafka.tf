# What the roles may do with Kafka: with MSK's own access control, and for Lambda's mappings.

locals {
  msk_iam = var.kafka.auth == "msk-iam"

  msk_topic_arns = local.msk ? {
    for topic, name in local.kafka_names : topic => "${replace(var.kafka.msk_cluster_arn, ":cluster/", ":topic/")}/${name}"
  } : {}
  msk_group_arns = local.msk ? {
    for topic, name in local.kafka_names : topic => "${replace(var.kafka.msk_cluster_arn, ":cluster/", ":group/")}/${name}"
  } : {}

  # What Lambda asks of MSK to find the brokers of a mapping, and its users with SCRAM (AWS Lambda Developer Guide,
  # "Configuring Lambda permissions for Amazon MSK event source mappings").
  msk_mapping_statements = !local.msk ? [] : concat([
    {
      Sid       = "MskCluster"
      Effect    = "Allow"
      Action    = concat(["kafka:DescribeClusterV2"], var.kafka.auth == "scram" ? ["kafka:ListScramSecrets"] : [])
      Resource  = [var.kafka.msk_cluster_arn]
      Condition = { StringEquals = { "aws:RequestedRegion" = local.region } }
    },
    {
      Sid       = "MskBootstrapBrokers"
      Effect    = "Allow"
      Action    = ["kafka:GetBootstrapBrokers"]
      Resource  = ["*"]
      Condition = { StringEquals = { "aws:RequestedRegion" = local.region } }
    },
    ], var.kafka.msk_vpc_connection_arn == null ? [] : [
    {
      Sid       = "MskVpcConnection"
      Effect    = "Allow"
      Action    = ["kafka:DescribeVpcConnection"]
      Resource  = [var.kafka.msk_vpc_connection_arn]
      Condition = { StringEquals = { "aws:RequestedRegion" = local.region } }
    },
  ])

  kafka_statements = {
    for function, kind in local.kinds : function => concat(
      length(local.read_by_function[function]) == 0 ? [] : local.msk_mapping_statements,
      !local.msk_iam ? [] : concat(
        [
          {
            Sid    = "KafkaCluster"
            Effect = "Allow"
            Action = concat(
              ["kafka-cluster:Connect"],
              length(local.written_topics[kind]) == 0 ? [] : ["kafka-cluster:WriteDataIdempotently"],
              length(local.read_by_function[function]) == 0 ? [] : ["kafka-cluster:DescribeClusterDynamicConfiguration"],
            )
            Resource = [var.kafka.msk_cluster_arn]
          },
        ],
        length(local.written_topics[kind]) == 0 ? [] : [
          {
            Sid      = "KafkaWrites"
            Effect   = "Allow"
            Action   = ["kafka-cluster:DescribeTopic", "kafka-cluster:WriteData"]
            Resource = [for topic in local.written_topics[kind] : local.msk_topic_arns[topic]]
          },
        ],
        kind != "setup" ? [] : [
          {
            Sid    = "KafkaTopics"
            Effect = "Allow"
            Action = concat(
              var.topics.create ? ["kafka-cluster:CreateTopic"] : [],
              ["kafka-cluster:DescribeTopic", "kafka-cluster:DescribeTopicDynamicConfiguration"],
            )
            Resource = values(local.msk_topic_arns)
          },
        ],
        [
          for topics in [lookup(local.looked_at_topics, kind, [])] : {
            Sid      = "KafkaLooks"
            Effect   = "Allow"
            Action   = ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"]
            Resource = [for topic in topics : local.msk_topic_arns[topic]]
          } if length(topics) > 0
        ],
        length(local.read_by_function[function]) == 0 ? [] : [
          {
            Sid      = "KafkaReads"
            Effect   = "Allow"
            Action   = ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"]
            Resource = [for topic in local.read_by_function[function] : local.msk_topic_arns[topic]]
          },
          {
            Sid      = "KafkaGroups"
            Effect   = "Allow"
            Action   = ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"]
            Resource = [for topic in local.read_by_function[function] : local.msk_group_arns[topic]]
          },
        ],
      ),
    )
  }

  # Lambda puts given-up records into the bucket under aws/lambda/ with the function's role. The
  # account in the condition keeps a bucket of the same name in another account from getting them.
  keeping_functions = distinct([for lane in values(local.kept_lanes) : lane.function])
  kept_statements = {
    for function in keys(local.functions) : function => !contains(local.keeping_functions, function) ? [] : [
      {
        Sid       = "KeepRecords"
        Effect    = "Allow"
        Action    = ["s3:PutObject"]
        Resource  = ["${local.failure_bucket_arn}/aws/lambda/*"]
        Condition = { StringEquals = { "s3:ResourceAccount" = local.account } }
      },
      {
        Sid       = "KeepRecordsBucket"
        Effect    = "Allow"
        Action    = ["s3:ListBucket"]
        Resource  = [local.failure_bucket_arn]
        Condition = { StringEquals = { "s3:ResourceAccount" = local.account } }
      },
      {
        Sid       = "KeepRecordsKey"
        Effect    = "Allow"
        Action    = ["kms:GenerateDataKey"]
        Resource  = [local.kms_key_arn]
        Condition = { StringEquals = { "kms:ViaService" = "s3.${local.region}.amazonaws.com" } }
      },
    ]
  }
}
