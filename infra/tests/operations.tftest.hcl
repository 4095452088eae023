# Schedule, alerts, alarms, workflows, kept records, outputs.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "the_supervisors_clock_alerts_and_kept_records" {
  command = apply

  assert {
    condition = (
      aws_scheduler_schedule.supervisor.schedule_expression == "rate(1 minute)" && aws_scheduler_schedule.supervisor.state == "ENABLED" &&
      aws_scheduler_schedule.supervisor.flexible_time_window[0].mode == "OFF" &&
      aws_scheduler_schedule.supervisor.target[0].arn == aws_lambda_function.this["supervisor"].arn &&
      aws_scheduler_schedule.supervisor.target[0].role_arn == aws_iam_role.schedule.arn
    )
    error_message = "every minute, by EventBridge Scheduler with its own role"
  }
  assert {
    condition = (
      aws_scheduler_schedule.supervisor.target[0].retry_policy[0].maximum_retry_attempts == 0 &&
      aws_scheduler_schedule.supervisor.target[0].retry_policy[0].maximum_event_age_in_seconds == 60
    )
    error_message = "the schedule does not retry"
  }
  assert {
    condition = (
      aws_lambda_function_event_invoke_config.supervisor.maximum_retry_attempts == 0 &&
      aws_lambda_function_event_invoke_config.supervisor.maximum_event_age_in_seconds == 60
    )
    error_message = "nor does the asynchronous invocation"
  }
  assert {
    condition = [for s in jsondecode(aws_iam_role_policy.schedule.policy).Statement : "${s.Action[0]} ${s.Resource[0]}"] == [
      "lambda:InvokeFunction arn:aws:lambda:eu-west-1:111122223333:function:triad-supervisor",
    ]
    error_message = "the schedule's role starts the Supervisor and nothing else"
  }
  assert {
    condition = jsondecode(aws_iam_role.schedule.assume_role_policy).Statement[0].Condition == {
      StringEquals = { "aws:SourceAccount" = "111122223333" }
      ArnEquals    = { "aws:SourceArn" = "arn:aws:scheduler:eu-west-1:111122223333:schedule-group/triad" }
    }
    error_message = "and is taken by this installation's schedules only"
  }

  assert {
    condition     = aws_sns_topic.alerts.name == "triad-alerts" && aws_sns_topic.alerts.kms_master_key_id == aws_kms_key.this[0].arn
    error_message = "the alerts topic is encrypted with the customer key"
  }
  assert {
    condition = alltrue([
      for alarm in concat(
        values(aws_cloudwatch_metric_alarm.lag), values(aws_cloudwatch_metric_alarm.errors), values(aws_cloudwatch_metric_alarm.throttles),
        values(aws_cloudwatch_metric_alarm.occurrence), aws_cloudwatch_metric_alarm.supervisor_silent,
        aws_cloudwatch_metric_alarm.overdue,
      ) : alarm.alarm_actions == toset(["arn:aws:sns:eu-west-1:111122223333:triad-alerts"]) && alarm.ok_actions == alarm.alarm_actions
    ])
    error_message = "every alarm tells the alerts topic, and when it is over"
  }
  assert {
    condition = (
      alltrue([for r in aws_s3_bucket_server_side_encryption_configuration.failed_records[0].rule : r.apply_server_side_encryption_by_default[0].kms_master_key_id == aws_kms_key.this[0].arn]) &&
      aws_s3_bucket_versioning.failed_records[0].versioning_configuration[0].status == "Enabled" &&
      aws_s3_bucket_public_access_block.failed_records[0].block_public_acls && aws_s3_bucket_public_access_block.failed_records[0].block_public_policy &&
      aws_s3_bucket_public_access_block.failed_records[0].ignore_public_acls && aws_s3_bucket_public_access_block.failed_records[0].restrict_public_buckets &&
      !aws_s3_bucket.failed_records[0].force_destroy
    )
    error_message = "kept records: encrypted, versioned, private, not deleted with the bucket"
  }
  assert {
    condition     = aws_s3_bucket_notification.failed_records[0].topic[0].topic_arn == aws_sns_topic.alerts.arn
    error_message = "a kept record is an alert"
  }
  assert {
    condition     = toset([for s in jsondecode(aws_kms_key.this[0].policy).Statement : s.Sid]) == toset(["AccountAdministersByIam", "FunctionLogs", "AlarmsAndKeptRecordsTellTheAlertsTopic"])
    error_message = "who may use the key"
  }
}

