# What the function `setup` may do beside what others may: see setup.tf for its requests. What it may change is listed by name.
# Functions, roles and alarms, at which it looks alone, are of the prefix: with many agents a list would not fit into a role.

locals {
  setup_statements = concat(
    [
      {
        Sid      = "LooksAtTables"
        Effect   = "Allow"
        Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
        Resource = values(local.table_arns)
      },
      {
        Sid      = "LooksAtMappings"
        Effect   = "Allow"
        Action   = ["lambda:ListEventSourceMappings"]
        Resource = ["*"]
      },
      {
        Sid      = "LooksAtFunctions"
        Effect   = "Allow"
        Action   = ["lambda:GetFunctionConfiguration"]
        Resource = ["arn:${local.partition}:lambda:${local.arn_tail}:function:${var.name_prefix}*"]
      },
      # With an empty batch, and the Supervisor for a sweep.
      {
        Sid      = "TriesFunctions"
        Effect   = "Allow"
        Action   = ["lambda:InvokeFunction"]
        Resource = [for function in keys(local.function_names) : local.function_arns[function] if function != "console"]
      },
      {
        Sid      = "LooksAtRoles"
        Effect   = "Allow"
        Action   = ["iam:GetRolePolicy"]
        Resource = ["arn:${local.partition}:iam::${local.account}:role/${var.name_prefix}*"]
      },
      {
        Sid      = "LooksAtTheSchedule"
        Effect   = "Allow"
        Action   = ["scheduler:GetSchedule"]
        Resource = ["arn:${local.partition}:scheduler:${local.arn_tail}:schedule/${local.schedule_group_name}/${local.function_names.supervisor}"]
      },
      {
        Sid      = "LooksAtAlerts"
        Effect   = "Allow"
        Action   = ["sns:ListSubscriptionsByTopic"]
        Resource = [local.alerts_topic_arn]
      },
      # The ids of mappings are known only once they are there.
      {
        Sid       = "SetsPollers"
        Effect    = "Allow"
        Action    = ["lambda:UpdateEventSourceMapping"]
        Resource  = ["arn:${local.partition}:lambda:${local.arn_tail}:event-source-mapping:*"]
        Condition = { ArnEquals = { "lambda:FunctionArn" = distinct([for lane in values(local.lanes) : local.function_arns[lane.function]]) } }
      },
    ],
    length(local.alarm_names) == 0 ? [] : [{
      Sid      = "LooksAtAlarms"
      Effect   = "Allow"
      Action   = ["cloudwatch:DescribeAlarms"]
      Resource = ["arn:${local.partition}:cloudwatch:${local.arn_tail}:alarm:${var.name_prefix}*"]
    }],
    [
      for _ in var.console[*] : {
        Sid      = "OpensTheConsole"
        Effect   = "Allow"
        Action   = ["lambda:AddPermission"]
        Resource = [local.function_arns.console]
      }
    ],
  )
}
