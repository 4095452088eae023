# The functions: how they run, and what they are told.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "one_function_an_actor_and_an_agent_and_what_each_is_told" {
  command = apply

  assert {
    condition = sort([for f in aws_lambda_function.this : f.function_name]) == tolist([
      "triad-agent-inventory", "triad-agent-payment", "triad-alerts", "triad-scheduler", "triad-setup", "triad-submission", "triad-supervisor",
    ])
    error_message = "the functions and their names"
  }
  assert {
    condition = alltrue([
      for f in aws_lambda_function.this :
      f.runtime == "provided.al2023" && f.handler == "bootstrap" && f.architectures == tolist(["arm64"]) && f.package_type == "Zip"
    ])
    error_message = "provided.al2023 on arm64"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : f.timeout <= 840 && f.timeout >= 2])
    error_message = "time-outs within what a Kafka mapping allows"
  }
  assert {
    condition     = aws_lambda_function.this["supervisor"].timeout < 60
    error_message = "a sweep ends before the next begins"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : f.kms_key_arn == aws_kms_key.this[0].arn])
    error_message = "environments are encrypted with the customer key"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : f.tracing_config[0].mode == "Active"])
    error_message = "tracing"
  }
  assert {
    condition     = alltrue([for f in aws_lambda_function.this : f.reserved_concurrent_executions == -1])
    error_message = "no concurrency is reserved unless asked for"
  }
  assert {
    condition = alltrue([
      for f in aws_lambda_function.this :
      f.vpc_config[0].subnet_ids == toset(["subnet-0a", "subnet-0b"]) && f.vpc_config[0].security_group_ids == toset(["sg-0a"])
    ])
    error_message = "in the VPC of the brokers"
  }
  assert {
    condition = alltrue([
      for name, f in aws_lambda_function.this :
      f.logging_config[0].log_group == aws_cloudwatch_log_group.function[name].name && f.logging_config[0].log_format == "JSON"
    ])
    error_message = "each function writes JSON lines to its own log group"
  }
  assert {
    condition = alltrue([
      for name, g in aws_cloudwatch_log_group.function :
      g.name == "/aws/lambda/${aws_lambda_function.this[name].function_name}" && g.retention_in_days == 365 && g.kms_key_id == aws_kms_key.this[0].arn
    ])
    error_message = "log groups: named after the function, kept for a year, encrypted"
  }
  assert {
    condition = alltrue([
      for f in aws_lambda_function.this :
      f.environment[0].variables.TRIAD_BROKERS == "b-1.example.internal:9098,b-2.example.internal:9098" &&
      f.environment[0].variables.TRIAD_KAFKA_AUTH == "msk-iam" &&
      f.environment[0].variables.TRIAD_PREFIX == "triad-" &&
      f.environment[0].variables.TRIAD_BATCH_RESPONSES == "partial" &&
      f.environment[0].variables.TRIAD_LOG == "info"
    ])
    error_message = "brokers, authentication, prefix, batch responses, log filter"
  }
  assert {
    condition = alltrue([
      for f in aws_lambda_function.this : length(setintersection(keys(f.environment[0].variables), [
        "TRIAD_KAFKA_SECRET", "TRIAD_KAFKA_CA_SECRET", "TRIAD_KAFKA_SETTINGS", "TRIAD_REPLY_TOPICS", "TRIAD_SKEW",
        "TRIAD_ANNOUNCE_WITHIN", "TRIAD_QUEUE_WITHIN", "TRIAD_RETENTION", "TRIAD_MAX_IN_FLIGHT", "TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW",
        "TRIAD_BACKLOG_WAIT", "TRIAD_DYNAMODB_ENDPOINT", "TRIAD_CONSOLE_URL",
      ])) == 0
    ])
    error_message = "what is not set is left to the functions' defaults"
  }
  assert {
    condition     = aws_lambda_function.this["submission"].environment[0].variables.TRIAD_ADMISSION == "slow"
    error_message = "admission is slow by default"
  }
  assert {
    condition     = aws_lambda_function.this["alerts"].environment[0].variables.TRIAD_ALERTS_SNS_TOPIC == "arn:aws:sns:eu-west-1:111122223333:triad-alerts"
    error_message = "the alerts function knows its SNS topic"
  }
  assert {
    condition = alltrue([
      for name, f in aws_lambda_function.this :
      contains(keys(f.environment[0].variables), "TRIAD_AGENTS") == startswith(name, "agent-")
    ])
    error_message = "only agents are told of agents"
  }
}