run "alarms" {
  command = plan
  variables {
    alarms = { lag_records = 500, errors = 3, throttles = 2, supervisor_silent_minutes = 4, actions = ["arn:aws:sns:eu-west-1:111122223333:pager"] }
  }

  assert {
    condition = toset([for a in aws_cloudwatch_metric_alarm.lag : a.dimensions.FunctionName]) == toset([
      "triad-submission", "triad-scheduler", "triad-alerts", "triad-agent-payment", "triad-agent-inventory",
      ]) && alltrue([
      for a in aws_cloudwatch_metric_alarm.lag :
      a.namespace == "AWS/Lambda" && a.metric_name == "OffsetLag" && a.statistic == "Maximum" && a.threshold == 500 && a.evaluation_periods == 5
    ])
    error_message = "lag of every function that reads a topic"
  }
  assert {
    condition = length(aws_cloudwatch_metric_alarm.errors) == 6 && alltrue([
      for a in aws_cloudwatch_metric_alarm.errors : a.metric_name == "Errors" && a.threshold == 3 && a.treat_missing_data == "notBreaching"
    ])
    error_message = "errors of every function"
  }
  assert {
    condition = length(aws_cloudwatch_metric_alarm.throttles) == 6 && alltrue([
      for a in aws_cloudwatch_metric_alarm.throttles : a.metric_name == "Throttles" && a.threshold == 2
    ])
    error_message = "throttles of every function"
  }
  assert {
    condition = {
      for a in aws_cloudwatch_metric_alarm.occurrence :
      a.alarm_name => "${a.namespace} ${a.metric_name} ${jsonencode(a.dimensions)} ${a.threshold}"
      } == {
      triad-error-orders        = "Triad/triad triad_orders_ended_total {\"state\":\"Error\"} 1"
      triad-stuck-compensations = "Triad/triad triad_orders_ended_total {\"state\":\"CompensationFailed\"} 1"
      triad-dead-letters        = "Triad/triad triad_dead_letters_total {} 1"
      triad-open-breakers       = "Triad/triad triad_breaker_openings_total {} 1"
      triad-broken-invariants   = "Triad/triad triad_invariant_breaches_total {} 1"
      triad-misconfigured       = "Triad/triad triad_misconfigured_total {} 1"
    }
    error_message = "Error orders, stuck compensations, dead letters, open breakers, broken invariants, a wrong installation: one is one too many"
  }
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.supervisor_silent[0].metric_name == "triad_sweeps_total" &&
      aws_cloudwatch_metric_alarm.supervisor_silent[0].dimensions == tomap({ result = "whole" }) &&
      aws_cloudwatch_metric_alarm.supervisor_silent[0].comparison_operator == "LessThanThreshold" &&
      aws_cloudwatch_metric_alarm.supervisor_silent[0].treat_missing_data == "breaching" &&
      aws_cloudwatch_metric_alarm.supervisor_silent[0].evaluation_periods == 4
    )
    error_message = "silence of the Supervisor is an alarm"
  }
  assert {
    condition     = contains(aws_cloudwatch_metric_alarm.supervisor_silent[0].alarm_actions, "arn:aws:sns:eu-west-1:111122223333:pager")
    error_message = "further receivers"
  }
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.overdue[0].metric_name == "triad_oldest_due_seconds" && aws_cloudwatch_metric_alarm.overdue[0].threshold == 300 &&
      aws_cloudwatch_metric_alarm.overdue[0].namespace == "Triad/triad" && aws_cloudwatch_metric_alarm.overdue[0].statistic == "Maximum"
    )
    error_message = "an order that stays overdue is an alarm"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : f.environment[0].variables.TRIAD_METRICS_NAMESPACE == "Triad/triad"])
    error_message = "every function tells its metrics in this installation's namespace"
  }
  assert {
    condition = aws_cloudwatch_dashboard.this[0].dashboard_name == "triad" && length(jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets) == 23 && contains([
      for w in jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets : try(w.properties.metrics[0][0].expression, "")
    ], "SEARCH('{\"Triad/triad\",workflow,state} MetricName=\"triad_orders_ended_total\"', 'Sum', 60)")
    error_message = "a dashboard over all of it"
  }
  assert {
    condition     = length(terraform_data.workflows) == 0
    error_message = "no command is run on the applying machine"
  }
}

