# Alarms. Each tells the alerts topic and names the section of docs/how-to/handle-alerts.md that says what to do.
#
# None rings at a healthy first apply: a metric without data is no breach, and silence rings only where data came
# before. An alarm is new in INSUFFICIENT_DATA; `insufficient_data_actions` run when it comes back to that state,
# which with `missing` takes data, and then a whole evaluation range without any ("Configuring how CloudWatch alarms
# treat missing data"). What was never alive is found by the errors of what starts it, and by `triad doctor`.

locals {
  alarm_actions = concat([local.alerts_topic_arn], var.alarms.actions)

  # Function and topic `alerts` bear no failure: what waits there has told nobody yet. The Supervisor has one
  # invocation a minute, so five errors in five minutes need every one of them.
  alarm_thresholds = {
    for function in keys(local.function_names) : function => {
      lag_records    = try(coalesce(var.alarms.functions[function].lag_records), function == "alerts" ? 1 : var.alarms.lag_records)
      errors         = try(coalesce(var.alarms.functions[function].errors), lookup({ alerts = 1, supervisor = min(3, var.alarms.errors) }, function, var.alarms.errors))
      throttles      = try(coalesce(var.alarms.functions[function].throttles), var.alarms.throttles)
      failed_records = try(coalesce(var.alarms.functions[function].failed_records), function == "alerts" ? 1 : var.alarms.failed_records)
    }
  }

  # One occurrence is one too many.
  occurrence_alarms = {
    for alarm, of in {
      error-orders        = ["triad_orders_ended_total", { state = "Error" }, "An order has stopped in Error", "an order ended in Error: the page /console/causes or triad list --by-cause says why, and there it is resubmitted"]
      stuck-compensations = ["triad_orders_ended_total", { state = "CompensationFailed" }, "An order is half compensated", "an order is half compensated: retry the compensation at /console/orders?state=CompensationFailed or with triad retry-compensation, or resolve it by hand"]
      dead-letters        = ["triad_dead_letters_total", {}, "A record could not be taken", "a record could not be taken: the page /console/dead-letters or triad dead-letters list says why"]
      open-breakers       = ["triad_breaker_openings_total", {}, "A downstream is not called", "a circuit breaker opened: its orders wait until the service answers; the page /console/downstreams or triad downstreams"]
      broken-invariants   = ["triad_invariant_breaches_total", {}, "An invariant does not hold", "an invariant does not hold, a fault of the software: keep the log line and report it"]
      misconfigured       = ["triad_misconfigured_total", {}, "A handler cannot go on", "a handler cannot go on until rights, credentials, tables or topics are mended: its log says what"]
      } : alarm => {
      metrics = [[local.metric_namespace, of[0], of[1]]]
      section = of[2]
      what    = of[3]
    }
  }

  function_alarms = merge(
    {
      for function, name in local.function_names : "${function}-errors" => {
        metrics   = [["AWS/Lambda", "Errors", { FunctionName = name }]]
        period    = 300
        threshold = local.alarm_thresholds[function].errors
        section   = "A function fails"
        what      = "invocations of ${name} fail: its log says why; what it did not finish is redelivered"
      }
    },
    {
      for function, name in local.function_names : "${function}-throttles" => {
        metrics   = [["AWS/Lambda", "Throttles", { FunctionName = name }]]
        period    = 300
        threshold = local.alarm_thresholds[function].throttles
        section   = "A function is throttled"
        what      = "${name} is throttled: its reserved concurrency or the account's is used up"
      }
    },
    # The metric is one a mapping; the worst of a function's mappings counts. Without data the alarm keeps its state:
    # a mapping that stops does not make a lag go away.
    {
      for function, name in local.function_names : "${function}-lag" => {
        metrics   = [["AWS/Lambda", "OffsetLag", { FunctionName = name }]]
        statistic = "Maximum"
        periods   = 5
        threshold = local.alarm_thresholds[function].lag_records
        missing   = "ignore"
        section   = function == "alerts" ? "Alerts do not get out" : "Too many orders"
        what      = "${name} has had ${local.alarm_thresholds[function].lag_records} records or more to read for five minutes: see its other alarms, and what orders wait for with triad downstreams"
      } if length(local.read_by_function[function]) > 0
    },
  )

  # Metrics of mappings: the group EventCount must be on in `metrics_config` ("Types of metrics for Lambda functions":
  # an empty poll is reported as 0; a mapping that is disabled or polls nothing reports nothing).
  mapping_alarms = merge(
    {
      for topic in keys(local.lanes) : "${topic}-unread" => {
        mapping    = topic
        metrics    = [["AWS/Lambda", "PolledEventCount", {}]]
        periods    = var.alarms.unread_minutes
        comparison = "LessThanThreshold"
        threshold  = 0
        missing    = "missing"
        section    = "A topic is not read"
        what       = "nothing has read the topic ${topic} for ${var.alarms.unread_minutes} minutes: its mapping is disabled, or cannot reach the brokers or log in to them"
      }
    },
    # A function that answers some records as failed has succeeded for Lambda: `Errors` does not count it. In `orders`
    # failing is how an order waits for room; there the age of records is the alarm.
    {
      for topic, lane in local.lanes : "${topic}-failing" => {
        mapping   = topic
        metrics   = [["AWS/Lambda", "FailedInvokeEventCount", {}]]
        period    = 300
        periods   = 3
        threshold = local.alarm_thresholds[lane.function].failed_records
        section   = topic == "alerts" ? "Alerts do not get out" : "Records fail"
        what      = "records of the topic ${topic} have been failing for a quarter of an hour, which the errors of the function need not show: its log says why"
      } if !startswith(topic, "orders")
    },
    {
      for topic in keys(local.kept_lanes) : "${topic}-given-up" => {
        mapping = topic
        metrics = [["AWS/Lambda", "OnFailureDestinationDeliveredEventCount", {}], ["AWS/Lambda", "DroppedEventCount", {}]]
        section = "Records were given up"
        what    = "Lambda has given up records of the topic ${topic}: they are in the failure bucket, or lost if it could not write there"
      }
    },
    {
      for topic in keys(local.lanes) : "${topic}-unreachable" => {
        mapping    = topic
        metrics    = [["AWS/Lambda", "PollingErrorCount", {}]]
        periods    = 5
        datapoints = 3
        section    = "A topic is not read"
        what       = "the mapping of the topic ${topic} cannot read from the brokers: network, login or rights"
      } if var.alarms.polling_errors
    },
  )

  # Age of the oldest record at the time that work on it begins, at each delivery.
  record_alarms = {
    for topic, function in local.read_by : "${topic}-old" => {
      metrics    = [[local.metric_namespace, "triad_record_wait_seconds", { handler = startswith(function, "agent-") ? "agent" : function, topic = topic }]]
      statistic  = "Maximum"
      period     = 300
      comparison = "GreaterThanThreshold"
      threshold  = var.alarms.record_seconds
      section    = "Records are old"
      what       = "a record of the topic ${topic} was older than ${var.alarms.record_seconds} s when work on it began: too many are before it, or it keeps failing"
    } if topic != "alerts"
  }

  # CloudWatch ignores missing data of AWS/DynamoDB whatever the alarm says (API reference, PutMetricAlarm), and DynamoDB
  # reports throttles only when there are any: only filled with zeros does such an alarm end.
  table_indexes = { order_state = ["due", "attention", "search-1", "search-2"] }
  table_alarms = merge(
    {
      for table, name in local.table_names : "${trimprefix(name, var.name_prefix)}-throttled" => {
        metrics = flatten([
          for metric in ["ReadThrottleEvents", "WriteThrottleEvents"] : [
            for index in concat([null], lookup(local.table_indexes, table, [])) :
            { of = ["AWS/DynamoDB", metric, merge({ TableName = name }, index == null ? {} : { GlobalSecondaryIndexName = index })] }
          ]
        ])[*].of
        periods    = 5
        datapoints = 3
        threshold  = var.alarms.throttled_requests
        section    = "A table throttles"
        what       = "the table ${name} or one of its indexes refuses reads or writes because there are too many"
      }
    },
    {
      order-state-faults = {
        metrics    = [for operation in ["GetItem", "PutItem", "Query", "TransactWriteItems"] : ["AWS/DynamoDB", "SystemErrors", { TableName = local.table_names.order_state, Operation = operation }]]
        periods    = 5
        datapoints = 3
        section    = "A table throttles"
        what       = "DynamoDB answers calls of the table ${local.table_names.order_state} with faults of its own"
      }
    },
  )

  supervision_alarms = {
    supervisor-silent = {
      metrics    = [[local.metric_namespace, "triad_sweeps_total", { result = "whole" }]]
      periods    = var.alarms.supervisor_silent_minutes
      comparison = "LessThanThreshold"
      missing    = "missing"
      section    = "Sweeps are silent or late"
      what       = "no sweep of the Supervisor has read the whole due index for ${var.alarms.supervisor_silent_minutes} minutes: overdue orders may not be found"
    }
    overdue-orders = {
      metrics    = [[local.metric_namespace, "triad_oldest_due_seconds", {}]]
      statistic  = "Maximum"
      periods    = 5
      comparison = "GreaterThanThreshold"
      threshold  = var.alarms.overdue_seconds
      section    = "Sweeps are silent or late"
      what       = "an order has been overdue for more than ${var.alarms.overdue_seconds} s: sweeps do not get through, or cannot write its record"
    }
    # One lost invocation has the next one a minute later; a role that was made a moment ago may not be known yet.
    schedule-failing = {
      metrics    = [for metric in ["TargetErrorCount", "InvocationDroppedCount"] : ["AWS/Scheduler", metric, { ScheduleGroup = local.schedule_group_name }]]
      periods    = 5
      datapoints = 3
      section    = "Sweeps are silent or late"
      what       = "EventBridge Scheduler cannot start the Supervisor: its role, the function or its concurrency"
    }
    notifications-failing = {
      metrics = [["AWS/SNS", "NumberOfNotificationsFailed", { TopicName = local.alerts_topic_name }]]
      period  = 300
      section = "Alerts do not get out"
      what    = "SNS could not deliver to a subscription of ${local.alerts_topic_name}: whoever it is for hears of no alert and no alarm"
    }
  }

  alarms = {
    for alarm, of in merge(
      local.occurrence_alarms, local.function_alarms, local.mapping_alarms, local.record_alarms, local.table_alarms, local.supervision_alarms,
      ) : alarm => merge(
      { statistic = "Sum", period = 60, periods = 1, comparison = "GreaterThanOrEqualToThreshold", threshold = 1, missing = "notBreaching" },
      of,
    ) if var.alarms.enabled
  }
  # For what looks at the alarms, which may be what the mappings need: so no resource is referred to above.
  alarm_names = [for alarm in keys(local.alarms) : "${var.name_prefix}${alarm}"]

  mapping_dimensions = { for topic, mapping in aws_lambda_event_source_mapping.this : topic => { EventSourceMappingUUID = mapping.uuid } }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each          = local.alarms
  alarm_name        = "${var.name_prefix}${each.key}"
  alarm_description = "Triad: ${each.value.what} (docs/how-to/handle-alerts.md, ${each.value.section})."

  namespace   = length(each.value.metrics) == 1 ? each.value.metrics[0][0] : null
  metric_name = length(each.value.metrics) == 1 ? each.value.metrics[0][1] : null
  dimensions  = length(each.value.metrics) == 1 ? merge(each.value.metrics[0][2], lookup(local.mapping_dimensions, try(each.value.mapping, ""), {})) : null
  statistic   = length(each.value.metrics) == 1 ? each.value.statistic : null
  period      = length(each.value.metrics) == 1 ? each.value.period : null

  # Several metrics, at most ten, are added up.
  dynamic "metric_query" {
    for_each = { for place, metric in each.value.metrics : "m${place}" => metric if length(each.value.metrics) > 1 }
    content {
      id = metric_query.key
      metric {
        namespace   = metric_query.value[0]
        metric_name = metric_query.value[1]
        dimensions  = merge(metric_query.value[2], lookup(local.mapping_dimensions, try(each.value.mapping, ""), {}))
        stat        = each.value.statistic
        period      = each.value.period
      }
    }
  }
  dynamic "metric_query" {
    for_each = length(each.value.metrics) == 1 ? [] : [join(" + ", [for place in range(length(each.value.metrics)) : "FILL(m${place}, 0)"])]
    content {
      id          = "sum"
      expression  = metric_query.value
      label       = each.key
      return_data = true
    }
  }

  evaluation_periods        = each.value.periods
  datapoints_to_alarm       = try(each.value.datapoints, each.value.periods)
  comparison_operator       = each.value.comparison
  threshold                 = each.value.threshold
  treat_missing_data        = each.value.missing
  alarm_actions             = local.alarm_actions
  ok_actions                = local.alarm_actions
  insufficient_data_actions = each.value.missing == "missing" ? local.alarm_actions : null
  tags                      = var.tags
}
