# The functions: one binary each, and for the agents the same binary once a service. What else belongs to the
# console is in console.tf, to `setup` in setup.tf.

locals {
  functions = merge(
    {
      submission = merge(var.functions.submission, { package = var.packages.submission })
      scheduler  = merge(var.functions.scheduler, { package = var.packages.scheduler })
      supervisor = merge(var.functions.supervisor, { package = var.packages.supervisor })
      alerts     = merge(var.functions.alerts, { package = var.packages.alerts })
      setup      = { memory_mb = 256, timeout_seconds = 300, reserved_concurrency = null, package = var.packages.setup }
    },
    {
      for name, agent in var.agents : "agent-${name}" => {
        memory_mb            = agent.memory_mb
        timeout_seconds      = agent.timeout_seconds
        reserved_concurrency = agent.reserved_concurrency
        package              = var.packages.agent
      }
    },
    {
      for console in var.console[*] : "console" => {
        memory_mb            = console.memory_mb
        timeout_seconds      = console.timeout_seconds
        reserved_concurrency = console.reserved_concurrency
        package              = var.packages.console
      }
    },
  )
}

resource "aws_cloudwatch_log_group" "function" {
  for_each          = local.functions
  name              = local.log_group_names[each.key]
  retention_in_days = var.log_retention_days
  kms_key_id        = local.kms_key_arn
  tags              = var.tags
}

resource "aws_lambda_function" "this" {
  #checkov:skip=CKV_AWS_116: a dead letter queue is for asynchronous invocations; records come by mappings, which keep what they give up in a bucket, and a sweep that failed is followed by the next one
  for_each = local.functions

  function_name                  = local.all_function_names[each.key]
  role                           = aws_iam_role.function[each.key].arn
  package_type                   = "Zip"
  filename                       = each.value.package
  source_code_hash               = filebase64sha256(each.value.package)
  runtime                        = "provided.al2023"
  handler                        = "bootstrap"
  architectures                  = [var.architecture]
  memory_size                    = each.value.memory_mb
  timeout                        = each.value.timeout_seconds
  reserved_concurrent_executions = coalesce(each.value.reserved_concurrency, -1)
  kms_key_arn                    = local.kms_key_arn
  code_signing_config_arn        = var.code_signing_config_arn
  tags                           = var.tags

  environment {
    variables = local.environments[each.key]
  }

  dynamic "vpc_config" {
    for_each = var.vpc[*]
    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = vpc_config.value.security_group_ids
    }
  }

  # The functions write JSON lines themselves and choose their level by TRIAD_LOG; of Lambda's own
  # lines only warnings are kept, because three of them an invocation cost more than they tell.
  logging_config {
    log_format            = "JSON"
    application_log_level = "TRACE"
    system_log_level      = "WARN"
    log_group             = aws_cloudwatch_log_group.function[each.key].name
  }

  tracing_config {
    mode = var.tracing ? "Active" : "PassThrough"
  }

  # A function that starts before its role may write logs or use its network fails its first calls.
  depends_on = [aws_iam_role_policy.function]
}