run "every_setting_reaches_its_function" {
  command = plan
  variables {
    name_prefix  = "shop-"
    reply_topics = ["reply.shop", "reply.crm"]
    timing       = { skew = "250ms", announce_within = "2m", retention = "90days", details_retention = "366days" }
    log_filter   = "info,triad_runtime=debug"
    admission = {
      max_in_flight              = 5000
      max_in_flight_per_workflow = { order-fulfilment = 1000 }
      when_full                  = "reject"
      backlog_wait               = "10m"
    }
    agents = {
      payment = {
        base_url             = "https://pay.example/v1"
        call_timeout         = "5s"
        headers              = { X-Shop = "7" }
        concurrency          = 20
        rate_per_second      = 50
        breaker              = { window = 50, open = "2s" }
        memory_mb            = 512
        timeout_seconds      = 840
        reserved_concurrency = 10
      }
      inventory = { base_url = "http://stock.example:8080/api" }
    }
    extra_environment       = { AWS_ENDPOINT_URL = "http://127.0.0.1:4566" }
    architecture            = "x86_64"
    console_url             = "https://triad.example/console/"
    log_retention_days      = 30
    tracing                 = false
    code_signing_config_arn = "arn:aws:lambda:eu-west-1:111122223333:code-signing-config:csc-0a1b2c3d4e5f60718"
    functions = {
      submission = { memory_mb = 1024, timeout_seconds = 90, reserved_concurrency = 5 }
    }
  }

  assert {
    condition = alltrue([
      for f in aws_lambda_function.this :
      f.environment[0].variables.TRIAD_PREFIX == "shop-" &&
      f.environment[0].variables.TRIAD_REPLY_TOPICS == "reply.shop,reply.crm" &&
      f.environment[0].variables.TRIAD_SKEW == "250ms" &&
      f.environment[0].variables.TRIAD_ANNOUNCE_WITHIN == "2m" &&
      f.environment[0].variables.TRIAD_RETENTION == "90days" &&
      f.environment[0].variables.TRIAD_DETAILS_RETENTION == "366days" &&
      f.environment[0].variables.TRIAD_LOG == "info,triad_runtime=debug" &&
      f.environment[0].variables.AWS_ENDPOINT_URL == "http://127.0.0.1:4566"
    ])
    error_message = "common settings"
  }
  assert {
    condition = {
      for name, f in aws_lambda_function.this : name => f.environment[0].variables.TRIAD_CONSOLE_URL
      if contains(keys(f.environment[0].variables), "TRIAD_CONSOLE_URL")
    } == { alerts = "https://triad.example/console/" }
    error_message = "the alerts function knows where the pages are, and nobody else needs to"
  }
  assert {
    condition     = output.triad.timing.skew == "250ms" && output.triad.timing.announce_within == "2m" && output.triad.timing.queue_within == null && output.triad.timing.retention == "90days"
    error_message = "operators are told the spans that the functions have"
  }
  assert {
    condition = {
      for name, value in aws_lambda_function.this["submission"].environment[0].variables :
      name => value if contains(["TRIAD_ADMISSION", "TRIAD_MAX_IN_FLIGHT", "TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW", "TRIAD_BACKLOG_WAIT"], name)
      } == {
      TRIAD_ADMISSION                  = "reject"
      TRIAD_MAX_IN_FLIGHT              = "5000"
      TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW = "{\"order-fulfilment\":1000}"
      TRIAD_BACKLOG_WAIT               = "10m"
    }
    error_message = "admission"
  }
  assert {
    condition = alltrue([
      for name in ["scheduler", "supervisor"] :
      aws_lambda_function.this[name].environment[0].variables.TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW == "{\"order-fulfilment\":1000}" &&
      contains(flatten([for s in local.statements[name] : s.Action]), "dynamodb:Query") &&
      contains(flatten([for s in local.statements[name] : s.Action]), "dynamodb:UpdateItem")
    ])
    error_message = "who lets in what was set aside, and lets details expire"
  }
  assert {
    condition = jsondecode(aws_lambda_function.this["agent-payment"].environment[0].variables.TRIAD_AGENTS) == {
      payment = {
        base_url        = "https://pay.example/v1"
        call_timeout    = "5s"
        headers         = { X-Shop = "7" }
        concurrency     = 20
        rate_per_second = 50
        breaker         = { window = 50, open = "2s" }
      }
    }
    error_message = "an agent is told everything of itself"
  }
  assert {
    condition = jsondecode(aws_lambda_function.this["agent-inventory"].environment[0].variables.TRIAD_AGENTS) == {
      inventory = { base_url = "http://stock.example:8080/api" }
    }
    error_message = "and nothing of the others"
  }
  assert {
    condition     = aws_lambda_function.this["agent-payment"].environment[0].variables.TRIAD_AGENT_CONCURRENCY == "20"
    error_message = "concurrency of an agent function"
  }
  assert {
    condition = (
      aws_lambda_function.this["agent-payment"].memory_size == 512 && aws_lambda_function.this["agent-payment"].timeout == 840 &&
      aws_lambda_function.this["agent-payment"].reserved_concurrent_executions == 10 &&
      aws_lambda_function.this["submission"].memory_size == 1024 && aws_lambda_function.this["submission"].timeout == 90 &&
      aws_lambda_function.this["submission"].reserved_concurrent_executions == 5
    )
    error_message = "sizes"
  }
  assert {
    condition = alltrue([
      for f in aws_lambda_function.this :
      f.architectures == tolist(["x86_64"]) && f.tracing_config[0].mode == "PassThrough" && f.code_signing_config_arn == var.code_signing_config_arn
    ])
    error_message = "architecture, tracing, code signing"
  }
  assert {
    condition     = alltrue([for g in aws_cloudwatch_log_group.function : g.retention_in_days == 30])
    error_message = "retention of logs"
  }
}

