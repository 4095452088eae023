# Alarms: what a person must look at. All of them tell the alerts topic.

locals {
  alarm_actions = concat([local.alerts_topic_arn], var.alarms.actions)

  alarmed_functions = { for function, name in local.function_names : function => name if var.alarms.enabled }
  reading_functions = {
    for function, name in local.alarmed_functions : function => name if length(local.read_by_function[function]) > 0
  }

  # One occurrence is one too many.
  single_occurrences = {
    for alarm, of in {
      error-orders = {
        metric     = "triad_orders_ended_total"
        dimensions = { state = "Error" }
        what       = "an order ended in Error: the page /console/causes or triad list --by-cause says why, and there it is resubmitted (docs/how-to/handle-alerts.md, An order has stopped in Error)"
      }
      stuck-compensations = {
        metric     = "triad_orders_ended_total"
        dimensions = { state = "CompensationFailed" }
        what       = "an order is half compensated: retry the compensation at /console/orders?state=CompensationFailed or with triad retry-compensation, or resolve it by hand (docs/how-to/handle-alerts.md, An order is half compensated)"
      }
      dead-letters = {
        metric     = "triad_dead_letters_total"
        dimensions = {}
        what       = "a record could not be taken: the page /console/dead-letters or triad dead-letters list says why (docs/how-to/handle-alerts.md, A record could not be taken)"
      }
      open-breakers = {
        metric     = "triad_breaker_openings_total"
        dimensions = {}
        what       = "a circuit breaker opened: its orders wait until the service answers; the page /console/downstreams or triad downstreams (docs/how-to/handle-alerts.md, A downstream is not called)"
      }
      broken-invariants = {
        metric     = "triad_invariant_breaches_total"
        dimensions = {}
        what       = "an invariant does not hold, a fault of the software: keep the log line and report it (docs/how-to/handle-alerts.md, Alarms on counts)"
      }
      misconfigured = {
        metric     = "triad_misconfigured_total"
        dimensions = {}
        what       = "a handler cannot go on until rights, credentials, tables or topics are mended: its log says what (docs/how-to/handle-alerts.md, A handler cannot go on)"
      }
    } : alarm => of if var.alarms.enabled
  }
}

# The metric is one a mapping; the worst of a function's mappings counts.
resource "aws_cloudwatch_metric_alarm" "lag" {
  for_each            = local.reading_functions
  alarm_name          = "${each.value}-lag"
  alarm_description   = "${each.value} is behind its topics by more than ${var.alarms.lag_records} records: see whether it fails or is throttled (its other alarms), and on the page /console/downstreams or with triad downstreams what orders wait for (docs/how-to/handle-alerts.md, Too many orders)."
  namespace           = "AWS/Lambda"
  metric_name         = "OffsetLag"
  dimensions          = { FunctionName = each.value }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarms.lag_records
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "errors" {
  for_each            = local.alarmed_functions
  alarm_name          = "${each.value}-errors"
  alarm_description   = "Invocations of ${each.value} fail: its log says why; what it did not finish comes again (docs/how-to/handle-alerts.md, Alarms on counts)."
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = each.value }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = var.alarms.errors
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "throttles" {
  for_each            = local.alarmed_functions
  alarm_name          = "${each.value}-throttles"
  alarm_description   = "${each.value} is throttled: its reserved concurrency or the account's is used up. Raise it, or bound the orders in flight (docs/how-to/handle-alerts.md, Too many orders)."
  namespace           = "AWS/Lambda"
  metric_name         = "Throttles"
  dimensions          = { FunctionName = each.value }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = var.alarms.throttles
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "occurrence" {
  for_each            = local.single_occurrences
  alarm_name          = "${var.name_prefix}${each.key}"
  alarm_description   = "Triad: ${each.value.what}."
  namespace           = local.metric_namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = var.tags
}

# Silence is the alarm: no data is a breach.
resource "aws_cloudwatch_metric_alarm" "supervisor_silent" {
  count               = var.alarms.enabled ? 1 : 0
  alarm_name          = "${var.name_prefix}supervisor-silent"
  alarm_description   = "No sweep of the Supervisor has read the whole due index for ${var.alarms.supervisor_silent_minutes} minutes: overdue orders may not be found. Is it running, and may it read the due index (docs/how-to/handle-alerts.md, Alarms on counts)?"
  namespace           = local.metric_namespace
  metric_name         = "triad_sweeps_total"
  dimensions          = { result = "whole" }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = var.alarms.supervisor_silent_minutes
  datapoints_to_alarm = var.alarms.supervisor_silent_minutes
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "overdue" {
  count               = var.alarms.enabled ? 1 : 0
  alarm_name          = "${var.name_prefix}overdue-orders"
  alarm_description   = "An order has been overdue for more than ${var.alarms.overdue_seconds} s: sweeps do not get through, or cannot write its record; the Supervisor's log says which (docs/how-to/handle-alerts.md, Alarms on counts)."
  namespace           = local.metric_namespace
  metric_name         = "triad_oldest_due_seconds"
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 5
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarms.overdue_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = var.tags
}
