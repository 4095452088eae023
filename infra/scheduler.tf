# The Supervisor's clock. A sweep that fails is not repeated: the next one is due in a minute, and
# a late one has nothing to add to it.

resource "aws_scheduler_schedule_group" "this" {
  name = local.schedule_group_name
  tags = var.tags
}

resource "aws_scheduler_schedule" "supervisor" {
  #checkov:skip=CKV_AWS_297: the schedule carries no data, only the time and the name of a function
  name                         = local.function_names.supervisor
  group_name                   = aws_scheduler_schedule_group.this.name
  description                  = "Triad: finds overdue orders"
  schedule_expression          = var.supervisor_schedule
  schedule_expression_timezone = "UTC"
  state                        = var.supervisor_enabled ? "ENABLED" : "DISABLED"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = aws_lambda_function.this["supervisor"].arn
    role_arn = aws_iam_role.schedule.arn
    input    = "{}"

    retry_policy {
      maximum_retry_attempts       = 0
      maximum_event_age_in_seconds = 60
    }
  }

  depends_on = [aws_iam_role_policy.schedule]
}

# The invocation is asynchronous: Lambda has retries and a queue of its own.
resource "aws_lambda_function_event_invoke_config" "supervisor" {
  function_name                = aws_lambda_function.this["supervisor"].function_name
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 60
}