run "an_agent_of_a_function_a_queue_or_a_topic_may_call_exactly_that_one" {
  command = plan
  variables {
    agents = {
      a = { lambda = "charge" }
      b = { lambda = "arn:aws:lambda:us-east-1:444455556666:function:charge:live" }
      c = { sqs = "https://sqs.eu-central-1.amazonaws.com/111122223333/paid.fifo", kms_key_arn = "arn:aws:kms:eu-central-1:111122223333:key/99999999-2222-3333-4444-555555555555" }
      d = { sns = "arn:aws:sns:eu-west-1:111122223333:paid" }
    }
  }

  assert {
    condition = { for function, f in aws_lambda_function.this : function => f.environment[0].variables.TRIAD_AGENTS if startswith(function, "agent-") } == {
      agent-a = "{\"a\":{\"lambda\":\"charge\"}}"
      agent-b = "{\"b\":{\"lambda\":\"arn:aws:lambda:us-east-1:444455556666:function:charge:live\"}}"
      agent-c = "{\"c\":{\"sqs\":\"https://sqs.eu-central-1.amazonaws.com/111122223333/paid.fifo\"}}"
      agent-d = "{\"d\":{\"sns\":\"arn:aws:sns:eu-west-1:111122223333:paid\"}}"
    }
    error_message = "what each agent calls"
  }
  assert {
    condition = jsonencode({
      for function, statements in local.statements : function => flatten([
        for s in statements : [for pair in setproduct(s.Action, s.Resource) : join(" ", pair)] if startswith(s.Sid, "AgentCalls")
      ]) if length([for s in statements : s if startswith(s.Sid, "Agent")]) > 0
      }) == jsonencode({
      agent-a = ["lambda:InvokeFunction arn:aws:lambda:eu-west-1:111122223333:function:charge"]
      agent-b = ["lambda:InvokeFunction arn:aws:lambda:us-east-1:444455556666:function:charge:live"]
      agent-c = [
        "sqs:SendMessage arn:aws:sqs:eu-central-1:111122223333:paid.fifo",
        "kms:Decrypt arn:aws:kms:eu-central-1:111122223333:key/99999999-2222-3333-4444-555555555555",
        "kms:GenerateDataKey arn:aws:kms:eu-central-1:111122223333:key/99999999-2222-3333-4444-555555555555",
      ]
      agent-d = ["sns:Publish arn:aws:sns:eu-west-1:111122223333:paid"]
    })
    error_message = "and may call, with the key of its queue"
  }
  assert {
    condition = [for s in local.statements["agent-c"] : s.Condition.StringEquals["kms:ViaService"] if s.Sid == "AgentCallsKey"] == [
      "sqs.eu-central-1.amazonaws.com"
    ]
    error_message = "the key is used through the queue alone"
  }
}

