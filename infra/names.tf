# Names and ARNs of an installation, each written once. All begin with `name_prefix`; those that are unique in an account
# and not in a region (roles, dashboards) end with the region.
#
# ARNs are put together from names instead of being read from resources, so that a plan shows
# every policy in full before anything exists.

data "aws_partition" "current" {}

data "aws_region" "current" {}

data "aws_caller_identity" "current" {}

locals {
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.id # `name` is deprecated in provider 6, `region` missing in 5
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

  # The installation's name where no hyphen may end it.
  name = trimsuffix(var.name_prefix, "-")

  # Functions that run all the time; `setup` is invoked by applies and operators alone.
  function_names = merge(
    {
      for function in ["submission", "scheduler", "supervisor", "alerts"] :
      function => "${var.name_prefix}${function}"
    },
    { for agent in keys(var.agents) : "agent-${agent}" => "${var.name_prefix}agent-${agent}" },
    { for _ in var.console[*] : "console" => "${var.name_prefix}console" },
  )
  all_function_names = merge(local.function_names, { setup = "${var.name_prefix}setup" })
  function_arns = {
    for function, name in local.all_function_names :
    function => "arn:${local.partition}:lambda:${local.arn_tail}:function:${name}"
  }
  log_group_names = { for function, name in local.all_function_names : function => "/aws/lambda/${name}" }

  # IAM takes 64 characters: of a longer name, the middle is replaced by a hash.
  long_role_names = merge(
    { for function, name in local.all_function_names : function => "${name}-${local.region}" },
    { schedule = "${local.function_names.supervisor}-schedule-${local.region}" },
  )
  role_names = {
    for role, name in local.long_role_names : role => length(name) <= 64 ? name : join("-", [
      trimsuffix(substr(name, 0, 54 - length(local.region)), "-"), substr(sha256(name), 0, 8), local.region,
    ])
  }

  # Names in Kafka: a topic and the consumer group that reads it have the same one.
  kafka_names = { for topic in local.all_topics : topic => "${var.name_prefix}${topic}" }

  schedule_group_name = local.name
  alerts_topic_name   = "${var.name_prefix}alerts"
  alerts_topic_arn    = "arn:${local.partition}:sns:${local.arn_tail}:${local.alerts_topic_name}"
}
