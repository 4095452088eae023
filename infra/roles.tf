# Roles: one a function, and one with which EventBridge Scheduler starts the Supervisor.
# What each may do is in policies.tf.

resource "aws_iam_role" "function" {
  for_each             = local.functions
  name                 = local.role_names[each.key]
  description          = "Triad function ${local.all_function_names[each.key]}"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "LambdaRunsIt"
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "function" {
  for_each = local.functions
  name     = "function"
  role     = aws_iam_role.function[each.key].id
  policy   = local.policy_texts[each.key]

  lifecycle {
    precondition {
      condition     = length(local.policy_texts[each.key]) <= 10240
      error_message = "The policy of ${each.key} is longer than the 10240 characters that IAM takes: too many agents or reply topics for one installation. Split it into two with their own name_prefix."
    }
  }
}

resource "aws_iam_role" "schedule" {
  name                 = local.role_names.schedule
  description          = "EventBridge Scheduler starts the Triad Supervisor"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "SchedulesOfThisGroup"
      Effect    = "Allow"
      Principal = { Service = "scheduler.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = {
        StringEquals = { "aws:SourceAccount" = local.account }
        ArnEquals    = { "aws:SourceArn" = "arn:${local.partition}:scheduler:${local.arn_tail}:schedule-group/${local.schedule_group_name}" }
      }
    }]
  })
}

resource "aws_iam_role_policy" "schedule" {
  name = "start-supervisor"
  role = aws_iam_role.schedule.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "StartSupervisor"
      Effect   = "Allow"
      Action   = ["lambda:InvokeFunction"]
      Resource = [local.function_arns.supervisor]
    }]
  })
}