run "an_agent_is_told_where_its_secrets_are_and_its_role_may_read_them" {
  command = plan
  variables {
    agents = {
      payment = {
        base_url = "https://pay.example/v1"
        auth = { oauth2 = {
          token_url     = "https://login.example/token"
          client_id     = "shop"
          client_secret = { secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay-AbCdEf", field = "secret" }
        } }
        tls = {
          certificate = { secret = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:tls-GhIjKl", field = "certificate" }
          key         = { secret = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:tls-GhIjKl", field = "key" }
          ca          = { file = "/opt/ca.pem" }
        }
        secret_kms_key_arns = ["arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"]
      }
      inventory = { base_url = "https://stock.example", auth = { basic = { user = "shop", password = { env = "STOCK" } } } }
      carrier   = { base_url = "https://carrier.example", auth = { sigv4 = { service = "execute-api" } } }
    }
  }

  assert {
    condition = jsondecode(aws_lambda_function.this["agent-payment"].environment[0].variables.TRIAD_AGENTS) == {
      payment = {
        base_url = "https://pay.example/v1"
        auth = { oauth2 = {
          token_url     = "https://login.example/token"
          client_id     = "shop"
          client_secret = { secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay-AbCdEf", field = "secret" }
        } }
        tls = {
          certificate = { secret = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:tls-GhIjKl", field = "certificate" }
          key         = { secret = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:tls-GhIjKl", field = "key" }
          ca          = { file = "/opt/ca.pem" }
        }
      }
    }
    error_message = "where its secrets are, and nothing that is null"
  }
  assert {
    condition = jsondecode(aws_lambda_function.this["agent-inventory"].environment[0].variables.TRIAD_AGENTS) == {
      inventory = { base_url = "https://stock.example", auth = { basic = { user = "shop", password = { env = "STOCK" } } } }
      } && jsondecode(aws_lambda_function.this["agent-carrier"].environment[0].variables.TRIAD_AGENTS) == {
      carrier = { base_url = "https://carrier.example", auth = { sigv4 = { service = "execute-api" } } }
    }
    error_message = "the other ways"
  }
  assert {
    condition = jsonencode({
      for function, statements in local.statements : function => flatten([
        for s in statements : s.Resource if contains(s.Action, "secretsmanager:GetSecretValue")
      ])
      }) == jsonencode({
      for function in keys(local.functions) : function => function != "agent-payment" ? [] : [
        "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay-AbCdEf", "arn:aws:secretsmanager:eu-central-1:111122223333:secret:tls-GhIjKl",
      ]
    })
    error_message = "the role of the agent reads exactly the secrets that it names, and no other role does"
  }
  assert {
    condition = jsonencode([for s in local.statements["agent-payment"] : s.Condition.StringEquals if s.Sid == "AgentSecretKeys"]) == jsonencode([{
      "kms:ViaService" = ["secretsmanager.eu-west-1.amazonaws.com", "secretsmanager.eu-central-1.amazonaws.com"]
      "kms:EncryptionContext:SecretARN" = [
        "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay-AbCdEf", "arn:aws:secretsmanager:eu-central-1:111122223333:secret:tls-GhIjKl",
      ]
    }])
    error_message = "their key opens them and nothing else"
  }
}
