# What Terraform asks of the function `setup`, and what it may do.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "topics_are_made_and_mappings_share_their_pollers" {
  command = apply
  variables {
    name_prefix  = "shop-"
    reply_topics = ["reply.shop"]
  }

  assert {
    condition = alltrue([
      for invocation in concat(aws_lambda_invocation.topics, [aws_lambda_invocation.mappings]) :
      invocation.function_name == "shop-setup"
    ])
    error_message = "requests go to setup"
  }
  assert {
    condition = { for topic in jsondecode(aws_lambda_invocation.topics[0].input).topics : topic.name => topic.settings["retention.ms"] } == {
      "agent.inventory"      = "604800000"
      "agent.inventory.high" = "604800000"
      "agent.payment"        = "604800000"
      "agent.payment.high"   = "604800000"
      "alerts"               = "604800000"
      "dead-letter"          = "2592000000"
      "events"               = "1209600000"
      "orders"               = "1209600000"
      "orders.high"          = "1209600000"
      "reply.shop"           = "604800000"
      "scheduler"            = "604800000"
      "scheduler.high"       = "604800000"
      "status"               = "604800000"
    }
    error_message = "every topic, without the prefix, and how long its records are kept"
  }
  assert {
    condition = alltrue([
      for topic in jsondecode(aws_lambda_invocation.topics[0].input).topics :
      topic.partitions == 8 && topic.replication == 3 && topic.settings["min.insync.replicas"] == "2" &&
      topic.settings["max.message.bytes"] == "1048588" && length(topic.settings) == 3
    ])
    error_message = "partitions, copies, and what a topic must take"
  }
  assert {
    condition = jsondecode(aws_lambda_invocation.mappings.input).group == "shop" && alltrue([
      for mapping in jsondecode(aws_lambda_invocation.mappings.input).mappings :
      mapping == { uuid = "00000000-0000-0000-0000-000000000000", least = 1, most = 2, window = 0 }
    ]) && length(jsondecode(aws_lambda_invocation.mappings.input).mappings) == 10
    error_message = "all mappings in the installation's group, with their pollers and no wait for a batch"
  }
  assert {
    condition     = length(aws_lambda_invocation.workflows) + length(aws_lambda_invocation.console) == 0
    error_message = "nothing that was not asked for"
  }
}

run "topics_and_pollers_as_they_are_asked_for" {
  command = apply
  variables {
    topics  = { partitions = 24, replication = 0, min_insync_replicas = 0, retention_days = { orders = 2, dead_letter = 3, others = 1 } }
    mapping = { poller_group = "", pollers_most = 4, lanes = { alerts = { pollers_least = 2, batching_window_seconds = 5 } } }
  }
  assert {
    condition = [for topic in jsondecode(aws_lambda_invocation.topics[0].input).topics : topic if topic.name == "orders"] == [{
      name = "orders", partitions = 24, replication = null, settings = { "max.message.bytes" = "1048588", "retention.ms" = "172800000" }
    }]
    error_message = "what is 0 is left to the brokers"
  }
  assert {
    condition = jsondecode(aws_lambda_invocation.mappings.input).group == "" && toset([
      for mapping in jsondecode(aws_lambda_invocation.mappings.input).mappings : "${mapping.least} ${mapping.most} ${mapping.window}"
    ]) == toset(["1 4 0", "2 4 5"])
    error_message = "no group, and a lane's own pollers"
  }
}

run "topics_of_ones_own" {
  command = plan
  variables {
    topics = { create = false }
  }
  assert {
    condition     = length(aws_lambda_invocation.topics) == 0
    error_message = "none is made"
  }
  assert {
    condition     = !contains(flatten([for s in local.statements.setup : s.Action]), "kafka-cluster:CreateTopic")
    error_message = "nor may any be"
  }
}

