# Event source mappings: one a topic, so that a priority lane is read for itself and a backlog in
# the other one does not hold it up. Both lanes of a topic end in the same function, and events from outside in the Scheduler's.

locals {
  provisioned = var.mapping.mode == "provisioned"
  msk         = var.kafka.msk_cluster_arn != null

  # Topics whose records are never given up. An order that waits for room fails on purpose: no more
  # are let in than the Schedulers start, and where there is a cap, than it allows. Nobody sends an event from outside
  # again, and an alert must get out however long its sink is down. What is lost from the other topics, the Supervisor finds.
  endless = ["alerts", "events", "orders", "orders.high"]

  lanes = {
    for topic, function in local.read_by : topic => {
      function      = function
      enabled       = var.mapping.enabled && coalesce(try(var.mapping.lanes[topic].enabled, null), true)
      pollers_least = coalesce(try(var.mapping.lanes[topic].pollers_least, null), var.mapping.pollers_least)
      pollers_most  = coalesce(try(var.mapping.lanes[topic].pollers_most, null), var.mapping.pollers_most)
      batch_size    = coalesce(try(var.mapping.lanes[topic].batch_size, null), var.mapping.batch_size)
      batching_window_seconds = try(coalesce(
        try(var.mapping.lanes[topic].batching_window_seconds, null), var.mapping.batching_window_seconds, local.provisioned ? 0 : null,
      ), null)
      retries = (
        contains(local.endless, topic) ? -1 : coalesce(try(var.mapping.lanes[topic].retries, null), var.mapping.retries)
      )
      record_age_seconds = (
        contains(local.endless, topic) ? -1 : coalesce(try(var.mapping.lanes[topic].record_age_seconds, null), var.mapping.record_age_seconds)
      )
    }
  }

  # Lanes whose given-up records are kept. The endless ones give none up, and must have no
  # destination: with one, Lambda makes ten retries of endless ones.
  kept_lanes = { for topic, lane in local.lanes : topic => lane if local.provisioned && lane.retries != -1 }

  source_access = concat(
    var.kafka.auth == "scram" ? [
      { type = "SASL_SCRAM_${var.kafka.scram_mechanism}_AUTH", uri = var.kafka.secret_arn }
    ] : [],
    var.kafka.auth == "mtls" ? [
      { type = "CLIENT_CERTIFICATE_TLS_AUTH", uri = var.kafka.secret_arn }
    ] : [],
    var.kafka.ca_secret_arn != null ? [
      { type = "SERVER_ROOT_CA_CERTIFICATE", uri = var.kafka.ca_secret_arn }
    ] : [],
    # MSK tells Lambda its network by itself.
    local.msk || var.vpc == null ? [] : concat(
      [for id in var.vpc.subnet_ids : { type = "VPC_SUBNET", uri = "subnet:${id}" }],
      [for id in var.vpc.security_group_ids : { type = "VPC_SECURITY_GROUP", uri = "security_group:${id}" }],
    ),
  )
}

resource "terraform_data" "mapping_mode" {
  input = var.mapping.mode
}

resource "aws_lambda_event_source_mapping" "this" {
  for_each = local.lanes

  function_name     = aws_lambda_function.this[each.value.function].arn
  enabled           = each.value.enabled
  topics            = [local.kafka_names[each.key]]
  starting_position = "TRIM_HORIZON"
  tags              = var.tags

  event_source_arn = local.msk ? coalesce(var.kafka.msk_vpc_connection_arn, var.kafka.msk_cluster_arn) : null

  dynamic "amazon_managed_kafka_event_source_config" {
    for_each = local.msk ? [local.kafka_names[each.key]] : []
    content {
      consumer_group_id = amazon_managed_kafka_event_source_config.value
    }
  }

  dynamic "self_managed_event_source" {
    for_each = local.msk ? [] : [var.kafka.brokers]
    content {
      endpoints = { KAFKA_BOOTSTRAP_SERVERS = self_managed_event_source.value }
    }
  }

  dynamic "self_managed_kafka_event_source_config" {
    for_each = local.msk ? [] : [local.kafka_names[each.key]]
    content {
      consumer_group_id = self_managed_kafka_event_source_config.value
    }
  }

  dynamic "source_access_configuration" {
    for_each = local.source_access
    content {
      type = source_access_configuration.value.type
      uri  = source_access_configuration.value.uri
    }
  }

  batch_size                         = each.value.batch_size
  maximum_batching_window_in_seconds = each.value.batching_window_seconds

  dynamic "provisioned_poller_config" {
    for_each = local.provisioned ? [each.value] : []
    content {
      minimum_pollers = provisioned_poller_config.value.pollers_least
      maximum_pollers = provisioned_poller_config.value.pollers_most
    }
  }

  # The rest exists in provisioned mode only.
  function_response_types        = local.provisioned ? ["ReportBatchItemFailures"] : null
  bisect_batch_on_function_error = local.provisioned ? true : null
  maximum_retry_attempts         = local.provisioned ? each.value.retries : null
  maximum_record_age_in_seconds  = local.provisioned ? each.value.record_age_seconds : null

  dynamic "destination_config" {
    for_each = contains(keys(local.kept_lanes), each.key) ? [local.failure_bucket_arn] : []
    content {
      on_failure {
        destination_arn = destination_config.value
      }
    }
  }

  # A mapping needs its topic. An order of a workflow that is not published yet would be dead-lettered.
  depends_on = [aws_lambda_invocation.topics, aws_lambda_invocation.workflows]

  lifecycle {
    # Once a mapping is there, `setup` sets its pollers and metrics, because it alone can name the pollers' group (setup.tf): a
    # provider that sees the group would take it away. So a change of the mode makes a new mapping, which goes on where the
    # group is.
    ignore_changes       = [provisioned_poller_config, metrics_config]
    replace_triggered_by = [terraform_data.mapping_mode]

    precondition {
      condition     = each.value.retries != -1 || each.value.record_age_seconds == -1
      error_message = "mapping: ${each.key} has retries without end and an age at which records are given up; those would be kept nowhere. Set record_age_seconds to -1 as well, or give a number of retries."
    }
  }
}
