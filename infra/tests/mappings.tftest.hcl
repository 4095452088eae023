# Event source mappings: a run for each mode and each way to log in.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  self_managed = {
    brokers = "kafka-1.example:9093,kafka-2.example:9093"
    auth    = "tls"
  }
  secret        = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf"
  ca_secret     = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/ca-GhIjKl"
  secret_key    = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"
  amazon_secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:AmazonMSK_triad-AbCdEf"
}

run "msk_with_iam_provisioned_one_mapping_a_topic" {
  command = plan

  assert {
    condition = { for topic, mapping in aws_lambda_event_source_mapping.this : topic => local.lanes[topic].function } == {
      "orders"               = "submission"
      "orders.high"          = "submission"
      "scheduler"            = "scheduler"
      "scheduler.high"       = "scheduler"
      "events"               = "scheduler"
      "alerts"               = "alerts"
      "agent.payment"        = "agent-payment"
      "agent.payment.high"   = "agent-payment"
      "agent.inventory"      = "agent-inventory"
      "agent.inventory.high" = "agent-inventory"
    }
    error_message = "topics and the functions that read them"
  }
  assert {
    condition = alltrue([
      for topic, mapping in aws_lambda_event_source_mapping.this :
      mapping.topics == toset(["triad-${topic}"]) && mapping.starting_position == "TRIM_HORIZON" && mapping.enabled
    ])
    error_message = "each reads its own topic, from the first record on"
  }
  assert {
    condition     = alltrue([for mapping in aws_lambda_event_source_mapping.this : length(mapping.filter_criteria) == 0])
    error_message = "no filters: what a filter drops, nobody sees"
  }
  assert {
    condition = alltrue([
      for topic, mapping in aws_lambda_event_source_mapping.this :
      mapping.event_source_arn == var.kafka.msk_cluster_arn && length(mapping.self_managed_event_source) == 0 &&
      mapping.amazon_managed_kafka_event_source_config[0].consumer_group_id == "triad-${topic}" &&
      length(mapping.source_access_configuration) == 0
    ])
    error_message = "MSK: the cluster's ARN, a group a topic, no credentials with IAM"
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      mapping.provisioned_poller_config[0].minimum_pollers == 1 && mapping.provisioned_poller_config[0].maximum_pollers == 2
    ])
    error_message = "provisioned: least and most pollers"
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      mapping.function_response_types == toset(["ReportBatchItemFailures"]) && mapping.bisect_batch_on_function_error && mapping.batch_size == 100
    ])
    error_message = "provisioned: partial batch responses, bisection, an explicit batch size"
  }
  assert {
    condition = alltrue([
      for topic in ["scheduler", "scheduler.high", "agent.payment", "agent.payment.high", "agent.inventory", "agent.inventory.high"] :
      aws_lambda_event_source_mapping.this[topic].maximum_retry_attempts == 100 &&
      aws_lambda_event_source_mapping.this[topic].maximum_record_age_in_seconds == 86400 &&
      aws_lambda_event_source_mapping.this[topic].destination_config[0].on_failure[0].destination_arn == "arn:aws:s3:::triad-failed-records-111122223333-eu-west-1"
    ])
    error_message = "provisioned: explicit retries and record age, given-up records kept in the bucket"
  }
  assert {
    condition = alltrue([
      for topic in ["orders", "orders.high", "events", "alerts"] :
      aws_lambda_event_source_mapping.this[topic].maximum_retry_attempts == -1 &&
      aws_lambda_event_source_mapping.this[topic].maximum_record_age_in_seconds == -1 &&
      length(aws_lambda_event_source_mapping.this[topic].destination_config) == 0
    ])
    error_message = "orders in slow admission, events from outside and alerts: never given up, and so no destination, with which Lambda would stop after ten retries"
  }
  assert {
    condition     = alltrue([for mapping in aws_lambda_event_source_mapping.this : mapping.maximum_batching_window_in_seconds == 0])
    error_message = "provisioned: no record waits for others"
  }
}

run "orders_that_wait_for_room_are_never_given_up" {
  command = plan
  variables {
    admission = { max_in_flight = 100, when_full = "reject" }
  }
  assert {
    condition = alltrue([
      for topic in ["orders", "orders.high"] :
      aws_lambda_event_source_mapping.this[topic].maximum_retry_attempts == -1 &&
      aws_lambda_event_source_mapping.this[topic].maximum_record_age_in_seconds == -1 &&
      length(aws_lambda_event_source_mapping.this[topic].destination_config) == 0
    ])
    error_message = "an order that waits for the Schedulers fails on purpose, whatever becomes of those above a cap"
  }
}