run "no_alarms" {
  command = plan
  variables {
    alarms    = { enabled = false }
    dashboard = false
  }
  assert {
    condition = (
      length(aws_cloudwatch_metric_alarm.lag) + length(aws_cloudwatch_metric_alarm.errors) + length(aws_cloudwatch_metric_alarm.throttles) +
      length(aws_cloudwatch_metric_alarm.occurrence) + length(aws_cloudwatch_metric_alarm.supervisor_silent) +
      length(aws_cloudwatch_metric_alarm.overdue) + length(aws_cloudwatch_dashboard.this) == 0
    )
    error_message = "none"
  }
}

run "a_planned_stop" {
  command = plan
  variables {
    mapping            = { enabled = false, lanes = { orders = { enabled = true } } }
    supervisor_enabled = false
  }
  assert {
    condition     = aws_scheduler_schedule.supervisor.state == "DISABLED" && alltrue([for mapping in aws_lambda_event_source_mapping.this : !mapping.enabled])
    error_message = "no sweep begins and no topic is read, whatever a lane says"
  }
}

run "workflows_published_on_apply_and_alerts_by_mail" {
  command = plan
  variables {
    alert_subscriptions = { team = { protocol = "email", endpoint = "team@shop.example" } }
    workflows           = { directory = "./tests/fixtures/workflows" }
  }
  assert {
    condition     = join(" ", local.workflow_files) == "goods.yaml services.yml"
    error_message = "all workflow files of the directory, and nothing else"
  }
  assert {
    condition     = terraform_data.workflows[0].triggers_replace.files["goods.yaml"] == filesha256("./tests/fixtures/workflows/goods.yaml")
    error_message = "published anew when a file changes"
  }
  assert {
    condition     = terraform_data.workflows[0].triggers_replace.files["agents/stock.yaml"] == filesha256("./tests/fixtures/workflows/agents/stock.yaml")
    error_message = "published anew when the description of a service changes"
  }
  assert {
    condition     = aws_sns_topic_subscription.alerts["team"].protocol == "email" && aws_sns_topic_subscription.alerts["team"].endpoint == "team@shop.example"
    error_message = "subscription"
  }
  assert {
    condition = [for s in jsondecode(aws_sns_topic_policy.alerts.policy).Statement : "${s.Sid} ${s.Effect}"] == [
      "AlarmsOfThisAccount Allow", "EncryptedConnectionsOnly Deny", "NoticesOfKeptRecords Allow",
    ]
    error_message = "alarms and the bucket's notices, over encrypted connections"
  }
}

run "outputs_for_the_command_line" {
  command = apply
  variables {
    name_prefix  = "shop-"
    reply_topics = ["reply.shop"]
  }
  assert {
    condition = (
      output.triad.region == "eu-west-1" && output.triad.table_prefix == "shop-" && output.triad.brokers == var.kafka.brokers &&
      output.triad.kafka_auth == "msk-iam" && join(" ", output.triad.agents) == "inventory payment" && join(" ", output.triad.reply_topics) == "reply.shop"
    )
    error_message = "where things are"
  }
  assert {
    condition     = output.triad.tables == { orders = "shop-orders", order_state = "shop-order-state", workflows = "shop-workflows", control = "shop-control" }
    error_message = "tables"
  }
  assert {
    condition = toset(output.triad.topics) == toset([
      "orders", "orders.high", "scheduler", "scheduler.high", "status", "alerts", "dead-letter", "reply.shop",
      "agent.payment", "agent.payment.high", "agent.inventory", "agent.inventory.high",
    ])
    error_message = "every topic that must exist"
  }
  assert {
    condition     = output.triad.functions.agent-payment == "shop-agent-payment" && output.triad.functions.supervisor == "shop-supervisor"
    error_message = "functions"
  }
  assert {
    condition     = toset(keys(output.triad.mappings)) == toset(keys(aws_lambda_event_source_mapping.this))
    error_message = "mappings"
  }
  assert {
    condition     = output.triad.metric_namespace == "Triad/shop" && output.index_arns.attention == "arn:aws:dynamodb:eu-west-1:111122223333:table/shop-order-state/index/attention" && output.index_arns.search_2 == "arn:aws:dynamodb:eu-west-1:111122223333:table/shop-order-state/index/search-2"
    error_message = "metrics and indexes"
  }
}
