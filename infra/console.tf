# The console's URL, and the key of its sessions. Both are there only where `console` asks for it.
#
# Everybody can reach the URL, and only over TLS: a browser signs no request, so the function lets people in by
# their tokens, as every console does.

resource "aws_lambda_function_url" "console" {
  #checkov:skip=CKV_AWS_258: browsers do not sign requests; nobody is let in without one of `console.tokens`
  count              = length(var.console[*])
  function_name      = aws_lambda_function.this["console"].function_name
  authorization_type = "NONE"
  invoke_mode        = "BUFFERED"
}

resource "aws_lambda_permission" "console_url" {
  #checkov:skip=CKV_AWS_301: as above
  count                  = length(var.console[*])
  statement_id           = "EverybodyReachesTheUrl"
  action                 = "lambda:InvokeFunctionUrl"
  function_name          = aws_lambda_function.this["console"].function_name
  principal              = "*"
  function_url_auth_type = "NONE"
}

# A URL that was made since October 2025 also needs lambda:InvokeFunction, which is to hold for requests to the
# URL alone (AWS Lambda Developer Guide, "Control access to Lambda function URLs"). Provider 5.100 has no argument for
# that condition, so the function `setup` adds the statement. It goes with the console's function.
resource "aws_lambda_invocation" "console" {
  count         = length(var.console[*])
  function_name = aws_lambda_function.this["setup"].function_name
  input         = jsonencode({ do = "console", function = local.function_names.console })
  triggers      = { url = aws_lambda_function_url.console[0].url_id }
  depends_on    = [aws_iam_role_policy.function]
}

# Sandboxes share nothing but what they are told: so the key by which each knows the sessions of the others is
# made here, once. `terraform apply -replace` of it ends all sessions.
resource "terraform_data" "console_key" {
  count = length(var.console[*])
  input = sensitive("${uuid()}${uuid()}")
  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  console_key = { for key in terraform_data.console_key[*].output : "TRIAD_CONSOLE_KEY" => sensitive(key) }
}