run "no_new_orders" {
  command = plan
  variables {
    mapping = { lanes = { "orders" = { enabled = false }, "orders.high" = { enabled = false } } }
  }
  assert {
    condition     = alltrue([for topic, mapping in aws_lambda_event_source_mapping.this : mapping.enabled == !startswith(topic, "orders")])
    error_message = "orders wait in their topics, and those under way go on"
  }
}

run "lanes_of_their_own" {
  command = plan
  variables {
    mapping = {
      pollers_most            = 3
      batch_size              = 200
      batching_window_seconds = 1
      retries                 = 5
      record_age_seconds      = 3600
      lanes = {
        "agent.payment.high" = { pollers_least = 4, pollers_most = 8, batch_size = 10, retries = 50, record_age_seconds = 600, batching_window_seconds = 2 }
        "scheduler"          = { retries = -1, record_age_seconds = -1 }
        "events"             = { retries = 7, record_age_seconds = 600, pollers_most = 5 }
      }
    }
  }
  assert {
    condition = (
      aws_lambda_event_source_mapping.this["agent.payment.high"].provisioned_poller_config[0].minimum_pollers == 4 &&
      aws_lambda_event_source_mapping.this["agent.payment.high"].provisioned_poller_config[0].maximum_pollers == 8 &&
      aws_lambda_event_source_mapping.this["agent.payment.high"].batch_size == 10 &&
      aws_lambda_event_source_mapping.this["agent.payment.high"].maximum_batching_window_in_seconds == 2 &&
      aws_lambda_event_source_mapping.this["agent.payment.high"].maximum_retry_attempts == 50 &&
      aws_lambda_event_source_mapping.this["agent.payment.high"].maximum_record_age_in_seconds == 600
    )
    error_message = "a lane's own values"
  }
  assert {
    condition = (
      aws_lambda_event_source_mapping.this["agent.payment"].provisioned_poller_config[0].maximum_pollers == 3 &&
      aws_lambda_event_source_mapping.this["agent.payment"].batch_size == 200 &&
      aws_lambda_event_source_mapping.this["agent.payment"].maximum_batching_window_in_seconds == 1 &&
      aws_lambda_event_source_mapping.this["agent.payment"].maximum_retry_attempts == 5 &&
      aws_lambda_event_source_mapping.this["agent.payment"].maximum_record_age_in_seconds == 3600
    )
    error_message = "the common ones"
  }
  assert {
    condition = (
      aws_lambda_event_source_mapping.this["scheduler"].maximum_retry_attempts == -1 &&
      length(aws_lambda_event_source_mapping.this["scheduler"].destination_config) == 0
    )
    error_message = "a lane made endless has no destination"
  }
  assert {
    condition = (
      aws_lambda_event_source_mapping.this["events"].provisioned_poller_config[0].maximum_pollers == 5 &&
      aws_lambda_event_source_mapping.this["events"].maximum_retry_attempts == -1 &&
      aws_lambda_event_source_mapping.this["events"].maximum_record_age_in_seconds == -1 &&
      length(aws_lambda_event_source_mapping.this["events"].destination_config) == 0
    )
    error_message = "an event is never given up, whatever its lane says"
  }
}

run "plain_mode" {
  command = plan
  variables {
    mapping = { mode = "plain", enabled = false }
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      length(mapping.provisioned_poller_config) == 0 && mapping.function_response_types == null &&
      mapping.bisect_batch_on_function_error == null && length(mapping.destination_config) == 0 &&
      mapping.starting_position == "TRIM_HORIZON" && !mapping.enabled && mapping.maximum_batching_window_in_seconds == null
    ])
    error_message = "plain: nothing that needs provisioned mode"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : f.environment[0].variables.TRIAD_BATCH_RESPONSES == "whole"])
    error_message = "plain: the functions fail whole batches"
  }
  assert {
    condition     = length(aws_s3_bucket.failed_records) == 0 && output.triad.failure_bucket_arn == null
    error_message = "plain: nothing is given up, and no bucket made"
  }
}

