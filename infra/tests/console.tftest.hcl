# The console behind a URL.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  operator = "ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"
}

run "without_it_there_is_nothing_of_it" {
  command = plan
  variables {
    console = null
  }

  assert {
    condition = (
      length(aws_lambda_function_url.console) + length(aws_lambda_permission.console_url) +
      length(aws_lambda_invocation.console) + length(terraform_data.console_key) == 0
    )
    error_message = "no URL, nobody who may use one, no key"
  }
  assert {
    condition     = !contains(keys(aws_lambda_function.this), "console") && !contains(keys(local.statements), "console") && output.console_url == null
    error_message = "no function, no role, no address"
  }
}

run "it_is_told_who_is_let_in_and_is_bounded" {
  command = plan
  variables {
    name_prefix = "shop-"
    console     = { tokens = [var.operator, "eve ${sha256("eve")} read"], hidden = ["card", "iban"] }
  }

  assert {
    condition = {
      for name, value in aws_lambda_function.this["console"].environment[0].variables :
      name => value if startswith(name, "TRIAD_CONSOLE_") && name != "TRIAD_CONSOLE_KEY"
      } == {
      TRIAD_CONSOLE_TOKENS    = "${var.operator}\neve ${sha256("eve")} read"
      TRIAD_CONSOLE_READ_ONLY = "false"
      TRIAD_CONSOLE_HIDDEN    = "card,iban"
      TRIAD_CONSOLE_NAME      = "shop"
    }
    error_message = "tokens, hidden fields, its name"
  }
  assert {
    condition     = length([for name, f in aws_lambda_function.this : name if length([for v in keys(f.environment[0].variables) : v if startswith(v, "TRIAD_CONSOLE_")]) > 0]) == 1
    error_message = "and no other function is"
  }
  assert {
    condition = (
      aws_lambda_function.this["console"].function_name == "shop-console" && aws_lambda_function.this["console"].memory_size == 512 &&
      aws_lambda_function.this["console"].timeout == 30 && aws_lambda_function.this["console"].reserved_concurrent_executions == -1
    )
    error_message = "sizes; a new account has no concurrency to reserve"
  }
  assert {
    condition = (
      aws_lambda_function_url.console[0].function_name == "shop-console" && aws_lambda_function_url.console[0].authorization_type == "NONE" &&
      aws_lambda_function_url.console[0].invoke_mode == "BUFFERED" && length(aws_lambda_function_url.console[0].cors) == 0
    )
    error_message = "one URL, whole answers, and no other site's pages"
  }
  assert {
    condition = (
      aws_lambda_permission.console_url[0].action == "lambda:InvokeFunctionUrl" && aws_lambda_permission.console_url[0].principal == "*" &&
      aws_lambda_permission.console_url[0].function_url_auth_type == "NONE" && aws_lambda_permission.console_url[0].function_name == "shop-console"
    )
    error_message = "it can be reached"
  }
  assert {
    condition     = jsondecode(aws_lambda_invocation.console[0].input) == { do = "console", function = "shop-console" }
    error_message = "and requests to the URL, and no others, may invoke it"
  }
  assert {
    condition = {
      for function, statements in local.statements : function => [for s in statements : s.Resource if contains(s.Action, "lambda:AddPermission")]
      if length([for s in statements : s if contains(s.Action, "lambda:AddPermission")]) > 0
    } == { setup = [["arn:aws:lambda:eu-west-1:111122223333:function:shop-console"]] }
    error_message = "setup alone opens a function, and only the console's"
  }
  assert {
    condition     = !contains(keys(local.alarms), "console-lag") && contains(keys(local.alarms), "console-errors") && contains(keys(local.alarms), "console-throttles")
    error_message = "it reads no topic for itself, and its failures ring"
  }
  assert {
    condition     = aws_cloudwatch_log_group.function["console"].name == "/aws/lambda/shop-console" && output.triad.functions.console == "shop-console"
    error_message = "its log, and its name for the command line"
  }
}

