# The function `setup`: what the provider cannot say, and what needs a way to the brokers or to tables at apply
# (docs/decisions/0063-one-function-sets-up.md). Terraform invokes it with its own credentials whenever a request changes;
# where the function fails, the apply fails with its text. Every request can be made again without harm.

locals {
  # Kafka's settings of the topics.
  topic_settings = {
    for topic, days in local.topic_days : topic => merge(
      { "retention.ms" = format("%d", days * 86400000), "max.message.bytes" = format("%d", var.topics.max_message_bytes) },
      var.topics.min_insync_replicas == 0 ? {} : { "min.insync.replicas" = tostring(var.topics.min_insync_replicas) },
    )
  }
  wanted_topics = [
    for topic in sort(local.all_topics) : {
      name        = topic
      partitions  = var.topics.partitions
      replication = var.topics.replication == 0 ? null : var.topics.replication
      settings    = local.topic_settings[topic]
    }
  ]

  # Descriptions of services are parts of the workflows beside them.
  workflow_files = var.workflows == null ? [] : sort(concat(
    tolist(fileset(var.workflows.directory, "*.{yaml,yml}")), tolist(fileset(var.workflows.directory, "agents/*.{yaml,yml}")),
  ))

  # Without a VPC there is nothing that mappings could share.
  poller_group = !local.provisioned ? "" : var.mapping.poller_group != null ? var.mapping.poller_group : var.vpc == null ? "" : local.name

  # A role's policy as the provider writes it: it puts the version first.
  policy_texts = {
    for function, statements in local.statements : function => "{\"Version\":\"2012-10-17\",\"Statement\":${jsonencode(statements)}}"
  }

  # What `triad doctor` examines, beside what every function is told; in the terms of shared/adapters/installation/src/parts.rs.
  parts = {
    topics           = local.wanted_topics
    functions        = local.all_function_names
    policies         = { for function, statements in local.statements : local.role_names[function] => sha256(jsonencode({ Version = "2012-10-17", Statement = statements })) }
    schedule         = { group = local.schedule_group_name, name = local.function_names.supervisor }
    alarms           = local.alarm_names
    alerts_topic_arn = local.alerts_topic_arn
    agents           = { for name, agent in var.agents : name => agent.base_url if agent.base_url != null }
  }
}

resource "aws_lambda_invocation" "topics" {
  count         = var.topics.create ? 1 : 0
  function_name = aws_lambda_function.this["setup"].function_name
  input         = jsonencode({ do = "topics", topics = local.wanted_topics })
  triggers      = { brokers = var.kafka.brokers }
  depends_on    = [aws_iam_role_policy.function]
}

# Checked as a whole before any is written. A file that is taken away stays published: orders may be under way on it. They
# are published after functions and roles have changed, so that nobody gets a step for an agent whose topics it may not write.
resource "aws_lambda_invocation" "workflows" {
  count         = var.workflows == null ? 0 : 1
  function_name = aws_lambda_function.this["setup"].function_name
  input = jsonencode({
    do     = "publish"
    files  = { for file in local.workflow_files : file => file("${var.workflows.directory}/${file}") }
    agents = keys(var.agents)
  })
  depends_on = [aws_iam_role_policy.function, aws_dynamodb_table.workflows, aws_lambda_invocation.topics]
}

# Provider 5.100 has no arguments for the group and for metrics of errors, and neither version sends a batching window of 0 with a
# new mapping.
resource "aws_lambda_invocation" "mappings" {
  function_name = aws_lambda_function.this["setup"].function_name
  input = jsonencode({
    do    = "mappings"
    group = local.poller_group
    mappings = [
      for topic, lane in local.lanes : {
        uuid   = aws_lambda_event_source_mapping.this[topic].uuid
        least  = local.provisioned ? lane.pollers_least : null
        most   = local.provisioned ? lane.pollers_most : null
        window = lane.batching_window_seconds
      }
    ]
  })
  depends_on = [aws_iam_role_policy.function]

  lifecycle {
    precondition {
      condition     = local.poller_group == "" || (length(local.lanes) <= 100 && sum(values(local.lanes)[*].pollers_most) <= 2000)
      error_message = "mapping.poller_group: Lambda takes up to 100 mappings into a group, with up to 2000 pollers in all. Lower pollers_most, turn high_lanes off, or leave the group (\"\")."
    }
  }
}