run "msk_with_scram" {
  command = plan
  variables {
    kafka = {
      brokers            = "b-1.example.internal:9096"
      msk_cluster_arn    = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth               = "scram"
      secret_arn         = var.amazon_secret
      secret_kms_key_arn = var.secret_key
    }
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      [for access in mapping.source_access_configuration : "${access.type} ${access.uri}"] == ["SASL_SCRAM_512_AUTH ${var.amazon_secret}"]
    ])
    error_message = "SCRAM-SHA-512 with the secret; MSK's network is known to Lambda"
  }
  assert {
    condition = alltrue([
      for f in aws_lambda_function.this :
      f.environment[0].variables.TRIAD_KAFKA_AUTH == "scram" && f.environment[0].variables.TRIAD_KAFKA_SECRET == var.amazon_secret &&
      jsondecode(f.environment[0].variables.TRIAD_KAFKA_SETTINGS)["sasl.mechanisms"] == "SCRAM-SHA-512"
    ])
    error_message = "the functions log in with the same secret"
  }
  assert {
    condition = alltrue([
      for function, statements in local.statements :
      length([for s in statements : s if contains(s.Action, "kafka:ListScramSecrets")]) == (length(local.read_by_function[function]) == 0 ? 0 : 1)
    ])
    error_message = "Lambda may look for the cluster's users with the roles of the functions that read"
  }
}

run "msk_with_tls_alone" {
  command = plan
  variables {
    kafka = {
      brokers         = "b-1.example.internal:9094"
      msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth            = "tls"
    }
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      mapping.event_source_arn == var.kafka.msk_cluster_arn && length(mapping.source_access_configuration) == 0
    ])
    error_message = "MSK without a login"
  }
  assert {
    condition     = length([for s in flatten(values(local.statements)) : s if startswith(s.Action[0], "kafka-cluster:")]) == 0
    error_message = "and so without permissions of IAM inside of it"
  }
}

run "msk_with_mutual_tls" {
  command = plan
  variables {
    kafka = {
      brokers         = "b-1.example.internal:9094"
      msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth            = "mtls"
      secret_arn      = var.secret
    }
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      [for access in mapping.source_access_configuration : "${access.type} ${access.uri}"] == ["CLIENT_CERTIFICATE_TLS_AUTH ${var.secret}"]
    ])
    error_message = "a client certificate from the secret"
  }
}

run "self_managed_with_scram_256_in_a_vpc" {
  command = plan
  variables {
    kafka = {
      brokers         = var.self_managed.brokers
      auth            = "scram"
      scram_mechanism = 256
      secret_arn      = var.secret
      ca_secret_arn   = var.ca_secret
    }
  }
  assert {
    condition = alltrue([
      for topic, mapping in aws_lambda_event_source_mapping.this :
      mapping.event_source_arn == null && length(mapping.amazon_managed_kafka_event_source_config) == 0 &&
      mapping.self_managed_event_source[0].endpoints == tomap({ KAFKA_BOOTSTRAP_SERVERS = var.self_managed.brokers }) &&
      mapping.self_managed_kafka_event_source_config[0].consumer_group_id == "triad-${topic}"
    ])
    error_message = "bootstrap addresses and a group a topic"
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      toset([for access in mapping.source_access_configuration : "${access.type} ${access.uri}"]) == toset([
        "SASL_SCRAM_256_AUTH ${var.secret}", "SERVER_ROOT_CA_CERTIFICATE ${var.ca_secret}",
        "VPC_SUBNET subnet:subnet-0a", "VPC_SUBNET subnet:subnet-0b", "VPC_SECURITY_GROUP security_group:sg-0a",
      ])
    ])
    error_message = "credentials, the brokers' CA, and the network"
  }
  assert {
    condition = alltrue([
      for f in aws_lambda_function.this :
      jsondecode(f.environment[0].variables.TRIAD_KAFKA_SETTINGS) == { "sasl.mechanisms" = "SCRAM-SHA-256" } &&
      f.environment[0].variables.TRIAD_KAFKA_CA_SECRET == var.ca_secret
    ])
    error_message = "the functions use the same mechanism and CA"
  }
}

run "self_managed_with_scram_512" {
  command = plan
  variables {
    kafka = { brokers = var.self_managed.brokers, auth = "scram", secret_arn = var.secret }
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      contains([for access in mapping.source_access_configuration : "${access.type} ${access.uri}"], "SASL_SCRAM_512_AUTH ${var.secret}")
    ])
    error_message = "SCRAM-SHA-512 is the default"
  }
}

