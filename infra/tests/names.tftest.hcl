# Two installations in one account and on one cluster, and one in two regions, share no name.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  # The longest of both.
  name_prefix = "abcdefghijklmnopqrs-"
  agents = {
    a                                = { base_url = "https://a.example" }
    abcdefghijklmnopqrstuvwxyz-12345 = { base_url = "https://b.example" }
  }
  console   = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"] }
  workflows = { directory = "./tests/fixtures/workflows" }
}

run "every_name_begins_with_the_prefix" {
  command = apply

  assert {
    condition = alltrue([
      for name in concat(
        values(aws_lambda_function.this)[*].function_name, values(aws_iam_role.function)[*].name, [aws_iam_role.schedule.name],
        [aws_dynamodb_table.orders.name, aws_dynamodb_table.order_state.name, aws_dynamodb_table.workflows.name, aws_dynamodb_table.control.name],
        [aws_sns_topic.alerts.name, aws_s3_bucket.failed_records[0].bucket, aws_scheduler_schedule.supervisor.name],
        values(aws_cloudwatch_metric_alarm.this)[*].alarm_name,
        flatten([for mapping in aws_lambda_event_source_mapping.this : tolist(mapping.topics)]),
        [for mapping in aws_lambda_event_source_mapping.this : mapping.amazon_managed_kafka_event_source_config[0].consumer_group_id],
        values(output.triad.topics), values(output.triad.tables), values(output.triad.functions),
      ) : startswith(name, var.name_prefix)
    ])
    error_message = "functions, roles, tables, alerts, buckets, schedules, alarms, topics and consumer groups"
  }
  assert {
    condition = alltrue([
      for name in [
        trimprefix(aws_kms_alias.this[0].name, "alias/"), aws_scheduler_schedule_group.this.name, aws_cloudwatch_dashboard.this[0].dashboard_name,
        jsondecode(aws_lambda_invocation.mappings.input).group, trimprefix(output.triad.metric_namespace, "Triad/"),
      ] : startswith("${name}-", var.name_prefix)
    ])
    error_message = "what has the installation's name: key, schedules, dashboard, pollers, metrics"
  }
  assert {
    condition     = alltrue([for group in aws_cloudwatch_log_group.function : startswith(group.name, "/aws/lambda/${var.name_prefix}")])
    error_message = "log groups"
  }
  assert {
    condition = alltrue([
      for arn in flatten([for s in flatten(values(local.statements)) : s.Resource]) :
      startswith(element(split("/", arn), 3), var.name_prefix) if can(regex(":kafka:.*:(topic|group)/", arn))
    ])
    error_message = "no role reaches topics or groups of another installation"
  }
}

run "names_that_are_unique_in_an_account_have_the_region" {
  command = apply

  assert {
    condition = alltrue([
      for name in concat(values(aws_iam_role.function)[*].name, [
        aws_iam_role.schedule.name, aws_s3_bucket.failed_records[0].bucket, aws_cloudwatch_dashboard.this[0].dashboard_name,
      ]) : endswith(name, "-eu-west-1")
    ])
    error_message = "roles, buckets and dashboards of another region have other names"
  }
  assert {
    condition     = alltrue([for name in concat(values(aws_iam_role.function)[*].name, [aws_iam_role.schedule.name]) : length(name) <= 64])
    error_message = "IAM takes names of 64 characters"
  }
  assert {
    condition     = length(toset(values(local.role_names))) == length(local.role_names)
    error_message = "a shortened name is still one role's"
  }
}

run "in_another_region" {
  command = plan
  override_data {
    target = data.aws_region.current
    values = { id = "ap-southeast-1" }
  }
  assert {
    condition     = alltrue([for name in values(local.role_names) : endswith(name, "-ap-southeast-1") && length(name) <= 64])
    error_message = "roles of their own, in the region with the longest name too"
  }
}
