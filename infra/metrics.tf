# What the functions measure: log lines in CloudWatch's embedded metric format, in one namespace. Names, units
# and labels are in docs/reference/metrics.md; a metric stands under all its labels.

locals {
  # One namespace an installation, so that two in one account do not add up.
  metric_namespace = "Triad/${local.name}"
}
