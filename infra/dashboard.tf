# The dashboard in CloudWatch: orders, agents, topics, what goes wrong, supervision.

locals {
  # A graph of every series of a metric by these dimensions.
  dashboard_searches = {
    for graph, of in {
      "Accepted orders a minute"     = { metric = "triad_orders_accepted_total", by = "workflow", statistic = "Sum" }
      "Ended orders a minute"        = { metric = "triad_orders_ended_total", by = "workflow,state", statistic = "Sum" }
      "Acceptance to end, p99 (s)"   = { metric = "triad_order_duration_seconds", by = "workflow,state", statistic = "p99" }
      "Rejected orders"              = { metric = "triad_orders_rejected_total", by = "", statistic = "Sum" }
      "Orders in flight under a cap" = { metric = "triad_orders_in_flight", by = "", statistic = "Maximum" }
      "The cap"                      = { metric = "triad_orders_in_flight_limit", by = "", statistic = "Maximum" }
      "Orders waiting for an agent"  = { metric = "triad_orders_waiting", by = "agent,lane", statistic = "Maximum" }
      "Attempts a minute"            = { metric = "triad_attempts_total", by = "agent,direction,outcome", statistic = "Sum" }
      "Calls, p99 (s)"               = { metric = "triad_call_duration_seconds", by = "agent,outcome", statistic = "p99" }
      "Circuit breakers (1 is open)" = { metric = "triad_breaker_open", by = "agent", statistic = "Maximum" }
      "Circuit breakers that opened" = { metric = "triad_breaker_openings_total", by = "agent", statistic = "Sum" }
      "One hop, p99 (s)"             = { metric = "triad_record_wait_seconds", by = "handler,topic", statistic = "p99" }
      "Dead letters"                 = { metric = "triad_dead_letters_total", by = "topic,cause", statistic = "Sum" }
      "Errors of store and bus"      = { metric = "triad_errors_total", by = "handler,port,class", statistic = "Sum" }
      "Delivered again"              = { metric = "triad_redeliveries_total", by = "handler,reason", statistic = "Sum" }
      "Lost races"                   = { metric = "triad_conflicts_total", by = "", statistic = "Sum" }
      "Misconfigured handlers"       = { metric = "triad_misconfigured_total", by = "handler", statistic = "Sum" }
      "Broken invariants"            = { metric = "triad_invariant_breaches_total", by = "invariant", statistic = "Sum" }
      "Sweeps a minute"              = { metric = "triad_sweeps_total", by = "result", statistic = "Sum" }
      "Time of sweeps, p99 (s)"      = { metric = "triad_sweep_duration_seconds", by = "", statistic = "p99" }
      "Orders met by sweeps"         = { metric = "triad_sweep_orders", by = "", statistic = "Maximum" }
      "Most overdue order (s)"       = { metric = "triad_oldest_due_seconds", by = "", statistic = "Maximum" }
    } : graph => "SEARCH('{${join(",", compact(concat(["\"${local.metric_namespace}\""], split(",", of.by))))}} MetricName=\"${of.metric}\"', '${of.statistic}', 60)"
  }

  # In this order, three in a row.
  dashboard_graphs = [
    ["Accepted orders a minute", "Ended orders a minute", "Acceptance to end, p99 (s)"],
    ["Most overdue order (s)", "Dead letters", "Circuit breakers (1 is open)"],
    ["Attempts a minute", "Calls, p99 (s)", "Circuit breakers that opened"],
    ["One hop, p99 (s)", "Delivered again", "Errors of store and bus"],
    ["Misconfigured handlers", "Broken invariants", "Lost races"],
    ["Orders waiting for an agent", "Orders in flight under a cap", "The cap"],
    ["Rejected orders", "Sweeps a minute", "Orders met by sweeps"],
    ["Time of sweeps, p99 (s)"],
  ]

  # The states of all alarms; a widget shows 100 at most. An alarm that stays without data watches what never began.
  dashboard_alarms = {
    type   = "alarm"
    x      = 0
    y      = 6 * length(local.dashboard_graphs)
    width  = 24
    height = 6
    properties = {
      title  = "Alarms"
      alarms = [for name in slice(local.alarm_names, 0, min(100, length(local.alarm_names))) : "arn:${local.partition}:cloudwatch:${local.arn_tail}:alarm:${name}"]
    }
  }

  dashboard_lag = {
    type   = "metric"
    x      = 8
    y      = 6 * (length(local.dashboard_graphs) - 1)
    width  = 16
    height = 6
    properties = {
      title  = "Records that functions are behind"
      region = local.region
      view   = "timeSeries"
      period = 60
      stat   = "Maximum"
      metrics = [
        for function, name in local.function_names : ["AWS/Lambda", "OffsetLag", "FunctionName", name]
        if length(local.read_by_function[function]) > 0
      ]
    }
  }
}

resource "aws_cloudwatch_dashboard" "this" {
  count          = var.dashboard ? 1 : 0
  dashboard_name = "${local.name}-${local.region}"

  dashboard_body = jsonencode({
    widgets = concat(flatten([
      for row, graphs in local.dashboard_graphs : [
        for column, graph in graphs : {
          type   = "metric"
          x      = 8 * column
          y      = 6 * row
          width  = 8
          height = 6
          properties = {
            title   = graph
            region  = local.region
            view    = "timeSeries"
            period  = 60
            metrics = [[{ expression = local.dashboard_searches[graph], id = "e1", label = "" }]]
          }
        }
      ]
    ]), [local.dashboard_lag], var.alarms.enabled ? [local.dashboard_alarms] : [])
  })
}