run "operators_act_on_it" {
  command = plan
  variables {
    reply_topics = ["reply.shop"]
    console      = { tokens = [var.operator] }
  }

  assert {
    condition = jsonencode(sort(flatten([
      for s in local.statements.console : [
        for pair in setproduct(s.Action, s.Resource) :
        "${trimprefix(pair[0], "dynamodb:")} ${trimprefix(pair[1], "arn:aws:dynamodb:eu-west-1:111122223333:table/")}"
      ] if startswith(s.Action[0], "dynamodb:")
      ]))) == jsonencode(sort([
      "GetItem triad-orders",
      "UpdateItem triad-orders",
      "BatchGetItem triad-order-state",
      "GetItem triad-order-state",
      "Scan triad-order-state",
      "PutItem triad-order-state",
      "GetItem triad-workflows",
      "Scan triad-workflows",
      "GetItem triad-control",
      "PutItem triad-control",
      "Query triad-order-state/index/attention",
      "Query triad-order-state/index/due",
      "Query triad-order-state/index/search-1",
      "Query triad-order-state/index/search-2",
    ]))
    error_message = "what it does on which table"
  }
  assert {
    condition = jsonencode(sort(flatten([
      for s in local.statements.console : [for arn in s.Resource : element(split("/", arn), 3)] if s.Sid == "KafkaWrites"
      ]))) == jsonencode([
      "triad-agent.inventory", "triad-agent.inventory.high", "triad-agent.payment", "triad-agent.payment.high", "triad-alerts",
      "triad-dead-letter", "triad-events", "triad-orders", "triad-orders.high", "triad-reply.shop", "triad-scheduler", "triad-scheduler.high", "triad-status",
    ])
    error_message = "topics that acts and replays write"
  }
  assert {
    condition = flatten([for s in local.statements.console : s.Resource if contains(s.Action, "kafka-cluster:ReadData")]) == [
      "arn:aws:kafka:eu-west-1:111122223333:topic/shop/0a1b2c3d-0000-0000-0000-000000000000-1/triad-alerts",
      "arn:aws:kafka:eu-west-1:111122223333:topic/shop/0a1b2c3d-0000-0000-0000-000000000000-1/triad-dead-letter",
    ]
    error_message = "it reads alerts and dead letters and no other topic"
  }
  assert {
    condition     = length([for s in local.statements.console : s if startswith(s.Sid, "Msk") || s.Sid == "KafkaGroups"]) == 0
    error_message = "it has no mapping and no group"
  }
}

run "to_look_at_alone_it_may_write_nothing" {
  command = plan
  variables {
    timing  = { details_retention = "90days" }
    console = { tokens = [var.operator], read_only = true, reserved_concurrency = 5 }
  }

  assert {
    condition     = aws_lambda_function.this["console"].environment[0].variables.TRIAD_CONSOLE_READ_ONLY == "true"
    error_message = "it knows"
  }
  assert {
    condition = toset(flatten([
      for s in local.statements.console : s.Action if s.Effect == "Allow" && !startswith(s.Sid, "NetworkInterfaces")
      ])) == toset([
      "logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTelemetryRecords", "xray:PutTraceSegments", "kms:Decrypt", "kms:DescribeKey",
      "dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan",
      "kafka-cluster:Connect", "kafka-cluster:DescribeTopic", "kafka-cluster:ReadData",
    ])
    error_message = "and cannot: no put, no update, no record to any topic"
  }
  assert {
    condition     = aws_lambda_function.this["console"].reserved_concurrent_executions == 5
    error_message = "with a bound, if that is asked for"
  }
}

run "it_starts_with_a_key_of_its_own" {
  command = apply
  variables {
    console = { tokens = [var.operator] }
  }
  assert {
    condition     = can(regex("^[0-9a-f-]{72}$", nonsensitive(aws_lambda_function.this["console"].environment[0].variables.TRIAD_CONSOLE_KEY)))
    error_message = "the key of the sessions is random"
  }
}

# A key that is to be made anew is not known before.
run "a_plan_leaves_the_key_of_the_sessions_alone" {
  command = plan
  variables {
    console = { tokens = [var.operator] }
  }
  assert {
    condition     = length(nonsensitive(terraform_data.console_key[0].output)) == 72
    error_message = "every apply would end all sessions"
  }
}
