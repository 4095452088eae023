# Names and ARNs of an installation, each written once.
#
# ARNs are put together from names instead of being read from resources, so that a plan shows
# every policy in full before anything exists.

data "aws_partition" "current" {}

data "aws_region" "current" {}

data "aws_caller_identity" "current" {}

locals {
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.name
  account   = data.aws_caller_identity.current.account_id

  arn_tail = "${local.region}:${local.account}"

  table_names = {
    orders      = "${var.name_prefix}orders"
    order_state = "${var.name_prefix}order-state"
    workflows   = "${var.name_prefix}workflows"
    control     = "${var.name_prefix}control"
  }
  table_arns = {
    for table, name in local.table_names :
    table => "arn:${local.partition}:dynamodb:${local.arn_tail}:table/${name}"
  }
  # The index whose rows are due, the one whose rows need an operator, and those by search key.
  due_index_arn       = "${local.table_arns.order_state}/index/due"
  attention_index_arn = "${local.table_arns.order_state}/index/attention"
  search_index_arns   = [for n in [1, 2] : "${local.table_arns.order_state}/index/search-${n}"]

  function_names = merge(
    {
      for function in ["submission", "scheduler", "supervisor", "alerts"] :
      function => "${var.name_prefix}${function}"
    },
    { for agent in keys(var.agents) : "agent-${agent}" => "${var.name_prefix}agent-${agent}" },
    { for _ in var.console[*] : "console" => "${var.name_prefix}console" },
  )
  function_arns = {
    for function, name in local.function_names :
    function => "arn:${local.partition}:lambda:${local.arn_tail}:function:${name}"
  }
  log_group_names = { for function, name in local.function_names : function => "/aws/lambda/${name}" }

  schedule_group_name = trimsuffix(var.name_prefix, "-")
  alerts_topic_name   = "${var.name_prefix}alerts"
  alerts_topic_arn    = "arn:${local.partition}:sns:${local.arn_tail}:${local.alerts_topic_name}"
}