run "self_managed_with_mutual_tls_on_the_internet" {
  command = plan
  variables {
    vpc   = null
    kafka = { brokers = var.self_managed.brokers, auth = "mtls", secret_arn = var.secret }
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      [for access in mapping.source_access_configuration : "${access.type} ${access.uri}"] == ["CLIENT_CERTIFICATE_TLS_AUTH ${var.secret}"] &&
      length(mapping.provisioned_poller_config) == 1
    ])
    error_message = "a client certificate, no network"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : length(f.vpc_config) == 0])
    error_message = "functions outside of any VPC"
  }
}

run "self_managed_in_plain_mode" {
  command = plan
  variables {
    kafka   = var.self_managed
    mapping = { mode = "plain" }
  }
  assert {
    condition = alltrue([
      for mapping in aws_lambda_event_source_mapping.this :
      length(mapping.provisioned_poller_config) == 0 && length(mapping.destination_config) == 0 && length(mapping.source_access_configuration) == 3
    ])
    error_message = "plain mode, network only"
  }
}

run "without_high_lanes" {
  command = plan
  variables {
    mapping = { high_lanes = false }
  }
  assert {
    condition     = keys(aws_lambda_event_source_mapping.this) == ["agent.inventory", "agent.payment", "alerts", "events", "orders", "scheduler"]
    error_message = "one mapping for each function that reads, and that of events"
  }
  assert {
    condition = (
      length([for topic in local.wanted_topics : topic if endswith(topic.name, ".high")]) == 0 &&
      !strcontains(jsonencode([for s in flatten(values(local.statements)) : s.Resource if startswith(s.Sid, "Kafka")]), ".high")
    )
    error_message = "there is no topic to which an order of high priority could go unread"
  }
}

run "without_events" {
  command = plan
  variables {
    mapping = { events = false }
    console = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"] }
  }
  assert {
    condition     = length(aws_lambda_event_source_mapping.this) == 9 && !contains(keys(aws_lambda_event_source_mapping.this), "events")
    error_message = "no mapping of events, and all others"
  }
  assert {
    condition = (
      length([for topic in local.wanted_topics : topic if topic.name == "events"]) == 0 && !contains(keys(output.triad.topics), "events") &&
      length([for alarm in local.alarm_names : alarm if startswith(alarm, "triad-events")]) == 0 &&
      !strcontains(jsonencode([for s in flatten(values(local.statements)) : s.Resource if startswith(s.Sid, "Kafka")]), "triad-events")
    )
    error_message = "there is no topic to which an event could go unread, no alarm of it, and no right to it"
  }
}

run "msk_of_another_account" {
  command = plan
  variables {
    kafka = {
      brokers                = "b-1.example.internal:14001"
      msk_cluster_arn        = "arn:aws:kafka:eu-west-1:444455556666:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      msk_vpc_connection_arn = "arn:aws:kafka:eu-west-1:111122223333:vpc-connection/444455556666/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth                   = "msk-iam"
    }
  }
  assert {
    condition     = alltrue([for mapping in aws_lambda_event_source_mapping.this : mapping.event_source_arn == var.kafka.msk_vpc_connection_arn])
    error_message = "mappings read by the connection"
  }
  assert {
    condition = alltrue([
      for function, statements in local.statements :
      join(" ", flatten([for s in statements : s.Resource if contains(s.Action, "kafka:DescribeVpcConnection")])) == (
        length(local.read_by_function[function]) == 0 ? "" : var.kafka.msk_vpc_connection_arn
      )
    ])
    error_message = "and Lambda may look at it with the roles of the functions that read"
  }
  assert {
    condition = alltrue([
      for s in flatten(values(local.statements)) : alltrue([for arn in s.Resource : strcontains(arn, ":444455556666:")]) if startswith(s.Sid, "Kafka")
    ])
    error_message = "topics and groups are the cluster's"
  }
}

run "a_bucket_of_ones_own" {
  command = plan
  variables {
    failure_bucket_arn = "arn:aws:s3:::shop-kept-records"
  }
  assert {
    condition = length(aws_s3_bucket.failed_records) == 0 && alltrue([
      for topic, lane in local.kept_lanes :
      aws_lambda_event_source_mapping.this[topic].destination_config[0].on_failure[0].destination_arn == "arn:aws:s3:::shop-kept-records"
    ])
    error_message = "given-up records go to the given bucket"
  }
}

run "endless_retries_with_an_age" {
  command = plan
  variables {
    mapping = { lanes = { scheduler = { retries = -1 } } }
  }
  expect_failures = [aws_lambda_event_source_mapping.this["scheduler"]]
}
