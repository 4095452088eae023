# Schedule, alerts, alarms, kept records, outputs.

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
      for alarm in aws_cloudwatch_metric_alarm.this : alarm.alarm_actions == toset(["arn:aws:sns:eu-west-1:111122223333:triad-alerts"]) &&
      alarm.ok_actions == alarm.alarm_actions && (alarm.treat_missing_data == "missing" ? alarm.insufficient_data_actions == alarm.alarm_actions : length(coalesce(alarm.insufficient_data_actions, [])) == 0)
    ])
    error_message = "every alarm tells the alerts topic, and when it is over; silence is told where data came before"
  }
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["agent.payment-unread"].dimensions == tomap({ EventSourceMappingUUID = "00000000-0000-0000-0000-000000000000" }) &&
      aws_cloudwatch_metric_alarm.this["scheduler-failing"].dimensions == tomap({ EventSourceMappingUUID = "00000000-0000-0000-0000-000000000000" })
    )
    error_message = "the metrics of a mapping are by its UUID"
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

# One line an alarm: metrics, how they are judged, what a minute without data is, and the section of
# docs/how-to/handle-alerts.md. The dimensions of mappings are known after the apply.
run "alarms" {
  command = plan

  assert {
    condition = {
      for key, a in local.alarms : key => "${length(a.metrics)} ${a.metrics[0][0]} ${a.metrics[0][1]} ${a.statistic} of ${a.period} s ${a.comparison} ${a.threshold}, ${try(a.datapoints, a.periods)} of ${a.periods}, ${a.missing}: ${a.section}"
      if !strcontains(key, "agent-inventory") && !strcontains(key, "agent.inventory") && !strcontains(key, ".high")
      } == {
      error-orders        = "1 Triad/triad triad_orders_ended_total Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: An order has stopped in Error"
      stuck-compensations = "1 Triad/triad triad_orders_ended_total Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: An order is half compensated"
      dead-letters        = "1 Triad/triad triad_dead_letters_total Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A record could not be taken"
      open-breakers       = "1 Triad/triad triad_breaker_openings_total Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A downstream is not called"
      broken-invariants   = "1 Triad/triad triad_invariant_breaches_total Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: An invariant does not hold"
      misconfigured       = "1 Triad/triad triad_misconfigured_total Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A handler cannot go on"

      submission-errors       = "1 AWS/Lambda Errors Sum of 300 s GreaterThanOrEqualToThreshold 5, 1 of 1, notBreaching: A function fails"
      scheduler-errors        = "1 AWS/Lambda Errors Sum of 300 s GreaterThanOrEqualToThreshold 5, 1 of 1, notBreaching: A function fails"
      supervisor-errors       = "1 AWS/Lambda Errors Sum of 300 s GreaterThanOrEqualToThreshold 3, 1 of 1, notBreaching: A function fails"
      alerts-errors           = "1 AWS/Lambda Errors Sum of 300 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A function fails"
      agent-payment-errors    = "1 AWS/Lambda Errors Sum of 300 s GreaterThanOrEqualToThreshold 5, 1 of 1, notBreaching: A function fails"
      submission-throttles    = "1 AWS/Lambda Throttles Sum of 300 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A function is throttled"
      scheduler-throttles     = "1 AWS/Lambda Throttles Sum of 300 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A function is throttled"
      supervisor-throttles    = "1 AWS/Lambda Throttles Sum of 300 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A function is throttled"
      alerts-throttles        = "1 AWS/Lambda Throttles Sum of 300 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A function is throttled"
      agent-payment-throttles = "1 AWS/Lambda Throttles Sum of 300 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: A function is throttled"
      submission-lag          = "1 AWS/Lambda OffsetLag Maximum of 60 s GreaterThanOrEqualToThreshold 10000, 5 of 5, ignore: Too many orders"
      scheduler-lag           = "1 AWS/Lambda OffsetLag Maximum of 60 s GreaterThanOrEqualToThreshold 10000, 5 of 5, ignore: Too many orders"
      agent-payment-lag       = "1 AWS/Lambda OffsetLag Maximum of 60 s GreaterThanOrEqualToThreshold 10000, 5 of 5, ignore: Too many orders"
      alerts-lag              = "1 AWS/Lambda OffsetLag Maximum of 60 s GreaterThanOrEqualToThreshold 1, 5 of 5, ignore: Alerts do not get out"

      "orders-unread"        = "1 AWS/Lambda PolledEventCount Sum of 60 s LessThanThreshold 0, 10 of 10, missing: A topic is not read"
      "scheduler-unread"     = "1 AWS/Lambda PolledEventCount Sum of 60 s LessThanThreshold 0, 10 of 10, missing: A topic is not read"
      "events-unread"        = "1 AWS/Lambda PolledEventCount Sum of 60 s LessThanThreshold 0, 10 of 10, missing: A topic is not read"
      "alerts-unread"        = "1 AWS/Lambda PolledEventCount Sum of 60 s LessThanThreshold 0, 10 of 10, missing: A topic is not read"
      "agent.payment-unread" = "1 AWS/Lambda PolledEventCount Sum of 60 s LessThanThreshold 0, 10 of 10, missing: A topic is not read"

      "orders-unreachable"        = "1 AWS/Lambda PollingErrorCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A topic is not read"
      "scheduler-unreachable"     = "1 AWS/Lambda PollingErrorCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A topic is not read"
      "events-unreachable"        = "1 AWS/Lambda PollingErrorCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A topic is not read"
      "alerts-unreachable"        = "1 AWS/Lambda PollingErrorCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A topic is not read"
      "agent.payment-unreachable" = "1 AWS/Lambda PollingErrorCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A topic is not read"

      "scheduler-failing"     = "1 AWS/Lambda FailedInvokeEventCount Sum of 300 s GreaterThanOrEqualToThreshold 10, 3 of 3, notBreaching: Records fail"
      "events-failing"        = "1 AWS/Lambda FailedInvokeEventCount Sum of 300 s GreaterThanOrEqualToThreshold 10, 3 of 3, notBreaching: Records fail"
      "agent.payment-failing" = "1 AWS/Lambda FailedInvokeEventCount Sum of 300 s GreaterThanOrEqualToThreshold 10, 3 of 3, notBreaching: Records fail"
      "alerts-failing"        = "1 AWS/Lambda FailedInvokeEventCount Sum of 300 s GreaterThanOrEqualToThreshold 1, 3 of 3, notBreaching: Alerts do not get out"

      "scheduler-given-up"     = "2 AWS/Lambda OnFailureDestinationDeliveredEventCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: Records were given up"
      "agent.payment-given-up" = "2 AWS/Lambda OnFailureDestinationDeliveredEventCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: Records were given up"

      "orders-old"        = "1 Triad/triad triad_record_wait_seconds Maximum of 300 s GreaterThanThreshold 300, 1 of 1, notBreaching: Records are old"
      "scheduler-old"     = "1 Triad/triad triad_record_wait_seconds Maximum of 300 s GreaterThanThreshold 300, 1 of 1, notBreaching: Records are old"
      "events-old"        = "1 Triad/triad triad_record_wait_seconds Maximum of 300 s GreaterThanThreshold 300, 1 of 1, notBreaching: Records are old"
      "agent.payment-old" = "1 Triad/triad triad_record_wait_seconds Maximum of 300 s GreaterThanThreshold 300, 1 of 1, notBreaching: Records are old"

      "orders-throttled"      = "2 AWS/DynamoDB ReadThrottleEvents Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A table throttles"
      "order-state-throttled" = "10 AWS/DynamoDB ReadThrottleEvents Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A table throttles"
      "workflows-throttled"   = "2 AWS/DynamoDB ReadThrottleEvents Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A table throttles"
      "control-throttled"     = "2 AWS/DynamoDB ReadThrottleEvents Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A table throttles"
      "order-state-faults"    = "4 AWS/DynamoDB SystemErrors Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: A table throttles"

      supervisor-silent     = "1 Triad/triad triad_sweeps_total Sum of 60 s LessThanThreshold 1, 5 of 5, missing: Sweeps are silent or late"
      overdue-orders        = "1 Triad/triad triad_oldest_due_seconds Maximum of 60 s GreaterThanThreshold 300, 5 of 5, notBreaching: Sweeps are silent or late"
      schedule-failing      = "2 AWS/Scheduler TargetErrorCount Sum of 60 s GreaterThanOrEqualToThreshold 1, 3 of 5, notBreaching: Sweeps are silent or late"
      notifications-failing = "1 AWS/SNS NumberOfNotificationsFailed Sum of 300 s GreaterThanOrEqualToThreshold 1, 1 of 1, notBreaching: Alerts do not get out"
    }
    error_message = "every alarm, what it rings for, and the section that says what to do"
  }
  assert {
    condition = alltrue([
      for key, a in aws_cloudwatch_metric_alarm.this : a.alarm_name == "triad-${key}" && endswith(a.alarm_description, " (docs/how-to/handle-alerts.md, ${local.alarms[key].section}).") &&
      a.threshold == local.alarms[key].threshold && a.evaluation_periods == local.alarms[key].periods && a.treat_missing_data == local.alarms[key].missing
    ]) && toset(local.alarm_names) == toset([for a in aws_cloudwatch_metric_alarm.this : a.alarm_name])
    error_message = "each is made as it is listed, and its text names its section"
  }
  # What is a breach without data would ring before there is any.
  assert {
    condition     = alltrue([for a in aws_cloudwatch_metric_alarm.this : a.treat_missing_data != "breaching"])
    error_message = "none rings at a healthy first apply"
  }
  assert {
    condition = (
      aws_cloudwatch_metric_alarm.this["error-orders"].dimensions == tomap({ state = "Error" }) && aws_cloudwatch_metric_alarm.this["stuck-compensations"].dimensions == tomap({ state = "CompensationFailed" }) &&
      aws_cloudwatch_metric_alarm.this["supervisor-silent"].dimensions == tomap({ result = "whole" }) && aws_cloudwatch_metric_alarm.this["alerts-lag"].dimensions == tomap({ FunctionName = "triad-alerts" }) &&
      aws_cloudwatch_metric_alarm.this["agent.payment-old"].dimensions == tomap({ handler = "agent", topic = "agent.payment" }) &&
      aws_cloudwatch_metric_alarm.this["notifications-failing"].dimensions == tomap({ TopicName = "triad-alerts" })
    )
    error_message = "of what"
  }
  assert {
    condition = toset([for m in aws_cloudwatch_metric_alarm.this["order-state-throttled"].metric_query : jsonencode(m.metric[0].dimensions) if m.id != "sum"]) == toset([
      for of in [{}, { GlobalSecondaryIndexName = "due" }, { GlobalSecondaryIndexName = "attention" }, { GlobalSecondaryIndexName = "search-1" }, { GlobalSecondaryIndexName = "search-2" }] : jsonencode(merge({ TableName = "triad-order-state" }, of))
    ])
    error_message = "throttles of the table and of each of its indexes"
  }
  assert {
    condition = [for m in aws_cloudwatch_metric_alarm.this["schedule-failing"].metric_query : "${m.expression} ${m.return_data}" if m.id == "sum"] == ["FILL(m0, 0) + FILL(m1, 0) true"] && alltrue([
      for a in aws_cloudwatch_metric_alarm.this : length(a.metric_query) <= 11
    ])
    error_message = "several metrics are added up, a minute without data being 0; ten are the most that an alarm can have"
  }
  assert {
    condition     = toset([for index in aws_dynamodb_table.order_state.global_secondary_index : index.name]) == toset(local.table_indexes.order_state)
    error_message = "the indexes are those of the table"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : f.environment[0].variables.TRIAD_METRICS_NAMESPACE == "Triad/triad"])
    error_message = "every function tells its metrics in this installation's namespace"
  }
  assert {
    condition = aws_cloudwatch_dashboard.this[0].dashboard_name == "triad-eu-west-1" && length(jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets) == 24 && contains([
      for w in jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets : try(w.properties.metrics[0][0].expression, "")
    ], "SEARCH('{\"Triad/triad\",workflow,state} MetricName=\"triad_orders_ended_total\"', 'Sum', 60)")
    error_message = "a dashboard over all of it"
  }
}