run "outside_of_a_vpc_there_is_no_group" {
  command = plan
  variables {
    vpc   = null
    kafka = { brokers = "kafka-1.example:9093", auth = "mtls", secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf" }
  }
  assert {
    condition     = local.poller_group == ""
    error_message = "groups are of a VPC"
  }
}

run "more_pollers_than_a_group_takes" {
  command = plan
  variables {
    mapping = { pollers_most = 300 }
  }
  expect_failures = [aws_lambda_invocation.mappings]
}

run "workflows_are_published" {
  command = plan
  variables {
    workflows = { directory = "./tests/fixtures/workflows" }
  }
  assert {
    condition = jsondecode(aws_lambda_invocation.workflows[0].input) == {
      do     = "publish"
      agents = ["inventory", "payment"]
      files = {
        for name in ["agents/stock.yaml", "goods.yaml", "services.yml"] : name => file("./tests/fixtures/workflows/${name}")
      }
    }
    error_message = "the workflows and the descriptions of services in the directory, and nothing else; again when one changes"
  }
}

run "the_doctor_is_told_what_there_must_be" {
  command = apply
  variables {
    name_prefix = "shop-"
    agents      = { payment = { base_url = "https://pay.example/v1" }, inventory = { lambda = "stock" } }
  }
  assert {
    condition = [
      for function, variables in local.environments : function if contains(keys(variables), "TRIAD_SETUP")
    ] == ["setup"]
    error_message = "setup alone is told"
  }
  assert {
    condition     = aws_lambda_function.this["setup"].environment[0].variables.TRIAD_SETUP == base64gzip(jsonencode(output.triad.setup))
    error_message = "as JSON, compressed, and the command line from the output"
  }
  assert {
    condition     = output.triad.setup.functions == { for function, f in aws_lambda_function.this : function => f.function_name }
    error_message = "functions"
  }
  assert {
    condition     = output.triad.setup.policies == { for function, role in aws_iam_role.function : role.name => sha256(jsonencode(jsondecode(aws_iam_role_policy.function[function].policy))) }
    error_message = "what each role may do"
  }
  assert {
    condition     = sort(output.triad.setup.alarms) == sort(values(aws_cloudwatch_metric_alarm.this)[*].alarm_name)
    error_message = "every alarm"
  }
  assert {
    condition = (
      output.triad.setup.schedule == { group = "shop", name = "shop-supervisor" } && output.triad.setup.agents == { payment = "https://pay.example/v1" } &&
      output.triad.setup.alerts_topic_arn == "arn:aws:sns:eu-west-1:111122223333:shop-alerts" &&
      output.triad.setup.topics == jsondecode(aws_lambda_invocation.topics[0].input).topics
    )
    error_message = "schedule, services, alerts, topics"
  }
}

run "what_setup_may_change" {
  command = plan
  variables {
    console = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"] }
  }
  assert {
    condition = toset([
      for action in flatten([for s in local.statements.setup : s.Action if s.Effect == "Allow" && !startswith(s.Sid, "NetworkInterfaces")]) :
      action if length(regexall(":(Get|Describe|List)", action)) == 0
      ]) == toset([
      "dynamodb:PutItem", "kafka-cluster:Connect", "kafka-cluster:CreateTopic", "kms:Decrypt", "lambda:AddPermission",
      "lambda:InvokeFunction", "lambda:UpdateEventSourceMapping", "logs:CreateLogStream", "logs:PutLogEvents",
      "xray:PutTelemetryRecords", "xray:PutTraceSegments",
    ])
    error_message = "it makes topics, publishes, tries functions, sets pollers and opens the console; it reads, writes, alters and deletes no topic"
  }
  assert {
    condition = sort(one([for s in local.statements.setup : s.Condition.ArnEquals["lambda:FunctionArn"] if s.Sid == "SetsPollers"])) == sort([
      for function in ["agent-inventory", "agent-payment", "alerts", "submission", "scheduler"] : local.function_arns[function]
    ])
    error_message = "mappings of this installation's functions only"
  }
  assert {
    condition = flatten([for s in local.statements.setup : s.Resource if s.Sid == "KafkaTopics"]) == [
      for topic in sort(local.all_topics) : "arn:aws:kafka:eu-west-1:111122223333:topic/shop/0a1b2c3d-0000-0000-0000-000000000000-1/triad-${topic}"
    ]
    error_message = "this installation's topics only"
  }
}

run "setup_of_an_installation_in_plain_mode_without_a_console" {
  command = apply
  variables {
    mapping = { mode = "plain" }
    alarms  = { enabled = false }
  }
  assert {
    condition = jsondecode(aws_lambda_invocation.mappings.input).group == "" && alltrue([
      for mapping in jsondecode(aws_lambda_invocation.mappings.input).mappings : mapping.least == null && mapping.most == null && mapping.window == null
    ])
    error_message = "mappings have no pollers, and report their metrics"
  }
  assert {
    condition     = length([for s in local.statements.setup : s if contains(["OpensTheConsole", "LooksAtAlarms"], s.Sid)]) == 0
    error_message = "what it has nothing to do with, it may not do"
  }
}

run "setup_of_an_installation_with_many_agents" {
  command = apply
  variables {
    agents  = { for n in range(14) : "warehouse${n}" => { base_url = "https://stock.example" } }
    console = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"] }
  }
  assert {
    condition     = length(aws_iam_role_policy.function["setup"].policy) <= 10240
    error_message = "IAM takes 10240 characters"
  }
  assert {
    condition = sum([
      for name, value in nonsensitive(aws_lambda_function.this["setup"].environment[0].variables) : length(name) + length(value)
    ]) <= 4096
    error_message = "Lambda takes 4 KB"
  }
}
