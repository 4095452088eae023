# Metrics from the functions' logs: lines {"fields": {"metric": NAME, …}} are counted by name.
# The names are those of shared/runtime/src/metric.rs.

locals {
  # One namespace an installation, so that two in one account do not add up.
  metric_namespace = "Triad/${trimsuffix(var.name_prefix, "-")}"

  metrics = {
    OrderError         = "an order ended in Error"
    CompensationFailed = "an order could not be undone and ended in CompensationFailed"
    DeadLetter         = "a record could not be taken and is in dead-letter"
    BreakerOpen        = "a circuit breaker opened"
    Misconfigured      = "a handler cannot go on until rights, credentials, tables or topics are mended"
    InvariantBreach    = "an invariant does not hold: a fault of the software"
    OrderRejected      = "an order was not let in, because too many are in flight"
    SweepDone          = "the Supervisor finished a sweep"
  }

  # Every name is looked for in every function's log: who writes what is the functions' business.
  metric_filters = {
    for pair in setproduct(keys(local.functions), keys(local.metrics)) :
    "${pair[0]}/${pair[1]}" => { function = pair[0], metric = pair[1] }
  }
}

resource "aws_cloudwatch_log_metric_filter" "this" {
  for_each       = local.metric_filters
  name           = each.value.metric
  log_group_name = aws_cloudwatch_log_group.function[each.value.function].name
  pattern        = "{ $.fields.metric = \"${each.value.metric}\" }"

  metric_transformation {
    namespace = local.metric_namespace
    name      = each.value.metric
    value     = "1"
    unit      = "Count"
  }
}