run "alarms_with_other_thresholds" {
  command = plan
  variables {
    alarms = {
      lag_records               = 500
      errors                    = 2
      throttles                 = 2
      supervisor_silent_minutes = 4
      polling_errors            = true
      functions                 = { alerts = { errors = 4, lag_records = 3 }, agent-payment = { failed_records = 50, throttles = 7 } }
      actions                   = ["arn:aws:sns:eu-west-1:111122223333:pager"]
    }
  }
  assert {
    condition = {
      for key in ["submission-lag", "alerts-lag", "submission-errors", "supervisor-errors", "alerts-errors", "submission-throttles", "agent-payment-throttles", "agent.payment-failing", "scheduler-failing"] :
      key => local.alarms[key].threshold
      } == {
      submission-lag = 500, alerts-lag = 3, submission-errors = 2, supervisor-errors = 2, alerts-errors = 4, submission-throttles = 2, agent-payment-throttles = 7, "agent.payment-failing" = 50, scheduler-failing = 10
    }
    error_message = "by function, or for all"
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["supervisor-silent"].evaluation_periods == 4 && aws_cloudwatch_metric_alarm.this["orders-unreachable"].metric_name == "PollingErrorCount"
    error_message = "minutes of silence, and errors of mappings where they are reported"
  }
  assert {
    condition     = alltrue([for a in aws_cloudwatch_metric_alarm.this : contains(a.alarm_actions, "arn:aws:sns:eu-west-1:111122223333:pager")])
    error_message = "further receivers"
  }
}

run "alarms_in_plain_mode" {
  command = plan
  variables {
    mapping = { mode = "plain" }
  }
  assert {
    condition     = length([for key in keys(local.alarms) : key if endswith(key, "-given-up")]) == 0 && contains(keys(local.alarms), "scheduler-failing") && contains(keys(local.alarms), "orders-unread")
    error_message = "nothing is given up there"
  }
}

run "no_alarms" {
  command = plan
  variables {
    alarms    = { enabled = false }
    dashboard = false
  }
  assert {
    condition     = length(aws_cloudwatch_metric_alarm.this) + length(local.alarm_names) + length(aws_cloudwatch_dashboard.this) == 0
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

run "alerts_by_mail" {
  command = plan
  variables {
    alert_subscriptions = { team = { protocol = "email", endpoint = "team@shop.example" } }
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
      output.triad.region == "eu-west-1" && output.triad.account == "111122223333" && output.triad.prefix == "shop-" && output.triad.brokers == var.kafka.brokers &&
      output.triad.kafka_auth == "msk-iam" && join(" ", output.triad.agents) == "inventory payment" && join(" ", output.triad.reply_topics) == "reply.shop"
    )
    error_message = "where things are"
  }
  assert {
    condition     = output.triad.tables == { orders = "shop-orders", order_state = "shop-order-state", workflows = "shop-workflows", control = "shop-control" }
    error_message = "tables"
  }
  assert {
    condition = output.triad.topics == {
      for topic in [
        "orders", "orders.high", "events", "scheduler", "scheduler.high", "status", "alerts", "dead-letter", "reply.shop",
        "agent.payment", "agent.payment.high", "agent.inventory", "agent.inventory.high",
      ] : topic => "shop-${topic}"
    }
    error_message = "every topic that must exist, and its name in Kafka"
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
